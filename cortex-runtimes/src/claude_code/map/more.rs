//! More for a turn that runs: what was given, what of it waits, and what that means for the end of the turn.

use std::collections::BTreeSet;

use cortex_lib::domain::usage::Usage;
use cortex_lib::ids::TurnId;
use cortex_lib::port::{TurnEnd, TurnOutcome};
use cortex_lib::time::Timestamp;

use super::{Conversation, Current, Step, TurnResult, active};

/// What a turn was given to go on.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// What of it the CLI has not taken up yet, by its names.
    pub(super) waiting: BTreeSet<String>,
    /// What the turn has come to already. It goes on with what came too late for that.
    answer: Option<TurnOutcome>,
}

impl Current {
    /// It has been given something that the CLI takes up after this result.
    pub(super) fn goes_on(&self) -> bool {
        !self.ends() && !self.given.waiting.is_empty()
    }
}

impl Conversation {
    /// Whether this turn takes more to go on: it runs, and nobody wants its end.
    pub(in crate::claude_code) fn takes(&self, turn: &TurnId) -> bool {
        self.turn
            .as_ref()
            .is_some_and(|current| current.id == *turn && current.accepted && !current.ends())
    }

    /// Whether the CLI has taken up our message without a word, so that it does not tell what becomes of each.
    pub(in crate::claude_code) fn is_mute(&self) -> bool {
        !self.tells && self.turn.as_ref().is_some_and(|turn| turn.taken_up)
    }

    /// More for the turn that runs is on its way, by this name.
    pub(in crate::claude_code) fn gave(&mut self, uuid: String) {
        if let Some(turn) = &mut self.turn {
            turn.given.waiting.insert(uuid);
        }
    }

    /// What the turn was given and the CLI has not taken up, when its end is wanted: it must not be taken up any more.
    pub(in crate::claude_code) fn take_back(&mut self) -> BTreeSet<String> {
        self.turn.as_mut().map(|turn| std::mem::take(&mut turn.given.waiting)).unwrap_or_default()
    }

    /// Whether the turn has an answer and the CLI runs nothing, so that only what the turn was given could go on with it.
    pub(in crate::claude_code) fn is_answered(&self) -> bool {
        self.idle && self.turn.as_ref().is_some_and(|turn| turn.given.answer.is_some())
    }

    /// What was taken back does not run any more. A turn that has its answer and whose end is wanted is over then: nothing
    /// more comes that could say so.
    pub(in crate::claude_code) fn given_up(&mut self) -> Option<Step> {
        let ends = self.turn.as_ref().is_some_and(Current::ends);
        if ends { self.answered_over() } else { None }
    }

    /// The end of a turn that has its answer, when nothing goes on with it.
    pub(in crate::claude_code) fn answered_over(&mut self) -> Option<Step> {
        let idle = self.idle;
        let turn = self.turn.take_if(|turn| idle && turn.given.answer.is_some())?;
        let usage = std::mem::take(&mut self.unreported);
        let ends = turn.ends();
        let answer = turn.given.answer.filter(|_| !ends);
        let outcome = answer.unwrap_or_else(|| turn.clues.given_up());
        let end = TurnEnd { turn_id: turn.id, outcome, usage };
        Some(Step::Over { end, leaves_nothing: turn.runs_attempt })
    }

    /// The CLI has answered, and takes up next what came too late for that answer. It is the same turn to the core: its
    /// end is the last answer.
    pub(super) fn go_on(&mut self, result: TurnResult, used: Usage, now: Timestamp) -> Vec<Step> {
        self.unreported = used;
        let rest = self.flush();
        let cut = std::mem::take(&mut self.stream).is_open();
        if let Some(turn) = &mut self.turn {
            turn.clues.cut = cut;
            turn.given.answer = Some(std::mem::take(&mut turn.clues).outcome(result, now));
        }
        rest.into_iter().chain([active()]).collect()
    }
}

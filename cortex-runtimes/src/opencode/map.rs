//! From the server's events to what happens in a session. Pure: it asks nothing, waits for nothing and takes the time as
//! an argument; the session's loop does what the [`Step`]s say.
//!
//! # When is a turn over?
//!
//! When a message of the model that answers ours is complete, *and* the session is idle after it. Idle alone says
//! nothing: it comes twice after an error, the first time too early, and also when an idle session is told to stop. A message
//! that is complete says nothing either when it ends in calls of tools. What the events leave open, a look at the
//! session decides.
//!
//! A conversation that grew too long for the model is summed up in the middle of a turn. OpenCode then sends messages of
//! its own, and what follows answers those.

use std::collections::{BTreeMap, BTreeSet};

use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::usage::Usage;
use cortex_lib::ids::TurnId;
use cortex_lib::port::{OutputKind, SessionEvent, Turn, TurnEnd, TurnFailure};
use cortex_lib::time::Timestamp;
use serde_json::Value;

use super::asks::{Asks, Reply};
use super::outcome::{self, Clues, hopeless};
use super::output::Output;
use super::summary::summary;
use super::wire::{Event, Look, Message, Part, Status, Told};

/// Sessions below one that are known. Of older ones nothing is waited for any more.
const CHILDREN_MAX: usize = 256;
/// Answers of the model that may break off in one turn.
const BROKEN_MAX: usize = 3;

/// What the session's loop has to do.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Tell the core.
    Emit(SessionEvent),
    /// The turn that was sent has begun.
    Accepted,
    /// The turn that was sent did not begin.
    Refused(String),
    /// Ask the server to end what the session does.
    Abort,
    /// Look at the session: its messages and whether it works.
    Look,
    /// The turn is over.
    Over {
        /// What the core is told then.
        end: TurnEnd,
        /// It ran an attempt: nothing that it started may outlive it.
        leaves_nothing: bool,
    },
}

/// What is known about one session of the server and those below it.
#[derive(Debug)]
pub(super) struct Conversation {
    native: String,
    /// Sub-agents have sessions of their own.
    children: BTreeSet<String>,
    turn: Option<Current>,
    asks: Asks,
    output: Output,
    /// Calls of tools that run.
    calls: BTreeMap<String, Call>,
    retries: bool,
    /// Our message that was given up and may be answered yet.
    given_up: Option<String>,
    odd: u64,
}

/// The turn of the core that runs.
#[derive(Debug)]
struct Current {
    id: TurnId,
    runs_attempt: bool,
    /// The name of our message.
    prompt: String,
    /// It, and those that OpenCode sends itself to go on from it: what answers one of them answers ours.
    prompts: BTreeSet<String>,
    /// The server has our message.
    known: bool,
    accepted: bool,
    clues: Clues,
    /// What each message of the model used, with those of sub-agents.
    used: BTreeMap<String, Usage>,
    /// The last message of the model that answers ours.
    last: Option<Message>,
    /// Its messages that ended without a reason: OpenCode asks again, for ever.
    broken: BTreeSet<String>,
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) input: Value,
}

impl Current {
    fn is_complete(&self) -> bool {
        self.last.as_ref().is_some_and(|last| {
            let finished = !matches!(last.finish.as_deref(), None | Some("tool-calls"));
            last.time.completed.is_some() && (finished || last.error.is_some())
        })
    }
}

impl Conversation {
    /// The conversation in the session `native`. `mcp`: the name of its MCP server.
    pub(super) fn new(native: String, mcp: Option<String>) -> Self {
        Self {
            native,
            children: BTreeSet::new(),
            turn: None,
            asks: Asks::new(mcp),
            output: Output::default(),
            calls: BTreeMap::new(),
            retries: false,
            given_up: None,
            odd: 0,
        }
    }

    /// The session and those below it, by the server's names.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.native.as_str()).chain(self.children.iter().map(String::as_str))
    }

    fn born(&mut self, child: String) {
        self.children.insert(child);
        // The names of sessions go down with time, so the last one is the oldest.
        if self.children.len() > CHILDREN_MAX {
            self.children.pop_last();
        }
    }

    /// Nothing lives any more of what the sessions below started.
    pub(super) fn forget_children(&mut self) {
        self.children.clear();
    }

    /// Our message for `turn` is on its way by the name `prompt`.
    pub(super) fn sent(&mut self, turn: &Turn, prompt: String) {
        self.output = Output::default();
        self.calls.clear();
        self.retries = false;
        self.turn = Some(Current {
            id: turn.id.clone(),
            runs_attempt: turn.attempt_id.is_some(),
            prompts: BTreeSet::from([prompt.clone()]),
            prompt,
            known: false,
            accepted: false,
            clues: Clues::default(),
            used: BTreeMap::new(),
            last: None,
            broken: BTreeSet::new(),
        });
    }

    /// The turn that was sent did not begin after all.
    pub(super) fn unsent(&mut self) {
        self.given_up = self.turn.take().map(|turn| turn.prompt);
    }

    /// The name of our message in the turn that was sent and is not over.
    pub(super) fn prompt(&self) -> Option<&str> {
        self.turn.as_ref().map(|turn| turn.prompt.as_str())
    }

    /// The turn that was sent and is not over.
    pub(super) fn turn(&self) -> Option<&TurnId> {
        self.turn.as_ref().map(|turn| &turn.id)
    }

    /// Whether that turn has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.accepted)
    }

    /// Whether nothing but the model's answer is waited for.
    pub(super) fn waits_for_model(&self) -> bool {
        self.has_begun() && self.calls.is_empty() && self.asks.is_empty() && !self.retries
    }

    /// Somebody asked for the end of the turn. What is to be done about it now.
    pub(super) fn interrupted(&mut self) -> Option<Step> {
        let turn = self.turn.as_mut()?;
        turn.clues.interrupted = true;
        // Before it has begun there is nothing to end: an idle session that is told to stop forgets that at once.
        turn.accepted.then_some(Step::Abort)
    }

    /// The driver ends the turn itself.
    pub(super) fn give_up(&mut self, why: TurnFailure) -> Vec<Step> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        if turn.clues.ended_by_us.is_none() {
            turn.clues.ended_by_us = Some(why);
        }
        vec![Step::Abort]
    }

    /// What is asked of the server for an answer; `None` when the request no longer waits.
    pub(super) fn answer(
        &mut self,
        request_id: &str,
        answer: &cortex_lib::port::ToolAnswer,
    ) -> Option<Reply> {
        self.asks.answer(request_id, answer)
    }

    /// Requests whose arguments did not come are passed on as they are.
    pub(super) fn pass_on_asks(&mut self) -> Vec<Step> {
        let turn = self.turn().cloned();
        self.asks.overdue(&self.calls, turn.as_ref())
    }

    /// Whether requests wait for their arguments.
    pub(super) fn holds_asks(&self) -> bool {
        self.asks.holds()
    }

    /// Takes in what the server said.
    pub(super) fn take(&mut self, told: Told, now: Timestamp) -> Vec<Step> {
        let own = told.session.as_deref() == Some(self.native.as_str());
        match told.event {
            Event::Created { .. } => {
                if let Some(child) = told.session.filter(|_| !own) {
                    self.born(child);
                }
                vec![active()]
            }
            Event::Status(status) if own => self.status(status, now),
            Event::Idle if own => self.idle(now),
            Event::Failed(failure) if own => self.failed(failure),
            Event::Message(message) => self.message(own, message),
            Event::Part(part) => self.part(own, &part),
            Event::Delta(delta) if own => {
                let turn = self.turn().cloned();
                let mut steps = self.output.delta(&delta, turn.as_ref());
                steps.push(active());
                steps
            }
            Event::Asked(_) | Event::Questioned(_) if self.turn.is_none() => Vec::new(),
            Event::Asked(permission) => {
                let turn = self.turn().cloned();
                self.asks.permission(permission, &self.calls, turn.as_ref())
            }
            Event::Questioned(questions) => {
                let turn = self.turn().cloned();
                self.asks.questions(questions, turn.as_ref()).into_iter().collect()
            }
            Event::Settled { request } => self.asks.settled(&request).into_iter().collect(),
            Event::Status(_) | Event::Idle | Event::Failed(_) | Event::Delta(_) | Event::Beside => {
                vec![active()]
            }
            Event::Unknown { kind } => {
                self.odd += 1;
                let count = self.odd;
                tracing::debug!(session = self.native, kind, count, "an event is not known");
                vec![active()]
            }
        }
    }

    /// The session works: on our turn, unless that is told to end.
    fn begun(&mut self) -> Vec<Step> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let mut steps = Vec::new();
        if !turn.accepted {
            turn.accepted = true;
            steps.push(Step::Accepted);
            // An interrupt that came before there was anything to end.
            if turn.clues.ends() {
                steps.push(Step::Abort);
            }
        }
        steps.push(active());
        steps
    }

    fn status(&mut self, status: Status, now: Timestamp) -> Vec<Step> {
        self.retries = matches!(status, Status::Retry(_));
        match status {
            Status::Busy if self.turn.as_ref().is_some_and(|turn| turn.known) => self.begun(),
            Status::Retry(retry) => {
                let failure = hopeless(&retry, now);
                let ends = self.turn.as_ref().is_none_or(|turn| turn.clues.ends());
                match failure.filter(|_| !ends) {
                    Some(failure) => self.give_up(failure),
                    None => vec![active()],
                }
            }
            Status::Busy | Status::Idle | Status::Other => vec![active()],
        }
    }

    fn idle(&mut self, now: Timestamp) -> Vec<Step> {
        match &self.turn {
            Some(turn) if turn.is_complete() => self.over(now),
            Some(turn) if turn.known => vec![active(), Step::Look],
            // What an earlier turn left in the stream.
            Some(_) | None => Vec::new(),
        }
    }

    fn failed(&mut self, failure: super::wire::Failure) -> Vec<Step> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        if failure.name == "MessageAbortedError" {
            return vec![active()];
        }
        if !turn.accepted {
            let message = outcome::by_error(&failure, Timestamp::from_millis(0)).message;
            self.unsent();
            return vec![Step::Refused(message)];
        }
        // The first one says what failed; what follows may be the trace of it.
        turn.clues.error.get_or_insert(failure);
        vec![active()]
    }

    fn message(&mut self, own: bool, message: Message) -> Vec<Step> {
        let Some(turn) = &mut self.turn else {
            // It is answered all the same, and nobody waits for that.
            let answers = own && message.role == "assistant" && message.parent == self.given_up;
            let given_up = self.given_up.take_if(|_| answers);
            return given_up.map(|_| Step::Abort).into_iter().collect();
        };
        if message.role == "user" {
            // Their names are in the order of time.
            if own && message.id >= turn.prompt {
                turn.known |= message.id == turn.prompt;
                turn.prompts.insert(message.id);
            }
            return vec![active()];
        }
        let follows = |parent: &String| turn.prompts.contains(parent);
        let follows = own && message.parent.as_ref().is_some_and(follows);
        if !follows && own {
            return vec![active()];
        }
        let answers = follows && !message.sums_up();
        let used = outcome::usage(message.tokens, message.cost);
        if !used.is_empty() {
            turn.used.insert(message.id.clone(), used);
        }
        if !answers {
            if let Some(error) = message.error.filter(|_| follows) {
                turn.clues.error.get_or_insert(error);
            }
            return vec![active()];
        }
        turn.known = true;
        let is_new = turn.last.as_ref().is_none_or(|last| last.id != message.id);
        let mut steps = Vec::new();
        if is_new {
            let id = turn.id.clone();
            steps.extend(self.output.message(&message.id, Some(&id)));
        }
        let mut breaks = false;
        if let Some(turn) = &mut self.turn {
            let ended = message.time.completed.is_some() && message.error.is_none();
            if ended
                && !turn.clues.ends()
                && matches!(message.finish.as_deref(), None | Some("unknown"))
            {
                turn.broken.insert(message.id.clone());
                breaks = turn.broken.len() >= BROKEN_MAX;
            }
            turn.last = Some(message);
        }
        steps.extend(self.begun());
        if breaks {
            let why = "the model's answers break off again and again";
            steps.extend(self.give_up(outcome::failure(Cause::Transient, why)));
        }
        steps
    }

    fn part(&mut self, own: bool, part: &Part) -> Vec<Step> {
        if self.turn.is_none() {
            return Vec::new();
        }
        let turn = self.turn().cloned();
        let mut steps = vec![active()];
        if part.kind == "tool" {
            steps.extend(self.tool(part));
            steps.extend(self.asks.informed(&self.calls, turn.as_ref()));
        } else if own {
            // What a sub-agent says is for the agent that asked it.
            steps.extend(self.output.part(part, turn.as_ref()));
        }
        steps
    }

    fn tool(&mut self, part: &Part) -> Vec<Step> {
        let (Some(tool), Some(call), Some(state)) = (&part.tool, &part.call, &part.state) else {
            return Vec::new();
        };
        if state.status == "pending" {
            return Vec::new();
        }
        // Whatever is seen of it first: that it began may have been lost.
        self.output.tools = true;
        if state.status != "running" {
            self.calls.remove(call);
            return Vec::new();
        }
        let known = Call { tool: tool.clone(), input: state.input.clone() };
        if self.calls.insert(call.clone(), known).is_some() {
            return Vec::new();
        }
        let turn = self.turn().cloned();
        let said = self.output.flush(turn.as_ref());
        let used = output(turn.as_ref(), OutputKind::Tool, summary(tool, &state.input));
        said.into_iter().chain([used]).collect()
    }

    /// Whether tools ran in the turn that was last.
    pub(super) fn ran_tools(&self) -> bool {
        self.output.tools
    }

    /// Takes in a look at the session. `last`: nothing more is waited for.
    pub(super) fn looked(&mut self, look: Look, last: bool, now: Timestamp) -> Vec<Step> {
        if self.turn.is_none() {
            return Vec::new();
        }
        let mut steps = Vec::new();
        for whole in look.messages {
            steps.extend(self.message(true, whole.info.clone()));
            let answers =
                |turn: &Current| turn.last.as_ref().is_some_and(|m| m.id == whole.info.id);
            if self.turn.as_ref().is_some_and(answers) {
                for part in whole.parts {
                    steps.extend(self.part(true, &part));
                }
            }
        }
        for child in look.children {
            self.born(child);
        }
        let sessions: BTreeSet<String> = self.sessions().map(str::to_owned).collect();
        let turn = self.turn().cloned();
        for permission in look.permissions.into_iter().filter(|one| sessions.contains(&one.session))
        {
            steps.extend(self.asks.permission(permission, &self.calls, turn.as_ref()));
        }
        for questions in look.questions.into_iter().filter(|one| sessions.contains(&one.session)) {
            steps.extend(self.asks.questions(questions, turn.as_ref()));
        }
        let Some(turn) = &self.turn else { return steps };
        let ended = turn.last.as_ref().is_some_and(|message| message.time.completed.is_some());
        if look.busy {
            if turn.clues.ends() {
                steps.push(Step::Abort);
            }
        } else if ended || (last && turn.known) {
            steps.extend(self.over(now));
        } else if turn.known {
            steps.push(Step::Look);
        }
        steps
    }

    /// The turn is over. What still waits for an answer does so no longer.
    fn over(&mut self, now: Timestamp) -> Vec<Step> {
        let turn = self.turn().cloned();
        let mut steps: Vec<Step> = self.output.flush(turn.as_ref()).into_iter().collect();
        steps.extend(self.asks.withdraw());
        self.calls.clear();
        let Some(turn) = self.turn.take() else { return steps };
        if !turn.accepted {
            steps.push(Step::Accepted);
        }
        let text = self.output.text();
        let usage = turn.used.into_values().fold(Usage::default(), Usage::plus);
        let outcome = turn.clues.outcome(turn.last.as_ref(), text, now);
        let end = TurnEnd { turn_id: turn.id, outcome, usage };
        steps.push(Step::Over { end, leaves_nothing: turn.runs_attempt });
        steps
    }
}

pub(super) fn active() -> Step {
    Step::Emit(SessionEvent::Active)
}

pub(super) fn output(turn: Option<&TurnId>, kind: OutputKind, text: String) -> Step {
    Step::Emit(SessionEvent::Output { turn_id: turn.cloned(), kind, text })
}

#[cfg(test)]
mod tests;

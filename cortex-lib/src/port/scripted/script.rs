//! What a scripted session does: how it opens, and what a turn does step by step.

use std::time::Duration;

use serde_json::Value;

use crate::domain::attempt::Cause;
use crate::domain::usage::Usage;
use crate::error::Error;
use crate::ids::TurnId;
use crate::port::{OutputKind, SessionEvent, ToolRequest, Turn, TurnEnd, TurnFailure, TurnOutcome};
use crate::time::Timestamp;

/// How a session opens.
#[derive(Clone, Debug)]
pub enum Opening {
    /// It is ready after this time.
    After(Duration),
    /// It fails after this time.
    Fail(Duration, Error),
    /// It never gets ready.
    Never,
}

impl Opening {
    /// Ready at once.
    pub const AT_ONCE: Self = Self::After(Duration::ZERO);
}

/// What a turn does, in order. A turn whose script is over and that has not ended goes on for ever.
#[derive(Clone, Debug, Default)]
#[must_use = "a script does nothing until a runtime follows it"]
pub struct Script {
    pub(super) accept: Accept,
    pub(super) interrupt: Interrupt,
    pub(super) steer: Hears,
    pub(super) answers: Answers,
    pub(super) steps: Vec<Step>,
    pub(super) usage: Usage,
    pub(super) outlives_close: bool,
}

/// What becomes of the sending of a turn.
#[derive(Clone, Debug, Default)]
pub(super) enum Accept {
    #[default]
    AtOnce,
    After(Duration),
    Never,
    Refuse(Error),
}

/// What an interrupt does to a turn.
#[derive(Clone, Debug)]
pub(super) enum Interrupt {
    EndsAfter(Duration),
    Ignored,
    Refused(Error),
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::EndsAfter(Duration::ZERO)
    }
}

/// What more input does to a turn.
#[derive(Clone, Debug)]
pub(super) enum Hears {
    After(Duration),
    TooLate,
    Refuses(Error),
    Never,
}

impl Default for Hears {
    fn default() -> Self {
        Self::After(Duration::ZERO)
    }
}

/// What becomes of the answer to a tool request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answers {
    TakenAfter(Duration),
    NeverTaken,
}

impl Default for Answers {
    fn default() -> Self {
        Self::TakenAfter(Duration::ZERO)
    }
}

/// One thing that a turn does.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Wait(Duration),
    Hear,
    Emit(SessionEvent),
    Output(OutputKind, String),
    Ask(ToolRequest),
    Write(String, String),
    End(TurnOutcome),
    EndAnother(TurnId),
    Crash(String),
    LetGo,
}

impl Script {
    /// A turn that is accepted at once, ends when it is interrupted, and else goes on for ever.
    pub fn new() -> Self {
        Self::default()
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Takes time before what follows.
    pub fn wait(self, time: Duration) -> Self {
        self.then(Step::Wait(time))
    }

    /// Waits until the turn is given more to go on, and says that.
    pub fn hear(self) -> Self {
        self.then(Step::Hear)
    }

    /// Says something.
    pub fn say(self, text: impl Into<String>) -> Self {
        self.then(Step::Output(OutputKind::Text, text.into()))
    }

    /// Shows that a tool runs: from here on silence is no stall.
    pub fn use_tool(self, text: impl Into<String>) -> Self {
        self.then(Step::Output(OutputKind::Tool, text.into()))
    }

    /// Asks whether a tool may run, waits for the answer, and says `allowed` or the reason of the denial.
    pub fn ask(self, tool: impl Into<String>, input: Value) -> Self {
        let tool = tool.into();
        let summary = format!("use {tool}");
        self.request(ToolRequest {
            request_id: String::new(),
            turn_id: None,
            tool,
            summary,
            input,
            questions: Vec::new(),
            of_cortex: None,
        })
    }

    /// Asks as `request` says and waits for the answer. The name of the request and its turn are made up.
    pub fn request(self, request: ToolRequest) -> Self {
        let request_id = format!("ask-{}", self.steps.len());
        self.then(Step::Ask(ToolRequest { request_id, ..request }))
    }

    /// Writes a file of the folder that the session works in.
    pub fn write(self, path: impl Into<String>, content: impl Into<String>) -> Self {
        self.then(Step::Write(path.into(), content.into()))
    }

    /// Does something that has no word of its own here.
    pub fn emit(self, event: SessionEvent) -> Self {
        self.then(Step::Emit(event))
    }

    /// Ends the turn with a result. Again: the runtime says so twice.
    pub fn answer(self, text: impl Into<String>) -> Self {
        self.then(Step::End(TurnOutcome::Succeeded { text: text.into() }))
    }

    /// Ends the turn without a result.
    pub fn fail(self, cause: Cause, message: impl Into<String>) -> Self {
        let failure = TurnFailure { cause, message: message.into(), resets_at: None };
        self.then(Step::End(TurnOutcome::Failed(failure)))
    }

    /// Ends the turn because the quota is used up until `resets_at`.
    pub fn rate_limited(self, resets_at: Option<Timestamp>) -> Self {
        let message = "the quota is used up".to_owned();
        let failure = TurnFailure { cause: Cause::RateLimited, message, resets_at };
        self.then(Step::End(TurnOutcome::Failed(failure)))
    }

    /// Ends the turn as interrupted, whether anybody asked for it or not.
    pub fn stop(self) -> Self {
        self.then(Step::End(TurnOutcome::Interrupted))
    }

    /// Says that some other turn ended with a result.
    pub fn end_another(self, turn: TurnId) -> Self {
        self.then(Step::EndAnother(turn))
    }

    /// The session dies by itself.
    pub fn crash(self, message: impl Into<String>) -> Self {
        self.then(Step::Crash(message.into()))
    }

    /// The driver lets go of the session without a word.
    pub fn let_go(self) -> Self {
        self.then(Step::LetGo)
    }

    /// The turn is accepted only after this time. Default: at once.
    pub fn accepted_after(mut self, time: Duration) -> Self {
        self.accept = Accept::After(time);
        self
    }

    /// The turn is never accepted, though it runs.
    pub fn never_accepted(mut self) -> Self {
        self.accept = Accept::Never;
        self
    }

    /// The turn is refused: it does not start.
    pub fn refused(mut self, error: Error) -> Self {
        self.accept = Accept::Refuse(error);
        self
    }

    /// An interrupt does nothing. Default: it ends the turn at once.
    pub fn deaf(mut self) -> Self {
        self.interrupt = Interrupt::Ignored;
        self
    }

    /// An interrupt ends the turn after this time.
    pub fn interrupted_after(mut self, time: Duration) -> Self {
        self.interrupt = Interrupt::EndsAfter(time);
        self
    }

    /// An interrupt is refused.
    pub fn interrupt_fails(mut self, error: Error) -> Self {
        self.interrupt = Interrupt::Refused(error);
        self
    }

    /// What the turn is given while it runs reaches it after this time, if it still runs then. Default: at once.
    pub fn steered_after(mut self, time: Duration) -> Self {
        self.steer = Hears::After(time);
        self
    }

    /// What the turn is given while it runs comes too late, as if it had just ended.
    pub fn steered_too_late(mut self) -> Self {
        self.steer = Hears::TooLate;
        self
    }

    /// What the turn is given while it runs is refused.
    pub fn steer_fails(mut self, error: Error) -> Self {
        self.steer = Hears::Refuses(error);
        self
    }

    /// Nobody says whether the turn hears what it is given.
    pub fn steer_hangs(mut self) -> Self {
        self.steer = Hears::Never;
        self
    }

    /// The answer to a tool request reaches the turn at once, and only after this time it is known that it did. Default:
    /// at once, too.
    pub fn answers_taken_after(mut self, time: Duration) -> Self {
        self.answers = Answers::TakenAfter(time);
        self
    }

    /// Nobody reads the answer to a tool request.
    pub fn answers_hang(mut self) -> Self {
        self.answers = Answers::NeverTaken;
        self
    }

    /// The script goes on when the session is closed, as from a driver that still holds lines to tell.
    pub fn outlives_close(mut self) -> Self {
        self.outlives_close = true;
        self
    }

    /// What the turn uses. Default: not known.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    pub(super) fn end(&self, turn: &Turn, outcome: TurnOutcome) -> SessionEvent {
        SessionEvent::TurnEnded(TurnEnd { turn_id: turn.id.clone(), outcome, usage: self.usage })
    }
}

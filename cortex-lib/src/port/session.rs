//! A session: a live conversation with one agent, made of turns.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::domain::approval::{Answers, Choice, Question};
use crate::domain::attempt::Cause;
use crate::domain::usage::Usage;
use crate::error::{Code, Error, Result};
use crate::ids::{AttemptId, TurnId};
use crate::time::Timestamp;

/// A live conversation. At most one turn runs at a time; the core sees to that.
///
/// Its methods may be called while another one waits: an interrupt while a turn is being sent, a close
/// while anything is.
#[async_trait]
pub trait Session: Debug + Send + Sync {
    /// Sends a turn and returns once the runtime has accepted it. Its end comes as
    /// [`SessionEvent::TurnEnded`].
    ///
    /// # Errors
    ///
    /// `runtime.session_ended`, `runtime.protocol_error`, `runtime.start_failed`. The turn did not start.
    async fn send(&self, turn: Turn) -> Result<()>;

    /// Gives the turn that runs more to go on. Only asked of a runtime with
    /// [`InteractiveInput`](crate::domain::capability::Capability::InteractiveInput), and after the turn was
    /// accepted. A turn that does not run is [`Steered::TurnOver`], also while another one does: what was said to one
    /// turn is never given to the next.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended`, `runtime.protocol_error`, `runtime.capability_missing`.
    async fn steer(&self, turn: &TurnId, text: String) -> Result<Steered> {
        drop((turn, text));
        Err(Error::new(Code::RuntimeCapabilityMissing, "this runtime takes no input during a turn"))
    }

    /// Asks the runtime to end this turn; the session lives on. It returns once the runtime was asked; the
    /// turn still ends by [`SessionEvent::TurnEnded`]. A turn that is over is not an error.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended`, `runtime.protocol_error`.
    async fn interrupt(&self, turn: &TurnId) -> Result<()>;

    /// Answers a tool request. A request that no longer waits is not an error.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended`, `runtime.protocol_error`.
    async fn answer(&self, request_id: &str, answer: ToolAnswer) -> Result<()>;

    /// Ends the session: politely first, by force after `grace`. When it returns, nothing that the
    /// session started lives. May be called again.
    async fn close(&self, grace: Duration);
}

/// What is known about an open session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// The runtime's own name of the session, by which it can be resumed.
    pub native_session_id: Option<String>,
    /// Its process, when it has one.
    pub pid: Option<u32>,
    /// Whether it goes on with an earlier native session.
    pub resumed: bool,
    /// The version of the program that runs.
    pub version: Option<String>,
    /// The model that answers, when it is known before a turn.
    pub model: Option<String>,
}

/// One turn to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The turn.
    pub id: TurnId,
    /// The attempt it runs, unless a person sent it directly.
    pub attempt_id: Option<AttemptId>,
    /// What to do, in words.
    pub instruction: String,
}

/// What became of more input for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steered {
    /// The turn will hear it.
    Taken,
    /// The turn was over: it will not.
    TurnOver,
}

/// Something that happened in a session.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEvent {
    /// Something to see. It is shown, not stored.
    Output {
        /// The turn it belongs to.
        turn_id: Option<TurnId>,
        /// What sort of output.
        kind: OutputKind,
        /// The text, without a trailing line end.
        text: String,
    },
    /// A sign of life without anything to see.
    Active,
    /// The agent wants to use a tool and waits for [`Session::answer`].
    ToolRequest(ToolRequest),
    /// The request no longer waits.
    ToolRequestWithdrawn {
        /// Which.
        request_id: String,
    },
    /// The runtime's own name of the session became known or changed.
    NativeSession {
        /// The new name.
        native_session_id: String,
    },
    /// A turn is over. Exactly one for each turn that was accepted, while the session lives.
    TurnEnded(TurnEnd),
    /// The session is over. Nothing follows.
    Ended {
        /// Why, in one sentence.
        message: String,
    },
}

/// What sort of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum OutputKind {
    /// What the agent says.
    Text,
    /// What it thinks.
    Thinking,
    /// A tool it uses.
    Tool,
    /// What its program prints beside the protocol.
    Stderr,
}

/// A tool that the agent wants to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRequest {
    /// The runtime's name of the request.
    pub request_id: String,
    /// The turn it belongs to.
    pub turn_id: Option<TurnId>,
    /// The tool, by the runtime's name.
    pub tool: String,
    /// What it would do, in one line.
    pub summary: String,
    /// Its arguments. A rule that allows must match every text of them, unless the core knows the tool by its name.
    pub input: Value,
    /// What the agent asks its user by this, instead of asking for leave: a person answers each. Empty for a tool.
    pub questions: Vec<Question>,
    /// The tool of Cortex that this is, when it is one: the endpoint decides who may call it.
    pub of_cortex: Option<String>,
}

/// The answer to a tool request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolAnswer {
    /// It may run as asked.
    Allow,
    /// It may not. The agent reads the reason.
    Deny {
        /// Why, in one sentence.
        reason: String,
    },
    /// What a person answered, by the id of the question. Only for a request with questions.
    Answers(Answers),
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    /// Which turn.
    pub turn_id: TurnId,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// What it used. Absent figures are not known.
    pub usage: Usage,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// With a result.
    Succeeded {
        /// What the agent returned.
        text: String,
    },
    /// Because it was interrupted.
    Interrupted,
    /// Without a result.
    Failed(TurnFailure),
}

/// Why a turn has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFailure {
    /// The class, which decides about a retry.
    pub cause: Cause,
    /// What happened, in one sentence.
    pub message: String,
    /// When a rate limit ends, if the runtime told.
    pub resets_at: Option<Timestamp>,
}

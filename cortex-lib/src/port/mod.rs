//! What the core needs from others: runtimes that run agents, and something that runs a project's
//! verification. Each is a trait; the core names no driver.

mod host;
mod picture;
mod runtime;
#[cfg(feature = "testing")]
mod scripted;
mod session;
mod terminal;
mod verify;
mod workspace;

pub use host::Host;
pub use picture::{Cell, Color, Picture, Style};
pub use runtime::{
    Health, HealthReport, McpAccess, Opened, ProcessStrategy, Runtime, RuntimeInfo, SessionSpec,
};
#[cfg(feature = "testing")]
pub use scripted::{
    Asked, GitFate, Opening, Script, ScriptedHost, ScriptedRuntime, ScriptedWorld, Verdict,
};
pub use session::{
    Answers, Choice, OutputKind, Question, Session, SessionEvent, SessionFacts, Steered,
    ToolAnswer, ToolRequest, Turn, TurnEnd, TurnFailure, TurnOutcome,
};
pub use terminal::{Attached, Terminal, TerminalSize};
pub use verify::{VerificationOutcome, VerificationRequest, Verifier};
pub use workspace::{Change, ChangedFile, Git, Kept, Squash, Worktree};

//! What the core needs from others: runtimes that run agents, and something that runs a project's
//! verification. Each is a trait; the core names no driver.

mod host;
mod runtime;
mod session;
mod verify;

pub use host::Host;
pub use runtime::{
    Health, HealthReport, McpAccess, Opened, ProcessStrategy, Runtime, RuntimeInfo, SessionSpec,
};
pub use session::{
    OutputKind, Session, SessionEvent, SessionFacts, ToolAnswer, ToolRequest, Turn, TurnEnd,
    TurnFailure, TurnOutcome,
};
pub use verify::{VerificationOutcome, VerificationRequest, Verifier};

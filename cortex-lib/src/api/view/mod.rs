//! The objects that callers see. Each is built from rows; none is stored.

mod agent;
mod approval;
mod attempt;
mod connection;
mod message;
mod objective;
mod project;
mod proposal;
mod runtime;
mod task;

pub use agent::{AgentCurrent, AgentSession, AgentView};
pub use approval::{ApprovalView, RuleView};
pub use attempt::{AttemptView, VerificationView};
pub use connection::ConnectionView;
pub use message::{MessageFrom, MessageFromKind, MessageView};
pub use objective::{FlowStateView, FlowView, ObjectiveSource, ObjectiveView};
pub use project::ProjectView;
pub use proposal::{ProposalSourceView, ProposalView, ResolutionView, SourceKind};
pub use runtime::{HealthView, RuntimeView};
pub use task::{Detail, TaskView};

//! The commands of Cortex. A command is a struct of arguments that knows how to run.
//!
//! A [`Tool`] is a command that models may see: it is in [`TOOLS`], in the file `tool/<name>.rs`. What is
//! only for the person who runs Cortex is in [`OPERATOR`] and never on MCP. Everything else about a
//! command is derived from its struct: schemas, argument errors, reference, permission check.
//!
//! Rust callers use [`Cx::call`] with the struct, all others [`Cx::call_json`] with a name and JSON. Both
//! doors check the same things and refuse with the same errors.

mod access;
mod arguments;
mod command;
mod cx;
pub mod operator;
mod planner;
pub mod reference;
mod reply;
mod schema;
pub mod tool;
pub mod view;

pub use access::{Access, Caller, SessionCaller, SessionKind};
pub use arguments::{one_of, present, read, schema_of};
pub use command::{Command, CommandDef, Effect, Reply, Tool, ToolDef, Wait};
pub use cx::{Catalogue, Cx, Granted};
pub use reply::{
    AgentReply, ApprovalReply, ConnectionReply, ObjectiveReply, ProjectReply, ProposalReply,
    RuleList, TaskReply,
};

/// Every tool, in the order in which callers see them.
pub static TOOLS: [ToolDef; 31] = [
    ToolDef::of::<tool::ListProjects>(),
    ToolDef::of::<tool::ListRuntimes>(),
    ToolDef::of::<tool::ListAgents>(),
    ToolDef::of::<tool::GetAgentStatus>(),
    ToolDef::of::<tool::CreateAgent>(),
    ToolDef::of::<tool::UpdateAgent>(),
    ToolDef::of::<tool::StartAgent>(),
    ToolDef::of::<tool::SendMessage>(),
    ToolDef::of::<tool::InterruptAgent>(),
    ToolDef::of::<tool::StopAgent>(),
    ToolDef::of::<tool::PollAgentEvents>(),
    ToolDef::of::<tool::CreateObjective>(),
    ToolDef::of::<tool::PlanObjective>(),
    ToolDef::of::<tool::ProposeObjective>(),
    ToolDef::of::<tool::ListProposals>(),
    ToolDef::of::<tool::EditProposal>(),
    ToolDef::of::<tool::ApproveProposal>(),
    ToolDef::of::<tool::RejectProposal>(),
    ToolDef::of::<tool::ListTasks>(),
    ToolDef::of::<tool::GetTaskStatus>(),
    ToolDef::of::<tool::CancelTask>(),
    ToolDef::of::<tool::CancelObjective>(),
    ToolDef::of::<tool::PauseObjective>(),
    ToolDef::of::<tool::ResumeObjective>(),
    ToolDef::of::<tool::ReassignTask>(),
    ToolDef::of::<tool::ApproveTask>(),
    ToolDef::of::<tool::RetryTask>(),
    ToolDef::of::<tool::IntegrateTask>(),
    ToolDef::of::<tool::PostMessage>(),
    ToolDef::of::<tool::ReadMessages>(),
    ToolDef::of::<tool::AckMessage>(),
];

/// Every command that only the person may give, in the order of the reference.
pub static OPERATOR: [CommandDef; 25] = [
    CommandDef::of::<operator::AddProject>(),
    CommandDef::of::<operator::UpdateProject>(),
    CommandDef::of::<operator::RemoveProject>(),
    CommandDef::of::<operator::CreateTerminalAgent>(),
    CommandDef::of::<operator::PauseAgent>(),
    CommandDef::of::<operator::ResumeAgent>(),
    CommandDef::of::<operator::RestartAgent>(),
    CommandDef::of::<operator::RemoveAgent>(),
    CommandDef::of::<operator::ListApprovals>(),
    CommandDef::of::<operator::GetApproval>(),
    CommandDef::of::<operator::AllowApproval>(),
    CommandDef::of::<operator::DenyApproval>(),
    CommandDef::of::<operator::AnswerApproval>(),
    CommandDef::of::<operator::AlwaysAllowApproval>(),
    CommandDef::of::<operator::ListRules>(),
    CommandDef::of::<operator::PutRule>(),
    CommandDef::of::<operator::MoveRule>(),
    CommandDef::of::<operator::RemoveRule>(),
    CommandDef::of::<operator::TestRules>(),
    CommandDef::of::<operator::ListConnections>(),
    CommandDef::of::<operator::AllowConnection>(),
    CommandDef::of::<operator::DenyConnection>(),
    CommandDef::of::<operator::RevokeConnection>(),
    CommandDef::of::<operator::CheckRuntimes>(),
    CommandDef::of::<operator::CoreStatus>(),
];

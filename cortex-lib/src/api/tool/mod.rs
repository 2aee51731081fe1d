//! The tools, one file each, called by the tool's name.

pub mod approve_task;
pub mod cancel_task;
pub mod create_agent;
pub mod create_objective;
pub mod get_agent_status;
pub mod get_task_status;
pub mod interrupt_agent;
pub mod list_agents;
pub mod list_projects;
pub mod list_runtimes;
pub mod list_tasks;
pub mod poll_agent_events;
pub mod retry_task;
pub mod send_message;
pub mod start_agent;
pub mod stop_agent;
pub mod update_agent;

pub use approve_task::ApproveTask;
pub use cancel_task::CancelTask;
pub use create_agent::CreateAgent;
pub use create_objective::CreateObjective;
pub use get_agent_status::GetAgentStatus;
pub use get_task_status::GetTaskStatus;
pub use interrupt_agent::InterruptAgent;
pub use list_agents::ListAgents;
pub use list_projects::ListProjects;
pub use list_runtimes::ListRuntimes;
pub use list_tasks::ListTasks;
pub use poll_agent_events::PollAgentEvents;
pub use retry_task::RetryTask;
pub use send_message::SendMessage;
pub use start_agent::StartAgent;
pub use stop_agent::StopAgent;
pub use update_agent::UpdateAgent;

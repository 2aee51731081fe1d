//! What only the person who runs Cortex may ask for, one file each. None of it is on MCP.

pub mod add_project;
pub mod check_runtimes;
pub mod core_status;
pub mod create_terminal_agent;
pub mod pause_agent;
pub mod remove_agent;
pub mod remove_project;
pub mod restart_agent;
pub mod resume_agent;
pub mod update_project;

pub use add_project::AddProject;
pub use check_runtimes::CheckRuntimes;
pub use core_status::CoreStatus;
pub use create_terminal_agent::CreateTerminalAgent;
pub use pause_agent::PauseAgent;
pub use remove_agent::RemoveAgent;
pub use remove_project::RemoveProject;
pub use restart_agent::RestartAgent;
pub use resume_agent::ResumeAgent;
pub use update_project::UpdateProject;

//! Projects: when one may go, and what goes with it.

use crate::domain::workspace::WorkspaceInput;
use crate::error::{Code, Error, Result};
use crate::ids::{AttemptId, ProjectId};
use crate::store::{Project, WriteTx};

impl WriteTx<'_> {
    /// Removes a project with its agents, in one transaction (H-26). Ended objectives leave the lists with it, and
    /// plans that wait are rejected.
    ///
    /// # Errors
    ///
    /// `project.not_found`, `project.in_use` while sessions live, objectives have not ended or worktrees hold something
    /// that was not integrated. `gone`: worktrees that a person took away.
    pub fn retire_project(&mut self, id: &ProjectId, gone: &[AttemptId]) -> Result<Project> {
        let project = self.project(id)?;
        self.check_not_planned(&project)?;
        for attempt in gone {
            self.workspace_input(attempt, WorkspaceInput::Gone)?;
        }
        let agents = self.agents(Some(id))?;
        let live: Vec<_> = agents
            .iter()
            .filter(|agent| agent.state.status().is_live())
            .map(|agent| agent.id.to_string())
            .collect();
        let open: Vec<_> = self
            .objectives(Some(id), 0)?
            .iter()
            .map(|objective| objective.id.to_string())
            .collect();
        if !live.is_empty() || !open.is_empty() {
            let message = format!(
                "project {} has {} live agents and {} objectives that have not ended",
                project.name,
                live.len(),
                open.len()
            );
            return Err(Error::new(Code::ProjectInUse, message)
                .with("project_id", id.as_str())
                .with("agent_ids", live)
                .with("objective_ids", open));
        }
        let worktrees: Vec<_> = self
            .workspaces_in(id)?
            .into_iter()
            .filter(|workspace| workspace.state.holds_work())
            .collect();
        if !worktrees.is_empty() {
            let message = format!(
                "project {} has {} worktrees that hold something that was not integrated",
                project.name,
                worktrees.len()
            );
            let paths: Vec<_> =
                worktrees.iter().map(|one| one.path.display().to_string()).collect();
            let tasks: Vec<_> = worktrees.iter().map(|one| one.task_id.to_string()).collect();
            return Err(Error::new(Code::ProjectInUse, message)
                .remedy("Integrate the named tasks, or remove the named worktrees with git.")
                .with("project_id", id.as_str())
                .with("task_ids", tasks)
                .with("worktrees", paths));
        }
        self.reject_proposals_of(id)?;
        for agent in &agents {
            self.expire_messages_to_agent(&agent.id)?;
            self.remove_agent(agent)?;
        }
        self.drop_rules_of_project(id)?;
        self.remove_project(&project)?;
        Ok(project)
    }
}

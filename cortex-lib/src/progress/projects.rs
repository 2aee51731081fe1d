//! Projects: when one may go, and what goes with it.

use crate::error::{Code, Error, Result};
use crate::ids::ProjectId;
use crate::store::{Project, WriteTx};

impl WriteTx<'_> {
    /// Removes a project with its agents, in one transaction (H-26). Ended objectives leave the lists with it, and
    /// plans that wait are rejected.
    ///
    /// # Errors
    ///
    /// `project.not_found`, `project.in_use` while sessions live or objectives have not ended.
    pub fn retire_project(&mut self, id: &ProjectId) -> Result<Project> {
        let project = self.project(id)?;
        self.check_not_planned(&project)?;
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
        self.reject_proposals_of(id)?;
        for agent in &agents {
            self.expire_messages_to_agent(&agent.id)?;
            self.remove_agent(agent)?;
        }
        self.remove_project(&project)?;
        Ok(project)
    }
}

//! Sessions of the planner: when one may begin, and what it keeps from going.

use crate::error::{Code, Error, Result};
use crate::store::{PlannerSession, Project, WriteTx};

impl WriteTx<'_> {
    /// Begins a session of the planner. It counts as one that lives from here on, and a start after a crash ends
    /// what it left.
    ///
    /// # Errors
    ///
    /// `project.not_found`, `resource.limit_reached` when `max` sessions live.
    pub fn begin_planner_session(&mut self, session: &PlannerSession, max: u32) -> Result<()> {
        self.project(&session.project_id)?;
        if self.live_session_count()? >= max {
            let message =
                format!("{max} sessions live, as many as resources.max_active_processes allows");
            return Err(Error::new(Code::ResourceLimitReached, message)
                .with("project_id", session.project_id.as_str()));
        }
        self.insert_planner_session(session)
    }

    /// Refuses what must not happen to a project while the planner reads it.
    pub(super) fn check_not_planned(&self, project: &Project) -> Result<()> {
        let planned =
            self.planner_sessions()?.into_iter().any(|session| session.project_id == project.id);
        if !planned {
            return Ok(());
        }
        let message = format!("the planner works in project {}", project.name);
        Err(Error::new(Code::ProjectInUse, message)
            .remedy("Wait for the end of plan_objective or propose_objective, at most 5 minutes.")
            .with("project_id", project.id.as_str()))
    }
}

//! `remove_project`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ProjectReply;
use crate::api::view::ProjectView;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::ProjectId;

/// Remove a project with its agents. Its pending proposals are rejected. Refused while sessions live, objectives have not ended or worktrees of Cortex hold changes that were not integrated; its files are never touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveProject {
    /// The project.
    pub project_id: ProjectId,
}

impl Command for RemoveProject {
    type Output = ProjectReply;
    const NAME: &'static str = "remove_project";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::ProjectNotFound, Code::ProjectInUse];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let gone = cx.core().worktrees_taken_away(&self.project_id)?;
        let project = cx.core().store().write(move |tx| tx.retire_project(&self.project_id, &gone));
        Ok(ProjectReply { project: ProjectView::of(project.await?) })
    }
}

//! `update_project`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ProjectReply;
use crate::api::view::ProjectView;
use crate::api::{Access, Command, Effect, Granted, present};
use crate::domain::verification::Verification;
use crate::error::{Code, Result};
use crate::ids::ProjectId;
use crate::store::Project;

/// Rename a project, set its verification or trust its folder. It applies to verifications and sessions that start later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-some-of" = [["name", "verification", "trusted"]]))]
pub struct UpdateProject {
    /// The project.
    pub project_id: ProjectId,
    /// Its new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub name: Option<String>,
    /// The commands that decide whether a result holds; `null` clears them.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Verification>", extend("x-nullable" = true))]
    pub verification: Option<Option<Verification>>,
    /// Whether what its folder brings for a runtime counts: settings, hooks and MCP servers. They run as you, without asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
}

impl UpdateProject {
    /// Changes nothing yet: set at least one field.
    pub fn new(project_id: ProjectId) -> Self {
        Self { project_id, name: None, verification: None, trusted: None }
    }
}

impl Command for UpdateProject {
    type Output = ProjectReply;
    const NAME: &'static str = "update_project";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::ProjectNotFound, Code::ProjectNameTaken];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let project = cx.core().store().write(move |tx| {
            let before = tx.project(&self.project_id)?;
            let after = Project {
                name: self.name.unwrap_or_else(|| before.name.clone()),
                verification: self.verification.unwrap_or_else(|| before.verification.clone()),
                trusted: self.trusted.unwrap_or(before.trusted),
                ..before.clone()
            };
            if after != before {
                tx.update_project(&after)?;
            }
            Ok(after)
        });
        Ok(ProjectReply { project: ProjectView::of(project.await?) })
    }
}

//! `list_projects`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::view::ProjectView;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};

/// List the projects registered in Cortex, to find the `project_id` that `create_agent` and `create_objective` need.
/// Cost: reads only, at once. Next: `list_agents` or `create_agent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListProjects {}

/// Projects, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectList {
    /// The projects.
    pub projects: Vec<ProjectView>,
}

impl Command for ListProjects {
    type Output = ProjectList;
    const NAME: &'static str = "list_projects";
    const ACCESS: Access = Access::EVERYONE;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        cx.core().store().read(|tx| {
            let seen = tx.projects()?.into_iter().filter(|project| cx.sees(&project.id));
            Ok(ProjectList { projects: seen.map(ProjectView::of).collect() })
        })
    }
}

impl Tool for ListProjects {}

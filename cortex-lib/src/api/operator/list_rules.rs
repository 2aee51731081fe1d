//! `list_rules`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::RuleList;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::ProjectId;

/// List the rules about tool requests that count for a project, in the order in which they are looked at: the built-in one, those of the project, those of the configuration. The first that matches decides; without one the default does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRules {
    /// The project.
    pub project_id: ProjectId,
}

impl Command for ListRules {
    type Output = RuleList;
    const NAME: &'static str = "list_rules";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[Code::ProjectNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        cx.rules_reply(&self.project_id)
    }
}

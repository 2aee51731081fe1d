//! `remove_rule`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::RuleList;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::ProjectId;

/// Remove a rule of a project. The built-in rule and those of the configuration cannot be removed here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveRule {
    /// The project.
    pub project_id: ProjectId,
    /// The rule.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,
}

impl Command for RemoveRule {
    type Output = RuleList;
    const NAME: &'static str = "remove_rule";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::ProjectNotFound, Code::RuleNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let (project, id) = (self.project_id.clone(), self.id);
        let removed = cx.core().store().write(move |tx| {
            tx.project(&project)?;
            tx.remove_rule(&project, &id)
        });
        removed.await?;
        cx.rules_reply(&self.project_id)
    }
}

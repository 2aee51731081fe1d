//! `move_rule`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::RuleList;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::ProjectId;

/// Move a rule of a project to another place among the rules of the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRule {
    /// The project.
    pub project_id: ProjectId,
    /// The rule.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,
    /// Its new place among the rules of the project; the first is 1. Beyond the last: the last.
    #[schemars(range(min = 1, max = 1000))]
    pub place: u32,
}

impl Command for MoveRule {
    type Output = RuleList;
    const NAME: &'static str = "move_rule";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::ProjectNotFound, Code::RuleNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let Self { project_id, id, place } = self;
        let (project, place) = (project_id.clone(), usize::try_from(place).unwrap_or(usize::MAX));
        let moved = cx.core().store().write(move |tx| {
            tx.project(&project)?;
            tx.move_rule(&project, &id, place)
        });
        moved.await?;
        cx.rules_reply(&project_id)
    }
}

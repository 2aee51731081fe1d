//! `put_rule`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::RuleList;
use crate::api::{Access, Command, Effect, Granted};
use crate::domain::approval::Rule;
use crate::error::{Code, Result};
use crate::ids::ProjectId;

/// Put a rule about tool requests into a project: a new one, or in the place of the one with the same id. It counts from the next request on; what waits goes on waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutRule {
    /// The project.
    pub project_id: ProjectId,
    /// The rule.
    pub rule: Rule,
    /// Its place among the rules of the project; the first is 1. Left out: a new one is the last, a known one stays where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub place: Option<u32>,
}

impl Command for PutRule {
    type Output = RuleList;
    const NAME: &'static str = "put_rule";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] =
        &[Code::ProjectNotFound, Code::AgentNotFound, Code::RuleLimitReached];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let Self { project_id, rule, place } = self;
        let place = place.map(|place| usize::try_from(place).unwrap_or(usize::MAX));
        let id = project_id.clone();
        cx.core().store().write(move |tx| tx.set_rule(&id, &rule, place)).await?;
        cx.rules_reply(&project_id)
    }
}

//! `resume_objective`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ObjectiveReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::ObjectiveId;

/// Resume a paused objective: each of its tasks may start again or says why it waits. What the pause interrupted runs as the next attempt; a backoff goes on from where it was. Resuming an objective that runs changes nothing.
/// Cost: at once, and the tokens of the turns that start. Next: `list_tasks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeObjective {
    /// The objective.
    pub objective_id: ObjectiveId,
}

impl Command for ResumeObjective {
    type Output = ObjectiveReply;
    const NAME: &'static str = "resume_objective";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::ObjectiveNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let id = self.objective_id.clone();
        cx.core().store().write(move |tx| tx.resume_objective(&id, "user")).await?;
        cx.objective_reply(&self.objective_id)
    }
}

impl Tool for ResumeObjective {}

//! `pause_objective`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ObjectiveReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::domain::objective::PausePolicy;
use crate::error::{Code, Result};
use crate::ids::ObjectiveId;
use crate::progress::Decided;
use crate::store::WriteTx;

/// Pause an objective: none of its tasks starts until `resume_objective`, and each keeps its own state. A READY task waits with `waiting.objective_paused`; a BLOCKED one can still be approved, retried or cancelled. A verification that runs ends by itself. Pausing again changes nothing, except interrupt over drain.
/// Cost: with policy drain the attempts that run end by themselves; with interrupt their turns are interrupted, without spending a retry, and the tasks run again after the resume. Next: `resume_objective`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseObjective {
    /// The objective.
    pub objective_id: ObjectiveId,
    /// What becomes of the attempts that run.
    #[serde(default)]
    pub policy: PausePolicy,
    /// Why; kept with the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2000))]
    pub reason: Option<String>,
}

impl Command for PauseObjective {
    type Output = ObjectiveReply;
    const NAME: &'static str = "pause_objective";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::ObjectiveNotFound, Code::ObjectiveStateConflict];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let (id, settings, policy) = (self.objective_id.clone(), cx.core().settings(), self.policy);
        let decided = Decided { by: "user".to_owned(), reason: self.reason, execution_id: None };
        let pause =
            move |tx: &mut WriteTx<'_>| tx.pause_objective(&id, policy, &decided, &settings);
        cx.core().store().write(pause).await?;
        cx.objective_reply(&self.objective_id)
    }
}

impl Tool for PauseObjective {}

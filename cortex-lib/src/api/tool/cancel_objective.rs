//! `cancel_objective`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ObjectiveReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::ObjectiveId;
use crate::progress::Decided;

/// Cancel an objective for good: every task of it that has not ended ends CANCELLED, with its running attempt, and a pause ends. The agents are released: their turns are interrupted, and an agent that has not let go in 30 s is stopped. Tasks that completed stay completed. Cancelling an objective with nothing left to cancel changes nothing. To stop only for a while, use `pause_objective`.
/// Cost: at once; it cannot be undone. Next: `create_objective` for other work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelObjective {
    /// The objective.
    pub objective_id: ObjectiveId,
    /// Why; kept with the decision about each task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2000))]
    pub reason: Option<String>,
}

impl Command for CancelObjective {
    type Output = ObjectiveReply;
    const NAME: &'static str = "cancel_objective";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::ObjectiveNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let (id, settings) = (self.objective_id.clone(), cx.core().settings());
        let decided = Decided { by: "user".to_owned(), reason: self.reason, execution_id: None };
        cx.core().store().write(move |tx| tx.cancel_objective(&id, &decided, &settings)).await?;
        cx.objective_reply(&self.objective_id)
    }
}

impl Tool for CancelObjective {}

//! `cancel_task`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::TaskReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::domain::task::TaskStatus;
use crate::error::{Code, Result};
use crate::ids::TaskId;
use crate::progress::Decided;

/// Cancel a task that has not ended, and every task that depends on it. A running attempt ends CANCELLED and its agent is released: its turn is interrupted, and an agent that has not let go in 30 s is stopped. Cancelling a CANCELLED task is not an error; a COMPLETED or FAILED one is a state conflict.
/// Cost: at once; what the attempt has spent is spent, and it cannot be undone. Next: `list_tasks` shows what was cancelled with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelTask {
    /// The task.
    pub task_id: TaskId,
    /// Why; kept with the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2000))]
    pub reason: Option<String>,
}

impl Command for CancelTask {
    type Output = TaskReply;
    const NAME: &'static str = "cancel_task";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::TaskNotFound, Code::TaskStateConflict];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        // A repeat finds it done and does not wait for the writer.
        let found = cx.task_reply(&self.task_id)?;
        if found.task.status == TaskStatus::Cancelled {
            return Ok(found);
        }
        let (id, settings) = (self.task_id.clone(), cx.core().settings());
        let decided = Decided { by: "user".to_owned(), reason: self.reason, execution_id: None };
        cx.core().store().write(move |tx| tx.cancel_task(&id, &decided, &settings)).await?;
        cx.task_reply(&self.task_id)
    }
}

impl Tool for CancelTask {}

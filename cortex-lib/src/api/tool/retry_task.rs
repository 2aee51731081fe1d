//! `retry_task`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::TaskReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::{AttemptId, TaskId};
use crate::progress::Decided;

/// Ask for a new attempt of a BLOCKED task: it becomes READY at once and the decision is recorded. After a retry a person asked for, a failure blocks the task again instead of failing it. A retry that is recorded for that attempt is not made twice.
/// Cost: the tokens of another turn; the call does not wait for it. Next: `get_task_status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryTask {
    /// The task.
    pub task_id: TaskId,
    /// The attempt you read: the call counts only if it is still the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<AttemptId>,
    /// Why; kept with the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2000))]
    pub reason: Option<String>,
}

impl Command for RetryTask {
    type Output = TaskReply;
    const NAME: &'static str = "retry_task";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::TaskNotFound, Code::TaskStateConflict];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let id = self.task_id.clone();
        let decided =
            Decided { by: "user".to_owned(), reason: self.reason, execution_id: self.execution_id };
        cx.core().store().write(move |tx| tx.retry_task(&id, &decided)).await?;
        cx.task_reply(&self.task_id)
    }
}

impl Tool for RetryTask {}

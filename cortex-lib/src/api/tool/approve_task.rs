//! `approve_task`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::TaskReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::{AttemptId, TaskId};
use crate::progress::Decided;

/// Approve a BLOCKED task whose result has no evidence: its project has no verification, or the verification did not pass or could not run. It becomes COMPLETED with the result of its last attempt. A task blocked for another cause can only be retried or cancelled. Asking again for an approval that is recorded returns the task as it is.
/// Cost: at once; tasks that waited for it may start. Next: `integrate_task` if it ran in a worktree, else `list_tasks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveTask {
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

impl Command for ApproveTask {
    type Output = TaskReply;
    const NAME: &'static str = "approve_task";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::TaskNotFound, Code::TaskStateConflict];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let (id, settings) = (self.task_id.clone(), cx.core().settings());
        let decided =
            Decided { by: "user".to_owned(), reason: self.reason, execution_id: self.execution_id };
        cx.core().store().write(move |tx| tx.approve_task(&id, &decided, &settings)).await?;
        cx.task_reply(&self.task_id)
    }
}

impl Tool for ApproveTask {}

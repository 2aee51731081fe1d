//! `get_task_status`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::TaskReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::TaskId;

/// Get one task: its status, its attempts (the agent that ran each and how it ended), why it waits, the cause of a failure or cancellation and, once COMPLETED, its result.
/// Cost: reads only, at once. Next: `approve_task` or `retry_task` for a BLOCKED one, `integrate_task` for one that ran in a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetTaskStatus {
    /// The task.
    pub task_id: TaskId,
}

impl Command for GetTaskStatus {
    type Output = TaskReply;
    const NAME: &'static str = "get_task_status";
    const ACCESS: Access = Access::EVERYONE;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[Code::TaskNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        cx.task_reply(&self.task_id)
    }
}

impl Tool for GetTaskStatus {}

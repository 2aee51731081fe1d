//! `reassign_task`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::TaskReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::{AgentId, AttemptId, TaskId};
use crate::progress::Decided;
use crate::store::WriteTx;

/// Move a task that waits (CREATED, READY or BLOCKED) to another agent of its project, or to none: any that can may run it then. Its status does not change: a READY task starts as soon as the agent is free, a BLOCKED one still waits for `approve_task` or `retry_task`. Refused while the agent of its last attempt still ends it, at most 30 s after a cancellation. Asking again for the same move is not an error.
/// Cost: one record, at once. Next: `get_task_status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReassignTask {
    /// The task.
    pub task_id: TaskId,
    /// The only agent that may run it from now on. Left out: any that can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_agent_id: Option<AgentId>,
    /// The attempt you read: the call counts only if it is still the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<AttemptId>,
    /// Why; kept with the move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2000))]
    pub reason: Option<String>,
}

impl Command for ReassignTask {
    type Output = TaskReply;
    const NAME: &'static str = "reassign_task";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[
        Code::TaskNotFound,
        Code::TaskStateConflict,
        Code::AgentNotFound,
        Code::TaskAgentNotEligible,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let (id, capabilities) = (self.task_id.clone(), cx.core().board_facts().capabilities);
        let to = self.to_agent_id;
        let decided =
            Decided { by: "user".to_owned(), reason: self.reason, execution_id: self.execution_id };
        let reassign =
            move |tx: &mut WriteTx<'_>| tx.reassign_task(&id, to.as_ref(), &decided, &capabilities);
        cx.core().store().write(reassign).await?;
        cx.task_reply(&self.task_id)
    }
}

impl Tool for ReassignTask {}

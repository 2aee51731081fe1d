//! `integrate_task`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::TaskReply;
use crate::api::{Access, Command, Effect, Granted, Tool, Wait};
use crate::error::{Code, Result};
use crate::ids::TaskId;
use crate::limits::{INTEGRATE_TIMEOUT, WORKTREE_REMOVAL_WAIT};

/// Bring the result of a COMPLETED task that ran in a git worktree of its own (requirement `workspace_isolation`) into its project's folder. Exactly the commit that was verified or approved is squashed onto the folder's HEAD: staged there, never committed. The worktree is removed and the branch `cortex/<task_id>` stays; what was changed in the worktree since that commit is named in `integration.left_behind`, and then it stays too. When it is refused, nothing has changed.
/// Cost: seconds, at most 5 minutes; once for each task. Next: a person reviews and commits what is staged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntegrateTask {
    /// The task.
    pub task_id: TaskId,
}

impl Command for IntegrateTask {
    type Output = TaskReply;
    const NAME: &'static str = "integrate_task";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[
        Code::TaskNotFound,
        Code::TaskStateConflict,
        Code::WorkspaceIndexNotClean,
        Code::WorkspaceConflict,
        Code::WorkspaceLocalChanges,
        Code::WorkspaceUnowned,
        Code::WorkspaceUnavailable,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        cx.core().integrate(&self.task_id, "user").await?;
        cx.task_reply(&self.task_id)
    }
}

impl Tool for IntegrateTask {
    const WAIT: Option<Wait> = Some(Wait {
        what: "The result is brought into the project's folder",
        at_most: INTEGRATE_TIMEOUT.saturating_add(WORKTREE_REMOVAL_WAIT),
    });
}

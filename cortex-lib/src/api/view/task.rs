//! A task as callers see it. Every key is always there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attempt::AttemptView;
use crate::domain::plan::{Requirement, TaskType};
use crate::domain::schedule::Priority;
use crate::domain::task::TaskStatus;
use crate::domain::text::head_and_tail;
use crate::domain::waiting::Waiting;
use crate::error::Result;
use crate::ids::{AgentId, ObjectiveId, ProjectId, TaskId};
use crate::limits::{LISTED_RESULT_BYTES_MAX, TASK_TIMEOUT_SECS};
use crate::settings::Settings;
use crate::store::{
    Decision, Integration, ReadTx, Reassignment, Task, TaskFailure, TaskResult, Workspace,
};
use crate::time::Timestamp;

/// How much a caller gets to see (C14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// In a list: long texts cut, outputs of commands left out.
    Listed,
    /// Alone: everything that is kept.
    Full,
}

/// A task: one turn of an agent, tried until its result holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskView {
    /// The task.
    pub task_id: TaskId,
    /// Its objective.
    pub objective_id: ObjectiveId,
    /// Its project.
    pub project_id: ProjectId,
    /// Its name inside the objective.
    pub key: String,
    /// Its title.
    pub title: String,
    /// What to do.
    pub description: String,
    /// What sort of work it is.
    #[serde(rename = "type")]
    pub task_type: TaskType,
    /// How urgent it is.
    pub priority: Priority,
    /// The tasks that must complete first.
    pub depends_on: Vec<TaskId>,
    /// What it requires of its agent and its workspace.
    pub requirements: Vec<Requirement>,
    /// The only agent that may run it; null: any.
    pub assigned_agent_id: Option<AgentId>,
    /// Retries after failures.
    pub max_retries: u8,
    /// Seconds that one attempt may take.
    pub timeout_secs: u32,
    /// The files it claims.
    pub paths: Vec<String>,
    /// Where it stands.
    pub status: TaskStatus,
    /// Why it waits; null when it does not.
    pub waiting: Option<Waiting>,
    /// Its tries, the first one first.
    pub attempts: Vec<AttemptView>,
    /// What it returned, once it completed.
    pub result: Option<TaskResult>,
    /// Why it failed, was cancelled or is blocked.
    pub failure: Option<TaskFailure>,
    /// What people decided about it.
    pub decisions: Vec<Decision>,
    /// Where it was moved.
    pub reassignments: Vec<Reassignment>,
    /// Where its last attempt worked.
    pub workspace: Option<Workspace>,
    /// How its changes came into the project's folder.
    pub integration: Option<Integration>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its dependencies had completed.
    pub ready_at: Option<Timestamp>,
    /// When its first attempt started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl TaskView {
    /// Puts together a task with its attempts and why it waits.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(crate) fn of(
        task: Task,
        waiting: Option<Waiting>,
        settings: &Settings,
        detail: Detail,
        tx: &ReadTx<'_>,
    ) -> Result<Self> {
        let mut attempts = Vec::new();
        for attempt in tx.attempts_of(&task.id)? {
            let native =
                tx.session(&attempt.session_id)?.and_then(|session| session.native_session_id);
            attempts.push(AttemptView::of(attempt, native, detail));
        }
        if detail == Detail::Listed {
            // How an earlier attempt was verified matters to nobody who looks over a list.
            let last = attempts.iter().rposition(|attempt| attempt.verification.is_some());
            for (at, attempt) in attempts.iter_mut().enumerate() {
                attempt.verification.take_if(|_| Some(at) != last);
            }
        }
        let cut = |result: TaskResult| match detail {
            Detail::Full => result,
            Detail::Listed => {
                let kept = head_and_tail(&result.text, LISTED_RESULT_BYTES_MAX);
                TaskResult {
                    text: kept.text,
                    truncated: kept.truncated || result.truncated,
                    changed_files: None,
                    ..result
                }
            }
        };
        let spec = task.spec;
        Ok(Self {
            status: task.state.phase.status(),
            workspace: attempts.last().and_then(|last| last.workspace.clone()),
            attempts,
            waiting,
            task_id: task.id,
            objective_id: task.objective_id,
            project_id: task.project_id,
            title: spec.title.unwrap_or_else(|| spec.key.clone()),
            key: spec.key,
            description: spec.description,
            task_type: spec.task_type,
            priority: spec.priority,
            depends_on: task.depends_on,
            requirements: spec.requirements,
            assigned_agent_id: task.pinned,
            max_retries: spec.max_retries.unwrap_or(settings.retry.max_retries),
            timeout_secs: spec.timeout_secs.unwrap_or(TASK_TIMEOUT_SECS),
            paths: spec.paths,
            result: task.result.map(cut),
            failure: task.failure,
            decisions: task.decisions,
            reassignments: task.reassignments,
            integration: task.integration,
            created_at: task.created_at,
            ready_at: task.ready_at,
            started_at: task.started_at,
            ended_at: task.ended_at,
        })
    }
}

//! Tasks, and the one door of their state.

use rusqlite::named_params;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::column::{Json, count, json, json_or_none};
use super::row::Row;
use super::workspace::Integration;
use super::{NewEvent, ReadTx, WriteTx};
use crate::domain::event::EventKind;
use crate::domain::hold::{Hold, HoldEnd};
use crate::domain::plan::TaskSpec;
use crate::domain::task::{Evidence, Phase, TaskInput, TaskState};
use crate::domain::workspace::ChangedFile;
use crate::domain::{Machine as _, Refusal, Step};
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, AttemptId, ObjectiveId, ProjectId, RuntimeId, TaskId};
use crate::time::Timestamp;

/// A task as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The task.
    pub id: TaskId,
    /// Its objective.
    pub objective_id: ObjectiveId,
    /// Its project.
    pub project_id: ProjectId,
    /// Its place in the objective, from 0.
    pub position: u32,
    /// What was asked for.
    pub spec: TaskSpec,
    /// The tasks it depends on.
    pub depends_on: Vec<TaskId>,
    /// The only agent that may run it.
    pub pinned: Option<AgentId>,
    /// Where it stands.
    pub state: TaskState,
    /// What holds it back for a while.
    pub hold: Option<HoldRow>,
    /// What it returned.
    pub result: Option<TaskResult>,
    /// Why it failed, was cancelled or is blocked.
    pub failure: Option<TaskFailure>,
    /// What people decided about it.
    pub decisions: Vec<Decision>,
    /// Where it was moved.
    pub reassignments: Vec<Reassignment>,
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

/// What holds a task back for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldRow {
    /// Why.
    pub hold: Hold,
    /// Until when, unless a pause has stopped its clock.
    pub until: HoldEnd,
    /// The class of the failure.
    pub cause: String,
    /// The runtime whose quota it is.
    pub runtime_id: RuntimeId,
}

impl HoldRow {
    /// What a pause of its objective makes of it.
    #[must_use]
    pub fn paused(self, now: Timestamp) -> Self {
        let stops = self.hold.stops_in_a_pause();
        Self { until: if stops { self.until.paused(now) } else { self.until }, ..self }
    }

    /// What the resume makes of it.
    #[must_use]
    pub fn resumed(self, now: Timestamp) -> Self {
        Self { until: self.until.resumed(now), ..self }
    }
}

/// What a task returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct TaskResult {
    /// The text; head and tail when it was long.
    pub text: String,
    /// Whether something was left out of the text.
    pub truncated: bool,
    /// What speaks for it.
    pub evidence: Evidence,
    /// The files that it changed, at most 1,000; left out in lists and where git could not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_files: Option<Vec<ChangedFile>>,
    /// When.
    pub at: Timestamp,
}

/// Why a task failed, was cancelled or is blocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct TaskFailure {
    /// The class.
    pub cause: String,
    /// What happened, in one sentence.
    pub message: String,
    /// Whether a retry is possible.
    pub retryable: bool,
}

/// What was decided about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum DecisionKind {
    /// Its result was accepted.
    Approved,
    /// Another attempt was asked for.
    Retried,
    /// It was cancelled.
    Cancelled,
    /// Its changes were brought into the project's folder.
    Integrated,
}

/// A decision about a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Decision {
    /// What was decided.
    pub decision: DecisionKind,
    /// The attempt it is about.
    pub execution_id: Option<AttemptId>,
    /// `user` or `automatic`.
    pub by: String,
    /// Why, if that was said.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A move of a task to another agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Reassignment {
    /// Who decided.
    pub by: String,
    /// The agent it was pinned to; null: any.
    pub from_agent_id: Option<AgentId>,
    /// The agent it is pinned to now; null: any.
    pub to_agent_id: Option<AgentId>,
    /// Its last attempt then.
    pub execution_id: Option<AttemptId>,
    /// Why, if that was said.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

const COLUMNS: &str = "task_id, objective_id, project_id, position, spec, depends_on, pinned, state, hold, result, failure, \
                       decisions, reassignments, integration, created_at, ready_at, started_at, ended_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Task> {
    Ok(Task {
        id: row.get("task_id")?,
        objective_id: row.get("objective_id")?,
        project_id: row.get("project_id")?,
        position: count(row, "position")?,
        spec: json(row, "spec")?,
        depends_on: json(row, "depends_on")?,
        pinned: row.get("pinned")?,
        state: json(row, "state")?,
        hold: json_or_none(row, "hold")?,
        result: json_or_none(row, "result")?,
        failure: json_or_none(row, "failure")?,
        decisions: json(row, "decisions")?,
        reassignments: json(row, "reassignments")?,
        integration: json_or_none(row, "integration")?,
        created_at: row.get("created_at")?,
        ready_at: row.get("ready_at")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
    })
}

impl ReadTx<'_> {
    /// One task.
    ///
    /// # Errors
    ///
    /// `task.not_found`.
    pub fn task(&self, id: &TaskId) -> Result<Task> {
        let query = format!("SELECT {COLUMNS} FROM task WHERE task_id = ?1");
        self.row(&query, [id], from_row)?.ok_or_else(|| {
            Error::new(Code::TaskNotFound, format!("there is no task {id}"))
                .with("task_id", id.as_str())
        })
    }

    /// The tasks of an objective in their order.
    pub fn tasks_of(&self, objective: &ObjectiveId) -> Result<Vec<Task>> {
        let query = format!("SELECT {COLUMNS} FROM task WHERE objective_id = ?1 ORDER BY position");
        self.rows(&query, [objective], from_row)
    }

    /// Tasks that have not ended, pinned to an agent.
    pub fn open_tasks_pinned_to(&self, agent: &AgentId) -> Result<Vec<Task>> {
        let query = format!(
            "SELECT {COLUMNS} FROM task WHERE pinned = ?1 AND ended_at IS NULL ORDER BY created_at, position"
        );
        self.rows(&query, [agent], from_row)
    }
}

impl WriteTx<'_> {
    /// Creates a task that waits for its dependencies.
    pub(crate) fn insert_task(&mut self, task: &Task) -> Result<()> {
        self.execute("INSERT INTO task (task_id, objective_id, project_id, position, spec, depends_on, pinned, state, status,
                                   decisions, reassignments, created_at)
                 VALUES (:id, :objective, :project, :position, :spec, :depends_on, :pinned, :state, :status,
                         :decisions, :reassignments, :created)", named_params! {
                ":id": task.id,
                ":objective": task.objective_id,
                ":project": task.project_id,
                ":position": task.position,
                ":spec": Json(&task.spec),
                ":depends_on": Json(&task.depends_on),
                ":pinned": task.pinned,
                ":state": Json(&task.state),
                ":status": task.state.phase.status().as_str(),
                ":decisions": Json(&task.decisions),
                ":reassignments": Json(&task.reassignments),
                ":created": task.created_at,
            })
    }

    /// The one door of a task's state. Returns the task and whether its state changed.
    ///
    /// # Errors
    ///
    /// `task.not_found`, `task.state_conflict`, `attempt.stale`.
    pub(crate) fn step_task(
        &mut self,
        id: &TaskId,
        input: TaskInput,
        edit: impl FnOnce(&mut Task),
    ) -> Result<(Task, bool)> {
        let mut task = self.task(id)?;
        let next = match task.state.step(input) {
            Ok(Step::To(next)) => next,
            Ok(Step::Stay) => return Ok((task, false)),
            Err(refusal) => return Err(conflict(&task, refusal)),
        };
        let (from, now) = (task.state.phase.status(), self.now());
        task.state = next;
        let status = task.state.phase.status();
        match task.state.phase {
            Phase::Ready => task.ready_at = Some(now),
            Phase::Running(_) => {
                task.started_at.get_or_insert(now);
                (task.hold, task.failure) = (None, None);
            }
            _ => {}
        }
        if status.is_ended() {
            task.ended_at = Some(now);
        }
        edit(&mut task);
        self.save_task(&task)?;
        let cause = task.failure.as_ref().map(|failure| failure.cause.as_str());
        let data = json!({ "from": from, "to": status, "cause": cause });
        self.tell_task(EventKind::TaskChanged, &task, data)?;
        Ok((task, true))
    }

    /// Tells something about a task: `data`, and which one it is.
    pub(crate) fn tell_task(
        &mut self,
        kind: EventKind,
        task: &Task,
        mut data: serde_json::Value,
    ) -> Result<()> {
        if let Some(fields) = data.as_object_mut() {
            fields.insert("task_id".to_owned(), json!(task.id));
            fields.insert("objective_id".to_owned(), json!(task.objective_id));
            fields.insert("key".to_owned(), json!(task.spec.key));
        }
        let project_id = Some(task.project_id.clone());
        self.emit(NewEvent { kind, project_id, agent_id: None, data })
    }

    /// Stores everything of a task that may change but its state's meaning: decisions, moves, what holds it.
    pub(crate) fn save_task(&mut self, task: &Task) -> Result<()> {
        self.execute("UPDATE task SET pinned = :pinned, state = :state, status = :status, hold = :hold, result = :result,
                                 failure = :failure, decisions = :decisions, reassignments = :reassignments,
                                 integration = :integration, ready_at = :ready, started_at = :started, ended_at = :ended
                 WHERE task_id = :id", named_params! {
                ":id": task.id,
                ":pinned": task.pinned,
                ":state": Json(&task.state),
                ":status": task.state.phase.status().as_str(),
                ":hold": task.hold.as_ref().map(Json),
                ":result": task.result.as_ref().map(Json),
                ":failure": task.failure.as_ref().map(Json),
                ":decisions": Json(&task.decisions),
                ":reassignments": Json(&task.reassignments),
                ":integration": task.integration.as_ref().map(Json),
                ":ready": task.ready_at,
                ":started": task.started_at,
                ":ended": task.ended_at,
            })
    }
}

impl WriteTx<'_> {
    /// Keeps how a task's changes came into the project's folder.
    pub(crate) fn set_integration(
        &mut self,
        task: &mut Task,
        integration: Integration,
        decision: Decision,
    ) -> Result<()> {
        let data = json!({
            "task_id": task.id, "objective_id": task.objective_id, "key": task.spec.key,
            "commit": integration.commit, "branch": integration.branch,
            "changed_files": integration.changed_files.len(),
            "left_behind": integration.left_behind.len(),
        });
        task.integration = Some(integration);
        task.decisions.push(decision);
        self.save_task(task)?;
        self.emit(NewEvent {
            kind: EventKind::TaskIntegrated,
            project_id: Some(task.project_id.clone()),
            agent_id: None,
            data,
        })
    }
}

fn conflict(task: &Task, refusal: Refusal) -> Error {
    let status = task.state.phase.status().as_str();
    let error = match refusal {
        Refusal::WrongState => Error::new(
            Code::TaskStateConflict,
            format!("task {} is {status}: its state forbids that", task.spec.key),
        ),
        Refusal::Stale => Error::new(
            Code::AttemptStale,
            format!("that attempt of task {} is over", task.spec.key),
        ),
    };
    error.with("task_id", task.id.as_str()).with("status", status)
}

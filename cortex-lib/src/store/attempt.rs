//! Attempts, and the one door of their state.

use std::path::PathBuf;

use rusqlite::named_params;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::column::{Json, count, json, json_or_none};
use super::row::Row;
use super::{NewEvent, ReadTx, WriteTx};
use crate::domain::attempt::{AttemptInput, AttemptState, Cause, EndReason, Outcome};
use crate::domain::event::EventKind;
use crate::domain::usage::Usage;
use crate::domain::verification::CommandReport;
use crate::domain::workspace::ChangedFile;
use crate::domain::{Machine as _, Refusal, Step};
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, AttemptId, ProjectId, RuntimeId, SessionId, TaskId, TurnId};
use crate::time::Timestamp;

/// One try of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The attempt.
    pub id: AttemptId,
    /// What it tries.
    pub task_id: TaskId,
    /// 1 is the first.
    pub number: u32,
    /// Who runs it.
    pub agent_id: AgentId,
    /// On what.
    pub runtime_id: RuntimeId,
    /// In which session.
    pub session_id: SessionId,
    /// As which turn.
    pub turn_id: TurnId,
    /// Where it stands.
    pub state: AttemptState,
    /// The generation of the objective's flow when it started.
    pub generation: u32,
    /// Where it works.
    pub workspace: Workspace,
    /// What it did to the files, as far as git could tell.
    pub files: Files,
    /// What its turn returned.
    pub result: Option<AttemptResult>,
    /// Why it has no result that counts.
    pub failure: Option<AttemptFailure>,
    /// What its turn used.
    pub usage: Usage,
    /// How its result was verified.
    pub verification: Option<VerificationRecord>,
    /// When it was assigned.
    pub started_at: Timestamp,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
}

/// Where an attempt works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Workspace {
    /// The project's own folder, or a worktree.
    pub kind: WorkspaceKind,
    /// Its folder.
    pub path: PathBuf,
    /// The branch of a worktree.
    pub branch: Option<String>,
    /// The commit that a worktree began at.
    pub base_commit: Option<String>,
}

/// What an attempt did to the files of its workspace, as far as git could tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The tree of the project's folder before the turn.
    pub before: Option<String>,
    /// The tree that the turn left: the one that is verified.
    pub tree: Option<String>,
    /// The commit that keeps it, for a worktree.
    pub commit: Option<String>,
    /// What the turn changed.
    pub changed: Option<Vec<ChangedFile>>,
}

/// What sort of folder an attempt works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum WorkspaceKind {
    /// The project's own folder.
    Project,
    /// A git worktree for this attempt alone.
    Worktree,
}

/// What a turn returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct AttemptResult {
    /// The text; head and tail when it was long.
    pub text: String,
    /// Whether something was left out of the text.
    pub truncated: bool,
}

/// Why an attempt has no result that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptFailure {
    /// What happened, in one sentence.
    pub message: String,
    /// When a rate limit ends.
    pub resets_at: Option<Timestamp>,
}

/// How a result was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct VerificationRecord {
    /// How far it came.
    pub status: VerificationStatus,
    /// What ran.
    pub commands: Vec<CommandReport>,
    /// The hash of the git tree that it ran on.
    pub tree: Option<String>,
}

/// How far a verification came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum VerificationStatus {
    /// Commands run.
    Running,
    /// Every command ended well.
    Passed,
    /// A command failed.
    Failed,
    /// A command could not run.
    Unavailable,
    /// It was ended with its task.
    Cancelled,
}

/// An attempt's state by its name alone.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(inline)]
pub enum AttemptStatus {
    /// Its turn runs.
    Running,
    /// Its result is verified.
    Verifying,
    /// It has a result.
    Succeeded,
    /// It has no result that counts.
    Failed,
    /// It was told to end.
    Cancelled,
    /// Its time was over.
    TimedOut,
    /// The core went down while it ran.
    Lost,
}

impl Attempt {
    /// Whether it has a worktree and a session of its own.
    pub fn is_isolated(&self) -> bool {
        self.workspace.kind == WorkspaceKind::Worktree
    }

    /// Its state on the wire. What was told to end says so at once (H-37).
    pub fn status(&self) -> AttemptStatus {
        match self.state {
            AttemptState::Preparing
            | AttemptState::Opening
            | AttemptState::Starting
            | AttemptState::Running => AttemptStatus::Running,
            AttemptState::Gathering | AttemptState::Verifying => AttemptStatus::Verifying,
            AttemptState::Ending(reason)
            | AttemptState::Killing(reason)
            | AttemptState::Halting(reason) => match reason {
                EndReason::TimedOut => AttemptStatus::TimedOut,
                EndReason::Stalled | EndReason::ApprovalTimedOut => AttemptStatus::Failed,
                EndReason::TaskCancelled
                | EndReason::ObjectivePaused
                | EndReason::AgentStopped
                | EndReason::CoreStopping => AttemptStatus::Cancelled,
            },
            AttemptState::Over(Outcome::Succeeded(_)) => AttemptStatus::Succeeded,
            AttemptState::Over(Outcome::Failed(Cause::TimedOut)) => AttemptStatus::TimedOut,
            AttemptState::Over(Outcome::Failed(_)) => AttemptStatus::Failed,
            AttemptState::Over(Outcome::Cancelled(_)) => AttemptStatus::Cancelled,
            AttemptState::Over(Outcome::Lost) => AttemptStatus::Lost,
        }
    }

    /// Why it ended or is ending, on the wire.
    pub fn cause(&self) -> Option<&'static str> {
        match self.state {
            AttemptState::Ending(reason)
            | AttemptState::Killing(reason)
            | AttemptState::Halting(reason) => Some(reason.as_str()),
            AttemptState::Over(Outcome::Failed(cause)) => Some(cause.as_str()),
            AttemptState::Over(Outcome::Cancelled(reason)) => Some(reason.as_str()),
            AttemptState::Over(Outcome::Lost) => Some("recovery.outcome_unknown"),
            AttemptState::Preparing
            | AttemptState::Opening
            | AttemptState::Starting
            | AttemptState::Running
            | AttemptState::Gathering
            | AttemptState::Verifying
            | AttemptState::Over(Outcome::Succeeded(_)) => None,
        }
    }
}

const COLUMNS: &str = "attempt_id, task_id, number, agent_id, runtime_id, session_id, turn_id, state, generation, workspace, files, \
                       result, failure, usage, verification, started_at, ended_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    Ok(Attempt {
        id: row.get("attempt_id")?,
        task_id: row.get("task_id")?,
        number: count(row, "number")?,
        agent_id: row.get("agent_id")?,
        runtime_id: row.get("runtime_id")?,
        session_id: row.get("session_id")?,
        turn_id: row.get("turn_id")?,
        state: json(row, "state")?,
        generation: count(row, "generation")?,
        workspace: json(row, "workspace")?,
        files: json(row, "files")?,
        result: json_or_none(row, "result")?,
        failure: json_or_none(row, "failure")?,
        usage: json(row, "usage")?,
        verification: json_or_none(row, "verification")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
    })
}

impl ReadTx<'_> {
    /// One attempt, if it was ever made.
    pub fn attempt(&self, id: &AttemptId) -> Result<Option<Attempt>> {
        let query = format!("SELECT {COLUMNS} FROM attempt WHERE attempt_id = ?1");
        self.row(&query, [id], from_row)
    }

    /// The attempts of a task in their order.
    pub fn attempts_of(&self, task: &TaskId) -> Result<Vec<Attempt>> {
        let query = format!("SELECT {COLUMNS} FROM attempt WHERE task_id = ?1 ORDER BY number");
        self.rows(&query, [task], from_row)
    }

    /// Attempts that are not over, in the order they were made.
    pub fn live_attempts(&self) -> Result<Vec<Attempt>> {
        let query = format!(
            "SELECT {COLUMNS} FROM attempt WHERE ended_at IS NULL ORDER BY started_at, attempt_id"
        );
        self.rows(&query, [], from_row)
    }
}

impl WriteTx<'_> {
    /// Keeps an attempt before its turn is sent.
    pub(crate) fn insert_attempt(&mut self, attempt: &Attempt, project: &ProjectId) -> Result<()> {
        self.execute("INSERT INTO attempt (attempt_id, task_id, number, agent_id, runtime_id, session_id, turn_id, state, generation,
                                      workspace, files, usage, started_at)
                 VALUES (:id, :task, :number, :agent, :runtime, :session, :turn, :state, :generation, :workspace, :files, :usage, :started)", named_params! {
                ":id": attempt.id,
                ":task": attempt.task_id,
                ":number": attempt.number,
                ":agent": attempt.agent_id,
                ":runtime": attempt.runtime_id,
                ":session": attempt.session_id,
                ":turn": attempt.turn_id,
                ":state": Json(attempt.state),
                ":generation": attempt.generation,
                ":workspace": Json(&attempt.workspace),
                ":files": Json(&attempt.files),
                ":usage": Json(attempt.usage),
                ":started": attempt.started_at,
            })?;
        self.tell_attempt(attempt, project)
    }

    /// The one door of an attempt's state. Returns the attempt and whether its state changed.
    ///
    /// # Errors
    ///
    /// `attempt.stale` when it is over, or its state does not admit the input.
    pub(crate) fn step_attempt(
        &mut self,
        mut attempt: Attempt,
        project: &ProjectId,
        input: AttemptInput,
        edit: impl FnOnce(&mut Attempt),
    ) -> Result<(Attempt, bool)> {
        match attempt.state.step(input) {
            Ok(Step::To(next)) => attempt.state = next,
            Ok(Step::Stay) => return Ok((attempt, false)),
            Err(Refusal::Stale | Refusal::WrongState) => {
                let message = format!("attempt {} does not wait for that any more", attempt.id);
                return Err(Error::new(Code::AttemptStale, message)
                    .with("execution_id", attempt.id.as_str()));
            }
        }
        attempt.ended_at = attempt.state.is_final().then(|| self.now());
        edit(&mut attempt);
        self.execute("UPDATE attempt SET state = :state, workspace = :workspace, files = :files, result = :result,
                                    failure = :failure, usage = :usage, verification = :verification, ended_at = :ended
                 WHERE attempt_id = :id", named_params! {
                ":id": attempt.id,
                ":state": Json(attempt.state),
                ":workspace": Json(&attempt.workspace),
                ":files": Json(&attempt.files),
                ":result": attempt.result.as_ref().map(Json),
                ":failure": attempt.failure.as_ref().map(Json),
                ":usage": Json(attempt.usage),
                ":verification": attempt.verification.as_ref().map(Json),
                ":ended": attempt.ended_at,
            })?;
        if attempt.state.is_final() {
            self.clear_timers_of(attempt.id.as_str())?;
        }
        self.tell_attempt(&attempt, project)?;
        Ok((attempt, true))
    }

    /// Notes the branch that names the commit of an attempt.
    pub(crate) fn set_attempt_branch(&mut self, id: &AttemptId, branch: &str) -> Result<()> {
        let query = "UPDATE attempt SET workspace = json_set(workspace, '$.branch', ?2) WHERE attempt_id = ?1";
        self.execute(query, (id, branch))
    }

    fn tell_attempt(&mut self, attempt: &Attempt, project: &ProjectId) -> Result<()> {
        let data = json!({
            "execution_id": attempt.id, "task_id": attempt.task_id, "number": attempt.number,
            "status": attempt.status(), "cause": attempt.cause(), "ended": attempt.ended_at.is_some(),
        });
        self.emit(NewEvent {
            kind: EventKind::AttemptChanged,
            project_id: Some(project.clone()),
            agent_id: Some(attempt.agent_id.clone()),
            data,
        })
    }
}

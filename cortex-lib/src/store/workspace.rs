//! The worktrees of attempts, and the one door of their state.

use std::path::PathBuf;

use rusqlite::named_params;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::column::{Json, json, json_or_none};
use super::project::text_of;
use super::row::Row;
use super::{ReadTx, WriteTx};
use crate::domain::workspace::{ChangedFile, Squash, WorkspaceInput, WorkspaceState};
use crate::domain::{Machine as _, Step};
use crate::error::{Code, Error, Result};
use crate::ids::{AttemptId, ProjectId, TaskId};
use crate::time::Timestamp;

/// The worktree of one attempt. Its folder, its base and its branch stand with the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceRow {
    /// The attempt that it was made for.
    pub attempt_id: AttemptId,
    /// The task of that attempt.
    pub task_id: TaskId,
    /// The project of that task.
    pub project_id: ProjectId,
    /// The folder of the project that it belongs to.
    pub root: PathBuf,
    /// Where it is: a folder of its own under the data directory.
    pub path: PathBuf,
    /// Where it stands.
    pub state: WorkspaceState,
    /// What a person wants to be done with its commit, while that is being done.
    pub intent: Option<Intent>,
    /// Why the last integration was refused, for whoever asked for it.
    pub refusal: Option<serde_json::Value>,
}

/// An integration that was decided and may not be done yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// What it will do to the project's folder.
    pub squash: Squash,
    /// Who decided.
    pub by: String,
}

/// How the changes of a task came into the project's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Integration {
    /// Who decided.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// The commit that was brought in: the one that was verified or approved.
    pub commit: String,
    /// The branch that names it.
    pub branch: String,
    /// The commit that the task began at.
    pub base_commit: String,
    /// What was staged, at most 1,000 files.
    pub changed_files: Vec<ChangedFile>,
    /// What was changed in the worktree since that commit, at most 1,000 files. It was not brought in: then the worktree stays.
    pub left_behind: Vec<ChangedFile>,
}

const COLUMNS: &str = "attempt_id, task_id, project_id, root, path, state, intent, refusal";

fn from_row(row: &Row<'_>) -> rusqlite::Result<WorkspaceRow> {
    Ok(WorkspaceRow {
        attempt_id: row.get("attempt_id")?,
        task_id: row.get("task_id")?,
        project_id: row.get("project_id")?,
        root: PathBuf::from(row.get::<String>("root")?),
        path: PathBuf::from(row.get::<String>("path")?),
        state: json(row, "state")?,
        intent: json_or_none(row, "intent")?,
        refusal: json_or_none(row, "refusal")?,
    })
}

impl ReadTx<'_> {
    /// The worktree of an attempt, if it has one of its own.
    pub fn workspace(&self, attempt: &AttemptId) -> Result<Option<WorkspaceRow>> {
        let query = format!("SELECT {COLUMNS} FROM workspace WHERE attempt_id = ?1");
        self.row(&query, [attempt], from_row)
    }

    /// The worktrees of a task that are not gone for good, the oldest first.
    pub fn workspaces_of(&self, task: &TaskId) -> Result<Vec<WorkspaceRow>> {
        let query = format!(
            "SELECT {COLUMNS} FROM workspace WHERE task_id = ?1 AND ended_at IS NULL ORDER BY attempt_id"
        );
        self.rows(&query, [task], from_row)
    }

    /// The worktrees of a project that are not gone for good.
    pub fn workspaces_in(&self, project: &ProjectId) -> Result<Vec<WorkspaceRow>> {
        let query = format!(
            "SELECT {COLUMNS} FROM workspace WHERE project_id = ?1 AND ended_at IS NULL ORDER BY attempt_id"
        );
        self.rows(&query, [project], from_row)
    }

    /// The worktrees to which the world owes something, the oldest first.
    pub fn workspaces_owed(&self) -> Result<Vec<WorkspaceRow>> {
        let query = format!("SELECT {COLUMNS} FROM workspace WHERE owed = 1 ORDER BY attempt_id");
        self.rows(&query, [], from_row)
    }
}

impl WriteTx<'_> {
    /// Keeps a worktree before it is made.
    pub(crate) fn insert_workspace(&mut self, workspace: &WorkspaceRow) -> Result<()> {
        self.execute(
            "INSERT INTO workspace (attempt_id, task_id, project_id, root, path, state, owed)
                 VALUES (:attempt, :task, :project, :root, :path, :state, :owed)",
            named_params! {
                ":attempt": workspace.attempt_id,
                ":task": workspace.task_id,
                ":project": workspace.project_id,
                ":root": text_of(&workspace.root)?,
                ":path": text_of(&workspace.path)?,
                ":state": Json(workspace.state),
                ":owed": workspace.state.owes().is_some(),
            },
        )
    }

    /// The one door of a worktree's state. Returns the worktree and whether its state changed.
    ///
    /// # Errors
    ///
    /// `task.state_conflict` when its state does not admit the input.
    pub(crate) fn step_workspace(
        &mut self,
        mut workspace: WorkspaceRow,
        input: WorkspaceInput,
        edit: impl FnOnce(&mut WorkspaceRow),
    ) -> Result<(WorkspaceRow, bool)> {
        match workspace.state.step(input) {
            Ok(Step::To(next)) => workspace.state = next,
            Ok(Step::Stay) => return Ok((workspace, false)),
            Err(_) => {
                let message = format!(
                    "the worktree of attempt {} does not wait for that",
                    workspace.attempt_id
                );
                return Err(Error::new(Code::TaskStateConflict, message)
                    .with("task_id", workspace.task_id.as_str())
                    .with("execution_id", workspace.attempt_id.as_str()));
            }
        }
        edit(&mut workspace);
        let ended = workspace.state.is_final().then(|| self.now());
        self.execute(
            "UPDATE workspace SET state = :state, owed = :owed, intent = :intent, refusal = :refusal,
                                  ended_at = :ended
                 WHERE attempt_id = :attempt",
            named_params! {
                ":attempt": workspace.attempt_id,
                ":state": Json(workspace.state),
                ":owed": workspace.state.owes().is_some(),
                ":intent": workspace.intent.as_ref().map(Json),
                ":refusal": workspace.refusal.as_ref().map(Json),
                ":ended": ended,
            },
        )?;
        Ok((workspace, true))
    }

    /// Notes why an integration that is still owed does not come to its end, for whoever waits for it.
    pub(crate) fn set_refusal(&mut self, attempt: &AttemptId, refusal: &Error) -> Result<()> {
        let query = "UPDATE workspace SET refusal = ?2 WHERE attempt_id = ?1";
        self.execute(query, (attempt, Json(refusal.to_wire())))
    }
}

//! Git as the core needs it: worktrees that belong to Cortex, and what they bring to a project's folder.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use crate::domain::workspace::{Change, ChangedFile, Kept, Squash};
use crate::error::Result;
use crate::ids::{AttemptId, TaskId};

/// A worktree of Cortex: one for each isolated attempt, known by a marker that is written when it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// The folder of the project that it belongs to.
    pub root: PathBuf,
    /// Where it is: a folder of its own under the data directory.
    pub path: PathBuf,
    /// The attempt that it was made for.
    pub attempt_id: AttemptId,
    /// The task of that attempt.
    pub task_id: TaskId,
}

/// Git, for the core. Every method may be dropped half way and called again.
///
/// Implementations never run hooks, filters, drivers or monitors that the repository configures, never ask
/// for a password, and take no optional lock where they only look.
#[async_trait]
pub trait Git: Debug + Send + Sync + 'static {
    /// The commit that HEAD of a project's folder names.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`: no git, no repository, or no commit yet.
    async fn head(&self, root: &Path) -> Result<String>;

    /// Makes a worktree, detached at HEAD of the project, with its marker, and returns the commit it stands on. One that
    /// was half made or half deleted is made anew; one that stands is left as it is.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`; `workspace.unowned` when something else is at its path.
    async fn add(&self, worktree: &Worktree) -> Result<String>;

    /// The folder inside a worktree that stands for the project's: another than its root when the project is a folder of
    /// a larger repository. It is there once the worktree was made.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`.
    async fn folder(&self, worktree: &Worktree) -> Result<PathBuf>;

    /// The hash of the tree of everything in a folder that git does not ignore. Nothing in the folder or in its
    /// `.git` changes: `objects` is a folder of the caller's that takes the objects.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`.
    async fn snapshot(&self, folder: &Path, objects: &Path) -> Result<String>;

    /// What differs between two snapshots of a folder that were taken into `objects`.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`.
    async fn changes(
        &self,
        folder: &Path,
        objects: &Path,
        from: &str,
        to: &str,
    ) -> Result<Vec<ChangedFile>>;

    /// Commits what a worktree holds, untracked files too and ignored ones not, as a child of `base`, and points
    /// `reference` at it, whatever that pointed at. The worktree's own HEAD and index stay.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`; `workspace.unowned` when the worktree is not proved to be the attempt's.
    async fn keep(&self, worktree: &Worktree, base: &str, reference: &str) -> Result<Kept>;

    /// Points `reference` of the project's repository at a commit.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`.
    async fn point(&self, root: &Path, reference: &str, commit: &str) -> Result<()>;

    /// The files of a worktree that differ from a commit.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`; `workspace.unowned`.
    async fn left_behind(&self, worktree: &Worktree, commit: &str) -> Result<Vec<ChangedFile>>;

    /// Finds out what squashing `commit`, made on `base`, onto the folder's HEAD would do.
    ///
    /// # Errors
    ///
    /// `workspace.index_not_clean`: something is staged or unmerged. `workspace.conflict`: it conflicts with HEAD, the paths
    /// named. `workspace.local_changes`: it would overwrite what is not committed, the paths named. `workspace.unavailable`.
    async fn plan_squash(&self, root: &Path, base: &str, commit: &str) -> Result<Squash>;

    /// Does it: index and folder take the changes. One that was done, wholly or in part, by a call that was
    /// cut off is completed and not done twice.
    ///
    /// # Errors
    ///
    /// `workspace.index_not_clean`, `workspace.local_changes`: the folder changed since the plan; nothing is changed.
    async fn squash(&self, root: &Path, squash: &Squash) -> Result<()>;

    /// Removes a worktree that is proved to be the attempt's, with git's record of it. One that is gone is fine.
    ///
    /// # Errors
    ///
    /// `workspace.unowned`: something else is there, and stays. `workspace.unavailable`.
    async fn remove(&self, worktree: &Worktree) -> Result<()>;
}

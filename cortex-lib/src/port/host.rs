//! What the core asks of the machine it runs on, besides running agents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{Git, Verifier};
use crate::error::Result;
use crate::ids::{AttemptId, SessionId};

/// The machine. The core has one that is real; a simulation brings its own.
#[async_trait]
pub trait Host: Verifier {
    /// Ends the processes of an earlier life that carry one of these markers. Returns how many there were.
    async fn sweep(&self, markers: Vec<String>) -> usize;

    /// Whether a folder is there.
    fn is_folder(&self, path: &Path) -> bool;

    /// Makes an empty folder for a session, for this user only.
    ///
    /// # Errors
    ///
    /// `core.data_dir_unusable`.
    fn make_scratch(&self, session: &SessionId) -> Result<PathBuf>;

    /// Removes the folder of a session. What is not there is not missed.
    fn remove_scratch(&self, session: &SessionId);

    /// Git.
    fn git(&self) -> &dyn Git;

    /// The folder in which worktrees are made, one for each isolated attempt.
    fn worktrees(&self) -> PathBuf;

    /// The folder that takes the objects of looks at a project's files for an attempt, so that nothing is written to
    /// the project.
    fn objects(&self, attempt: &AttemptId) -> PathBuf;

    /// Removes the objects of all attempts but these.
    fn keep_objects_of(&self, live: &BTreeSet<AttemptId>);
}

//! What the core asks of the machine it runs on, besides running agents.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::Verifier;
use crate::error::Result;
use crate::ids::SessionId;

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
}

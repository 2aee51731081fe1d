//! The machine that Cortex runs on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::git::GitProgram;
use super::verify::ProcessVerifier;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::ids::{AttemptId, SessionId};
use crate::port::{Git, Host, VerificationOutcome, VerificationRequest, Verifier};
use crate::process;
use crate::store::{DataDir, disk_code};

/// The real machine: processes and folders.
#[derive(Debug)]
pub(crate) struct SystemHost {
    verifier: ProcessVerifier,
    /// Only the path: the folder is held by whoever writes the store, and given back when that is closed.
    scratch: PathBuf,
    worktrees: PathBuf,
    objects: PathBuf,
    git: GitProgram,
}

impl SystemHost {
    pub(crate) fn new(env: Arc<dyn Env>, dir: &DataDir) -> Self {
        Self {
            verifier: ProcessVerifier::new(env),
            scratch: dir.scratch_dir(),
            worktrees: dir.worktrees_dir(),
            objects: dir.objects_dir(),
            git: GitProgram::new(dir.scratch_dir().join("git")),
        }
    }

    fn scratch(&self, session: &SessionId) -> PathBuf {
        self.scratch.join(session.as_str())
    }
}

#[async_trait]
impl Verifier for SystemHost {
    async fn verify(&self, request: VerificationRequest) -> VerificationOutcome {
        self.verifier.verify(request).await
    }
}

#[async_trait]
impl Host for SystemHost {
    async fn sweep(&self, markers: Vec<String>) -> usize {
        process::sweep(markers).await
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn make_scratch(&self, session: &SessionId) -> Result<PathBuf> {
        let path = self.scratch(session);
        // The folder it is made in is private already, so nobody else can look into it.
        match fs_err::create_dir_all(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(Error::new(
                disk_code(&error),
                format!("no folder for a session can be made: {error}"),
            )),
        }
    }

    fn remove_scratch(&self, session: &SessionId) {
        if let Err(error) = fs_err::remove_dir_all(self.scratch(session))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%session, "a session's folder stays: {error}");
        }
    }

    fn git(&self) -> &dyn Git {
        &self.git
    }

    fn worktrees(&self) -> PathBuf {
        self.worktrees.clone()
    }

    fn objects(&self, attempt: &AttemptId) -> PathBuf {
        self.objects.join(attempt.as_str())
    }

    fn keep_objects_of(&self, live: &BTreeSet<AttemptId>) {
        let Ok(entries) = fs_err::read_dir(&self.objects) else { return };
        for entry in entries.filter_map(std::result::Result::ok) {
            let name = AttemptId::new(entry.file_name().to_string_lossy());
            if live.contains(&name) {
                continue;
            }
            if let Err(error) = fs_err::remove_dir_all(entry.path()) {
                tracing::warn!(attempt = %name, "the objects of a look at its files stay: {error}");
            }
        }
    }
}

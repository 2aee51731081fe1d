//! Git by the `git` program.
//!
//! Two kinds of calls are made. Where the repository itself is asked or changed (where is it, what is HEAD, a
//! new worktree, a reference), its own configuration is read, with everything switched off by which it could
//! start a program ([`run`]). Where contents are read or written, git works through a [`View`](view::View): a
//! git directory of our own over the repository's objects, whose configuration names no filter, driver, hook
//! or monitor. So a new way of git to configure a program is shut out too, without our knowing of it.

mod apply;
mod changes;
mod disk;
mod refs;
mod repository;
mod run;
mod snapshot;
mod squash;
mod view;
mod worktree;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Semaphore, SemaphorePermit};

use self::repository::Repository;
use self::run::{Call, Version};
use self::view::{Objects, Scratch, View};
use crate::error::{Code, Error, Result};
use crate::port::{ChangedFile, Git, Kept, Squash, Worktree};

/// The `git` program of this machine, 2.38 or newer.
#[derive(Debug)]
pub struct GitProgram {
    scratch: Scratch,
    program: PathBuf,
    /// Known once it was good: a better git may be installed while the core runs.
    version: OnceLock<Version>,
    /// One for each repository, by its common directory: git's own worktree and reference commands fail when
    /// they meet. Held only to look one up; there are as many as there are projects.
    gates: Mutex<BTreeMap<PathBuf, Arc<Semaphore>>>,
}

impl GitProgram {
    /// Keeps its own short-lived files in `scratch`, a folder that nobody else uses. What an earlier life left
    /// there is removed at the first call.
    pub fn new(scratch: impl Into<PathBuf>) -> Self {
        Self::with_program(scratch, "git")
    }

    /// Runs another program than the `git` of the `PATH`.
    fn with_program(scratch: impl Into<PathBuf>, program: impl Into<PathBuf>) -> Self {
        Self {
            scratch: Scratch::new(scratch.into()),
            program: program.into(),
            version: OnceLock::new(),
            gates: Mutex::default(),
        }
    }

    /// The repository around `folder`. What runs for it carries `marker`.
    async fn open(&self, folder: &Path, marker: &str) -> Result<Repository> {
        if self.version.get().is_none() {
            let version = run::version(Call::new(&self.program, folder, marker)).await?;
            self.version.get_or_init(|| version);
        }
        Repository::open(&self.program, folder, marker).await
    }

    /// The repository of the project that a worktree belongs to.
    async fn open_for(&self, worktree: &Worktree) -> Result<Repository> {
        self.open(&worktree.root, worktree.attempt_id.as_str()).await
    }

    /// Waits until nobody else of this process changes the repository.
    fn gate(&self, repository: &Repository) -> Gate {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = gates.entry(repository.common_dir.clone()).or_insert_with(one);
        Gate(Arc::clone(gate))
    }

    /// A view of a folder whose new objects go to `objects`.
    fn view<'a>(
        &self,
        repository: &'a Repository,
        folder: &Path,
        objects: Objects,
    ) -> Result<View<'a>> {
        View::new(repository, self.scratch.folder()?, folder, objects)
    }
}

/// The right to change a repository, taken by [`Gate::enter`].
struct Gate(Arc<Semaphore>);

impl Gate {
    async fn enter(&self) -> Result<SemaphorePermit<'_>> {
        self.0
            .acquire()
            .await
            .map_err(|_| Error::new(Code::Defect, "the gate of a repository was closed"))
    }
}

fn one() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(1))
}

/// The marker of programs that run for no attempt.
const MARKER: &str = "cortex-git";

#[async_trait]
impl Git for GitProgram {
    async fn head(&self, root: &Path) -> Result<String> {
        self.open(root, MARKER).await?.head().await
    }

    async fn add(&self, worktree: &Worktree) -> Result<String> {
        let repository = self.open_for(worktree).await?;
        let gate = self.gate(&repository);
        let _entered = gate.enter().await?;
        worktree::add(self, &repository, worktree).await
    }

    async fn folder(&self, worktree: &Worktree) -> Result<PathBuf> {
        let repository = self.open_for(worktree).await?;
        Ok(worktree.path.join(&repository.prefix))
    }

    async fn snapshot(&self, folder: &Path, objects: &Path) -> Result<String> {
        let repository = self.open(folder, MARKER).await?;
        let view = self.view(&repository, &repository.top, Objects::Private(objects.into()))?;
        view.copy_index(&repository.git_dir)?;
        snapshot::tree(&view, Some(&repository.prefix)).await
    }

    async fn changes(
        &self,
        folder: &Path,
        objects: &Path,
        from: &str,
        to: &str,
    ) -> Result<Vec<ChangedFile>> {
        let repository = self.open(folder, MARKER).await?;
        let view = self.view(&repository, &repository.top, Objects::Private(objects.into()))?;
        changes::between(&view, from, to).await
    }

    async fn keep(&self, worktree: &Worktree, base: &str, reference: &str) -> Result<Kept> {
        let repository = self.open_for(worktree).await?;
        let admin = worktree::proved(&repository, worktree)?;
        let gate = self.gate(&repository);
        let _entered = gate.enter().await?;
        let view = self.view(&repository, &worktree.path, Objects::Shared)?;
        view.copy_index_or_read(&admin, base).await?;
        let tree = snapshot::tree(&view, None).await?;
        let commit = snapshot::commit(&view, worktree, base, &tree).await?;
        let changed_files = changes::between(&view, base, &tree).await?;
        refs::point(&repository, reference, &commit).await?;
        Ok(Kept { commit, tree, changed_files })
    }

    async fn point(&self, root: &Path, reference: &str, commit: &str) -> Result<()> {
        let repository = self.open(root, MARKER).await?;
        let gate = self.gate(&repository);
        let _entered = gate.enter().await?;
        refs::point(&repository, reference, commit).await
    }

    async fn left_behind(&self, worktree: &Worktree, commit: &str) -> Result<Vec<ChangedFile>> {
        let repository = self.open_for(worktree).await?;
        let admin = worktree::proved(&repository, worktree)?;
        let view = self.view(&repository, &worktree.path, Objects::Temporary)?;
        view.copy_index_or_read(&admin, commit).await?;
        let tree = snapshot::tree(&view, None).await?;
        changes::between(&view, commit, &tree).await
    }

    async fn plan_squash(&self, root: &Path, base: &str, commit: &str) -> Result<Squash> {
        let repository = self.open(root, MARKER).await?;
        let gate = self.gate(&repository);
        let _entered = gate.enter().await?;
        squash::plan(self, &repository, base, commit).await
    }

    async fn squash(&self, root: &Path, squash: &Squash) -> Result<()> {
        let repository = self.open(root, MARKER).await?;
        let gate = self.gate(&repository);
        let _entered = gate.enter().await?;
        squash::run(self, &repository, squash).await
    }

    async fn remove(&self, worktree: &Worktree) -> Result<()> {
        let repository = self.open_for(worktree).await?;
        let gate = self.gate(&repository);
        let _entered = gate.enter().await?;
        worktree::remove(&repository, worktree).await
    }
}

/// A failure of the file system at something that the message names.
fn io(what: &str, error: &std::io::Error) -> Error {
    Error::new(Code::WorkspaceUnavailable, format!("{what}: {error}"))
}

/// A refusal that names some of the paths and all of them to programs.
fn refusal(code: Code, what: &str, paths: &[String]) -> Error {
    use crate::limits::PATHS_NAMED_MAX;
    let mut named = paths.iter().take(PATHS_NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if paths.len() > PATHS_NAMED_MAX {
        named = format!("{named} and {} more", paths.len() - PATHS_NAMED_MAX);
    }
    let listed: Vec<_> = paths.iter().take(crate::limits::PATHS_LISTED_MAX).cloned().collect();
    Error::new(code, format!("{what}: {named}")).with("paths", listed).with("count", paths.len())
}

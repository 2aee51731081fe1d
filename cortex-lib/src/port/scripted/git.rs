//! Git that follows a script, and what a test does in its repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::repository::Repositories;
use super::world::{Asked, ScriptedWorld};
use crate::error::{Error, Result};
use crate::port::{ChangedFile, Git, Kept, Squash, Worktree};

/// What becomes of every call of one method of git.
#[derive(Clone, Debug, Default)]
pub enum GitFate {
    /// It does what it is for.
    #[default]
    Go,
    /// It fails like this and changes nothing.
    Fail(Error),
    /// It does not come to its end and has done nothing.
    HangBefore,
    /// It does what it is for and does not come to its end.
    HangAfter,
}

/// Git in a scripted world: repositories live in memory and outlive cores.
#[derive(Clone, Debug)]
pub(super) struct ScriptedGit {
    world: ScriptedWorld,
}

impl ScriptedGit {
    pub(super) fn new(world: &ScriptedWorld) -> Self {
        Self { world: world.clone() }
    }

    async fn run<T>(
        &self,
        method: &'static str,
        place: &Path,
        work: impl FnOnce(&mut Repositories) -> Result<T> + Send,
    ) -> Result<T> {
        self.world.note(Asked::Git(method, place.to_owned()));
        match self.world.git_fate_of(method) {
            GitFate::Go => self.world.with_git(work),
            GitFate::Fail(error) => Err(error),
            GitFate::HangBefore => std::future::pending().await,
            GitFate::HangAfter => {
                drop(self.world.with_git(work));
                std::future::pending().await
            }
        }
    }
}

/// Files by path.
fn tree<const N: usize>(files: [(&str, &str); N]) -> BTreeMap<String, String> {
    files.map(|(path, content)| (path.to_owned(), content.to_owned())).into()
}

impl ScriptedWorld {
    /// Makes a git repository of a folder, with one commit of these files; without files, with no commit.
    pub fn make_repository<const N: usize>(
        &self,
        root: impl Into<PathBuf>,
        files: [(&str, &str); N],
    ) {
        self.with_git(|git| git.init(root.into(), tree(files)));
    }

    /// Writes a file in a repository's folder or in a worktree.
    pub fn write_file(&self, path: impl AsRef<Path>, content: &str) {
        self.with_git(|git| git.write(path.as_ref(), Some(&content.to_owned())));
    }

    /// Removes a file from a repository's folder or a worktree.
    pub fn remove_file(&self, path: impl AsRef<Path>) {
        self.with_git(|git| git.write(path.as_ref(), None));
    }

    /// What a repository's folder or a worktree holds.
    pub fn files(&self, folder: impl AsRef<Path>) -> BTreeMap<String, String> {
        self.with_git(|git| git.files(folder.as_ref()))
    }

    /// What is staged in a repository.
    pub fn staged(&self, root: impl AsRef<Path>) -> Vec<ChangedFile> {
        self.with_git(|git| git.staged(root.as_ref()))
    }

    /// A person stages all that is in the folder.
    pub fn stage_all(&self, root: impl AsRef<Path>) {
        self.with_git(|git| git.stage(root.as_ref()));
    }

    /// A person commits what is staged.
    pub fn commit_staged(&self, root: impl AsRef<Path>) {
        self.with_git(|git| git.commit(root.as_ref()));
    }

    /// The commit that a reference names, with its files.
    pub fn reference(
        &self,
        root: impl AsRef<Path>,
        name: &str,
    ) -> Option<(String, BTreeMap<String, String>)> {
        self.with_git(|git| git.reference(root.as_ref(), name))
    }

    /// The worktrees that stand.
    pub fn worktrees(&self) -> BTreeSet<PathBuf> {
        self.with_git(|git| git.worktrees())
    }

    /// A worktree loses what proves that it is Cortex's.
    pub fn disown_worktree(&self, path: impl AsRef<Path>) {
        self.with_git(|git| git.disown(path.as_ref()));
    }

    /// A person removes a worktree.
    pub fn take_worktree(&self, path: impl AsRef<Path>) {
        self.with_git(|git| git.take_away(path.as_ref()));
        self.remove_folder(path.as_ref());
    }
}

#[async_trait]
impl Git for ScriptedGit {
    async fn head(&self, root: &Path) -> Result<String> {
        self.run("head", root, |git| git.head(root)).await
    }

    async fn add(&self, worktree: &Worktree) -> Result<String> {
        self.run("add", &worktree.path, |git| git.add(worktree)).await
    }

    async fn folder(&self, worktree: &Worktree) -> Result<PathBuf> {
        Ok(worktree.path.clone())
    }

    async fn snapshot(&self, folder: &Path, _objects: &Path) -> Result<String> {
        self.run("snapshot", folder, |git| git.snapshot(folder)).await
    }

    async fn changes(
        &self,
        folder: &Path,
        _objects: &Path,
        from: &str,
        to: &str,
    ) -> Result<Vec<ChangedFile>> {
        self.run("changes", folder, |git| git.changes(folder, from, to)).await
    }

    async fn keep(&self, worktree: &Worktree, base: &str, reference: &str) -> Result<Kept> {
        self.run("keep", &worktree.path, |git| git.keep(worktree, base, reference)).await
    }

    async fn point(&self, root: &Path, reference: &str, commit: &str) -> Result<()> {
        self.run("point", root, |git| git.point(root, reference, commit)).await
    }

    async fn left_behind(&self, worktree: &Worktree, commit: &str) -> Result<Vec<ChangedFile>> {
        self.run("left_behind", &worktree.path, |git| git.left_behind(worktree, commit)).await
    }

    async fn plan_squash(&self, root: &Path, base: &str, commit: &str) -> Result<Squash> {
        self.run("plan_squash", root, |git| git.plan_squash(root, base, commit)).await
    }

    async fn squash(&self, root: &Path, squash: &Squash) -> Result<()> {
        self.run("squash", root, |git| git.squash(root, squash)).await
    }

    async fn remove(&self, worktree: &Worktree) -> Result<()> {
        self.run("remove", &worktree.path, |git| git.remove(worktree)).await
    }
}

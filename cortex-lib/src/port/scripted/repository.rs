//! What git is to a simulation: repositories, folders and worktrees in memory, by their rules alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::{Code, Error, Result};
use crate::port::{Change, ChangedFile, Kept, Squash, Worktree};

/// What a folder holds: contents by path.
pub(super) type Tree = BTreeMap<String, String>;

/// All repositories and worktrees of a world.
#[derive(Debug, Default)]
pub(super) struct Repositories {
    by_root: BTreeMap<PathBuf, Repository>,
    worktrees: BTreeMap<PathBuf, Standing>,
}

#[derive(Debug, Default)]
struct Repository {
    trees: BTreeMap<String, Tree>,
    /// The tree of each commit.
    commits: BTreeMap<String, String>,
    references: BTreeMap<String, String>,
    head: Option<String>,
    index: Tree,
    folder: Tree,
}

/// A worktree that stands.
#[derive(Debug)]
struct Standing {
    worktree: Worktree,
    base: String,
    owned: bool,
    files: Tree,
}

/// Fowler, Noll and Vo's hash, 1a: names must be the same in every run.
fn hash(parts: impl IntoIterator<Item = String>) -> String {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{state:016x}")
}

fn differences(from: &Tree, to: &Tree) -> Vec<ChangedFile> {
    let paths: BTreeSet<_> = from.keys().chain(to.keys()).collect();
    let changed = paths.into_iter().filter_map(|path| {
        let change = match (from.get(path), to.get(path)) {
            (None, Some(_)) => Change::Added,
            (Some(_), None) => Change::Deleted,
            (Some(before), Some(after)) if before != after => Change::Modified,
            (_, _) => return None,
        };
        Some(ChangedFile { path: path.clone(), change, from: None })
    });
    changed.collect()
}

fn refuse(code: Code, why: &str, paths: Vec<String>) -> Error {
    Error::new(code, format!("{why}: {}", paths.join(", "))).with("paths", paths)
}

fn set(tree: &mut Tree, path: &str, content: Option<&String>) {
    match content {
        Some(content) => drop(tree.insert(path.to_owned(), content.clone())),
        None => drop(tree.remove(path)),
    }
}

impl Repository {
    fn keep_tree(&mut self, tree: &Tree) -> String {
        let parts = tree.iter().flat_map(|(path, content)| [path.clone(), content.clone()]);
        let id = format!("tree-{}", hash(parts));
        self.trees.insert(id.clone(), tree.clone());
        id
    }

    fn commit(&mut self, parent: Option<&str>, tree: &Tree) -> (String, String) {
        let tree = self.keep_tree(tree);
        let id = format!("commit-{}", hash([parent.unwrap_or("").to_owned(), tree.clone()]));
        self.commits.insert(id.clone(), tree.clone());
        (id, tree)
    }

    fn tree(&self, id: &str) -> Result<Tree> {
        self.trees.get(id).cloned().ok_or_else(|| unavailable(&format!("there is no tree {id}")))
    }

    fn tree_of(&self, commit: &str) -> Result<Tree> {
        let tree = self.commits.get(commit);
        self.tree(tree.ok_or_else(|| unavailable(&format!("there is no commit {commit}")))?)
    }

    fn head(&self) -> Result<(String, Tree)> {
        let head = self.head.clone().ok_or_else(|| unavailable("there is no commit yet"))?;
        let tree = self.tree_of(&head)?;
        Ok((head, tree))
    }

    fn check_clean(&self, head: &Tree) -> Result<()> {
        let staged = differences(head, &self.index);
        if staged.is_empty() {
            return Ok(());
        }
        let paths = staged.into_iter().map(|file| file.path).collect();
        Err(refuse(Code::WorkspaceIndexNotClean, "these paths are staged", paths))
    }

    fn check_local(&self, head: &Tree, changed: &[ChangedFile]) -> Result<()> {
        let paths = changed.iter().map(|file| &file.path);
        let local: Vec<_> =
            paths.filter(|path| self.folder.get(*path) != head.get(*path)).cloned().collect();
        if local.is_empty() {
            return Ok(());
        }
        Err(refuse(Code::WorkspaceLocalChanges, "these paths are not committed", local))
    }
}

fn unavailable(why: &str) -> Error {
    Error::new(Code::WorkspaceUnavailable, why)
}

impl Repositories {
    /// Makes a repository with one commit, or without any when there are no files.
    pub(super) fn init(&mut self, root: PathBuf, files: Tree) {
        let mut repository = Repository::default();
        if !files.is_empty() {
            let (head, _) = repository.commit(None, &files);
            repository.head = Some(head);
        }
        (repository.index, repository.folder) = (files.clone(), files);
        self.by_root.insert(root, repository);
    }

    fn at(&mut self, root: &Path) -> Result<&mut Repository> {
        let name = root.display();
        let missing = unavailable(&format!("{name} is no git repository"));
        self.by_root.get_mut(root).ok_or(missing)
    }

    fn proved(&mut self, worktree: &Worktree) -> Result<&mut Standing> {
        let path = worktree.path.display();
        let not = Error::new(
            Code::WorkspaceUnowned,
            format!("{path} is not proved to be the worktree of attempt {}", worktree.attempt_id),
        );
        match self.worktrees.get_mut(&worktree.path) {
            Some(standing) if standing.owned && standing.worktree == *worktree => Ok(standing),
            Some(_) | None => Err(not),
        }
    }

    /// The folder that a path is in, and the rest of the path.
    fn folder_of(&mut self, path: &Path) -> Option<(&mut Tree, String)> {
        let worktrees = self.worktrees.iter_mut().map(|(at, one)| (at, &mut one.files));
        let roots = self.by_root.iter_mut().map(|(at, one)| (at, &mut one.folder));
        let holds = worktrees.chain(roots).filter(|(at, _)| path.starts_with(at));
        let (at, tree) = holds.max_by_key(|(at, _)| at.as_os_str().len())?;
        let rest = path.strip_prefix(at).ok()?;
        Some((tree, rest.to_string_lossy().into_owned()))
    }

    /// Writes or removes a file of a folder or a worktree. Elsewhere nothing is kept.
    pub(super) fn write(&mut self, path: &Path, content: Option<&String>) {
        if let Some((tree, rest)) = self.folder_of(path) {
            set(tree, &rest, content);
        }
    }

    /// What a folder or a worktree holds.
    pub(super) fn files(&self, folder: &Path) -> Tree {
        let worktree = self.worktrees.get(folder).map(|standing| &standing.files);
        let root = self.by_root.get(folder).map(|repository| &repository.folder);
        worktree.or(root).cloned().unwrap_or_default()
    }

    /// What is staged.
    pub(super) fn staged(&self, root: &Path) -> Vec<ChangedFile> {
        let Some(repository) = self.by_root.get(root) else { return Vec::new() };
        let head = repository.head().map(|(_, tree)| tree).unwrap_or_default();
        differences(&head, &repository.index)
    }

    /// A person stages all that is in the folder.
    pub(super) fn stage(&mut self, root: &Path) {
        if let Some(repository) = self.by_root.get_mut(root) {
            repository.index = repository.folder.clone();
        }
    }

    /// A person commits what is staged.
    pub(super) fn commit(&mut self, root: &Path) {
        if let Some(repository) = self.by_root.get_mut(root) {
            let (head, index) = (repository.head.clone(), repository.index.clone());
            repository.head = Some(repository.commit(head.as_deref(), &index).0);
        }
    }

    /// The commit that a reference names, with its files.
    pub(super) fn reference(&self, root: &Path, name: &str) -> Option<(String, Tree)> {
        let repository = self.by_root.get(root)?;
        let commit = repository.references.get(name)?;
        Some((commit.clone(), repository.tree_of(commit).ok()?))
    }

    pub(super) fn worktrees(&self) -> BTreeSet<PathBuf> {
        self.worktrees.keys().cloned().collect()
    }

    /// The marker of a worktree is lost: it could be anybody's.
    pub(super) fn disown(&mut self, path: &Path) {
        if let Some(standing) = self.worktrees.get_mut(path) {
            standing.owned = false;
        }
    }

    /// A person removes a worktree.
    pub(super) fn take_away(&mut self, path: &Path) {
        self.worktrees.remove(path);
    }

    pub(super) fn head(&mut self, root: &Path) -> Result<String> {
        Ok(self.at(root)?.head()?.0)
    }

    pub(super) fn add(&mut self, worktree: &Worktree) -> Result<String> {
        let (head, files) = self.at(&worktree.root)?.head()?;
        if self.worktrees.contains_key(&worktree.path) {
            return Ok(self.proved(worktree)?.base.clone());
        }
        let standing =
            Standing { worktree: worktree.clone(), base: head.clone(), owned: true, files };
        self.worktrees.insert(worktree.path.clone(), standing);
        Ok(head)
    }

    pub(super) fn snapshot(&mut self, root: &Path) -> Result<String> {
        let repository = self.at(root)?;
        let folder = repository.folder.clone();
        Ok(repository.keep_tree(&folder))
    }

    pub(super) fn changes(
        &mut self,
        root: &Path,
        from: &str,
        to: &str,
    ) -> Result<Vec<ChangedFile>> {
        let repository = self.at(root)?;
        Ok(differences(&repository.tree(from)?, &repository.tree(to)?))
    }

    pub(super) fn keep(
        &mut self,
        worktree: &Worktree,
        base: &str,
        reference: &str,
    ) -> Result<Kept> {
        let files = self.proved(worktree)?.files.clone();
        let repository = self.at(&worktree.root)?;
        let changed_files = differences(&repository.tree_of(base)?, &files);
        let (commit, tree) = repository.commit(Some(base), &files);
        repository.references.insert(reference.to_owned(), commit.clone());
        Ok(Kept { commit, tree, changed_files })
    }

    pub(super) fn point(&mut self, root: &Path, reference: &str, commit: &str) -> Result<()> {
        let repository = self.at(root)?;
        repository.tree_of(commit)?;
        repository.references.insert(reference.to_owned(), commit.to_owned());
        Ok(())
    }

    pub(super) fn left_behind(
        &mut self,
        worktree: &Worktree,
        commit: &str,
    ) -> Result<Vec<ChangedFile>> {
        let files = self.proved(worktree)?.files.clone();
        Ok(differences(&self.at(&worktree.root)?.tree_of(commit)?, &files))
    }

    pub(super) fn plan_squash(&mut self, root: &Path, base: &str, commit: &str) -> Result<Squash> {
        let repository = self.at(root)?;
        let (head, ours) = repository.head()?;
        repository.check_clean(&ours)?;
        let (base, theirs) = (repository.tree_of(base)?, repository.tree_of(commit)?);
        let (mut result, mut conflicts) = (ours.clone(), Vec::new());
        for ChangedFile { path, .. } in differences(&base, &theirs) {
            let (was, is, wanted) = (base.get(&path), ours.get(&path), theirs.get(&path));
            if is == was || is == wanted {
                set(&mut result, &path, wanted);
            } else {
                conflicts.push(path);
            }
        }
        if !conflicts.is_empty() {
            return Err(refuse(Code::WorkspaceConflict, "these paths conflict", conflicts));
        }
        let changed_files = differences(&ours, &result);
        repository.check_local(&ours, &changed_files)?;
        Ok(Squash { head, tree: repository.keep_tree(&result), changed_files })
    }

    pub(super) fn squash(&mut self, root: &Path, squash: &Squash) -> Result<()> {
        let repository = self.at(root)?;
        let result = repository.tree(&squash.tree)?;
        // Else an earlier call got as far as this, and what is left is the folder.
        if repository.index != result {
            let head = repository.tree_of(&squash.head)?;
            if repository.head.as_ref() != Some(&squash.head) {
                let why = "HEAD has moved since the plan".to_owned();
                return Err(Error::new(Code::WorkspaceIndexNotClean, why));
            }
            repository.check_clean(&head)?;
            repository.check_local(&head, &squash.changed_files)?;
            repository.index.clone_from(&result);
        }
        for file in &squash.changed_files {
            set(&mut repository.folder, &file.path, result.get(&file.path));
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, worktree: &Worktree) -> Result<()> {
        if self.worktrees.contains_key(&worktree.path) {
            self.proved(worktree)?;
            self.worktrees.remove(&worktree.path);
        }
        Ok(())
    }
}

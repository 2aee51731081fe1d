//! What git says about a folder, read from its files: a driver starts no git.

use std::path::{Path, PathBuf};

/// A folder under git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// The folder that holds `.git`.
    pub(super) root: PathBuf,
    /// For a linked worktree: its own folder of git, and that of the repository it belongs to.
    pub(super) linked: Option<Linked>,
}

/// Where git keeps what belongs to a linked worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Linked {
    own: PathBuf,
    common: PathBuf,
}

/// The repository that `folder` is in.
pub(super) fn repository(folder: &Path) -> Option<Repository> {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists())?;
    Some(Repository { root: root.to_owned(), linked: linked(root) })
}

fn linked(root: &Path) -> Option<Linked> {
    let file = root.join(".git");
    let text = file.is_file().then(|| fs_err::read_to_string(&file).ok())??;
    let own = root.join(text.trim().strip_prefix("gitdir:")?.trim());
    let common = fs_err::read_to_string(own.join("commondir")).ok()?;
    let common = fs_err::canonicalize(own.join(common.trim())).ok()?;
    Some(Linked { own: fs_err::canonicalize(own).ok()?, common })
}

impl Repository {
    /// The folders that trust may be put into: its own, and that of the repository that it is a worktree of. A bare one has
    /// no folder around it that is its own.
    pub(super) fn trusted_by(&self) -> Vec<PathBuf> {
        let main = self.linked.as_ref().map(|Linked { common, .. }| match common.parent() {
            Some(around) if common.ends_with(".git") => around,
            _ => common,
        });
        [Some(self.root.as_path()), main].into_iter().flatten().map(Path::to_owned).collect()
    }

    /// What a commit in a linked worktree writes. Not the whole folder of git: what is in its hooks and
    /// settings runs outside of any sandbox.
    pub(super) fn commit_writes(&self) -> Vec<PathBuf> {
        let Some(Linked { own, common }) = &self.linked else { return Vec::new() };
        let below = ["objects", "refs", "logs"].map(|name| common.join(name));
        let all = std::iter::once(own.clone()).chain(below);
        all.filter(|folder| folder.is_dir()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worktree_may_commit_and_not_touch_hooks() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs_err::canonicalize(dir.path()).unwrap();
        let (main, tree) = (top.join("main"), top.join("tree"));
        let git = main.join(".git");
        for folder in [
            git.join("worktrees/tree"),
            git.join("objects"),
            git.join("refs"),
            git.join("hooks"),
            tree.join("deep"),
        ] {
            fs_err::create_dir_all(folder).unwrap();
        }
        fs_err::write(
            tree.join(".git"),
            format!("gitdir: {}\n", git.join("worktrees/tree").display()),
        )
        .unwrap();
        fs_err::write(git.join("worktrees/tree/commondir"), "../..\n").unwrap();
        let found = repository(&tree.join("deep")).unwrap();
        assert_eq!(found.trusted_by(), [tree.clone(), main.clone()]);
        let writes = ["worktrees/tree", "objects", "refs"].map(|name| git.join(name));
        assert_eq!(found.commit_writes(), writes);
        let bare = top.join("main.git");
        fs_err::create_dir_all(bare.join("worktrees/tree")).unwrap();
        fs_err::write(bare.join("worktrees/tree/commondir"), "../..\n").unwrap();
        let own = bare.join("worktrees/tree");
        fs_err::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(repository(&tree).unwrap().trusted_by(), [tree, bare]);
        let plain = repository(&main).unwrap();
        assert_eq!((plain.trusted_by(), plain.commit_writes()), (vec![main], Vec::new()));
    }
}

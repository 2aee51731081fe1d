//! A project in a repository of its own, set up without the user's configuration.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::engine::git::GitProgram;
use crate::error::{Code, Error};
use crate::ids::{AttemptId, TaskId};
use crate::port::{Change, ChangedFile, Worktree};

/// The reference that tests keep work at.
pub(super) const BRANCH: &str = "refs/heads/cortex/t1";

/// A folder with a project and a data directory.
#[derive(Debug)]
pub(super) struct Bench {
    _dirs: [TempDir; 2],
    pub(super) base: PathBuf,
    pub(super) root: PathBuf,
    pub(super) git: GitProgram,
}

impl Bench {
    /// A repository with the files `a`, `b` and `sub/c`, committed.
    pub(super) fn new() -> Self {
        Self::at("project")
    }

    /// The same at another path below the bench's folder.
    pub(super) fn at(path: &str) -> Self {
        Self::empty(path).filled()
    }

    fn filled(self) -> Self {
        self.init(["-b", "main"]);
        for (name, text) in [("a", "a\n"), ("b", "b\n"), ("sub/c", "c\n")] {
            self.write(name, text);
        }
        self.git(["add", "-A"]);
        self.git(["commit", "--quiet", "-m", "first"]);
        self
    }

    /// Makes the repository.
    pub(super) fn init<const N: usize>(&self, arguments: [&str; N]) {
        git_in(&self.root, &[&["init", "--quiet", "--template="], &arguments[..]].concat());
        self.settle();
    }

    /// A folder without a repository.
    pub(super) fn empty(path: &str) -> Self {
        Self::within([tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()], path)
    }

    /// The same in memory where the system has such a folder: for what is about processes, not about power.
    pub(super) fn in_memory() -> Self {
        let dir = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Self::within([dir(), dir()], "project").filled()
    }

    fn within([dir, scratch]: [TempDir; 2], path: &str) -> Self {
        let base = dunce::canonicalize(dir.path()).unwrap();
        let root = base.join(path);
        fs_err::create_dir_all(&root).unwrap();
        let git = GitProgram::new(scratch.path().join("git"));
        Self { _dirs: [dir, scratch], base, root, git }
    }

    /// Sets what the user's own configuration may set otherwise.
    pub(super) fn settle(&self) {
        // Maintenance would work on after the command that started it.
        let settings = "[core]\n\tautocrlf = false\n\texcludesFile =\n\tattributesFile =\n\
            [maintenance]\n\tauto = false\n[merge]\n\trenames = true\n[diff]\n\trenames = true\n";
        let path = self.root.join(".git/config");
        let config = fs_err::read_to_string(&path).unwrap();
        fs_err::write(path, config + settings).unwrap();
    }

    /// Runs git as the person who works in the project, and returns what it prints.
    pub(super) fn git<const N: usize>(&self, arguments: [&str; N]) -> String {
        git_in(&self.root, &arguments)
    }

    pub(super) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        write(&self.root.join(name), text);
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs_err::read_to_string(self.root.join(name)).unwrap()
    }

    pub(super) fn commit(&self, message: &str) -> String {
        self.git(["add", "-A"]);
        self.git(["commit", "--quiet", "--allow-empty", "-m", message]);
        self.head()
    }

    pub(super) fn head(&self) -> String {
        self.git(["rev-parse", "HEAD"])
    }

    pub(super) fn status(&self) -> Vec<String> {
        let status = self.git(["status", "--porcelain", "--untracked-files=all"]);
        status.lines().map(str::to_owned).collect()
    }

    /// The worktree of an attempt, not made yet.
    pub(super) fn worktree(&self, attempt: &str) -> Worktree {
        Worktree {
            root: self.root.clone(),
            path: self.base.join("data/worktrees").join(attempt),
            attempt_id: AttemptId::new(attempt),
            task_id: TaskId::new("t1"),
        }
    }

    /// A hash of all files of the project, with its repository.
    pub(super) fn hash(&self) -> String {
        hash(&self.root)
    }
}

pub(super) fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, text).unwrap();
}

/// Git with nobody's configuration.
#[expect(clippy::disallowed_methods, reason = "a test plays the person who uses git")]
pub(super) fn command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "Ada")
        .env("GIT_AUTHOR_EMAIL", "ada@example.org")
        .env("GIT_COMMITTER_NAME", "Ada")
        .env("GIT_COMMITTER_EMAIL", "ada@example.org")
        .stdin(Stdio::null());
    command
}

/// Runs git in any folder, and returns what it prints.
pub(super) fn git_in(folder: &Path, arguments: &[&str]) -> String {
    let output = command(folder).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// A hash of the names, kinds, modes, contents and times of all that is in a folder.
pub(super) fn hash(folder: &Path) -> String {
    let mut hash = Sha256::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> =
            fs_err::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let found = fs_err::symlink_metadata(&path).unwrap();
            hash.update(format!("{path:?} {:?} {:?}", found.file_type(), found.permissions()));
            if found.is_dir() {
                folders.push(path);
            } else if found.is_symlink() {
                hash.update(format!("{:?}", fs_err::read_link(&path).unwrap()));
            } else if found.is_file() {
                // Git renews the time of an object that would have been written once more.
                if !path.components().any(|part| part.as_os_str() == "objects") {
                    hash.update(format!("{:?}", found.modified().unwrap()));
                }
                hash.update(fs_err::read(&path).unwrap());
            }
        }
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// The changes as short lines: `A path`, `R old path`.
pub(super) fn lines(files: &[ChangedFile]) -> Vec<String> {
    let line = |file: &ChangedFile| {
        let letter = match file.change {
            Change::Added => "A",
            Change::Modified => "M",
            Change::Deleted => "D",
            Change::Renamed => "R",
        };
        let from = file.from.iter().flat_map(|from| [" ", from]).collect::<String>();
        format!("{letter}{from} {}", file.path)
    };
    files.iter().map(line).collect()
}

/// Checks the code of an error and that its message names something.
#[track_caller]
pub(super) fn refused<T: std::fmt::Debug>(
    outcome: Result<T, Error>,
    code: Code,
    says: &[&str],
) -> Error {
    let error = outcome.unwrap_err();
    assert_eq!(error.code(), code, "{}", error.message());
    for part in says {
        assert!(error.message().contains(part), "{}", error.message());
    }
    error
}

//! A git directory of our own over a repository's objects: through it contents are seen as the repository
//! wants them, but by no program of the repository's.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::io;
use super::repository::{Repository, object_id};
use super::run::{Answer, Call, bytes_of, path_of};
use crate::error::Result;

/// Who makes Cortex's commits. Given explicitly, so that the user needs no identity.
const NAME: &str = "Cortex";
const EMAIL: &str = "cortex@localhost";

/// Where new objects go.
#[derive(Clone, Debug)]
pub(super) enum Objects {
    /// Into the repository.
    Shared,
    /// Into a folder of somebody's.
    Private(PathBuf),
    /// Away, with the view.
    Temporary,
}

/// The folder for views. What an earlier life left is removed once.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    swept: OnceLock<()>,
}

/// A folder that goes when it is dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// A working folder, seen through a git directory of our own.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) repository: &'a Repository,
    dir: Folder,
    /// The working folder.
    pub(super) work_tree: PathBuf,
    index: PathBuf,
    objects: Option<PathBuf>,
}

impl Scratch {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, swept: OnceLock::new() }
    }

    /// A new folder in it.
    pub(super) fn folder(&self) -> Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        self.swept.get_or_init(|| {
            // What stays only takes room.
            fs_err::remove_dir_all(&self.path).ok();
        });
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(number.to_string());
        fs_err::create_dir_all(&path)
            .map_err(|error| io("git has no folder to work in", &error))?;
        Ok(Folder(path))
    }
}

impl Folder {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs_err::remove_dir_all(&self.0) {
            tracing::debug!("a folder of a git call stays until the next start: {error}");
        }
    }
}

impl<'a> View<'a> {
    /// A view of `work_tree` with an empty index.
    pub(super) fn new(
        repository: &'a Repository,
        dir: Folder,
        work_tree: &Path,
        objects: Objects,
    ) -> Result<Self> {
        let objects = match objects {
            Objects::Shared => None,
            Objects::Private(folder) => Some(folder),
            Objects::Temporary => Some(dir.0.join("own-objects")),
        };
        let view = Self {
            index: dir.0.join("index"),
            repository,
            work_tree: work_tree.to_owned(),
            objects,
            dir,
        };
        view.lay_out().map_err(|error| io("git has no folder to work in", &error))?;
        Ok(view)
    }

    fn lay_out(&self) -> std::io::Result<()> {
        let dir = &self.dir.0;
        for folder in ["refs", "objects", "info"] {
            fs_err::create_dir_all(dir.join(folder))?;
        }
        if let Some(objects) = &self.objects {
            fs_err::create_dir_all(objects)?;
        }
        fs_err::write(dir.join("HEAD"), "ref: refs/heads/none\n")?;
        let mut config = String::from("[core]\n\trepositoryformatversion = 1\n\tbare = false\n");
        // Writing to a string does not fail.
        write!(config, "[extensions]\n\tobjectFormat = {}\n", self.repository.object_format).ok();
        fs_err::write(dir.join("config"), config)?;
        let (common, own) = (&self.repository.common_dir, &self.repository.git_dir);
        for (from, name) in [(common, "exclude"), (common, "attributes"), (own, "sparse-checkout")]
        {
            let file = from.join("info").join(name);
            if file.is_file() {
                fs_err::copy(file, dir.join("info").join(name))?;
            }
        }
        Ok(())
    }

    /// Takes another file as index, such as a worktree's own.
    pub(super) fn with_index(mut self, index: PathBuf) -> Self {
        self.index = index;
        self
    }

    /// Its index.
    pub(super) fn index(&self) -> &Path {
        &self.index
    }

    /// Where new objects go, unless it is the repository.
    pub(super) fn own_objects(&self) -> Option<&Path> {
        self.objects.as_deref()
    }

    /// Takes over the index of a working folder.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`: it is there and cannot be read.
    pub(super) fn copy_index(&self, git_dir: &Path) -> Result<()> {
        copy_index(git_dir, &self.dir.0).map_err(|error| io("the index cannot be read", &error))
    }

    /// The same; when there is none or it is damaged, the index of a commit instead.
    pub(super) async fn copy_index_or_read(&self, git_dir: &Path, commit: &str) -> Result<()> {
        self.copy_index(git_dir)?;
        let sound = self.index.is_file()
            && self
                .call()
                .args(["ls-files", "-z", "--stage", "--", "."])
                .answer()
                .await
                .is_ok_and(|answer| answer.exit.is_success());
        if !sound {
            remove_if_there(&self.index).map_err(|error| io("the index cannot be read", &error))?;
            self.read_tree(commit).await?;
        }
        Ok(())
    }

    /// Fills the index with a tree and nothing else.
    pub(super) async fn read_tree(&self, tree: &str) -> Result<()> {
        self.call().args(["read-tree", object_id(tree)?]).ok().await.map(drop)
    }

    /// The tree of the index.
    pub(super) async fn write_tree(&self) -> Result<String> {
        self.call().args(["write-tree", "--missing-ok"]).line().await
    }

    /// The tree of a commit.
    pub(super) async fn tree_of(&self, commit: &str) -> Result<String> {
        let name = format!("{}^{{tree}}", object_id(commit)?);
        self.call().args(["rev-parse", "--verify", "--end-of-options", &name]).line().await
    }

    /// Makes a commit by Cortex; at `date` or now.
    pub(super) async fn commit_tree(
        &self,
        tree: &str,
        parent: Option<&str>,
        message: &str,
        date: Option<&str>,
    ) -> Result<String> {
        let mut call = self.call().args(["commit-tree", object_id(tree)?]);
        if let Some(parent) = parent {
            call = call.args(["-p", object_id(parent)?]);
        }
        for who in ["AUTHOR", "COMMITTER"] {
            call =
                call.env(&format!("GIT_{who}_NAME"), NAME).env(&format!("GIT_{who}_EMAIL"), EMAIL);
            if let Some(date) = date {
                call = call.env(&format!("GIT_{who}_DATE"), date);
            }
        }
        call.input(message.as_bytes().to_vec()).line().await
    }

    /// A call through the view, in its working folder.
    pub(super) fn call(&self) -> Call {
        let mut call = self
            .repository
            .call_in(&self.work_tree)
            .env("GIT_DIR", &self.dir.0)
            .env("GIT_WORK_TREE", &self.work_tree)
            .env("GIT_INDEX_FILE", &self.index)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_CONFIG_COUNT", self.repository.settings.len().to_string());
        for (number, (name, value)) in self.repository.settings.iter().enumerate() {
            call = call
                .env(&format!("GIT_CONFIG_KEY_{number}"), name)
                .env(&format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        match &self.objects {
            None => call.env("GIT_OBJECT_DIRECTORY", &self.repository.objects),
            Some(own) => call
                .env("GIT_OBJECT_DIRECTORY", own)
                .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&self.repository.objects)),
        }
    }

    /// Runs a command that ends with 0, or with 1 for another good answer.
    pub(super) async fn yes_or_no(&self, call: Call, command: &str) -> Result<Answer> {
        let answer = call.answer().await?;
        match answer.exit.code {
            Some(0 | 1) => Ok(answer),
            _ => Err(answer.failed(command, &self.work_tree)),
        }
    }
}

/// Copies an index with the files that a split one refers to, and its time: by that git knows for which entries
/// a time stamp proves nothing.
fn copy_index(git_dir: &Path, to: &Path) -> std::io::Result<()> {
    let from = git_dir.join("index");
    if !from.is_file() {
        return Ok(());
    }
    copy_with_time(&from, &to.join("index"))?;
    for entry in fs_err::read_dir(git_dir)? {
        let name = entry?.file_name();
        if name.as_encoded_bytes().starts_with(b"sharedindex.") {
            fs_err::copy(git_dir.join(&name), to.join(&name))?;
        }
    }
    Ok(())
}

/// Copies a file and the time of its last change.
pub(super) fn copy_with_time(from: &Path, to: &Path) -> std::io::Result<()> {
    let modified = fs_err::metadata(from)?.modified()?;
    let bytes = fs_err::read(from)?;
    fs_err::write(to, bytes)?;
    fs_err::OpenOptions::new().write(true).open(to)?.file().set_modified(modified)
}

/// Removes a file; one that is not there is not missed.
pub(super) fn remove_if_there(path: &Path) -> std::io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A path for a list of folders that is separated by colons: quoted, so that it may hold one.
fn quoted(path: &Path) -> OsString {
    let mut text = vec![b'"'];
    for byte in bytes_of(path) {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
    path_of(&text).into_os_string()
}

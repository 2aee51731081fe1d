//! The data directory: made for one person, held by one core.
//!
//! Locks are the operating system's and end with the process, however it ends. There are two: one to
//! take the folder, and one to ask whether it is taken, so that a question is never mistaken for a
//! core. The process id stands in a file of its own, because Windows lets nobody read a locked file.

use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err::{self as fs, File};

use super::disk_code;
use crate::error::{Code, Error, Result};

/// Held by a core; tried by those that want to be one.
const LOCK: &str = "cortex.lock";
/// Held by a core too; tried, shared and for an instant, by those that ask.
const ALIVE: &str = "cortex.alive";
const PID: &str = "cortex.pid";

/// A data directory that this process holds. The last clone gives it back.
#[derive(Clone, Debug)]
pub struct DataDir {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    lock: File,
    alive: File,
}

impl DataDir {
    /// Makes the folder if need be, for its owner only, and takes it.
    ///
    /// Fails with `core.data_dir_not_absolute`, `core.data_dir_unusable`, `store.disk_full`, or
    /// `core.data_dir_in_use` and the process id of the core that holds it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if !path.is_absolute() {
            let message = format!("the data directory {} is not an absolute path", path.display());
            return Err(Error::new(Code::DataDirNotAbsolute, message));
        }
        let unusable = |error: io::Error| {
            let message = format!("the data directory {} cannot be used: {error}", path.display());
            Error::new(disk_code(&error), message)
        };
        make_private(path).map_err(unusable)?;
        let lock = open_lock(&path.join(LOCK)).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(path)),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let alive = open_lock(&path.join(ALIVE)).map_err(unusable)?;
        // Whoever has it asks, and lets go at once.
        alive.lock().map_err(unusable)?;
        let held = Held { path: path.to_owned(), lock, alive };
        fs::write(held.path.join(PID), std::process::id().to_string()).map_err(unusable)?;
        let dir = Self { held: Arc::new(held) };
        for folder in [
            dir.credentials_dir(),
            dir.scratch_dir(),
            dir.worktrees_dir(),
            dir.objects_dir(),
            dir.logs_dir(),
        ] {
            make_private(&folder).map_err(unusable)?;
        }
        Ok(dir)
    }

    /// The process id of the live core that holds `path`, without taking it. `None` when none does.
    ///
    /// A core that was started a moment ago may not have written its id yet: that counts as none.
    pub fn holder(path: impl AsRef<Path>) -> Option<u32> {
        let path = path.as_ref();
        let alive = File::open(path.join(ALIVE)).ok()?;
        match alive.try_lock_shared() {
            Err(TryLockError::WouldBlock) => read_pid(path),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.held.path
    }

    /// The file of the store.
    pub fn store_path(&self) -> PathBuf {
        self.path().join("cortex.db")
    }

    /// Credentials, readable by their owner only.
    pub fn credentials_dir(&self) -> PathBuf {
        Self::credentials_dir_of(self.path())
    }

    /// The same folder of the data directory at `path`, for those who do not hold it.
    pub fn credentials_dir_of(path: &Path) -> PathBuf {
        path.join("credentials")
    }

    /// Files that live no longer than what they were made for.
    pub fn scratch_dir(&self) -> PathBuf {
        self.path().join("scratch")
    }

    /// The worktrees of isolated attempts, one folder each.
    pub fn worktrees_dir(&self) -> PathBuf {
        self.path().join("worktrees")
    }

    /// What git needs to compare the files of projects without writing to them.
    pub fn objects_dir(&self) -> PathBuf {
        self.path().join("objects")
    }

    /// Log files.
    pub fn logs_dir(&self) -> PathBuf {
        Self::logs_dir_of(self.path())
    }

    /// Where the core that holds the folder `path` has its log files.
    pub fn logs_dir_of(path: &Path) -> PathBuf {
        path.join("logs")
    }

    /// Where the core that holds the folder `path` has its local socket.
    pub fn socket_path_of(path: &Path) -> PathBuf {
        path.join("cortex.sock")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Only for tidiness: without the lock the id means nothing.
        drop(fs::remove_file(self.path.join(PID)));
        // Closing the files is not enough: a child that is being started holds copies until it runs
        // its program.
        drop((self.alive.unlock(), self.lock.unlock()));
    }
}

fn in_use(path: &Path) -> Error {
    let used = format!("the data directory {} is used by another core", path.display());
    match read_pid(path) {
        Some(pid) => {
            Error::new(Code::DataDirInUse, format!("{used}, process {pid}")).with("pid", pid)
        }
        None => Error::new(Code::DataDirInUse, used),
    }
}

fn read_pid(path: &Path) -> Option<u32> {
    fs::read_to_string(path.join(PID)).ok()?.trim().parse().ok()
}

/// Makes a folder that only its owner can enter. One that exists is left as it is.
fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

//! The folder of a process that Cortex runs, among the system's temporary files. It goes with the process. One that a killed
//! core left is removed when the next is made.
//!
//! Whoever has a folder holds a lock in it, which the system lets go of however its holder ends.

use std::io;
use std::path::Path;

use fs_err::File;
use tempfile::TempDir;

/// Locked as long as the folder is used.
const LOCK: &str = "in-use";
/// Its name until it is locked: nobody finds a folder of somebody who lives with a lock that is free.
const UNLOCKED: &str = "in-use.new";

/// A folder that nobody else may put anything into. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct OwnFolder {
    // Before the lock: it is held until the folder is gone.
    folder: TempDir,
    _lock: File,
}

impl OwnFolder {
    /// Makes one whose name begins with `prefix`, and removes those of this name that nobody has.
    pub(crate) fn new(prefix: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), prefix)
    }

    fn within(parent: &Path, prefix: &str) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            builder.permissions(std::fs::Permissions::from_mode(0o700));
        }
        let folder = builder.tempdir_in(parent)?;
        let lock = File::create_new(folder.path().join(UNLOCKED))?;
        lock.lock()?;
        fs_err::rename(folder.path().join(UNLOCKED), folder.path().join(LOCK))?;
        let own = Self { folder, _lock: lock };
        if let Err(error) = own.sweep(parent, prefix) {
            tracing::debug!(%error, "what an earlier life left was not looked for");
        }
        Ok(own)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes it and says whether that went well.
    pub(crate) fn close(self) -> io::Result<()> {
        self.folder.close()
    }

    fn sweep(&self, parent: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs_err::read_dir(parent)?.flatten() {
            let path = entry.path();
            let named = entry.file_name().to_string_lossy().starts_with(prefix);
            if !named || path == self.path() || !self.is_of_same_user(&path) {
                continue;
            }
            // Without the file it is just being made, or of something else.
            let Ok(lock) = File::open(path.join(LOCK)) else { continue };
            if lock.try_lock().is_ok()
                && let Err(error) = fs_err::remove_dir_all(&path)
            {
                tracing::debug!(%error, "a folder that a killed core left was not removed");
            }
        }
        Ok(())
    }

    /// Others may put anything into the system's folder: a link, or a pipe that never opens.
    #[cfg(unix)]
    fn is_of_same_user(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let [own, other] = [self.path(), path].map(|path| fs_err::symlink_metadata(path).ok());
        own.zip(other).is_some_and(|(own, other)| other.is_dir() && own.uid() == other.uid())
    }

    #[cfg(not(unix))]
    fn is_of_same_user(&self, path: &Path) -> bool {
        fs_err::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes: a folder of a core that was killed goes with the next start, and one of a core that lives stays.
    #[test]
    fn what_nobody_has_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let made = |prefix| OwnFolder::within(parent.path(), prefix).unwrap();
        let lives = made("cortex-one-");
        let left = parent.path().join("cortex-one-left");
        let other = parent.path().join("cortex-two-left");
        let foreign = parent.path().join("cortex-one-foreign");
        for folder in [&left, &other, &foreign] {
            fs_err::create_dir(folder).unwrap();
        }
        for folder in [&left, &other] {
            fs_err::write(folder.join(LOCK), "").unwrap();
        }

        let next = made("cortex-one-");
        assert!(!left.exists());
        let stay = [lives.path(), next.path(), other.as_path(), foreign.as_path()];
        assert!(stay.iter().all(|path| path.exists()), "{stay:?}");
        let path = next.path().to_owned();
        next.close().unwrap();
        assert!(!path.exists());
    }
}

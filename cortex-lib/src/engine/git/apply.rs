//! Doing a squash so that it may be cut off at any instant and done again.
//!
//! Git would write the files in place and leave a lock when it is killed. So git only makes the contents, in a
//! folder of our own, and each is put in place by a rename; then the index likewise. Meanwhile the index
//! is locked as git locks it. The lock says which squash it is for: by that a later call knows it as its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::{Place, Spot};
use super::repository::Repository;
use super::run::{path_of, with_nuls};
use super::view::{Objects, View, copy_with_time, remove_if_there};
use super::{GitProgram, io};
use crate::error::{Code, Error, Result};
use crate::port::Squash;

/// Another program holds the index for an instant: this often it is looked at again.
const LOCK_RETRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The lock of an index.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    text: String,
}

impl Lock {
    /// Locks the index for a squash. One that an earlier call for it left is taken over.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`: another program does not let go of it.
    #[expect(
        clippy::disallowed_methods,
        reason = "nobody tells when another program lets go of a lock"
    )]
    pub(super) async fn take(repository: &Repository, squash: &Squash) -> Result<Self> {
        let path = repository.git_dir.join("index.lock");
        let text = format!("cortex: squash of {} onto {}\n", squash.tree, squash.head);
        let draft = beside(repository, "lock", squash);
        let failed = |error: std::io::Error| io("the index cannot be locked", &error);
        let lock = Self { path, text };
        let mut retries = 0;
        while !lock.make(&draft).map_err(failed)? && !lock.is_ours() {
            if retries == LOCK_RETRIES {
                return Err(Error::new(
                    Code::WorkspaceUnavailable,
                    format!("another program has locked the index: {}", lock.path.display()),
                )
                .remedy("Let the other git end; remove the file if none runs. Then call again."));
            }
            retries += 1;
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        Ok(lock)
    }

    /// Makes the lock, whole from the first instant, unless there is one.
    fn make(&self, draft: &Path) -> std::io::Result<bool> {
        fs_err::write(draft, &self.text)?;
        let made = match fs_err::hard_link(draft, &self.path) {
            Err(_) if !self.path.exists() => {
                // A file system without links.
                fs_err::File::create_new(&self.path)
                    .and_then(|mut file| std::io::Write::write_all(&mut file, self.text.as_bytes()))
            }
            other => other,
        };
        remove_if_there(draft)?;
        match made {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_ours(&self) -> bool {
        fs_err::read(&self.path).is_ok_and(|there| there == self.text.as_bytes())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_ours()
            && let Err(error) = remove_if_there(&self.path)
        {
            tracing::warn!("the index of a project stays locked: {error}");
        }
    }
}

/// Brings the files to what the plan says. What is so already is left alone.
pub(super) async fn files(
    git: &GitProgram,
    repository: &Repository,
    squash: &Squash,
    spots: &[Spot],
) -> Result<()> {
    let failed = |error: std::io::Error| io("the project's folder cannot be changed", &error);
    let (mut going, mut coming, mut submodules) = (Vec::new(), Vec::new(), Vec::new());
    for spot in spots.iter().filter(|spot| !spot.is_left_out && !spot.is_done()) {
        let path = spot.touched.path.as_slice();
        match &spot.touched.new {
            Some(new) if new.is_gitlink() => {
                submodules.push(path);
                if matches!(spot.place, Place::Entry(_)) {
                    going.push(path);
                }
            }
            Some(_) => coming.push(path),
            None => going.push(path),
        }
    }
    let staging = git.scratch.folder()?;
    if !coming.is_empty() {
        let view = git.view(repository, staging.path(), Objects::Shared)?;
        view.read_tree(&squash.tree).await?;
        let write = view.call().args(["checkout-index", "-z", "--stdin", "--force", "--quiet"]);
        write.input(with_nuls(coming.iter().copied())).ok().await?;
    }
    let folder = repository.top.join(&repository.prefix);
    for path in going {
        let file = repository.top.join(path_of(path));
        remove_if_there(&file).map_err(failed)?;
        // As git does: a folder goes with its last file, but not the project's own.
        let parents = file.ancestors().skip(1).take_while(|parent| !folder.starts_with(parent));
        for parent in parents {
            if fs_err::remove_dir(parent).is_err() {
                break;
            }
        }
    }
    for path in submodules {
        fs_err::create_dir_all(repository.top.join(path_of(path))).map_err(failed)?;
    }
    for (number, path) in coming.into_iter().enumerate() {
        let path = path_of(path);
        let draft = format!(".cortex-{}-{number}", short(squash));
        place(&staging.path().join(&path), &repository.top.join(&path), &draft).map_err(failed)?;
    }
    Ok(())
}

/// Brings the index to what the plan says. What it knows of other files stays.
pub(super) async fn index(
    view: &View<'_>,
    squash: &Squash,
    head_tree: &str,
    spots: &[Spot],
) -> Result<()> {
    view.call().args(["read-tree", "-i", "-m", head_tree, &squash.tree]).ok().await?;
    let left_out: Vec<_> = spots
        .iter()
        .filter(|spot| spot.is_left_out && spot.touched.new.is_some())
        .map(|spot| spot.touched.path.as_slice())
        .collect();
    if !left_out.is_empty() {
        let mark = view.call().args(["update-index", "-z", "--skip-worktree", "--stdin"]);
        mark.input(with_nuls(left_out)).ok().await?;
    }
    let refresh = view.call().args(["update-index", "-q", "--refresh"]);
    view.yes_or_no(refresh, "update-index").await?;
    let (git_dir, draft) = (&view.repository.git_dir, beside(view.repository, "index", squash));
    let install = || {
        copy_with_time(view.index(), &draft)?;
        let old = git_dir.join("index");
        fs_err::set_permissions(&draft, fs_err::metadata(&old)?.permissions())?;
        fs_err::File::open(&draft)?.sync_all()?;
        fs_err::rename(&draft, old)
    };
    install().map_err(|error| io("the index cannot be written", &error))
}

/// Removes what a squash that was cut off left beside the index.
pub(super) fn tidy(repository: &Repository, squash: &Squash) -> Result<()> {
    remove_if_there(&beside(repository, "index", squash))
        .map_err(|error| io("what a squash needed cannot be removed", &error))
}

/// A path of ours in the git directory, so that a rename suffices.
fn beside(repository: &Repository, what: &str, squash: &Squash) -> PathBuf {
    repository.git_dir.join(format!("cortex-{what}-{}", short(squash)))
}

fn short(squash: &Squash) -> &str {
    squash.tree.get(..16).unwrap_or(&squash.tree)
}

/// Puts a file or a link in place at once, on the disk for good.
fn place(from: &Path, to: &Path, draft: &str) -> std::io::Result<()> {
    let is_link = fs_err::symlink_metadata(from)?.is_symlink();
    if !is_link {
        fs_err::File::open(from)?.sync_all()?;
    }
    if let Some(parent) = to.parent() {
        fs_err::create_dir_all(parent)?;
    }
    if fs_err::symlink_metadata(to).is_ok_and(|there| there.is_dir()) {
        remove_empty(to)?;
    }
    let draft = to.with_file_name(draft);
    // Of a try that was cut off.
    remove_if_there(&draft)?;
    match fs_err::rename(from, to) {
        Err(error) if error.kind() == std::io::ErrorKind::CrossesDevices => {
            if is_link {
                link(&fs_err::read_link(from)?, &draft)?;
            } else {
                fs_err::copy(from, &draft)?;
                fs_err::File::open(&draft)?.sync_all()?;
            }
            fs_err::rename(draft, to)
        }
        other => other,
    }
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    fs_err::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Removes a folder in which there are only folders.
fn remove_empty(folder: &Path) -> std::io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_empty(&entry.path())?;
        }
    }
    fs_err::remove_dir(folder)
}

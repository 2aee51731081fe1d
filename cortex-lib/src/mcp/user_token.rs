//! The credential of the person who runs Cortex: one file in the data directory, readable by its owner only.

use std::fs::Metadata;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fs_err::{self as fs, OpenOptions};

use crate::env::Env;
use crate::error::{Code, Error, Result};
use crate::secret::{Secret, SecretHash};
use crate::store::DataDir;

const PREFIX: &str = "cortex_user_";
/// 256 bits in hexadecimal.
const DIGITS: usize = 64;

/// Where the user's credential is kept.
#[derive(Clone, Debug)]
pub struct UserToken {
    file: PathBuf,
}

impl UserToken {
    /// The one of the data directory at `data_dir`.
    pub fn of(data_dir: &Path) -> Self {
        Self { file: DataDir::credentials_dir_of(data_dir).join("user-token") }
    }

    /// The file that holds it.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// The credential, if there is one.
    ///
    /// # Errors
    ///
    /// `core.data_dir_unusable` when the file cannot be read or holds something else.
    pub fn load(&self) -> Result<Option<Secret>> {
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(&error)),
        };
        let digits = text.trim().strip_prefix(PREFIX).unwrap_or_default();
        if digits.len() != DIGITS || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let message = format!("{} holds no token of Cortex", self.file.display());
            let remedy = "Remove the file; the next start makes a new token.";
            return Err(Error::new(Code::DataDirUnusable, message).remedy(remedy));
        }
        Ok(Some(Secret::new(text.trim())))
    }

    /// The credential; makes one on first use.
    ///
    /// # Errors
    ///
    /// `core.data_dir_unusable`.
    pub fn load_or_create(&self, env: &dyn Env) -> Result<Secret> {
        match self.load()? {
            Some(token) => Ok(token),
            None => self.rotate(env),
        }
    }

    /// Replaces the credential. At an endpoint that [follows the file](super::McpSocket::serve_owner) the old one ends
    /// with this; any other one has to be told by [`McpServer::set_user_token`](super::McpServer::set_user_token).
    ///
    /// # Errors
    ///
    /// `core.data_dir_unusable`; then the old one is still there.
    pub fn rotate(&self, env: &dyn Env) -> Result<Secret> {
        let token = env.mint_secret(PREFIX);
        self.store(&token).map_err(|error| unusable(&error))?;
        Ok(token)
    }

    /// Writes beside the file and renames, so that the file is always whole.
    fn store(&self, token: &Secret) -> io::Result<()> {
        let fresh = self.file.with_extension("new");
        // What an earlier life left there may be readable by others.
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&fresh)?;
        file.write_all(token.expose().as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&fresh, &self.file)
    }
}

/// The credential that counts now.
#[derive(Debug)]
pub(super) struct Owner {
    /// Looked at with each request.
    file: Option<UserToken>,
    /// A lock, because it is held for a comparison.
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    hash: SecretHash,
    /// Of which file it is.
    stamp: Option<Stamp>,
}

/// What is another for each file that was put in the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    inode: u64,
}

impl Owner {
    /// Counts until it is told otherwise.
    pub(super) fn fixed(token: &Secret) -> Self {
        Self { file: None, known: Mutex::new(Known { hash: token.hash(), stamp: None }) }
    }

    /// Counts as long as the file holds it: whoever rotates it does not have to tell. Makes one on first use.
    pub(super) fn of_file(file: UserToken, env: &dyn Env) -> Result<Self> {
        let hash = file.load_or_create(env)?.hash();
        Ok(Self { file: Some(file), known: Mutex::new(Known { hash, stamp: None }) })
    }

    /// From now on `token` counts.
    pub(super) fn set(&self, token: &Secret) {
        self.known().hash = token.hash();
    }

    /// Whether it is the owner's. The comparison takes the same time for every hash.
    pub(super) fn is(&self, hash: &SecretHash) -> bool {
        let mut known = self.known();
        if let Some(file) = &self.file {
            known.look_at(file);
        }
        known.hash == *hash
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// A file that went away, or holds something else, ends nobody's access; the next start makes a new token.
    fn look_at(&mut self, file: &UserToken) {
        let Ok(found) = fs::metadata(file.path()) else { return };
        let stamp = Some(Stamp::of(&found));
        if self.stamp == stamp {
            return;
        }
        match file.load() {
            Ok(Some(token)) => self.hash = token.hash(),
            Ok(None) => return,
            Err(error) => tracing::warn!("the user token stays as it was: {}", error.message()),
        }
        self.stamp = stamp;
    }
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(file);
        #[cfg(not(unix))]
        let inode = 0;
        Self { modified: file.modified().ok(), inode }
    }
}

fn unusable(error: &io::Error) -> Error {
    Error::new(Code::DataDirUnusable, format!("the user token cannot be kept: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::SystemEnv;

    fn place() -> (tempfile::TempDir, UserToken) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(DataDir::credentials_dir_of(dir.path())).unwrap();
        let token = UserToken::of(dir.path());
        (dir, token)
    }

    #[test]
    fn the_token_stays_the_same_until_it_is_rotated() {
        let (_dir, place) = place();
        let env = SystemEnv::new();
        assert_eq!(place.load().unwrap(), None);
        let first = place.load_or_create(&env).unwrap();
        assert!(first.expose().starts_with(PREFIX));
        assert_eq!(place.load_or_create(&env).unwrap(), first);
        let second = place.rotate(&env).unwrap();
        assert_ne!(second, first);
        assert_eq!(place.load().unwrap(), Some(second));
    }

    #[test]
    fn a_file_that_holds_something_else_is_named() {
        let (_dir, place) = place();
        fs::write(place.path(), "secret").unwrap();
        let error = place.load_or_create(&SystemEnv::new()).unwrap_err();
        assert_eq!(error.code(), Code::DataDirUnusable);
        assert!(error.message().contains("user-token") && !error.message().contains("secret"));
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_dir, place) = place();
        place.load_or_create(&SystemEnv::new()).unwrap();
        let mode = fs::metadata(place.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

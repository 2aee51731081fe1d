//! Where a core listens, on each platform, and who is let in.
//!
//! The place is the socket file in the data directory. Where that cannot be (its path is longer than
//! sockets allow, or the platform has pipes instead), it is elsewhere, and a file in the data directory
//! records it.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use interprocess::local_socket::tokio::{Listener, Stream, prelude::*};
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};

use crate::store::DataDir;

/// The file that records another place than the usual one.
const RECORD: &str = "cortex.sock.at";

/// A socket that listens. Dropping it takes the place away.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) listener: Listener,
    path: PathBuf,
    data_dir: PathBuf,
}

/// Listens for `data_dir`. `unique` is a name that nobody else has.
///
/// What an earlier core left there is replaced: whoever calls holds the data directory.
pub(super) fn listen(data_dir: &Path, unique: &str) -> io::Result<Bound> {
    clear(data_dir);
    let path = platform::place(data_dir, unique)?;
    if path != DataDir::socket_path_of(data_dir) {
        fs::write(data_dir.join(RECORD), path.as_os_str().as_encoded_bytes())?;
    }
    let listener = platform::bind(&path)?;
    Ok(Bound { listener, path, data_dir: data_dir.to_owned() })
}

/// Connects to the core of `data_dir`. None: none listens.
pub(super) async fn connect(data_dir: &Path) -> io::Result<Option<Stream>> {
    let path = match fs::read_to_string(data_dir.join(RECORD)) {
        Ok(path) => PathBuf::from(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => DataDir::socket_path_of(data_dir),
        Err(error) => return Err(error),
    };
    if !platform::can_be(&path) {
        return Ok(None);
    }
    let name = path.as_path().to_fs_name::<GenericFilePath>()?;
    match Stream::connect(name).await {
        Ok(stream) => {
            check_peer(&stream)?;
            Ok(Some(stream))
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Refuses everybody but the user who runs this process, whatever the modes of files say.
pub(super) fn check_peer(stream: &Stream) -> io::Result<()> {
    platform::check_peer(stream)
}

/// Takes away what a core left. None of it may be there.
fn clear(data_dir: &Path) {
    if let Ok(path) = fs::read_to_string(data_dir.join(RECORD)) {
        platform::remove(Path::new(&path));
        drop(fs::remove_file(data_dir.join(RECORD)));
    }
    drop(fs::remove_file(DataDir::socket_path_of(data_dir)));
}

impl Drop for Bound {
    fn drop(&mut self) {
        clear(&self.data_dir);
        platform::remove(&self.path);
    }
}

#[cfg(unix)]
mod platform {
    use std::io;
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    use std::path::{Path, PathBuf};

    use interprocess::local_socket::traits::StreamCommon as _;
    use interprocess::os::unix::local_socket::ListenerOptionsExt as _;

    use super::{DataDir, GenericFilePath, Listener, ListenerOptions, Stream, ToFsName as _, fs};

    /// The longest path of a socket: macOS has room for 104 bytes with the NUL, Linux for 108.
    const PATH_BYTES_MAX: usize = 103;
    const MODE: u16 = 0o600;

    pub(super) fn can_be(path: &Path) -> bool {
        path.as_os_str().len() <= PATH_BYTES_MAX
    }

    /// The usual place, or a new folder for temporary files that only this user can enter.
    pub(super) fn place(data_dir: &Path, unique: &str) -> io::Result<PathBuf> {
        let usual = DataDir::socket_path_of(data_dir);
        if can_be(&usual) {
            return Ok(usual);
        }
        let folder = std::env::temp_dir().join(format!("cortex-{unique}"));
        // It fails when the folder exists: nobody can have prepared it.
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(folder.join("s"))
    }

    pub(super) fn bind(path: &Path) -> io::Result<Listener> {
        let name = path.to_fs_name::<GenericFilePath>()?;
        let options = || ListenerOptions::new().name(name.clone());
        match options().mode(MODE.into()).create_tokio() {
            // Where a socket cannot be born with a mode (macOS), it gets it a moment later; the peer is
            // checked in any case.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let listener = options().create_tokio()?;
                fs::set_permissions(path, std::fs::Permissions::from_mode(MODE.into()))?;
                Ok(listener)
            }
            made => made,
        }
    }

    pub(super) fn remove(path: &Path) {
        drop(fs::remove_file(path));
        let own = |folder: &&Path| folder.starts_with(std::env::temp_dir());
        if let Some(folder) = path.parent().filter(own) {
            // Only an empty folder goes.
            drop(fs::remove_dir(folder));
        }
    }

    pub(super) fn check_peer(stream: &Stream) -> io::Result<()> {
        let own = rustix::process::geteuid().as_raw();
        match stream.peer_creds()?.euid() {
            Some(peer) if peer == own => Ok(()),
            peer => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("the other side runs as user {peer:?}, not as user {own}"),
            )),
        }
    }
}

#[cfg(windows)]
mod platform {
    use std::io;
    use std::path::{Path, PathBuf};

    use interprocess::os::windows::local_socket::ListenerOptionsExt as _;
    use interprocess::os::windows::security_descriptor::SecurityDescriptor;

    use super::{GenericFilePath, Listener, ListenerOptions, Stream, ToFsName as _};

    /// Everything for the owner and the system, nothing for anybody else.
    const ACCESS: &widestring::U16CStr = widestring::u16cstr!("D:P(A;;GA;;;OW)(A;;GA;;;SY)");

    pub(super) fn can_be(path: &Path) -> bool {
        path.as_os_str().as_encoded_bytes().starts_with(br"\\.\pipe\")
    }

    /// A pipe with a name that nobody can have taken before.
    pub(super) fn place(_: &Path, unique: &str) -> io::Result<PathBuf> {
        Ok(PathBuf::from(format!(r"\\.\pipe\cortex-{unique}")))
    }

    pub(super) fn bind(path: &Path) -> io::Result<Listener> {
        ListenerOptions::new()
            .name(path.to_fs_name::<GenericFilePath>()?)
            .security_descriptor(SecurityDescriptor::deserialize(ACCESS)?)
            .create_tokio()
    }

    /// A pipe goes with its last handle.
    pub(super) fn remove(_: &Path) {}

    /// The pipe's own access list has seen to it.
    pub(super) fn check_peer(_: &Stream) -> io::Result<()> {
        Ok(())
    }
}

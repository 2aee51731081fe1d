//! Opening the file: is it ours, is it of our time, and bringing it up to date.
//!
//! A new store is built beside its place and moved there when it is whole, so a file of this name is
//! either a store or not ours. A file that is not ours is never written to.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, params};

use super::{disk_code, sql};
use crate::error::{Code, Error, Result};
use crate::limits::{STATEMENTS_KEPT, WAL_BYTES_KEPT};
use crate::time::Timestamp;

/// "CRTX": says that a `SQLite` file is a store of Cortex.
const APPLICATION_ID: i32 = 0x4352_5458;

/// Every migration, in order. A released one is never edited; a change is a new file.
const MIGRATIONS: &[&str] =
    &[include_str!("migrations/0001_init.sql"), include_str!("migrations/0002_connection.sql")];

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    /// It does: an answered write survives a power cut.
    Full,
    /// It does not: the disk of a simulation, which has a power of its own.
    #[cfg(any(test, feature = "testing"))]
    Off,
}

/// Opens the store at `path` for writing, makes it if there is none, and brings it up to date.
pub(super) fn open(path: &Path, sync: Sync, now: Timestamp) -> Result<Connection> {
    match stored_version(path)? {
        Some(version) => of_our_time(path, version)?,
        None => create(path, now)?,
    }
    let mut conn = connect(path, OpenFlags::empty())?;
    // The log may know of a newer version than the file does. Until then it is left as it was.
    leave_log_on_close(&conn, true)?;
    let version = version(&conn)?;
    of_our_time(path, version)?;
    leave_log_on_close(&conn, false)?;
    configure(&conn, sync)?;
    migrate(&mut conn, version)?;
    // Off during migrations, which may build tables anew.
    conn.pragma_update(None, "foreign_keys", true).map_err(sql)?;
    Ok(conn)
}

fn of_our_time(path: &Path, version: usize) -> Result<()> {
    let known = MIGRATIONS.len();
    if version <= known {
        return Ok(());
    }
    let message = format!(
        "the store {} has version {version}; this Cortex knows versions up to {known}",
        path.display()
    );
    Err(Error::new(Code::StoreNewer, message))
}

/// The version of the store that stands there, if one does. Looks at the first bytes only: opening a
/// foreign file with `SQLite` could already change it.
fn stored_version(path: &Path) -> Result<Option<usize>> {
    let unusable = |error: std::io::Error| {
        Error::new(
            Code::DataDirUnusable,
            format!("the store {} cannot be read: {error}", path.display()),
        )
    };
    let file = match fs_err::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(error)),
    };
    let mut header = Vec::with_capacity(100);
    file.take(100).read_to_end(&mut header).map_err(unusable)?;
    if header.is_empty() {
        return Ok(None);
    }
    // Big-endian numbers (SQLite file format, 1.3): the version at byte 60, the application at 68.
    let number = |at: usize| {
        let bytes = header.get(at..)?.first_chunk().copied()?;
        Some(i32::from_be_bytes(bytes))
    };
    let version = number(60).and_then(|version| usize::try_from(version).ok());
    let ours = header.starts_with(b"SQLite format 3\0") && number(68) == Some(APPLICATION_ID);
    if version.is_none() || !ours {
        let message = format!("{} is not a store of Cortex", path.display());
        return Err(Error::new(Code::StoreCorrupt, message));
    }
    Ok(version)
}

fn create(path: &Path, now: Timestamp) -> Result<()> {
    let unusable = |error: std::io::Error| {
        Error::new(
            disk_code(&error),
            format!("the store {} cannot be made: {error}", path.display()),
        )
    };
    let draft = beside(path, ".new");
    // What an earlier start left when it was cut off.
    for leftover in [&draft, &beside(path, ".new-journal")] {
        match fs_err::remove_file(leftover) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(unusable(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    make_private(&draft).map_err(unusable)?;
    let mut conn = connect(&draft, OpenFlags::SQLITE_OPEN_CREATE)?;
    conn.pragma_update(None, "application_id", APPLICATION_ID).map_err(sql)?;
    migrate(&mut conn, 0)?;
    let millis = now.as_millis().max(1);
    conn.execute(
        "INSERT INTO meta (only, created_at, first_seq) VALUES (1, ?1, ?2)",
        params![millis, millis.saturating_mul(1000)],
    )
    .map_err(sql)?;
    conn.close().map_err(|(_, error)| sql(error))?;
    fs_err::rename(&draft, path).map_err(unusable)?;
    sync_folder(path).map_err(unusable)
}

/// Makes an empty file for its owner only. What `SQLite` puts beside it gets the same rights.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut options = fs_err::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path).map(drop)
}

/// Makes a rename survive a power cut.
#[cfg(unix)]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), |folder| fs_err::File::open(folder)?.sync_all())
}

/// Windows cannot sync a folder; NTFS keeps its own journal of names.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

fn connect(path: &Path, more: OpenFlags) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let conn = Connection::open_with_flags(path, flags).map_err(sql)?;
    keep_statements(&conn)?;
    Ok(conn)
}

/// Keeps statements that were compiled, for as long as the schema stays the same.
pub(super) fn keep_statements(conn: &Connection) -> Result<()> {
    conn.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Without this guarantee SQLite compiles a statement anew whenever another value is bound that might fit the
    // condition of an index: most of the time of a read (https://sqlite.org/queryplanner-ng.html#qpsg).
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop).map_err(sql)
}

fn leave_log_on_close(conn: &Connection, leave: bool) -> Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave).map(drop).map_err(sql)
}

fn configure(conn: &Connection, sync: Sync) -> Result<()> {
    let mode: String =
        conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(sql)?;
    if mode != "wal" {
        let message = format!("the file system of the store has no write-ahead log (mode {mode})");
        return Err(
            Error::new(Code::StoreFailed, message).remedy("Use a data directory on a local disk.")
        );
    }
    let synchronous = match sync {
        Sync::Full => "FULL",
        #[cfg(any(test, feature = "testing"))]
        Sync::Off => "OFF",
    };
    conn.pragma_update(None, "synchronous", synchronous).map_err(sql)?;
    // On macOS fsync stops at the drive's cache without these. Elsewhere they mean nothing.
    conn.pragma_update(None, "fullfsync", true).map_err(sql)?;
    conn.pragma_update(None, "checkpoint_fullfsync", true).map_err(sql)?;
    // SQLite's own 4 MB: a checkpoint is one slow commit in some hundred, and a start reads that much.
    conn.pragma_update(None, "wal_autocheckpoint", 1000).map_err(sql)?;
    let kept = i64::try_from(WAL_BYTES_KEPT).unwrap_or(i64::MAX);
    conn.query_row(&format!("PRAGMA journal_size_limit = {kept}"), [], |_| Ok(())).map_err(sql)?;
    conn.pragma_update(None, "trusted_schema", false).map_err(sql)
}

fn version(conn: &Connection) -> Result<usize> {
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sql)?;
    usize::try_from(version).map_err(|_| {
        Error::new(Code::StoreCorrupt, format!("the store has the impossible version {version}"))
    })
}

/// Applies what is missing, each migration whole or not at all.
fn migrate(conn: &mut Connection, from: usize) -> Result<()> {
    conn.pragma_update(None, "foreign_keys", false).map_err(sql)?;
    for (nth, migration) in MIGRATIONS.iter().enumerate().skip(from) {
        let step = conn.transaction().map_err(sql)?;
        step.execute_batch(migration).map_err(sql)?;
        let dangling = step.prepare("PRAGMA foreign_key_check").map_err(sql)?.exists([]);
        if dangling.map_err(sql)? {
            let message = format!("migration {} leaves rows that point to nothing", nth + 1);
            return Err(Error::new(Code::Defect, message));
        }
        step.pragma_update(None, "user_version", i64::try_from(nth + 1).unwrap_or(i64::MAX))
            .map_err(sql)?;
        step.commit().map_err(sql)?;
    }
    Ok(())
}

//! Readers: read-only connections of their own, each read one consistent snapshot.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};

use super::migrate::keep_statements;
use super::tx::ReadTx;
use super::{exec, sql};
use crate::error::{Code, Error, Result};
use crate::limits::READERS_KEPT;

/// The connections that nobody reads with at the moment.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    /// Absent once the store is closed. A lock, because it is held for a push or a pop, and because
    /// an owner on a thread of its own would make a read wait for two switches of threads.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::new(Some(Vec::new())) }
    }

    /// Reads one snapshot. Never waits: neither for the writer nor for other readers.
    pub(super) fn read<T>(&self, f: impl FnOnce(&ReadTx<'_>) -> Result<T>) -> Result<T> {
        let conn = self.take()?;
        exec(&conn, "BEGIN")?;
        let value = f(&ReadTx::new(&conn));
        // One that does not get here is closed, and its snapshot with it.
        exec(&conn, "COMMIT")?;
        self.give_back(conn);
        value
    }

    /// Lets no more reads begin and closes the connections. Reads that run end on their own.
    pub(super) fn close(&self) {
        drop(self.idle.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn take(&self) -> Result<Connection> {
        let idle = match &mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(idle) => idle.pop(),
            None => return Err(Error::new(Code::CoreStopped, "the store is closed")),
        };
        idle.map_or_else(|| self.open(), Ok)
    }

    fn give_back(&self, conn: Connection) {
        if let Some(idle) = &mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner)
            && idle.len() < READERS_KEPT
        {
            idle.push(conn);
        }
    }

    fn open(&self) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(&self.path, flags).map_err(sql)?;
        keep_statements(&conn)?;
        Ok(conn)
    }
}

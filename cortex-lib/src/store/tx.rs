//! What a closure sees of the store: a snapshot to read, or the one transaction that writes.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Params};

use super::event_log::{self, Event, NewEvent};
use super::row::Row;
use super::sql;
use super::writer::Shared;
use crate::env::Env;
use crate::error::Result;
use crate::secret::redact_json;
use crate::time::Timestamp;

/// One consistent view of the store. Queries are methods on it, so a write can use them too.
pub struct ReadTx<'c> {
    conn: &'c Connection,
}

impl<'c> ReadTx<'c> {
    pub(super) fn new(conn: &'c Connection) -> Self {
        Self { conn }
    }

    /// The connection, for the queries of this module only. Use `prepare_cached`.
    pub(crate) fn conn(&self) -> &Connection {
        self.conn
    }

    /// Every row of a query.
    pub(super) fn rows<T>(
        &self,
        query: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.conn.prepare_cached(query).map_err(sql)?;
        let rows = statement.query_map(params, |row| read(&Row::of(row))).map_err(sql)?;
        rows.collect::<rusqlite::Result<_>>().map_err(sql)
    }

    /// The first row of a query, if there is one.
    pub(super) fn row<T>(
        &self,
        query: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.conn.prepare_cached(query).map_err(sql)?;
        statement.query_row(params, |row| read(&Row::of(row))).optional().map_err(sql)
    }
}

/// The open write transaction. Nothing of it is seen by others before it is committed.
pub struct WriteTx<'c> {
    read: ReadTx<'c>,
    /// The events of the commit so far; those of earlier closures included.
    events: &'c mut Vec<Arc<Event>>,
    /// The number of the first event of the commit.
    first_seq: u64,
    now: Timestamp,
    steady: Timestamp,
    env: &'c dyn Env,
}

impl<'c> WriteTx<'c> {
    pub(super) fn new(
        conn: &'c Connection,
        events: &'c mut Vec<Arc<Event>>,
        first_seq: u64,
        shared: &'c Shared,
    ) -> Self {
        let env = shared.env();
        let (now, steady) = (env.now(), shared.steady());
        Self { read: ReadTx::new(conn), events, first_seq, now, steady, env }
    }

    /// The wall clock, the same during the whole closure: for records.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The wall clock when the store was opened plus the time since, the same during the whole
    /// closure: for everything that is due. A clock that is set back changes nothing.
    pub fn steady(&self) -> Timestamp {
        self.steady
    }

    /// Identifiers and dice.
    pub fn env(&self) -> &dyn Env {
        self.env
    }

    /// Runs a statement that answers nothing.
    pub(super) fn execute(&self, statement: &str, params: impl Params) -> Result<()> {
        let mut statement = self.conn().prepare_cached(statement).map_err(sql)?;
        statement.execute(params).map(drop).map_err(sql)
    }

    /// Adds an event to the log. It is numbered now and seen by others when all of this is committed.
    ///
    /// This is the one way into the log, so secrets that came this far are taken out here.
    pub fn emit(&mut self, mut event: NewEvent) -> Result<()> {
        redact_json(&mut event.data);
        let nth = u64::try_from(self.events.len()).unwrap_or(u64::MAX);
        let event = event.numbered(self.first_seq.saturating_add(nth), self.now);
        event_log::append(self.conn(), &event)?;
        self.events.push(Arc::new(event));
        Ok(())
    }
}

impl<'c> Deref for WriteTx<'c> {
    type Target = ReadTx<'c>;

    fn deref(&self) -> &Self::Target {
        &self.read
    }
}

impl fmt::Debug for ReadTx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadTx").finish_non_exhaustive()
    }
}

impl fmt::Debug for WriteTx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteTx").field("now", &self.now).finish_non_exhaustive()
    }
}

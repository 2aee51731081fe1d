//! A row of an answer, read column by column.

use std::cell::Cell;

use rusqlite::Result;
use rusqlite::types::FromSql;

/// A row whose columns are asked for by name, most quickly in the order of the query.
///
/// `SQLite` finds a name by going through all names. Rows are read in the order in which they were asked for, so
/// the place behind the last one is tried first.
pub(super) struct Row<'r> {
    row: &'r rusqlite::Row<'r>,
    next: Cell<usize>,
}

impl<'r> Row<'r> {
    pub(super) fn of(row: &'r rusqlite::Row<'r>) -> Self {
        Self { row, next: Cell::new(0) }
    }

    /// The column of this name.
    pub(super) fn get<T: FromSql>(&self, column: &str) -> Result<T> {
        let statement: &rusqlite::Statement<'_> = self.row.as_ref();
        let next = self.next.get();
        let at = match statement.column_name(next) {
            Ok(name) if name == column => next,
            _ => statement.column_index(column)?,
        };
        self.next.set(at + 1);
        self.row.get(at)
    }

    /// The only column of a query that asks for one.
    pub(super) fn only<T: FromSql>(&self) -> Result<T> {
        self.row.get(0)
    }
}

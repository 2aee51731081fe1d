//! What is due by time alone.

use super::row::Row;
use super::{ReadTx, WriteTx};
use crate::error::Result;
use crate::ids::{ApprovalId, AttemptId, ConnectionId, TurnId};
use crate::time::Timestamp;

/// What a timer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The time of an attempt is over.
    AttemptDeadline(AttemptId),
    /// The patience with an ending attempt is over.
    AttemptGrace(AttemptId),
    /// The patience with an interrupted direct turn is over.
    TurnGrace(TurnId),
    /// The patience with a person who was asked about a tool is over.
    ApprovalDue(ApprovalId),
    /// The time of a connection is over: nobody decided, or its client did not come back.
    ConnectionDue(ConnectionId),
    /// The time to live of a message, or of an idempotency key, is over. One for all: it is set to the first.
    MessagesDue,
}

impl Timer {
    fn columns(&self) -> (&str, &'static str) {
        match self {
            Self::AttemptDeadline(id) => (id.as_str(), "attempt_deadline"),
            Self::AttemptGrace(id) => (id.as_str(), "attempt_grace"),
            Self::TurnGrace(id) => (id.as_str(), "turn_grace"),
            Self::ApprovalDue(id) => (id.as_str(), "approval_due"),
            Self::ConnectionDue(id) => (id.as_str(), "connection_due"),
            Self::MessagesDue => ("messages", "messages_due"),
        }
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        let subject: String = row.get("subject")?;
        Ok(match row.get::<String>("kind")?.as_str() {
            "attempt_deadline" => Some(Self::AttemptDeadline(AttemptId::new(subject))),
            "attempt_grace" => Some(Self::AttemptGrace(AttemptId::new(subject))),
            "turn_grace" => Some(Self::TurnGrace(TurnId::new(subject))),
            "approval_due" => Some(Self::ApprovalDue(ApprovalId::new(subject))),
            "connection_due" => Some(Self::ConnectionDue(ConnectionId::new(subject))),
            "messages_due" => Some(Self::MessagesDue),
            _ => None,
        })
    }
}

impl ReadTx<'_> {
    /// When the next timer is due.
    pub fn next_timer(&self) -> Result<Option<Timestamp>> {
        Ok(self.row("SELECT min(due_at) FROM timer", [], |row| row.only())?.flatten())
    }

    /// The timers that are due at `at`, the earliest first.
    pub fn due_timers(&self, at: Timestamp) -> Result<Vec<Timer>> {
        let query =
            "SELECT subject, kind FROM timer WHERE due_at <= ?1 ORDER BY due_at, subject, kind";
        Ok(self.rows(query, [at], Timer::from_row)?.into_iter().flatten().collect())
    }
}

impl WriteTx<'_> {
    /// Sets a timer, in place of the same one set before.
    pub fn set_timer(&mut self, timer: &Timer, due_at: Timestamp) -> Result<()> {
        let (subject, kind) = timer.columns();
        let query = "INSERT INTO timer (subject, kind, due_at) VALUES (?1, ?2, ?3)
                     ON CONFLICT (subject, kind) DO UPDATE SET due_at = excluded.due_at";
        self.execute(query, (subject, kind, due_at))
    }

    /// Takes a timer away.
    pub fn clear_timer(&mut self, timer: &Timer) -> Result<()> {
        let query = "DELETE FROM timer WHERE subject = ?1 AND kind = ?2";
        self.execute(query, timer.columns())
    }

    /// Stops the time of an attempt: what is left of it is kept. Again: it has stopped already.
    pub(crate) fn hold_attempt_clock(&mut self, id: &AttemptId) -> Result<()> {
        let timer = Timer::AttemptDeadline(id.clone());
        let query = "SELECT due_at FROM timer WHERE subject = ?1 AND kind = ?2";
        let Some(due): Option<Timestamp> = self.row(query, timer.columns(), |row| row.only())?
        else {
            return Ok(());
        };
        let left = i64::try_from(due.since(self.steady()).as_millis()).unwrap_or(i64::MAX);
        self.clear_timer(&timer)?;
        self.execute("UPDATE attempt SET time_left = ?2 WHERE attempt_id = ?1", (id, left))
    }

    /// Lets the time of an attempt run on, if it was stopped.
    pub(crate) fn release_attempt_clock(&mut self, id: &AttemptId) -> Result<()> {
        let query = "SELECT time_left FROM attempt WHERE attempt_id = ?1";
        let left: Option<i64> = self.row(query, [id], |row| row.only())?.flatten();
        let Some(left) = left else { return Ok(()) };
        let left = std::time::Duration::from_millis(u64::try_from(left).unwrap_or(0));
        let due = self.steady().after(left);
        self.execute("UPDATE attempt SET time_left = NULL WHERE attempt_id = ?1", [id])?;
        self.set_timer(&Timer::AttemptDeadline(id.clone()), due)
    }

    /// Takes every timer of an attempt or a turn away.
    pub(crate) fn clear_timers_of(&mut self, subject: &str) -> Result<()> {
        self.execute("DELETE FROM timer WHERE subject = ?1", [subject])
    }
}

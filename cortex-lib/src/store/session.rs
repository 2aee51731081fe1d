//! Sessions: one life each of an agent's conversation.

use super::row::Row;
use super::{ReadTx, WriteTx};
use crate::error::Result;
use crate::ids::{AgentId, AttemptId, RuntimeId, SessionId};
use crate::secret::SecretHash;
use crate::time::Timestamp;

/// One life of an agent's conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The session.
    pub id: SessionId,
    /// Whose it is.
    pub agent_id: AgentId,
    /// The runtime it runs on.
    pub runtime_id: RuntimeId,
    /// The attempt that it was opened for alone, in its worktree. None: it is the agent's own conversation.
    pub attempt_id: Option<AttemptId>,
    /// The runtime's own name of it.
    pub native_session_id: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// Whether it went on with an earlier native session.
    pub resumed: bool,
    /// When it was begun.
    pub started_at: Timestamp,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
}

/// Who was handed a credential.
#[cfg(feature = "mcp")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The session itself.
    Session,
    /// A hook that its CLI runs.
    Hook,
}

const COLUMNS: &str = "session_id, agent_id, runtime_id, attempt_id, native_session_id, pid, resumed, started_at, ended_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        id: row.get("session_id")?,
        agent_id: row.get("agent_id")?,
        runtime_id: row.get("runtime_id")?,
        attempt_id: row.get("attempt_id")?,
        native_session_id: row.get("native_session_id")?,
        pid: row.get("pid")?,
        resumed: row.get("resumed")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
    })
}

impl ReadTx<'_> {
    /// One session, if it was ever begun.
    pub fn session(&self, id: &SessionId) -> Result<Option<SessionRow>> {
        let query = format!("SELECT {COLUMNS} FROM session WHERE session_id = ?1");
        self.row(&query, [id], from_row)
    }

    /// Sessions without an end, oldest first.
    pub fn live_sessions(&self) -> Result<Vec<SessionRow>> {
        let query = format!(
            "SELECT {COLUMNS} FROM session WHERE ended_at IS NULL ORDER BY started_at, session_id"
        );
        self.rows(&query, [], from_row)
    }

    /// The sessions that live and were opened for one attempt alone, the oldest first.
    pub fn live_sessions_of_attempts(&self) -> Result<Vec<SessionRow>> {
        let query = format!(
            "SELECT {COLUMNS} FROM session WHERE ended_at IS NULL AND attempt_id IS NOT NULL
             ORDER BY started_at, session_id"
        );
        self.rows(&query, [], from_row)
    }

    /// How many sessions live, those of the planner included.
    pub fn live_session_count(&self) -> Result<u32> {
        let query = "SELECT (SELECT count(*) FROM session WHERE ended_at IS NULL)
                          + (SELECT count(*) FROM planner_session)";
        Ok(self.row(query, [], |row| row.only())?.unwrap_or_default())
    }

    /// The live session that has a credential with this hash, and which one it is.
    #[cfg(feature = "mcp")]
    pub(crate) fn session_by_token(
        &self,
        hash: &SecretHash,
    ) -> Result<Option<(SessionRow, Holder)>> {
        let query = format!(
            "SELECT {COLUMNS}, hook_token_hash IS ?1 AS by_hook FROM session
             WHERE (token_hash = ?1 OR hook_token_hash = ?1) AND ended_at IS NULL"
        );
        let read = |row: &Row<'_>| {
            let session = from_row(row)?;
            let holder = if row.get("by_hook")? { Holder::Hook } else { Holder::Session };
            Ok((session, holder))
        };
        self.row(&query, [hash.as_bytes()], read)
    }
}

impl WriteTx<'_> {
    /// Begins a session of an agent; `attempt`: it is for that attempt alone.
    pub(crate) fn insert_session(
        &mut self,
        id: &SessionId,
        agent_id: &AgentId,
        runtime_id: &RuntimeId,
        attempt: Option<&AttemptId>,
    ) -> Result<()> {
        let query = "INSERT INTO session (session_id, agent_id, runtime_id, attempt_id, started_at) VALUES (?1, ?2, ?3, ?4, ?5)";
        let now = self.now();
        self.execute(query, (id, agent_id, runtime_id, attempt, now))
    }

    /// Keeps the hashes of the credentials of a session and of its hooks. One that is over gets none.
    pub(crate) fn set_session_tokens(
        &mut self,
        id: &SessionId,
        session: &SecretHash,
        hook: &SecretHash,
    ) -> Result<()> {
        let query = "UPDATE session SET token_hash = ?2, hook_token_hash = ?3 WHERE session_id = ?1 AND ended_at IS NULL";
        self.execute(query, (id, session.as_bytes(), hook.as_bytes()))
    }

    /// Keeps what became known when a session opened.
    pub fn set_session_facts(
        &mut self,
        id: &SessionId,
        native: Option<&str>,
        pid: Option<u32>,
        resumed: bool,
    ) -> Result<()> {
        let query = "UPDATE session SET native_session_id = ?2, pid = ?3, resumed = ?4 WHERE session_id = ?1";
        self.execute(query, (id, native, pid, resumed))?;
        self.set_native_session(id, native)
    }

    /// Keeps the runtime's own name of a session, by which its agent can go on with it.
    pub fn set_native_session(&mut self, id: &SessionId, native: Option<&str>) -> Result<()> {
        let query = "UPDATE session SET native_session_id = ?2 WHERE session_id = ?1";
        self.execute(query, (id, native))?;
        // What an ended session still says must not send its agent back to it, nor what the session of one
        // attempt says: its agent goes on with its own conversation.
        let query = "UPDATE agent SET native_session_id = ?2
                     WHERE agent_id = (SELECT agent_id FROM session WHERE session_id = ?1 AND ended_at IS NULL AND attempt_id IS NULL)";
        self.execute(query, (id, native))
    }

    /// Ends a session: its credentials die with it.
    pub(crate) fn end_session(&mut self, id: &SessionId) -> Result<()> {
        let query = "UPDATE session SET ended_at = ?2, token_hash = NULL, hook_token_hash = NULL WHERE session_id = ?1 AND ended_at IS NULL";
        let now = self.now();
        self.execute(query, (id, now))
    }
}

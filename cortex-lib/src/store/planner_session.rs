//! Sessions of the planner. They belong to no agent, so they are no rows of `session`.

use super::row::Row;
use super::{ReadTx, WriteTx};
use crate::error::Result;
use crate::ids::{ProjectId, RuntimeId, SessionId};

/// A session of the planner that lives, or that an earlier life left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannerSession {
    /// The session: the marker of its processes and the name of its folder.
    pub id: SessionId,
    /// The project that it plans for.
    pub project_id: ProjectId,
    /// The runtime it runs on.
    pub runtime_id: RuntimeId,
}

const COLUMNS: &str = "session_id, project_id, runtime_id";

fn from_row(row: &Row<'_>) -> rusqlite::Result<PlannerSession> {
    Ok(PlannerSession {
        id: row.get("session_id")?,
        project_id: row.get("project_id")?,
        runtime_id: row.get("runtime_id")?,
    })
}

impl ReadTx<'_> {
    /// Every session of the planner, oldest first.
    pub fn planner_sessions(&self) -> Result<Vec<PlannerSession>> {
        let query =
            format!("SELECT {COLUMNS} FROM planner_session ORDER BY started_at, session_id");
        self.rows(&query, [], from_row)
    }
}

impl WriteTx<'_> {
    /// Keeps a session that is about to be opened.
    pub(crate) fn insert_planner_session(&mut self, session: &PlannerSession) -> Result<()> {
        let query = "INSERT INTO planner_session (session_id, project_id, runtime_id, started_at) VALUES (?1, ?2, ?3, ?4)";
        let now = self.now();
        self.execute(query, (&session.id, &session.project_id, &session.runtime_id, now))
    }

    /// Forgets a session of which nothing lives. One that is not there is not missed.
    pub(crate) fn remove_planner_session(&mut self, id: &SessionId) -> Result<()> {
        self.execute("DELETE FROM planner_session WHERE session_id = ?1", [id])
    }
}

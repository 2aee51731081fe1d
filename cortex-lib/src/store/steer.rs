//! Messages that were meant for a turn that ran.

use rusqlite::Row;

use super::column::{Json, json, json_or_none};
use super::{ReadTx, WriteTx};
use crate::domain::steer::{SteerInput, SteerState};
use crate::domain::{Machine as _, Refusal, Step};
use crate::error::Result;
use crate::ids::{AgentId, SessionId, TurnId};

/// A message that was meant for a turn that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steer {
    /// The message, and the turn that it becomes when it comes too late.
    pub id: TurnId,
    /// The turn that it is for.
    pub turn_id: TurnId,
    /// Whose turn that is.
    pub agent_id: AgentId,
    /// The session of that turn.
    pub session_id: SessionId,
    /// What to say.
    pub text: String,
    /// Where it stands.
    pub state: SteerState,
    /// Why it was not delivered, as an error on the wire.
    pub failure: Option<serde_json::Value>,
}

const COLUMNS: &str = "steer_id, turn_id, agent_id, session_id, text, state, failure";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Steer> {
    Ok(Steer {
        id: row.get("steer_id")?,
        turn_id: row.get("turn_id")?,
        agent_id: row.get("agent_id")?,
        session_id: row.get("session_id")?,
        text: row.get("text")?,
        state: json(row, "state")?,
        failure: json_or_none(row, "failure")?,
    })
}

impl ReadTx<'_> {
    /// One message for a turn that ran.
    pub fn steer(&self, id: &TurnId) -> Result<Option<Steer>> {
        let query = format!("SELECT {COLUMNS} FROM steer WHERE steer_id = ?1");
        self.row(&query, [id], from_row)
    }

    /// Those that are neither delivered nor given up, in the order in which they came.
    pub fn open_steers(&self) -> Result<Vec<Steer>> {
        let query = format!(
            "SELECT {COLUMNS} FROM steer WHERE ended_at IS NULL ORDER BY created_at, steer_id"
        );
        self.rows(&query, [], from_row)
    }
}

impl WriteTx<'_> {
    /// Keeps a message for a turn that runs.
    pub(crate) fn insert_steer(&mut self, steer: &Steer) -> Result<()> {
        let query = "INSERT INTO steer (steer_id, turn_id, agent_id, session_id, text, state, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let (now, state) = (self.now(), Json(steer.state));
        let (agent, session) = (&steer.agent_id, &steer.session_id);
        self.execute(query, (&steer.id, &steer.turn_id, agent, session, &steer.text, state, now))
    }

    /// Means a message for another turn than before.
    pub(crate) fn redirect_steer(&mut self, id: &TurnId, turn: &TurnId) -> Result<()> {
        self.execute("UPDATE steer SET turn_id = ?2 WHERE steer_id = ?1", (id, turn))
    }

    /// The one door of such a message's state. None: it is not known, or that has no meaning for it any more.
    pub(crate) fn step_steer(
        &mut self,
        id: &TurnId,
        input: SteerInput,
        failure: Option<&serde_json::Value>,
    ) -> Result<Option<Steer>> {
        let Some(mut steer) = self.steer(id)? else { return Ok(None) };
        match steer.state.step(input) {
            Ok(Step::To(next)) => steer.state = next,
            Ok(Step::Stay) => return Ok(Some(steer)),
            Err(Refusal::WrongState | Refusal::Stale) => return Ok(None),
        }
        let ended_at = steer.state.is_final().then(|| self.now());
        let query = "UPDATE steer SET state = ?2, failure = ?3, ended_at = ?4 WHERE steer_id = ?1";
        self.execute(query, (id, Json(steer.state), failure.map(Json), ended_at))?;
        Ok(Some(steer))
    }
}

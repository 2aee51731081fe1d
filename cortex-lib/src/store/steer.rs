//! Messages that were meant for a turn that ran.

use super::column::Json;
use super::row::Row;
use super::sent::{self, Sent};
use super::{ReadTx, WriteTx};
use crate::domain::steer::{SteerInput, SteerState};
use crate::error::Result;
use crate::ids::TurnId;

/// A message that was meant for a turn that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steer {
    /// The turn that it is for.
    pub turn_id: TurnId,
    /// The message.
    pub sent: Sent<SteerState>,
}

const COLUMNS: &str = "steer_id AS id, turn_id, agent_id, session_id, text, state, failure";
const STEP: &str = "UPDATE steer SET state = ?2, failure = ?3, ended_at = ?4 WHERE steer_id = ?1";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Steer> {
    Ok(Steer { turn_id: row.get("turn_id")?, sent: sent::from_row(row)? })
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
        let (turn, Sent { id, agent_id, session_id, text, state, .. }) =
            (&steer.turn_id, &steer.sent);
        let now = self.now();
        self.execute(query, (id, turn, agent_id, session_id, text, Json(state), now))
    }

    /// Means a message for another turn than before. It comes behind those that are on their way there already.
    pub(crate) fn redirect_steer(&mut self, id: &TurnId, turn: &TurnId) -> Result<()> {
        let query = "UPDATE steer SET turn_id = ?2, created_at = ?3 WHERE steer_id = ?1";
        let now = self.now();
        self.execute(query, (id, turn, now))
    }

    /// The one door of such a message's state. None: it is not known, or that has no meaning for it any more.
    pub(crate) fn step_steer(
        &mut self,
        id: &TurnId,
        input: SteerInput,
        failure: Option<&serde_json::Value>,
    ) -> Result<Option<Steer>> {
        let Some(mut steer) = self.steer(id)? else { return Ok(None) };
        let stepped = self.step_sent(&mut steer.sent, input, failure, STEP)?;
        Ok(stepped.then_some(steer))
    }
}

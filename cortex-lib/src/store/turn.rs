//! Turns that a person sent directly to an agent.

use rusqlite::Row;

use super::column::{Json, json, json_or_none};
use super::{ReadTx, WriteTx};
use crate::domain::turn::{TurnInput, TurnState};
use crate::domain::{Machine as _, Refusal, Step};
use crate::error::Result;
use crate::ids::{AgentId, SessionId, TurnId};

/// A direct turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectTurn {
    /// The turn.
    pub id: TurnId,
    /// Whose it is.
    pub agent_id: AgentId,
    /// The session it was sent in.
    pub session_id: SessionId,
    /// What to do.
    pub text: String,
    /// Where it stands.
    pub state: TurnState,
    /// Why it could not be sent, as an error on the wire.
    pub failure: Option<serde_json::Value>,
}

const COLUMNS: &str = "turn_id, agent_id, session_id, text, state, failure";

fn from_row(row: &Row<'_>) -> rusqlite::Result<DirectTurn> {
    Ok(DirectTurn {
        id: row.get("turn_id")?,
        agent_id: row.get("agent_id")?,
        session_id: row.get("session_id")?,
        text: row.get("text")?,
        state: json(row, "state")?,
        failure: json_or_none(row, "failure")?,
    })
}

impl ReadTx<'_> {
    /// One direct turn.
    pub fn direct_turn(&self, id: &TurnId) -> Result<Option<DirectTurn>> {
        let query = format!("SELECT {COLUMNS} FROM turn WHERE turn_id = ?1");
        self.row(&query, [id], from_row)
    }

    /// Direct turns that are not over.
    pub fn live_direct_turns(&self) -> Result<Vec<DirectTurn>> {
        let query = format!(
            "SELECT {COLUMNS} FROM turn WHERE ended_at IS NULL ORDER BY started_at, turn_id"
        );
        self.rows(&query, [], from_row)
    }
}

impl WriteTx<'_> {
    /// Keeps a turn that is to be sent.
    pub fn insert_direct_turn(&mut self, turn: &DirectTurn) -> Result<()> {
        let query = "INSERT INTO turn (turn_id, agent_id, session_id, text, state, started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let now = self.now();
        self.execute(
            query,
            (&turn.id, &turn.agent_id, &turn.session_id, &turn.text, Json(turn.state), now),
        )
    }

    /// The one door of a direct turn's state. None: the turn is not known or was over before.
    pub(crate) fn step_direct_turn(
        &mut self,
        id: &TurnId,
        input: TurnInput,
        failure: Option<&serde_json::Value>,
    ) -> Result<Option<DirectTurn>> {
        let Some(mut turn) = self.direct_turn(id)? else { return Ok(None) };
        match turn.state.step(input) {
            Ok(Step::To(next)) => turn.state = next,
            Ok(Step::Stay) => return Ok(Some(turn)),
            Err(Refusal::WrongState | Refusal::Stale) => return Ok(None),
        }
        let ended_at = turn.state.is_final().then(|| self.now());
        let query = "UPDATE turn SET state = ?2, failure = ?3, ended_at = ?4 WHERE turn_id = ?1";
        self.execute(query, (id, Json(turn.state), failure.map(Json), ended_at))?;
        if turn.state.is_final() {
            self.clear_timers_of(id.as_str())?;
        }
        Ok(Some(turn))
    }
}

//! Turns that a person sent directly to an agent.

use super::column::Json;
use super::sent::{Sent, from_row};
use super::{ReadTx, WriteTx};
use crate::domain::Machine as _;
use crate::domain::turn::{TurnInput, TurnState};
use crate::error::Result;
use crate::ids::TurnId;

/// A direct turn.
pub type DirectTurn = Sent<TurnState>;

const COLUMNS: &str = "turn_id AS id, agent_id, session_id, text, state, failure";
const STEP: &str = "UPDATE turn SET state = ?2, failure = ?3, ended_at = ?4 WHERE turn_id = ?1";

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
        if !self.step_sent(&mut turn, input, failure, STEP)? {
            return Ok(None);
        }
        if turn.state.is_final() {
            self.clear_timers_of(id.as_str())?;
        }
        Ok(Some(turn))
    }
}

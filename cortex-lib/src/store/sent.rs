//! What people send to agents, as both of its tables keep it: turns, and messages for turns that run.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::WriteTx;
use super::column::{Json, json, json_or_none};
use super::row::Row;
use crate::domain::{Machine, Refusal, Step};
use crate::error::Result;
use crate::ids::{AgentId, SessionId, TurnId};

/// Something that a person sent to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent<S> {
    /// The turn that it is, or becomes when it comes too late for the one that runs.
    pub id: TurnId,
    /// Whose it is.
    pub agent_id: AgentId,
    /// The session that it is for.
    pub session_id: SessionId,
    /// What to say.
    pub text: String,
    /// Where it stands.
    pub state: S,
    /// Why it was not delivered, as an error on the wire.
    pub failure: Option<serde_json::Value>,
}

/// Reads one from a row that has its id as `id`.
pub(super) fn from_row<S: DeserializeOwned>(row: &Row<'_>) -> rusqlite::Result<Sent<S>> {
    Ok(Sent {
        id: row.get("id")?,
        agent_id: row.get("agent_id")?,
        session_id: row.get("session_id")?,
        text: row.get("text")?,
        state: json(row, "state")?,
        failure: json_or_none(row, "failure")?,
    })
}

impl WriteTx<'_> {
    /// What the doors of both tables do: steps it and keeps that by `update`. Returns whether that has a meaning for it.
    pub(super) fn step_sent<S: Machine + Serialize>(
        &mut self,
        sent: &mut Sent<S>,
        input: S::Input,
        failure: Option<&serde_json::Value>,
        update: &str,
    ) -> Result<bool> {
        match sent.state.step(input) {
            Ok(Step::To(next)) => sent.state = next,
            Ok(Step::Stay) => return Ok(true),
            Err(Refusal::WrongState | Refusal::Stale) => return Ok(false),
        }
        let ended_at = sent.state.is_final().then(|| self.now());
        self.execute(update, (&sent.id, Json(&sent.state), failure.map(Json), ended_at))?;
        Ok(true)
    }
}

//! `send_message`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::domain::agent::Interaction;
use crate::domain::turn::TurnState;
use crate::error::{Code, Error, Result};
use crate::ids::AgentId;
use crate::limits::{MESSAGE_BYTES_MAX, START_TIMEOUT};
use crate::store::{Agent, DirectTurn};

/// Send a message to a READY agent; it starts a turn. The reply is not returned here: when the turn ends, `poll_agent_events` reports `session.turn_completed` with the result, or `session.turn_failed`.
/// A BUSY agent (running a task) refuses it: `cancel_task` instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    /// The agent.
    pub agent_id: AgentId,
    /// What to do or to answer, at most 256 KiB.
    #[schemars(length(min = 1), extend("x-max-bytes" = MESSAGE_BYTES_MAX))]
    pub message: String,
}

/// The session accepted the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delivered {
    /// The agent.
    pub agent_id: AgentId,
    /// Always true.
    pub delivered: bool,
}

/// Refuses an agent that has no turns.
pub(super) fn structured(agent: &Agent) -> Result<()> {
    match agent.interaction {
        Interaction::Structured => Ok(()),
        Interaction::Terminal => {
            let message = format!("agent {} is in terminal mode and has no turns", agent.name);
            Err(Error::new(Code::RuntimeUnsupportedInTerminalMode, message)
                .with("agent_id", agent.id.as_str()))
        }
    }
}

impl Command for SendMessage {
    type Output = Delivered;
    const NAME: &'static str = "send_message";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[
        Code::AgentNotFound,
        Code::AgentStateConflict,
        Code::RuntimeUnsupportedInTerminalMode,
        Code::RuntimeTurnInProgress,
        Code::RuntimeSessionEnded,
        Code::RuntimeStartFailed,
        Code::RuntimeProtocol,
        Code::RuntimeRefused,
        Code::RuntimeNotLoggedIn,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let core = cx.core();
        core.store().read(|tx| structured(&cx.agent(tx, &self.agent_id)?))?;
        let (id, message) = (self.agent_id.clone(), self.message);
        let turn = core.store().write(move |tx| tx.begin_direct_turn(&id, message)).await?;
        let sent = core
            .wait_for(START_TIMEOUT, |tx| {
                Ok(match tx.direct_turn(&turn.id)? {
                    Some(turn) if turn.state == TurnState::Sending => None,
                    Some(DirectTurn { failure: Some(wire), .. }) => {
                        Some(Err(Error::from_wire(&wire)))
                    }
                    Some(_) | None => Some(Ok(())),
                })
            })
            .await?;
        sent.unwrap_or_else(|| {
            Err(Error::new(Code::RuntimeProtocol, "the runtime did not accept the message in time"))
        })?;
        Ok(Delivered { agent_id: self.agent_id, delivered: true })
    }
}

impl Tool for SendMessage {}

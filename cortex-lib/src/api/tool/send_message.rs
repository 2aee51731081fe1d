//! `send_message`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::domain::agent::Interaction;
use crate::domain::capability::Capability;
use crate::error::{Code, Error, Result};
use crate::ids::AgentId;
use crate::limits::{MESSAGE_BYTES_MAX, START_TIMEOUT};
use crate::store::Agent;

/// Send a message to a READY agent; it starts a turn. While a turn of a message runs, the next one goes into that turn if the runtime takes input meanwhile (`interactive_input`); else it is refused. A BUSY agent (running a task) refuses it: `cancel_task` instead.
/// Cost: the tokens of a turn; the call does not wait for the reply. Next: when the turn ends, `poll_agent_events` reports `session.turn_completed` with the result, or `session.turn_failed`.
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
        let agent = core.store().read(|tx| cx.agent(tx, &self.agent_id))?;
        structured(&agent)?;
        let (id, message) = (self.agent_id.clone(), self.message);
        let runtime = core.runtimes().get(&agent.runtime_id);
        let takes_input = runtime.is_some_and(|runtime| {
            runtime.info().capabilities.contains(&Capability::InteractiveInput)
        });
        let sent =
            core.store().write(move |tx| tx.send_to_agent(&id, message, takes_input)).await?;
        let delivery = match core.wait_for(START_TIMEOUT, |tx| tx.delivery(&sent)).await? {
            Some(delivery) => delivery,
            None => core.store().write(move |tx| tx.take_back(&sent)).await?,
        };
        delivery.map_err(|error| error.with("agent_id", self.agent_id.as_str()))?;
        Ok(Delivered { agent_id: self.agent_id, delivered: true })
    }
}

impl Tool for SendMessage {}

//! `interrupt_agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::send_message::structured;
use crate::api::view::AgentView;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::domain::capability::Capability;
use crate::error::{Code, Error, Result};
use crate::ids::AgentId;

/// Interrupt the current turn of a READY agent without ending its session; the turn then ends as `session.turn_failed` with cause interrupted. Does nothing when no turn runs. A BUSY agent (running a task) refuses it: `cancel_task` instead.
/// Cost: what the turn has spent is spent. Next: `send_message` with what it should do instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterruptAgent {
    /// The agent.
    pub agent_id: AgentId,
}

/// The turn was asked to end, if one ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interrupted {
    /// The agent.
    pub agent: AgentView,
    /// Always true, also when no turn ran.
    pub interrupted: bool,
}

impl Command for InterruptAgent {
    type Output = Interrupted;
    const NAME: &'static str = "interrupt_agent";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[
        Code::AgentNotFound,
        Code::AgentStateConflict,
        Code::RuntimeNotFound,
        Code::RuntimeCapabilityMissing,
        Code::RuntimeUnsupportedInTerminalMode,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let core = cx.core();
        let agent = core.store().read(|tx| cx.agent(tx, &self.agent_id))?;
        structured(&agent)?;
        let runtime = core.runtime(&agent.runtime_id)?.info();
        if !runtime.capabilities.contains(&Capability::Interrupt) {
            let message = format!("runtime {} cannot interrupt a turn", runtime.id);
            return Err(Error::new(Code::RuntimeCapabilityMissing, message)
                .remedy("Stop the agent, or wait for the end of the turn.")
                .with("agent_id", self.agent_id.as_str()));
        }
        let id = self.agent_id.clone();
        core.store().write(move |tx| tx.interrupt_agent(&id)).await?;
        Ok(Interrupted { agent: cx.agent_reply(&self.agent_id)?.agent, interrupted: true })
    }
}

impl Tool for InterruptAgent {}

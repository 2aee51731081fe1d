//! `pause_agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::AgentReply;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::AgentId;

/// Pause a READY agent: its session lives and takes no task and no message. A turn that a person sent goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseAgent {
    /// The agent.
    pub agent_id: AgentId,
}

impl Command for PauseAgent {
    type Output = AgentReply;
    const NAME: &'static str = "pause_agent";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::AgentNotFound, Code::AgentStateConflict];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let id = self.agent_id.clone();
        cx.core().store().write(move |tx| tx.pause_agent(&id)).await?;
        cx.agent_reply(&self.agent_id)
    }
}

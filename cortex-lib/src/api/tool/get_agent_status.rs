//! `get_agent_status`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::AgentReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::AgentId;

/// Get one agent: its state, what it does right now, its configuration and the reason of its last failure, if any.
/// Cost: reads only, at once. Next: `poll_agent_events` waits for a change, which is cheaper than asking again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetAgentStatus {
    /// The agent.
    pub agent_id: AgentId,
}

impl Command for GetAgentStatus {
    type Output = AgentReply;
    const NAME: &'static str = "get_agent_status";
    const ACCESS: Access = Access::EVERYONE;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[Code::AgentNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        cx.agent_reply(&self.agent_id)
    }
}

impl Tool for GetAgentStatus {}

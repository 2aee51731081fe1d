//! `remove_agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::AgentId;

/// Remove an agent without a session. Refused while an unended task is pinned to it or an attempt still ends on it. Its history stays, its name is free again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveAgent {
    /// The agent.
    pub agent_id: AgentId,
}

/// The agent is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Removed {
    /// The agent it was.
    pub agent_id: AgentId,
    /// Always true.
    pub removed: bool,
}

impl Command for RemoveAgent {
    type Output = Removed;
    const NAME: &'static str = "remove_agent";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] =
        &[Code::AgentNotFound, Code::AgentStateConflict, Code::AgentInUse];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let id = self.agent_id.clone();
        cx.core().store().write(move |tx| tx.retire_agent(&id)).await?;
        Ok(Removed { agent_id: self.agent_id, removed: true })
    }
}

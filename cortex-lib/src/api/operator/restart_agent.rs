//! `restart_agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::AgentReply;
use crate::api::tool::{StartAgent, StopAgent};
use crate::api::{Access, Command, Effect, Granted};
use crate::domain::agent::AgentStatus;
use crate::error::{Code, Error, Result};
use crate::ids::AgentId;

/// Stop an agent, wait, and start it again. One without a session is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestartAgent {
    /// The agent.
    pub agent_id: AgentId,
}

impl Command for RestartAgent {
    type Output = AgentReply;
    const NAME: &'static str = "restart_agent";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = StartAgent::ERRORS;

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let agent = cx.core().store().read(|tx| cx.agent(tx, &self.agent_id))?;
        if agent.state.status() == AgentStatus::Stopping {
            let message = format!("agent {} is STOPPING", agent.name);
            return Err(Error::new(Code::AgentStateConflict, message)
                .remedy("Wait until it has stopped.")
                .with("agent_id", agent.id.as_str()));
        }
        StopAgent { agent_id: self.agent_id.clone() }.call(cx).await?;
        StartAgent { agent_id: self.agent_id }.call(cx).await
    }
}

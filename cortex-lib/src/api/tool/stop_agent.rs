//! `stop_agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::AgentReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::domain::agent::AgentStatus;
use crate::error::{Code, Result};
use crate::ids::AgentId;
use crate::limits::CLOSE_GRACE;

/// Stop an agent, end its session and wait until nothing of it runs. Stopping a stopped agent is not an error. Stopping a BUSY agent cancels the attempt it runs; the task waits for an agent again.
/// Cost: some seconds; the process ends. Next: `update_agent` to change it, `start_agent` to use it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopAgent {
    /// The agent.
    pub agent_id: AgentId,
}

impl Command for StopAgent {
    type Output = AgentReply;
    const NAME: &'static str = "stop_agent";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::AgentNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let core = cx.core();
        let before = core.store().read(|tx| cx.agent(tx, &self.agent_id))?;
        let (id, settings) = (self.agent_id.clone(), core.settings());
        core.store().write(move |tx| tx.stop_agent(&id, &settings)).await?;
        // Another stop owns it already: its own caller waits.
        if before.state.status() != AgentStatus::Stopping {
            let wait = CLOSE_GRACE.saturating_mul(3);
            core.wait_for(wait, |tx| {
                // A session that is for one attempt alone ends with it.
                let lives = tx.live_sessions()?.iter().any(|one| one.agent_id == self.agent_id);
                let stopping = tx.agent(&self.agent_id)?.state.status() == AgentStatus::Stopping;
                Ok((!stopping && !lives).then_some(()))
            })
            .await?;
        }
        cx.agent_reply(&self.agent_id)
    }
}

impl Tool for StopAgent {}

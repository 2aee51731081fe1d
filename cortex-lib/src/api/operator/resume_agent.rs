//! `resume_agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::AgentReply;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::AgentId;

/// Let a PAUSED agent take tasks and messages again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeAgent {
    /// The agent.
    pub agent_id: AgentId,
}

impl Command for ResumeAgent {
    type Output = AgentReply;
    const NAME: &'static str = "resume_agent";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::AgentNotFound, Code::AgentStateConflict];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let id = self.agent_id.clone();
        cx.core().store().write(move |tx| tx.resume_agent(&id)).await?;
        cx.agent_reply(&self.agent_id)
    }
}

//! `create_terminal_agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::AgentReply;
use crate::api::tool::CreateAgent;
use crate::api::{Access, Command, Effect, Granted};
use crate::domain::agent::{Interaction, Role};
use crate::error::{Code, Result};
use crate::ids::{ProjectId, RuntimeId};

/// Create a worker that a person works with in a terminal. It has no turns: it takes no messages and no tasks. Its runtime needs `terminal_session`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTerminalAgent {
    /// The project it works in.
    pub project_id: ProjectId,
    /// Unique in its project.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// What it runs on, from `list_runtimes`.
    pub runtime_id: RuntimeId,
    /// The model; the runtime's default when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub model: Option<String>,
    /// Appended to the runtime's system prompt, at most 16 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-max-bytes" = 16384))]
    pub instructions: Option<String>,
}

impl Command for CreateTerminalAgent {
    type Output = AgentReply;
    const NAME: &'static str = "create_terminal_agent";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = CreateAgent::ERRORS;

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let agent = CreateAgent {
            project_id: self.project_id,
            name: self.name,
            runtime_id: self.runtime_id,
            model: self.model,
            role: Role::Worker,
            instructions: self.instructions,
            skills: true,
        };
        agent.create(cx, Interaction::Terminal).await
    }
}

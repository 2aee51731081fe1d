//! `list_agents`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::view::AgentView;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::ProjectId;

/// List every agent with its state, to find one for work or for a message.
/// Cost: reads only, at once. Next: `start_agent` for one that is stopped, `send_message` for one that is READY.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListAgents {
    /// Only the agents of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
}

/// Agents, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentList {
    /// The agents.
    pub agents: Vec<AgentView>,
}

impl Command for ListAgents {
    type Output = AgentList;
    const NAME: &'static str = "list_agents";
    const ACCESS: Access = Access::EVERYONE;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[Code::ProjectNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        cx.core().store().read(|tx| {
            if let Some(id) = &self.project_id {
                cx.project(tx, id)?;
            }
            let agents = tx.agents(self.project_id.as_ref().or(cx.project_scope()))?;
            let agents =
                agents.into_iter().map(|agent| AgentView::of(agent, tx)).collect::<Result<_>>()?;
            Ok(AgentList { agents })
        })
    }
}

impl Tool for ListAgents {}

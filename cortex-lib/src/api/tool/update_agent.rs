//! `update_agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::create_agent::check_abilities;
use crate::api::reply::AgentReply;
use crate::api::{Access, Command, Effect, Granted, Tool, present};
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, RuntimeId};
use crate::store::Agent;

/// Rename or reconfigure a CREATED, STOPPED, FAILED or CRASHED agent. Give one field or more; a role is not changed here. Another runtime clears the model unless one is given.
/// Cost: one record, at once. Next: `start_agent`, which uses what was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-some-of" = [["name", "runtime_id", "model", "instructions", "skills"]]))]
pub struct UpdateAgent {
    /// The agent.
    pub agent_id: AgentId,
    /// Its new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub name: Option<String>,
    /// What it runs on from its next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_id: Option<RuntimeId>,
    /// The model from its next start; `null` clears it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(min = 1, max = 128), extend("x-nullable" = true))]
    pub model: Option<Option<String>>,
    /// What is appended to the system prompt from its next start, at most 16 KiB; `null` clears it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("x-nullable" = true, "x-max-bytes" = 16384))]
    pub instructions: Option<Option<String>>,
    /// Whether it gets skills from its next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<bool>,
}

impl UpdateAgent {
    /// The agent as it will be.
    fn applied_to(&self, mut agent: Agent) -> Agent {
        if let Some(runtime) =
            self.runtime_id.clone().filter(|runtime| *runtime != agent.runtime_id)
        {
            // A session of another runtime cannot be gone on with, and its models are others.
            (agent.runtime_id, agent.model, agent.native_session_id) = (runtime, None, None);
        }
        agent.name = self.name.clone().unwrap_or(agent.name);
        agent.model = self.model.clone().unwrap_or(agent.model);
        agent.instructions = self.instructions.clone().unwrap_or(agent.instructions);
        agent.skills = self.skills.unwrap_or(agent.skills);
        agent
    }
}

impl Command for UpdateAgent {
    type Output = AgentReply;
    const NAME: &'static str = "update_agent";
    const ACCESS: Access = Access::USER_OR_ORCHESTRATOR;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[
        Code::AgentNotFound,
        Code::AgentStateConflict,
        Code::AgentNameTaken,
        Code::RuntimeNotFound,
        Code::RuntimeCapabilityMissing,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        cx.core().store().read(|tx| cx.agent(tx, &self.agent_id))?;
        let id = self.agent_id.clone();
        let core = cx.core().clone();
        cx.core()
            .store()
            .write(move |tx| {
                let before = tx.agent(&self.agent_id)?;
                // As the agent is now: another call may have changed it.
                if self.runtime_id.is_some() || self.model.is_some() {
                    let after = self.applied_to(before.clone());
                    let runtime = core.runtime(&after.runtime_id)?.info();
                    let as_what = (after.role, after.interaction);
                    check_abilities(runtime, as_what, after.model.as_deref())?;
                }
                if before.state.status().is_live() {
                    let message =
                        format!("agent {} is {}", before.name, before.state.status().as_str());
                    return Err(Error::new(Code::AgentStateConflict, message)
                        .remedy("Stop it first.")
                        .with("agent_id", before.id.as_str()));
                }
                let after = self.applied_to(before.clone());
                if after == before { Ok(()) } else { tx.update_agent(&after) }
            })
            .await?;
        cx.agent_reply(&id)
    }
}

impl Tool for UpdateAgent {}

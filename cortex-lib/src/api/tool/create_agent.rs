//! `create_agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::AgentReply;
use crate::api::view::AgentView;
use crate::api::{Access, Caller, Command, Effect, Granted, Tool};
use crate::domain::agent::{AgentState, Interaction, Role, Wanted};
use crate::domain::capability::Capability;
use crate::domain::usage::Usage;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, ProjectId, RuntimeId};
use crate::port::RuntimeInfo;
use crate::store::Agent;

/// Create an agent in the CREATED state. Returns the new `agent_id`. Sessions create workers of their own project only.
/// Cost: one record, at once; no process runs and no tokens are spent. Next: `start_agent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAgent {
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
    /// worker runs tasks; orchestrator coordinates others and never runs one.
    #[serde(default)]
    pub role: Role,
    /// Appended to the runtime's system prompt, at most 16 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-max-bytes" = 16384))]
    pub instructions: Option<String>,
    /// Whether it gets skills.
    #[serde(default = "yes")]
    pub skills: bool,
}

impl CreateAgent {
    /// A worker with the defaults of the runtime.
    pub fn new(
        project_id: &ProjectId,
        name: impl Into<String>,
        runtime_id: impl Into<String>,
    ) -> Self {
        Self {
            project_id: project_id.clone(),
            name: name.into(),
            runtime_id: RuntimeId::new(runtime_id),
            model: None,
            role: Role::Worker,
            instructions: None,
            skills: true,
        }
    }
}

fn yes() -> bool {
    true
}

/// Refuses what the runtime cannot do before anything is kept.
pub(super) fn check_abilities(
    runtime: &RuntimeInfo,
    (role, interaction): (Role, Interaction),
    model: Option<&str>,
) -> Result<()> {
    let lacks = |capability| !runtime.capabilities.contains(&capability);
    let missing = if model.is_some() && lacks(Capability::ModelSelection) {
        Capability::ModelSelection
    } else if interaction == Interaction::Terminal && lacks(Capability::TerminalSession) {
        Capability::TerminalSession
    } else if role == Role::Orchestrator && lacks(Capability::OrchestratorRole) {
        Capability::OrchestratorRole
    } else {
        return Ok(());
    };
    let message = format!("runtime {} lacks {missing}", runtime.id);
    Err(Error::new(Code::RuntimeCapabilityMissing, message).with("runtime_id", runtime.id.as_str()))
}

impl Command for CreateAgent {
    type Output = AgentReply;
    const NAME: &'static str = "create_agent";
    const ACCESS: Access = Access::SESSIONS_TOO;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[
        Code::ProjectNotFound,
        Code::RuntimeNotFound,
        Code::RuntimeCapabilityMissing,
        Code::AgentNameTaken,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        self.create(cx, Interaction::Structured).await
    }
}

impl CreateAgent {
    /// Creates the agent, to be talked to like this.
    pub(in crate::api) async fn create(
        self,
        cx: Granted<'_>,
        interaction: Interaction,
    ) -> Result<AgentReply> {
        cx.core().store().read(|tx| cx.project(tx, &self.project_id))?;
        if self.role == Role::Orchestrator && *cx.caller() != Caller::User {
            return Err(Error::new(Code::PermissionDenied, "only a person makes an orchestrator"));
        }
        let runtime = cx.core().runtime(&self.runtime_id)?;
        check_abilities(runtime.info(), (self.role, interaction), self.model.as_deref())?;
        let agent = cx.core().store().write(move |tx| {
            // It may have been removed meanwhile.
            let project = tx.project(&self.project_id)?;
            let now = tx.now();
            let agent = Agent {
                id: AgentId::new(tx.env().mint()),
                project_id: project.id,
                name: self.name,
                runtime_id: self.runtime_id,
                model: self.model,
                role: self.role,
                interaction,
                instructions: self.instructions,
                skills: self.skills,
                state: AgentState::Created,
                wanted: Wanted::Stopped,
                last_failure: None,
                native_session_id: None,
                usage: Usage::default(),
                idle_since: now,
                created_at: now,
                updated_at: now,
            };
            tx.insert_agent(&agent)?;
            // Told as it is made: the agent may be removed before anything else is read.
            AgentView::of(agent, tx)
        });
        Ok(AgentReply { agent: agent.await? })
    }
}

impl Tool for CreateAgent {}

//! An agent as callers see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::agent::{AgentState, AgentStatus, Interaction, Role};
use crate::domain::usage::Usage;
use crate::error::Result;
use crate::ids::{AgentId, AttemptId, ProjectId, RuntimeId, TaskId, TurnId};
use crate::store::{Agent, LastFailure, ReadTx};
use crate::time::Timestamp;

/// An agent: something that runs tasks, or coordinates those that do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentView {
    /// The agent.
    pub agent_id: AgentId,
    /// The project it works in.
    pub project_id: ProjectId,
    /// Unique in its project.
    pub name: String,
    /// What it runs on.
    pub runtime_id: RuntimeId,
    /// The model, when one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it may be.
    pub role: Role,
    /// How it is talked to.
    pub interaction: Interaction,
    /// What is appended to the runtime's system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Whether it gets skills.
    pub skills: bool,
    /// Where it stands.
    pub state: AgentStatus,
    /// Why it last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
    /// Its live session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<AgentSession>,
    /// What it does right now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<AgentCurrent>,
    /// What all its turns used.
    pub usage: Usage,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSession {
    /// The runtime's own name of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_session_id: Option<String>,
    /// Its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// When it was begun.
    pub started_at: Timestamp,
    /// Whether it went on with an earlier native session.
    pub resumed: bool,
}

/// What an agent does right now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentCurrent {
    /// The attempt it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<AttemptId>,
    /// The task of that attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The direct turn it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
}

impl AgentView {
    /// Puts together an agent with its session and its work.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(crate) fn of(agent: Agent, tx: &ReadTx<'_>) -> Result<Self> {
        let session = match agent.state.session() {
            Some(id) => tx.session(id)?,
            None => None,
        };
        let current = match &agent.state {
            AgentState::Busy { attempt, .. } => Some(AgentCurrent {
                execution_id: Some(attempt.clone()),
                task_id: tx.attempt(attempt)?.map(|attempt| attempt.task_id),
                turn_id: None,
            }),
            state => state.direct_turn().map(|turn| AgentCurrent {
                execution_id: None,
                task_id: None,
                turn_id: Some(turn.clone()),
            }),
        };
        Ok(Self {
            state: agent.state.status(),
            session: session.map(|session| AgentSession {
                native_session_id: session.native_session_id,
                pid: session.pid,
                started_at: session.started_at,
                resumed: session.resumed,
            }),
            current,
            agent_id: agent.id,
            project_id: agent.project_id,
            name: agent.name,
            runtime_id: agent.runtime_id,
            model: agent.model,
            role: agent.role,
            interaction: agent.interaction,
            instructions: agent.instructions,
            skills: agent.skills,
            last_failure: agent.last_failure,
            usage: agent.usage,
            created_at: agent.created_at,
            updated_at: agent.updated_at,
        })
    }
}

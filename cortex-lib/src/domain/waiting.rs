//! Why a task waits, in words and in fields that programs read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agent::AgentStatus;
use super::capability::Capability;
use super::objective::PausePolicy;
use super::task::BlockCause;
use crate::ids::{AgentId, RuntimeId, TaskId};
use crate::time::Timestamp;

/// Why a task waits: `reason`, and what explains it under a key of that name (H-10).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Waiting {
    /// Why, in one word.
    pub reason: WaitReason,
    /// Tasks that have to complete first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<WaitingForTasks>,
    /// The pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective_paused: Option<WaitingForResume>,
    /// Every agent of the project, and why it cannot run the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_eligible_agent: Option<WaitingForAgents>,
    /// The agent that the task is pinned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_agent_unavailable: Option<WaitingForAgent>,
    /// The wait after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<WaitingForTime>,
    /// The wait for a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limited: Option<WaitingForQuota>,
    /// Tasks that use the same files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths_in_use: Option<WaitingForTasks>,
    /// The limit of live sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_limit: Option<WaitingForSession>,
    /// The decision that a person has to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<WaitingForPerson>,
}

/// Why a task waits, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum WaitReason {
    /// Tasks it depends on have not completed.
    Dependencies,
    /// Its objective is paused.
    ObjectivePaused,
    /// No agent of the project can take it now.
    NoEligibleAgent,
    /// The agent it is pinned to cannot take it now.
    AssignedAgentUnavailable,
    /// It failed a moment ago.
    Backoff,
    /// The quota of the runtime is used up.
    RateLimited,
    /// Another task uses files it claims.
    PathsInUse,
    /// As many sessions live as may.
    ProcessLimit,
    /// Its last attempt still lets go.
    PreviousAttemptEnding,
    /// A person has to decide.
    Approval,
    /// The core is on its way down.
    CoreStopping,
    /// It is about to start.
    #[default]
    Starting,
}

/// Tasks that are waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WaitingForTasks {
    /// Which.
    pub task_ids: Vec<TaskId>,
}

/// A pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WaitingForResume {
    /// How it treats what runs.
    pub policy: PausePolicy,
}

/// Agents that cannot take the task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WaitingForAgents {
    /// Each agent of the project.
    pub agents: Vec<NotEligible>,
}

/// Why one agent cannot take a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct NotEligible {
    /// The agent.
    pub agent_id: AgentId,
    /// Why.
    pub reason: NotEligibleReason,
    /// The capabilities that its runtime lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Capability>,
}

/// Why one agent cannot take a task, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum NotEligibleReason {
    /// It has no session that takes input.
    NotReady,
    /// It does something else.
    Busy,
    /// It never runs tasks.
    Orchestrator,
    /// It has no turns.
    TerminalMode,
    /// Its runtime cannot do what the task requires.
    MissingCapability,
}

/// The agent that a task is pinned to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WaitingForAgent {
    /// The agent.
    pub agent_id: AgentId,
    /// Its state; absent when it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<AgentStatus>,
    /// Why it cannot take the task.
    pub reason: NotEligibleReason,
    /// The capabilities that its runtime lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Capability>,
}

/// A point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WaitingForTime {
    /// When it may start.
    pub until: Timestamp,
    /// The class of the failure.
    pub cause: String,
}

/// The end of a rate limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WaitingForQuota {
    /// When it may start.
    pub until: Timestamp,
    /// Whose quota it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_id: Option<RuntimeId>,
}

/// The limit of live sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WaitingForSession {
    /// Sessions that may live.
    pub max: u32,
}

/// A person's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WaitingForPerson {
    /// Why it is BLOCKED.
    pub cause: BlockCause,
}

impl Waiting {
    pub(super) fn because(reason: WaitReason) -> Self {
        Self { reason, ..Self::default() }
    }
}

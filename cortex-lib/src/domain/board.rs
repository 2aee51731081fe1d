//! What the scheduler has to know: the tasks that have not ended, the agents, and what bounds them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agent::{AgentStatus, Interaction, Role};
use super::capability::Capability;
use super::hold::Hold;
use super::objective::PausePolicy;
use super::task::{BlockCause, TaskStatus};
use crate::ids::{AgentId, ProjectId, RuntimeId, TaskId};
use crate::time::Timestamp;

/// How urgent a task is.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Priority {
    /// After everything else.
    Low,
    /// As it comes.
    #[default]
    Normal,
    /// Before the others.
    High,
    /// Before everything.
    Urgent,
}

/// What the scheduler has to know of a task that has not ended.
#[derive(Clone, Debug)]
pub struct TaskCard {
    /// The task.
    pub id: TaskId,
    /// Its project.
    pub project_id: ProjectId,
    /// Where it stands.
    pub status: TaskStatus,
    /// Why it is BLOCKED, if it is.
    pub blocked: Option<BlockCause>,
    /// How urgent it is.
    pub priority: Priority,
    /// Since when it may start.
    pub ready_at: Option<Timestamp>,
    /// Its place in the order of creation.
    pub order: u64,
    /// Dependencies that have not completed.
    pub unmet: Vec<TaskId>,
    /// What its agent must be able to do.
    pub requirements: BTreeSet<Capability>,
    /// Whether each attempt gets a worktree and so a session of its own.
    pub isolated: bool,
    /// The agent it is pinned to.
    pub pinned: Option<AgentId>,
    /// The files it claims: globs relative to the project's root. None: no claim.
    pub paths: Vec<String>,
    /// Not before this point, and why. A hold whose clock a pause stopped is none: the pause itself holds.
    pub hold: Option<(Timestamp, Hold)>,
    /// The class of the failure that holds it back.
    pub hold_cause: Option<String>,
    /// The runtime whose quota holds it back.
    pub hold_runtime: Option<RuntimeId>,
    /// The policy of the pause that its objective is in.
    pub paused: Option<PausePolicy>,
    /// Its last attempt still lets go.
    pub ending: bool,
}

/// What the scheduler has to know of an agent.
#[derive(Clone, Debug)]
pub struct AgentCard {
    /// The agent.
    pub id: AgentId,
    /// Its project.
    pub project_id: ProjectId,
    /// The runtime it runs on.
    pub runtime_id: RuntimeId,
    /// Where it stands.
    pub status: AgentStatus,
    /// Whether a direct turn runs.
    pub in_turn: bool,
    /// What it may be.
    pub role: Role,
    /// How it is talked to.
    pub interaction: Interaction,
    /// What its runtime can do; empty when the runtime is not registered.
    pub capabilities: BTreeSet<Capability>,
    /// Since when it has nothing to do.
    pub idle_since: Timestamp,
}

/// Everything that decides what starts.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// Tasks that have not ended.
    pub tasks: Vec<TaskCard>,
    /// All agents.
    pub agents: Vec<AgentCard>,
    /// Sessions that live.
    pub live_sessions: u32,
    /// Sessions that may live.
    pub sessions_max: u32,
    /// Whether the core is on its way down.
    pub stopping: bool,
}

impl Board {
    /// The runtimes whose quota is used up, each with the end of that: as long as a task waits for a runtime's
    /// quota, any other turn there would meet the same limit.
    pub(super) fn quotas(&self, now: Timestamp) -> BTreeMap<&RuntimeId, Timestamp> {
        let mut quotas = BTreeMap::new();
        for task in &self.tasks {
            let (Some((until, Hold::RateLimited)), Some(runtime)) = (task.hold, &task.hold_runtime)
            else {
                continue;
            };
            if until > now && task.status == TaskStatus::Ready {
                let known = quotas.entry(runtime).or_insert(until);
                *known = until.max(*known);
            }
        }
        quotas
    }

    /// Whether a task was moved to an agent that the quota it met does not concern.
    pub(super) fn left_its_quota(&self, task: &TaskCard) -> bool {
        let agent = self.agents.iter().find(|agent| task.pinned.as_ref() == Some(&agent.id));
        agent.is_some_and(|agent| Some(&agent.runtime_id) != task.hold_runtime.as_ref())
    }
}

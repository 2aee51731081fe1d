//! What a person may set about a core. The program reads it from `config.json`; an embedder builds it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::approval::{Rule, Unmatched};
pub use crate::domain::retry::Retry;
use crate::ids::RuntimeId;
use crate::limits::MCP_PORT;

/// The settings of one core. The default is what most people want.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What may be used at once.
    pub resources: Resources,
    /// How agents are treated.
    pub agents: Agents,
    /// How failed attempts are repeated.
    pub retry: Retry,
    /// How tool requests of agents are answered.
    pub approvals: Approvals,
    /// The event log.
    pub events: Events,
    /// Who splits goals into tasks.
    pub planner: Planner,
}

/// What may be used at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Resources {
    /// Sessions that may live at once. A coding CLI takes 100 to 500 MB.
    #[schemars(range(min = 1, max = 1000))]
    pub max_active_processes: u32,
    /// Verifications that may run at once.
    #[schemars(range(min = 1, max = 100))]
    pub max_verifications: u32,
}

impl Default for Resources {
    fn default() -> Self {
        Self { max_active_processes: 16, max_verifications: 4 }
    }
}

/// How agents are treated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Agents {
    /// Start the agents again that ran when the core went down.
    pub restore_on_open: bool,
    /// A turn that is silent for this long has stalled, in seconds.
    #[schemars(range(min = 10, max = 86_400))]
    pub stall_secs: u64,
}

impl Default for Agents {
    fn default() -> Self {
        Self { restore_on_open: true, stall_secs: 600 }
    }
}

/// How tool requests of agents are answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Approvals {
    /// Ordered rules for every project: the first that matches decides. The rules of a project itself come before them.
    pub rules: Vec<Rule>,
    /// What happens to a request that no rule matches: a person is asked, or it is denied.
    pub default: Unmatched,
    /// A request that nobody answers within this many seconds is denied and its turn ended. 0: it waits as long as the turn.
    #[schemars(range(min = 0, max = 604_800))]
    pub timeout_secs: u64,
    /// Complete a task whose project has no verification without asking a person.
    pub approve_unverified: bool,
}

impl Default for Approvals {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            default: Unmatched::default(),
            timeout_secs: 1_800,
            approve_unverified: false,
        }
    }
}

/// The event log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// The newest events that are kept.
    #[schemars(range(min = 1_000, max = 100_000_000))]
    pub kept: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self { kept: 100_000 }
    }
}

/// Who splits goals into tasks, for `plan_objective` and `propose_objective`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Planner {
    /// The runtime that plans. It needs `structured_session` and `read_only_turn`.
    pub runtime_id: RuntimeId,
}

impl Default for Planner {
    fn default() -> Self {
        Self { runtime_id: RuntimeId::new("claude-code") }
    }
}

/// The MCP endpoint of a program that runs a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpSettings {
    /// Serve MCP while the core runs.
    pub enabled: bool,
    /// The port on 127.0.0.1; 0 takes any that is free.
    pub port: u16,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self { enabled: true, port: MCP_PORT }
    }
}

impl Settings {
    /// A turn that is silent for this long has stalled.
    pub fn stall_limit(&self) -> Duration {
        Duration::from_secs(self.agents.stall_secs)
    }

    /// A tool request that nobody answers waits this long. None: as long as its turn.
    pub fn approval_limit(&self) -> Option<Duration> {
        let secs = self.approvals.timeout_secs;
        (secs > 0).then(|| Duration::from_secs(secs))
    }
}

//! What a person may choose about the processes of a CLI that can serve many agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether agents share a process of the CLI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ProcessUse {
    /// One process serves all agents: little memory for each, and its crash ends all of their sessions.
    #[default]
    Shared,
    /// Each agent has a process of its own.
    PerAgent,
}

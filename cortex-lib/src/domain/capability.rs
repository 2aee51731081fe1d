//! What a runtime can do, and what a task may require.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something a runtime can do. None is claimed that a test does not show.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Capability {
    /// Turns with a result that a program can read.
    StructuredSession,
    /// A terminal that a person can attach to.
    TerminalSession,
    /// Input while a turn runs.
    InteractiveInput,
    /// A running turn can be ended without ending the session.
    Interrupt,
    /// A session can go on after its process ended.
    Resume,
    /// It asks before it uses a tool.
    ToolApproval,
    /// It can call the tools of Cortex.
    McpClient,
    /// It can be confined to the tools of Cortex.
    OrchestratorRole,
    /// A turn that can only read.
    ReadOnlyTurn,
    /// The model can be chosen.
    ModelSelection,
    /// It takes skills.
    Skills,
    /// It reports what a turn used.
    UsageReporting,
    /// Its answer can be bound to a schema.
    StructuredOutput,
}

impl Capability {
    /// Every capability.
    pub const ALL: &'static [Self] = &[
        Self::StructuredSession,
        Self::TerminalSession,
        Self::InteractiveInput,
        Self::Interrupt,
        Self::Resume,
        Self::ToolApproval,
        Self::McpClient,
        Self::OrchestratorRole,
        Self::ReadOnlyTurn,
        Self::ModelSelection,
        Self::Skills,
        Self::UsageReporting,
        Self::StructuredOutput,
    ];

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StructuredSession => "structured_session",
            Self::TerminalSession => "terminal_session",
            Self::InteractiveInput => "interactive_input",
            Self::Interrupt => "interrupt",
            Self::Resume => "resume",
            Self::ToolApproval => "tool_approval",
            Self::McpClient => "mcp_client",
            Self::OrchestratorRole => "orchestrator_role",
            Self::ReadOnlyTurn => "read_only_turn",
            Self::ModelSelection => "model_selection",
            Self::Skills => "skills",
            Self::UsageReporting => "usage_reporting",
            Self::StructuredOutput => "structured_output",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

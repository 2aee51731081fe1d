//! The CLIs that are measured.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use cortex_lib::port::Runtime;
use cortex_runtimes::{
    ClaudeCode, ClaudeCodeConfig, Codex, CodexConfig, OpenCode, OpenCodeConfig, Sandbox,
};
use cortex_scripted::{Answer, Api, Script, When, cli};
use serde_json::json;

/// What is said for a turn that uses a tool.
pub(crate) const USE_A_TOOL: &str = "use a tool";

/// The tool's command: quick, and none of those that a CLI knows to be harmless.
const TOOL: &str = "touch turn";

/// A CLI with a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cli {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// OpenCode.
    OpenCode,
}

impl Cli {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::ClaudeCode, Self::Codex, Self::OpenCode];

    /// The CLI of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cli| cli.name() == name)
    }

    /// The id of its runtime.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    /// The model API that it asks.
    pub(crate) const fn api(self) -> Api {
        match self {
            Self::ClaudeCode => Api::Anthropic,
            Self::Codex => Api::Responses,
            Self::OpenCode => Api::ChatCompletions,
        }
    }

    /// The pinned program and its version.
    pub(crate) fn pinned(self) -> Result<(PathBuf, String)> {
        Ok(match self {
            Self::ClaudeCode => (cli::claude_code()?, cli::claude_code_version()),
            Self::Codex => (cli::codex()?, cli::codex_version()),
            Self::OpenCode => (cli::opencode()?, cli::opencode_version()),
        })
    }

    /// Its driver.
    pub(crate) fn driver(
        self,
        executable: PathBuf,
        env: BTreeMap<String, String>,
    ) -> Arc<dyn Runtime> {
        let executable = Some(executable);
        match self {
            Self::ClaudeCode => Arc::new(ClaudeCode::new(ClaudeCodeConfig { executable, env })),
            Self::Codex => Arc::new(Codex::new(CodexConfig {
                executable,
                env,
                sandbox: Sandbox::Off,
                ..CodexConfig::default()
            })),
            Self::OpenCode => Arc::new(OpenCode::new(OpenCodeConfig {
                executable,
                env,
                ..OpenCodeConfig::default()
            })),
        }
    }

    /// A model that says one word, or runs first what each of the CLIs asks about.
    pub(crate) fn script(self) -> Script {
        let (tool, input) = match self {
            Self::ClaudeCode => ("Bash", json!({ "command": TOOL })),
            Self::Codex => ("exec_command", json!({ "cmd": TOOL })),
            Self::OpenCode => ("bash", json!({ "command": TOOL, "description": "Nothing" })),
        };
        Script::new()
            .on(When::tool_result(""), Answer::text("done"))
            .on(When::last_user(USE_A_TOOL), Answer::tool(tool, input))
            .otherwise(Answer::text("done"))
    }
}

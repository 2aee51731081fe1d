//! The coding CLIs that the demo can run on: where each is found, which model API it speaks, and what its tools are called.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use cortex_lib::error::Result;
use cortex_runtimes::{ClaudeCode, ClaudeCodeConfig};
use cortex_scripted::{Answer, Api};
use serde_json::json;

use super::surroundings::Clean;
use crate::config::Config;

/// A coding CLI of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodingCli {
    /// Claude Code.
    ClaudeCode,
}

impl ValueEnum for CodingCli {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::ClaudeCode]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.runtime()))
    }
}

impl CodingCli {
    /// The id of its runtime.
    pub(super) const fn runtime(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
        }
    }

    /// The name people know it by.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
        }
    }

    /// What installs it.
    pub(super) const fn install(self) -> &'static str {
        match self {
            Self::ClaudeCode => "npm install -g @anthropic-ai/claude-code",
        }
    }

    /// The model API that it asks.
    pub(super) const fn api(self) -> Api {
        match self {
            Self::ClaudeCode => Api::Anthropic,
        }
    }

    /// Finds its program as its driver does.
    ///
    /// # Errors
    ///
    /// `runtime.not_installed`.
    pub(super) fn find(self, executable: Option<PathBuf>, surroundings: &Clean) -> Result<PathBuf> {
        let home = surroundings.home.as_ref().map(|home| home.display().to_string());
        let env = home.map(|home| ("HOME".to_owned(), home)).into_iter().collect();
        match self {
            Self::ClaudeCode => ClaudeCode::new(ClaudeCodeConfig { executable, env }).executable(),
        }
    }

    /// Sets its program and its surroundings.
    pub(super) fn configure(
        self,
        config: &mut Config,
        executable: PathBuf,
        env: impl Iterator<Item = (String, String)>,
    ) {
        match self {
            Self::ClaudeCode => {
                let runtime = &mut config.runtimes.claude_code;
                runtime.executable = Some(executable);
                runtime.env = env.collect();
                // What the script does not answer is shown at once.
                runtime.env.insert("CLAUDE_CODE_MAX_RETRIES".to_owned(), "0".to_owned());
            }
        }
    }

    /// The tool that writes files, as a pattern for rules.
    pub(super) const fn writing_tool(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Write",
        }
    }

    /// The tool that runs commands, as a pattern for rules.
    pub(super) const fn shell_tool(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Bash",
        }
    }

    /// The model writes a file.
    pub(super) fn write(self, root: &Path, file: &str, content: &str) -> Answer {
        match self {
            Self::ClaudeCode => Answer::tool(
                self.writing_tool(),
                json!({ "file_path": root.join(file), "content": content }),
            ),
        }
    }

    /// The model runs a command.
    pub(super) fn shell(self, command: &str) -> Answer {
        match self {
            Self::ClaudeCode => Answer::tool(self.shell_tool(), json!({ "command": command })),
        }
    }
}

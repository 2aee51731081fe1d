//! The coding CLIs that the demo can run on: where each is found, which model API it speaks, and what its tools are called.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use cortex_lib::error::Result;
use cortex_runtimes::{
    ClaudeCode, ClaudeCodeConfig, Codex, CodexConfig, OpenCode, OpenCodeConfig, Sandbox,
};
use cortex_scripted::{Answer, Api};
use serde_json::json;

use super::surroundings::Clean;
use crate::config::Config;

/// A coding CLI of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodingCli {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// OpenCode.
    OpenCode,
}

impl ValueEnum for CodingCli {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::ClaudeCode, Self::Codex, Self::OpenCode]
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
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    /// The name people know it by.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::OpenCode => "OpenCode",
        }
    }

    /// What installs it.
    pub(super) const fn install(self) -> &'static str {
        match self {
            Self::ClaudeCode => "npm install -g @anthropic-ai/claude-code",
            Self::Codex => "npm install -g @openai/codex",
            Self::OpenCode => "npm install -g opencode-ai",
        }
    }

    /// The model API that it asks.
    pub(super) const fn api(self) -> Api {
        match self {
            Self::ClaudeCode => Api::Anthropic,
            Self::Codex => Api::Responses,
            Self::OpenCode => Api::ChatCompletions,
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
            Self::Codex => {
                Codex::new(CodexConfig { executable, env, ..CodexConfig::default() }).executable()
            }
            Self::OpenCode => {
                OpenCode::new(OpenCodeConfig { executable, env, ..OpenCodeConfig::default() })
                    .executable()
            }
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
            Self::Codex => {
                let runtime = &mut config.runtimes.codex;
                runtime.executable = Some(executable);
                runtime.env = env.collect();
                // The script runs nothing but what the rules allow, and not every machine can have a sandbox.
                runtime.sandbox = Sandbox::Off;
            }
            Self::OpenCode => {
                let runtime = &mut config.runtimes.opencode;
                runtime.executable = Some(executable);
                runtime.env = env.collect();
            }
        }
    }

    /// The tool that writes files, as a pattern for rules.
    pub(super) const fn writing_tool(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Write",
            Self::Codex => "apply_patch",
            Self::OpenCode => "write",
        }
    }

    /// The tool that runs commands, as a pattern for rules.
    pub(super) const fn shell_tool(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Bash",
            Self::Codex => "shell",
            Self::OpenCode => "bash",
        }
    }

    /// The model writes a file.
    pub(super) fn write(self, root: &Path, file: &str, content: &str) -> Answer {
        match self {
            Self::ClaudeCode => Answer::tool(
                self.writing_tool(),
                json!({ "file_path": root.join(file), "content": content }),
            ),
            Self::Codex => {
                let lines: Vec<_> = content.lines().map(|line| format!("+{line}\n")).collect();
                let (begin, end) = ("*** Begin Patch", "*** End Patch");
                let patch = format!("{begin}\n*** Add File: {file}\n{}{end}", lines.concat());
                Answer::tool("apply_patch", json!(patch))
            }
            Self::OpenCode => Answer::tool(
                self.writing_tool(),
                json!({ "filePath": root.join(file), "content": content }),
            ),
        }
    }

    /// The model runs a command.
    pub(super) fn shell(self, command: &str) -> Answer {
        match self {
            Self::ClaudeCode => Answer::tool(self.shell_tool(), json!({ "command": command })),
            Self::Codex => Answer::tool("exec_command", json!({ "cmd": command })),
            Self::OpenCode => Answer::tool(
                self.shell_tool(),
                json!({ "command": command, "description": "It is what the task needs" }),
            ),
        }
    }
}

//! The clients whose configuration is known: where each keeps it, and how a server stands in it.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::entry::{Entry, Format, Setting};

/// Tools answer within this time, whatever they wait for: the planner has five minutes.
const TOOL_SECONDS: i64 = 330;
/// A core that is opened for the client settles its earlier life first.
const START_SECONDS: i64 = 30;

/// A client of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Code, for all projects of the user
    ClaudeCode,
    /// Codex
    Codex,
    /// OpenCode, for all projects of the user
    #[value(name = "opencode")]
    OpenCode,
    /// Visual Studio Code, the user's default profile
    #[value(name = "vscode")]
    VsCode,
    /// Cursor, for all projects of the user
    Cursor,
    /// The inspector of the MCP project
    Inspector,
}

/// What of the system decides where clients keep their files.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The user's home.
    pub(super) home: PathBuf,
    /// Where desktop programs keep what the user set.
    pub(super) config: PathBuf,
    /// The environment.
    pub(super) env: fn(&str) -> Option<PathBuf>,
}

impl Places {
    /// Those of this user.
    pub(super) fn here() -> Option<Self> {
        let dirs = directories::BaseDirs::new()?;
        let env = |name: &str| {
            std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        Some(Self { home: dirs.home_dir().to_owned(), config: dirs.config_dir().to_owned(), env })
    }
}

impl Client {
    /// Its name, as people know it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::OpenCode => "OpenCode",
            Self::VsCode => "Visual Studio Code",
            Self::Cursor => "Cursor",
            Self::Inspector => "the inspector",
        }
    }

    /// The file where it keeps its servers.
    pub(super) fn file(self, places: &Places) -> PathBuf {
        let Places { home, config, env } = places;
        match self {
            Self::ClaudeCode => {
                env("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.clone()).join(".claude.json")
            }
            Self::Codex => {
                env("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml")
            }
            Self::OpenCode => {
                let folder =
                    env("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("opencode");
                let known = ["opencode.jsonc", "opencode.json"].map(|name| folder.join(name));
                let used = known.iter().find(|file| file.exists()).cloned();
                used.unwrap_or_else(|| folder.join("opencode.json"))
            }
            Self::VsCode => config.join("Code").join("User").join("mcp.json"),
            Self::Cursor => home.join(".cursor").join("mcp.json"),
            Self::Inspector => env("MCP_CATALOG_PATH")
                .unwrap_or_else(|| home.join(".mcp-inspector").join("mcp.json")),
        }
    }

    pub(super) fn format(self) -> Format {
        if self == Self::Codex { Format::Toml } else { Format::Json }
    }

    /// Under which key its servers are.
    pub(super) fn servers(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::Cursor | Self::Inspector => "mcpServers",
            Self::Codex => "mcp_servers",
            Self::OpenCode => "mcp",
            Self::VsCode => "servers",
        }
    }

    /// The server that is this program, called with these words.
    pub(super) fn entry(self, program: &Path, words: &[String]) -> Entry {
        let program = program.display().to_string();
        let kind = |kind: &str| ("type", Setting::Text(kind.to_owned()));
        let call =
            [("command", Setting::Text(program.clone())), ("args", Setting::Words(words.to_vec()))];
        match self {
            Self::ClaudeCode | Self::VsCode | Self::Inspector => {
                [kind("stdio")].into_iter().chain(call).collect()
            }
            Self::Cursor => call.into(),
            Self::Codex => {
                let times = [
                    ("startup_timeout_sec", Setting::Number(START_SECONDS)),
                    ("tool_timeout_sec", Setting::Number(TOOL_SECONDS)),
                ];
                call.into_iter().chain(times).collect()
            }
            Self::OpenCode => {
                let line = [program].into_iter().chain(words.iter().cloned()).collect();
                vec![
                    kind("local"),
                    ("command", Setting::Words(line)),
                    ("enabled", Setting::Flag(true)),
                    ("timeout", Setting::Number(TOOL_SECONDS.saturating_mul(1_000))),
                ]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_keeps_its_servers_in_its_own_file() {
        let places =
            |env| Places { home: "/home/ada".into(), config: "/home/ada/.config".into(), env };
        let files = |env| {
            let places = places(env);
            Client::value_variants().iter().map(|client| client.file(&places)).collect::<Vec<_>>()
        };
        let plain = [
            "/home/ada/.claude.json",
            "/home/ada/.codex/config.toml",
            "/home/ada/.config/opencode/opencode.json",
            "/home/ada/.config/Code/User/mcp.json",
            "/home/ada/.cursor/mcp.json",
            "/home/ada/.mcp-inspector/mcp.json",
        ];
        assert_eq!(files(|_| None), plain.map(PathBuf::from));
        let moved = [
            "/e/.claude.json",
            "/e/config.toml",
            "/e/opencode/opencode.json",
            "/home/ada/.config/Code/User/mcp.json",
            "/home/ada/.cursor/mcp.json",
            "/e",
        ];
        assert_eq!(files(|_| Some("/e".into())), moved.map(PathBuf::from));
    }
}

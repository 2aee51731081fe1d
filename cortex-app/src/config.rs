//! `config.json` in the data directory: what a person may set. An absent file, or key, is the default.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cortex_lib::api;
use cortex_lib::error::{Code, Error, Problem, Result};
use cortex_lib::limits::MCP_PORT;
use cortex_lib::mcp::oauth::PublicUrl;
use cortex_lib::port::Runtime;
use cortex_lib::settings::{Agents, Approvals, Events, Planner, Resources, Retry, Settings};
use cortex_runtimes::{
    ClaudeCode, ClaudeCodeConfig, Codex, CodexConfig, CommandConfig, CommandRuntime, OpenCode,
    OpenCodeConfig,
};
use fs_err as fs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The configuration of Cortex.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The schema of this file, for editors.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
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
    /// The MCP endpoint.
    pub mcp: Mcp,
    /// What agents run on.
    pub runtimes: Runtimes,
    /// The log files.
    pub log: Log,
}

/// The MCP endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mcp {
    /// Serve it, to clients and to the sessions of agents. Without it agents have no tools of Cortex, and no
    /// orchestrator starts.
    pub enabled: bool,
    /// Its port on 127.0.0.1; 0: any free one. Two cores on one machine need two. `cortex run` takes any free one.
    pub port: u16,
    /// The address by which clients from elsewhere reach it, through a reverse proxy: `https` and a host, without a path.
    /// Left out: none do, and nothing of OAuth exists. See docs/remote-clients.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub public_url: Option<String>,
}

impl Default for Mcp {
    fn default() -> Self {
        Self { enabled: true, port: MCP_PORT, public_url: None }
    }
}

/// What agents run on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Runtimes {
    /// Claude Code.
    pub claude_code: ClaudeCodeConfig,
    /// Codex.
    pub codex: CodexConfig,
    /// OpenCode.
    pub opencode: OpenCodeConfig,
    /// Programs that run as agents, by their names; the runtime is `command:<name>`.
    pub commands: BTreeMap<String, Program>,
}

/// A program that runs as an agent, once for each turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The program and its arguments, as a list of words: no shell takes part.
    #[schemars(length(min = 1, max = 256))]
    pub argv: Vec<String>,
    /// Variables that are set for it, besides those it inherits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// The log files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// What is kept, and everything that is worse.
    pub level: Level,
    /// Days that are kept, one file each.
    #[schemars(range(min = 1, max = 365))]
    pub keep_days: u16,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: Level::Info, keep_days: 14 }
    }
}

/// How bad, or how detailed, a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Cortex or the machine failed.
    Error,
    /// Something is not as it should be.
    Warn,
    /// What happened.
    Info,
    /// How it happened.
    Debug,
    /// Everything.
    Trace,
}

impl Config {
    /// Where the configuration of `data_dir` is.
    pub fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("config.json")
    }

    /// Reads the configuration of `data_dir`; the default when there is no file.
    ///
    /// # Errors
    ///
    /// `core.config_invalid`, with all problems at once; `core.data_dir_unusable`.
    pub fn read(data_dir: &Path) -> Result<Self> {
        let path = Self::path(data_dir);
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text).map_err(|error| in_file(&path, &error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::new(Code::DataDirUnusable, error.to_string())),
        }
    }

    /// Reads a configuration from its text.
    ///
    /// # Errors
    ///
    /// `core.config_invalid`, with all problems at once.
    pub fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            Error::invalid(
                Code::ConfigInvalid,
                vec![Problem::new("", format!("is no JSON: {error}"))],
            )
        })?;
        let config: Self = api::read(value).map_err(|error| match error.code() {
            Code::InvalidArguments => {
                Error::invalid(Code::ConfigInvalid, error.problems().to_vec())
            }
            _ => error,
        })?;
        let problems = config.problems();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(Error::invalid(Code::ConfigInvalid, problems))
        }
    }

    /// The JSON schema of the file.
    pub fn json_schema() -> Value {
        let mut schema = api::schema_of::<Self>();
        if let Some(root) = schema.as_object_mut() {
            root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
            root.insert("title".into(), "The configuration of Cortex".into());
        }
        schema
    }

    /// What of it concerns the core.
    pub fn settings(&self) -> Settings {
        Settings {
            resources: self.resources.clone(),
            agents: self.agents.clone(),
            retry: self.retry.clone(),
            approvals: self.approvals.clone(),
            events: self.events.clone(),
            planner: self.planner.clone(),
        }
    }

    /// The public address of the endpoint.
    ///
    /// # Errors
    ///
    /// `core.config_invalid`.
    pub fn public_url(&self) -> Result<Option<PublicUrl>> {
        self.mcp.public_url.as_deref().map(PublicUrl::parse).transpose()
    }

    /// The runtimes it describes, and those of `extra` programs. An extra one goes before one of the same name.
    ///
    /// # Errors
    ///
    /// `core.config_invalid`.
    pub fn runtimes(&self, extra: Vec<CommandConfig>) -> Result<Vec<Arc<dyn Runtime>>> {
        let mut runtimes: Vec<Arc<dyn Runtime>> = vec![
            Arc::new(ClaudeCode::new(self.runtimes.claude_code.clone())),
            Arc::new(Codex::new(self.runtimes.codex.clone())),
            Arc::new(OpenCode::new(self.runtimes.opencode.clone())),
        ];
        let names: Vec<_> = extra.iter().map(|program| program.name.clone()).collect();
        let configured = self.commands().filter(|command| !names.contains(&command.name));
        for command in configured.chain(extra) {
            runtimes.push(Arc::new(CommandRuntime::new(command)?));
        }
        Ok(runtimes)
    }

    fn commands(&self) -> impl Iterator<Item = CommandConfig> {
        self.runtimes.commands.iter().map(|(name, program)| CommandConfig {
            name: name.clone(),
            argv: program.argv.clone(),
            env: program.env.clone(),
        })
    }

    /// What the schema cannot say.
    fn problems(&self) -> Vec<Problem> {
        let rules = self.approvals.rules.iter().enumerate().filter_map(|(at, rule)| {
            Some(Problem::new(format!("approvals.rules[{at}]"), rule.problem()?))
        });
        let commands = self.commands().flat_map(|command| {
            let name = command.name.clone();
            let refused = CommandRuntime::new(command).err();
            let problems = refused.map(|error| error.problems().to_vec()).unwrap_or_default();
            problems.into_iter().map(move |problem| {
                let path = format!("runtimes.commands.{name}");
                // The name is the key itself.
                let path = match problem.path.as_str() {
                    "name" => path,
                    inner => format!("{path}.{inner}"),
                };
                Problem::new(path, problem.message)
            })
        });
        let public = self.public_url().err();
        let public = public.map(|error| error.problems().to_vec()).unwrap_or_default();
        rules.chain(commands).chain(public).collect()
    }
}

/// Says in which file the problems are.
fn in_file(path: &Path, error: &Error) -> Error {
    let remedy = format!(
        "Correct the named keys in {}; `cortex config schema` lists all of them.",
        path.display()
    );
    error.clone().remedy(remedy).with("file", path.display().to_string())
}

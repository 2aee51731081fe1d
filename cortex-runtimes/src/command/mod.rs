//! Any program as an agent: each turn runs it once. It reads the instruction and prints the result.

mod output;
mod session;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cortex_lib::domain::capability::Capability;
use cortex_lib::error::{Code, Error, Problem, Result};
use cortex_lib::ids::RuntimeId;
use cortex_lib::limits;
use cortex_lib::port::{
    Health, HealthReport, Opened, ProcessStrategy, Runtime, RuntimeInfo, SessionFacts, SessionSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use session::CommandSession;

/// The longest name: it stands in ids, lists and file names.
const NAME_CHARS_MAX: usize = 32;

/// A program that is run as an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// What it is called. Its runtime is `command:<name>`.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]{0,31}$"))]
    pub name: String,
    /// The program and its arguments, as a list of words: no shell takes part. A program without a slash
    /// is looked for in `PATH`; one with a slash that is not absolute is taken from the agent's folder.
    #[schemars(length(min = 1, max = 256))]
    pub argv: Vec<String>,
    /// Variables that are set for it, besides those it inherits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// Runs a program once for each turn.
///
/// The program finds the instruction on its standard input and in the file that `CORTEX_INSTRUCTION_FILE`
/// names. What it prints on its standard output is the result; exit code 0 says that it is one. It also finds
/// `CORTEX_SESSION_ID`, `CORTEX_AGENT_ID`, `CORTEX_ATTEMPT_ID` when the turn belongs to an
/// attempt, `CORTEX_AGENT_INSTRUCTIONS_FILE` when the agent has instructions of its own, and
/// `CORTEX_MCP_URL` and `CORTEX_MCP_TOKEN` when it may use the tools of the core. With its end everything
/// that it started ends.
#[derive(Debug)]
pub struct CommandRuntime {
    config: Arc<CommandConfig>,
    info: RuntimeInfo,
}

impl CommandRuntime {
    /// A runtime for this program.
    ///
    /// # Errors
    ///
    /// `core.config_invalid`, with all problems at once.
    pub fn new(config: CommandConfig) -> Result<Self> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(Error::invalid(Code::ConfigInvalid, problems));
        }
        let info = RuntimeInfo {
            id: RuntimeId::new(format!("command:{}", config.name)),
            name: config.name.clone(),
            capabilities: BTreeSet::from([Capability::StructuredSession, Capability::Interrupt]),
            process_strategy: ProcessStrategy::ProcessPerTurn,
            default_model: None,
            models: None,
        };
        Ok(Self { config: Arc::new(config), info })
    }
}

#[async_trait]
impl Runtime for CommandRuntime {
    fn info(&self) -> &RuntimeInfo {
        &self.info
    }

    async fn check(&self) -> HealthReport {
        let report = |health, executable, message: Option<String>| HealthReport {
            health,
            version: None,
            executable,
            logged_in: None,
            remediation: (health == Health::Unhealthy).then(|| {
                format!(
                    "Install the program, or correct the argv of {} in the configuration.",
                    self.info.id
                )
            }),
            message,
        };
        let program = self.config.program();
        if self.config.is_in_folder() {
            let message = format!("{program} is looked for in the folder of each agent");
            return report(Health::Healthy, None, Some(message));
        }
        match self.config.find(Path::new("/")) {
            Some(found) => report(Health::Healthy, Some(found), None),
            None => report(Health::Unhealthy, None, Some(format!("{program} was not found"))),
        }
    }

    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        let id = &self.info.id;
        spec.require_offered(&self.info)?;
        if self.config.find(&spec.cwd).is_none() {
            let (program, folder) = (self.config.program(), spec.cwd.display());
            let message = format!("{program}, the program of {id}, was not found (from {folder})");
            return Err(Error::new(Code::RuntimeNotInstalled, message)
                .with("program", program)
                .with("folder", folder.to_string()));
        }
        let (sender, events) = mpsc::channel(limits::SESSION_QUEUE_MAX);
        let session = CommandSession::open(Arc::clone(&self.config), spec, sender)?;
        Ok(Opened {
            session: Arc::new(session),
            events,
            facts: SessionFacts::default(),
            terminal: None,
        })
    }
}

impl CommandConfig {
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut check = |holds: bool, path: &str, message: &str| {
            if !holds {
                problems.push(Problem::new(path, message));
            }
        };
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        check(
            self.name.starts_with(letter)
                && self.name.chars().all(|c| letter(c) || c == '-' || c == '_')
                && self.name.len() <= NAME_CHARS_MAX,
            "name",
            "is 1 to 32 of a-z, 0-9, _ and -, and begins with a letter or a digit",
        );
        check(!self.program().is_empty(), "argv", "names no program");
        for (at, word) in self.argv.iter().enumerate() {
            check(!word.contains('\0'), &format!("argv[{at}]"), "holds a NUL character");
        }
        for (name, value) in &self.env {
            let path = format!("env.{name}");
            check(
                !name.is_empty() && !name.contains(['=', '\0']),
                &path,
                "is no name of a variable",
            );
            check(!value.contains('\0'), &path, "holds a NUL character");
        }
        problems
    }

    /// The program, as configured.
    fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// Whether the program is named by a path from the agent's folder.
    fn is_in_folder(&self) -> bool {
        let path = Path::new(self.program());
        path.is_relative() && path.components().count() > 1
    }

    /// Where the program is, seen from `cwd`.
    #[expect(clippy::disallowed_methods, reason = "the program will look in the same PATH")]
    fn find(&self, cwd: &Path) -> Option<PathBuf> {
        let paths = self.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
        which::which_in(self.program(), paths, cwd).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str, argv: &[&str]) -> CommandConfig {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        CommandConfig { name: name.to_owned(), argv, env: BTreeMap::new() }
    }

    #[test]
    fn a_name_is_short_and_plain() {
        for name in ["a", "0-_", "my-agent", &"a".repeat(32)] {
            assert!(CommandRuntime::new(config(name, &["sh"])).is_ok(), "{name}");
        }
        for name in ["", "-a", "_a", "A", "a b", "\u{e4}", "a:b", &"a".repeat(33)] {
            let error = CommandRuntime::new(config(name, &["sh"])).unwrap_err();
            assert_eq!(error.code(), Code::ConfigInvalid, "{name}");
        }
    }

    #[test]
    fn all_problems_are_named_at_once() {
        let mut config = config("A", &[]);
        config.env.insert("A=B".to_owned(), "c".to_owned());
        let error = CommandRuntime::new(config).unwrap_err();
        let paths: Vec<_> = error.problems().iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["name", "argv", "env.A=B"]);
    }

    #[test]
    fn unknown_keys_are_refused() {
        let json = r#"{"name": "a", "argv": ["sh"], "shell": true}"#;
        assert!(serde_json::from_str::<CommandConfig>(json).is_err());
        let schema = schemars::schema_for!(CommandConfig).to_value();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["name"]["pattern"], "^[a-z0-9][a-z0-9_-]{0,31}$");
    }
}

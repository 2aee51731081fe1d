//! Claude Code: one CLI process per session, driven over its stream-JSON protocol.
//!
//! `wire` knows the messages, `map` what they mean (pure), `outcome` how turns end, `pump` runs a session,
//! `launch` starts the program and `probe` looks whether it can start.

mod closing;
#[cfg(feature = "terminal")]
mod interactive;
mod launch;
mod map;
mod mention;
mod outcome;
mod pipes;
mod probe;
mod pump;
mod questions;
mod reset;
mod selftest;
mod session;
mod stream;
mod summary;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "terminal")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
#[cfg(feature = "terminal")]
use cortex_lib::domain::agent::Interaction;
use cortex_lib::domain::capability::Capability;
use cortex_lib::env::{Env, SystemEnv};
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::RuntimeId;
use cortex_lib::port::{
    HealthReport, Opened, ProcessStrategy, Runtime, RuntimeInfo, SessionFacts, SessionSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use self::map::Conversation;
use self::session::ClaudeSession;

/// The id of this runtime.
const ID: &str = "claude-code";

/// What a person may set about Claude Code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClaudeCodeConfig {
    /// The program. Default: `claude` on the `PATH`, then where its installers put it.
    pub executable: Option<PathBuf>,
    /// Variables to set for it, such as a base URL or a proxy. They win over inherited ones.
    pub env: BTreeMap<String, String>,
}

/// The runtime `claude-code`.
///
/// Sessions load no settings of a repository or a person, so neither hooks nor foreign MCP servers run, and every tool
/// that changes something asks first. An agent's instructions, the tools of Cortex and the model come from the
/// [`SessionSpec`] alone.
#[derive(Debug)]
pub struct ClaudeCode {
    config: ClaudeCodeConfig,
    info: RuntimeInfo,
    env: Arc<dyn Env>,
}

impl ClaudeCode {
    /// The runtime with what a person has set. It looks at nothing yet.
    pub fn new(config: ClaudeCodeConfig) -> Self {
        let capabilities = BTreeSet::from([
            Capability::StructuredSession,
            Capability::InteractiveInput,
            Capability::Interrupt,
            Capability::Resume,
            Capability::ToolApproval,
            Capability::McpClient,
            Capability::OrchestratorRole,
            Capability::ReadOnlyTurn,
            Capability::ModelSelection,
            Capability::UsageReporting,
            #[cfg(feature = "terminal")]
            Capability::TerminalSession,
        ]);
        let info = RuntimeInfo {
            id: RuntimeId::new(ID),
            name: "Claude Code".to_owned(),
            capabilities,
            process_strategy: ProcessStrategy::ProcessPerSession,
            default_model: Some(launch::DEFAULT_MODEL.to_owned()),
            models: None,
        };
        Self { config, info, env: Arc::new(SystemEnv::new()) }
    }

    /// Where its program is: as configured, on the `PATH`, or where its own installers put it. Nothing is started.
    ///
    /// # Errors
    ///
    /// `runtime.not_installed`.
    pub fn executable(&self) -> Result<PathBuf> {
        probe::find(&self.config)
    }
}

#[cfg(feature = "terminal")]
impl ClaudeCode {
    /// The session is ready when the CLI has drawn its first screen. What it asks there, the person answers.
    async fn open_terminal(&self, executable: &Path, spec: &SessionSpec) -> Result<Opened> {
        let native = spec.resume.clone().unwrap_or_else(|| self.env.mint_v4().to_string());
        let (program, resumed) = interactive::program(executable, &self.config, spec, &native)?;
        let facts =
            SessionFacts { native_session_id: Some(native), resumed, ..SessionFacts::default() };
        crate::terminal::open(&program, facts).await
    }
}

#[async_trait]
impl Runtime for ClaudeCode {
    fn info(&self) -> &RuntimeInfo {
        &self.info
    }

    async fn check(&self) -> HealthReport {
        probe::check(&self.config, &*self.env).await
    }

    /// The session is ready when the CLI has answered, holds credentials, asks before it uses tools, and is connected to
    /// the endpoint. Whether the credentials hold, only a turn shows.
    ///
    /// When the native session to resume is not known (any more), the error carries `resume_unknown: true`: the
    /// agent can be started afresh.
    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        spec.require_offered(&self.info)?;
        let executable = probe::find(&self.config)?;
        #[cfg(feature = "terminal")]
        if spec.interaction == Interaction::Terminal {
            return self.open_terminal(&executable, &spec).await;
        }
        let native = spec.resume.clone().unwrap_or_else(|| self.env.mint_v4().to_string());
        let program = launch::program(&executable, &self.config, &spec, &native)?;
        let owned = program.spawn().await?;
        let pid = owned.pid();
        let mut conversation = Conversation::new(native.clone(), launch::offered(&spec));
        if spec.mcp.is_some() {
            conversation.has_cortex();
        }
        // From here on a dropped future ends the process: the loop ends with the session.
        let (session, events) = session::begin(pump::Parts {
            owned,
            conversation,
            cwd: spec.cwd.clone(),
            home: probe::home(&self.config),
            env: Arc::clone(&self.env),
        });
        match handshake(&session, &spec).await {
            Ok(Ready { version, model }) => {
                let facts = SessionFacts {
                    native_session_id: Some(native),
                    pid: Some(pid),
                    resumed: spec.resume.is_some(),
                    version,
                    model,
                };
                Ok(Opened { session: Arc::new(session), events, facts, terminal: None })
            }
            Err(error) => {
                cortex_lib::port::Session::close(&session, Duration::ZERO).await;
                Err(error)
            }
        }
    }
}

/// What the CLI says about itself before its first turn.
struct Ready {
    version: Option<String>,
    /// The model by its full name.
    model: Option<String>,
}

/// Makes sure that the session can be used.
async fn handshake(session: &ClaudeSession, spec: &SessionSpec) -> Result<Ready> {
    // The instructions are not an argument: those are bounded, and anybody on the machine can read them.
    let initialize = match &spec.instructions {
        Some(instructions) => {
            json!({"subtype": "initialize", "hooks": null, "appendSystemPrompt": instructions})
        }
        None => json!({"subtype": "initialize", "hooks": null}),
    };
    let initialized: wire::Initialized = ask(session, &initialize).await?;
    if initialized.account.is_some_and(|account| account.is_nobody()) {
        let error = Error::new(Code::RuntimeNotLoggedIn, "Claude Code is not logged in");
        return Err(error.remedy(probe::LOG_IN));
    }
    let settings: Value = ask(session, &json!({"subtype": "get_settings"})).await?;
    selftest::must_ask(&settings, launch::asked(spec))?;
    let version: Value = ask(session, &json!({"subtype": "get_binary_version"})).await?;
    if let Some(mcp) = &spec.mcp {
        selftest::connected(session, &mcp.url).await?;
    }
    let cost_usd = match spec.resume {
        Some(_) => cost_before(session).await,
        None => Some(0.0),
    };
    session.live(cost_usd).await.map_err(|error| start_error(&error))?;
    let text =
        |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
    Ok(Ready { version: text(&version, "/version"), model: text(&settings, "/applied/model") })
}

/// How long a resumed CLI may take to tell what it has cost. Where it has to ask its account first, that is not waited for.
const COST_WAIT: Duration = Duration::from_secs(2);

/// What a resumed conversation has cost so far: the totals of the CLI go on from there.
async fn cost_before(session: &ClaudeSession) -> Option<f64> {
    let request = json!({"subtype": "get_usage"});
    let answer = timeout(COST_WAIT, session.control(request)).await.ok()?.ok()?.ok()?;
    answer.pointer("/session/total_cost_usd").and_then(Value::as_f64)
}

/// Asks the CLI and reads what is known of the answer.
async fn ask<T: serde::de::DeserializeOwned>(
    session: &ClaudeSession,
    request: &Value,
) -> Result<T> {
    let subtype = request.get("subtype").and_then(Value::as_str).unwrap_or_default().to_owned();
    let answer = session.control(request.clone()).await.map_err(|error| start_error(&error))?;
    let protocol = |what: String| {
        let message = format!("Claude Code did not answer {subtype} as it should: {what}");
        Error::new(Code::RuntimeProtocol, message)
    };
    let answer = answer.map_err(protocol)?;
    serde_json::from_value(answer).map_err(|error| protocol(error.to_string()))
}

/// What the end of a session means while it starts.
fn start_error(ended: &Error) -> Error {
    let error = Error::new(Code::RuntimeStartFailed, ended.message());
    if ended.message().contains("No conversation found") {
        return error.with("resume_unknown", true).remedy(
            "Start the agent afresh: Claude Code does not know the earlier session in this folder.",
        );
    }
    error
}

//! Codex: threads of `codex app-server`, driven over its JSON-RPC on standard input and output.
//!
//! `wire` knows the lines, `map` what they mean (pure, with `ask` for what the CLI asks and `outcome` for how turns end),
//! `thread` what a session may do, `open` how it starts and `pump` how it runs. `server` is one process, `pool` says who has
//! which, `launch` starts them and `probe` looks whether they can start.

mod ask;
mod git;
#[cfg(feature = "terminal")]
mod interactive;
mod launch;
mod map;
mod open;
mod outcome;
mod pool;
mod probe;
mod pump;
mod reset;
mod rules;
mod server;
mod session;
mod state;
mod stream;
mod summary;
mod thread;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
#[cfg(feature = "terminal")]
use cortex_lib::domain::agent::Interaction;
use cortex_lib::domain::capability::Capability;
use cortex_lib::env::{Env, SystemEnv};
use cortex_lib::error::Result;
use cortex_lib::ids::RuntimeId;
use cortex_lib::port::{
    HealthReport, Opened, ProcessStrategy, Runtime, RuntimeInfo, SessionFacts, SessionSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use self::map::Conversation;
use self::pool::Pool;
use crate::process_use::ProcessUse;

/// The id of this runtime.
const ID: &str = "codex";
/// How long a process that nobody is to have, for one because its session failed to open, may take to end.
const END_WAIT: Duration = Duration::from_secs(2);

/// What a person may set about Codex.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CodexConfig {
    /// The program. Default: `codex` on the `PATH`.
    pub executable: Option<PathBuf>,
    /// Variables to set for it, such as `CODEX_HOME` or a proxy. They win over inherited ones.
    pub env: BTreeMap<String, String>,
    /// Whether agents share a process. Default: they do.
    pub process: ProcessUse,
    /// Where the commands of agents run. Default: in a sandbox.
    pub sandbox: Sandbox,
}

/// Where what was allowed runs. All of it is asked for either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Sandbox {
    /// In the CLI's sandbox: it writes to the agent's folder and to temporary folders, and reaches no network.
    #[default]
    Workspace,
    /// With all rights of this user. For machines where there can be no sandbox.
    Off,
}

/// The runtime `codex`.
///
/// Sessions load the person's login, models and preferences. Hooks, rules and MCP servers of a repository count only when
/// it is trusted, and servers and programs of the person do not; every command and every change of a file asks first. An agent's
/// instructions and the tools of Cortex come from the [`SessionSpec`] alone.
#[derive(Debug)]
pub struct Codex {
    config: CodexConfig,
    info: RuntimeInfo,
    env: Arc<dyn Env>,
    pool: Pool,
}

impl Codex {
    /// The runtime with what a person has set. It looks at nothing yet.
    pub fn new(config: CodexConfig) -> Self {
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
        let process_strategy = match config.process {
            ProcessUse::Shared => ProcessStrategy::SharedServer,
            ProcessUse::PerAgent => ProcessStrategy::ProcessPerSession,
        };
        let info = RuntimeInfo {
            id: RuntimeId::new(ID),
            name: "Codex".to_owned(),
            capabilities,
            process_strategy,
            default_model: None,
            models: None,
        };
        let env: Arc<dyn Env> = Arc::new(SystemEnv::new());
        let pool = Pool::new(config.clone(), Arc::clone(&env));
        Self { config, info, env, pool }
    }

    /// Where its program is: as configured, or on the `PATH`. Nothing is started.
    ///
    /// # Errors
    ///
    /// `runtime.not_installed`.
    pub fn executable(&self) -> Result<PathBuf> {
        probe::find(&self.config)
    }
}

#[async_trait]
impl Runtime for Codex {
    fn info(&self) -> &RuntimeInfo {
        &self.info
    }

    async fn check(&self) -> HealthReport {
        probe::check(&self.config, &self.env).await
    }

    /// The session is ready when the CLI has opened its thread with the settings it was given, asks before it uses tools, and
    /// has the tools of the endpoint. Whether its login holds, only a turn shows.
    ///
    /// When the native session to resume is not known (any more), the error carries `resume_unknown: true`: the
    /// agent can be started afresh.
    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        spec.require_offered(&self.info)?;
        let executable = probe::find(&self.config)?;
        #[cfg(feature = "terminal")]
        if spec.interaction == Interaction::Terminal {
            let program = interactive::program(&executable, &self.config, &spec);
            let facts = SessionFacts { resumed: spec.resume.is_some(), ..SessionFacts::default() };
            return crate::terminal::open(&program, facts).await;
        }
        let lease = self.pool.take(executable, thread::purpose(&spec)).await?;
        // From here on a dropped future gives the process back: nobody else holds it for this session.
        let opened = open::open(lease.host(), &spec, &self.config).await;
        let thread = match opened {
            Ok(thread) => thread,
            Err(error) => {
                lease.give_back(Instant::now() + END_WAIT).await;
                return Err(error);
            }
        };
        let facts = SessionFacts {
            native_session_id: Some(thread.registration.thread.clone()),
            pid: Some(lease.host().server.pid()),
            resumed: spec.resume.is_some(),
            version: lease.host().started.version.clone(),
            model: thread.model,
        };
        let native = thread.registration.thread.clone();
        let (session, events) = session::begin(pump::Parts {
            lease,
            told: thread.told,
            registration: thread.registration,
            conversation: Conversation::new(native, thread::confined(&spec), thread.own),
            spec,
            config: self.config.clone(),
            env: Arc::clone(&self.env),
        });
        Ok(Opened { session: Arc::new(session), events, facts, terminal: None })
    }
}

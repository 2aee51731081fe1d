//! OpenCode: one server for many sessions, driven over its HTTP routes and its stream of events.
//!
//! `http` and `sse` speak with the server, `wire` knows what it says, `map` (with `asks` and `output`) what that means
//! (pure), `outcome` how turns end. `launch` and `server` run the server, `pool` shares it, `routes` and `folders` tell
//! sessions apart, `pump` runs one. `brought` refuses what would run unasked, `rules` and `model` decide what an agent may do and which model answers (pure), `open` makes a
//! session of all that, and `probe` looks whether it can.

mod asks;
mod brought;
mod folders;
mod http;
mod ids;
#[cfg(feature = "terminal")]
mod interactive;
mod launch;
mod map;
mod model;
mod open;
mod outcome;
mod output;
mod pool;
mod probe;
mod pump;
mod routes;
mod rules;
mod server;
mod session;
mod sse;
mod summary;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
#[cfg(feature = "terminal")]
use cortex_lib::domain::agent::Interaction;
use cortex_lib::domain::agent::Role;
use cortex_lib::domain::capability::Capability;
use cortex_lib::env::{Env, SystemEnv};
use cortex_lib::error::Result;
use cortex_lib::ids::RuntimeId;
use cortex_lib::port::{HealthReport, Opened, ProcessStrategy, Runtime, RuntimeInfo, SessionSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::pool::{Lease, Pool};
use crate::process_use::ProcessUse;

/// The id of this runtime.
const ID: &str = "opencode";

/// What a person may set about OpenCode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenCodeConfig {
    /// The program. Default: `opencode` on the `PATH`, then where its installer puts it.
    pub executable: Option<PathBuf>,
    /// Variables to set for it, such as a key or a proxy. They win over inherited ones.
    pub env: BTreeMap<String, String>,
    /// Whether agents share a server. Each server takes about half a gigabyte. Default: they do.
    pub process: ProcessUse,
    /// Seconds that the model may be silent before the turn is given up. Default: 300.
    pub silence_secs: Option<u32>,
}

/// The runtime `opencode`.
///
/// Sessions keep the person's own providers, models and login, and ask before a tool changes something, runs something or
/// leaves the folder. They share a server of OpenCode, apart from those whose project is trusted, which have another
/// one. What a repository brings counts only for those.
#[derive(Debug)]
pub struct OpenCode {
    config: OpenCodeConfig,
    info: RuntimeInfo,
    env: Arc<dyn Env>,
    pool: Pool,
}

impl OpenCode {
    /// The runtime with what a person has set. It looks at nothing yet.
    pub fn new(config: OpenCodeConfig) -> Self {
        let capabilities = BTreeSet::from([
            Capability::StructuredSession,
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
            name: "OpenCode".to_owned(),
            capabilities,
            process_strategy,
            default_model: None,
            models: None,
        };
        Self { config, info, env: Arc::new(SystemEnv::new()), pool: Pool::default() }
    }

    /// Where its program is: as configured, on the `PATH`, or where its installer puts it. Nothing is started.
    ///
    /// # Errors
    ///
    /// `runtime.not_installed`.
    pub fn executable(&self) -> Result<PathBuf> {
        probe::find(&self.config)
    }

    /// The server for a session: the shared one, or its own.
    async fn server(&self, spec: &SessionSpec) -> Result<Lease> {
        let executable = probe::find(&self.config)?;
        let (config, env) = (&self.config, &*self.env);
        // Who only reads or coordinates needs nothing of what a repository brings.
        let trusted = spec.trusted && spec.role == Role::Worker && !spec.read_only;
        let start = server::start(server::Wanted { executable: &executable, config, trusted, env });
        // What runs all the same runs where no other repository's sessions are.
        let is_apart = trusted != spec.trusted && brought::refuse(&spec.cwd, config).is_err();
        match config.process {
            ProcessUse::Shared if !is_apart => self.pool.lease(trusted, start).await,
            _ => Lease::alone(start).await,
        }
    }
}

#[async_trait]
impl Runtime for OpenCode {
    fn info(&self) -> &RuntimeInfo {
        &self.info
    }

    async fn check(&self) -> HealthReport {
        probe::check(&self.config, &*self.env).await
    }

    /// The session is ready when the server knows its folder, its model is there, its tools ask, and the server is connected
    /// to the endpoint. Whether the login holds, only a turn shows.
    ///
    /// When the native session to resume is not known (any more), the error carries `resume_unknown: true`: the
    /// agent can be started afresh.
    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        spec.require_offered(&self.info)?;
        if !spec.trusted {
            brought::refuse(&spec.cwd, &self.config)?;
        }
        #[cfg(feature = "terminal")]
        if spec.interaction == Interaction::Terminal {
            let executable = probe::find(&self.config)?;
            let program = interactive::program(&executable, &self.config, &spec)?;
            let facts = cortex_lib::port::SessionFacts {
                resumed: spec.resume.is_some(),
                ..Default::default()
            };
            return crate::terminal::open(&program, facts).await;
        }
        let lease = self.server(&spec).await?;
        open::open(lease, spec, self.config.clone(), Arc::clone(&self.env)).await
    }
}

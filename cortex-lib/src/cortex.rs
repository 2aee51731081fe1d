//! The handle that a program embeds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::api::{Caller, Cx, TOOLS};
use crate::engine::{Core, CoreState, OutputFeed, Parts, Stop};
use crate::env::{Env, SystemEnv};
use crate::error::{Code, Error, Problem, Result};
use crate::ids::AgentId;
use crate::port::{Host, Runtime, Terminal};
use crate::settings::Settings;
use crate::store::{DataDir, Feed, Store, StoreOptions};

/// A running core. Clones are handles to the same one; several cores live in one process, each on a data
/// directory of its own.
///
/// A core goes on until [`shutdown`](Self::shutdown): dropping the handle does not stop it.
#[derive(Clone, Debug)]
pub struct Cortex {
    core: Core,
    dir: PathBuf,
}

impl Cortex {
    /// Begins to describe a core that keeps everything in `data_dir`, an absolute path.
    pub fn builder(data_dir: impl Into<PathBuf>) -> Builder {
        Builder {
            data_dir: data_dir.into(),
            settings: Settings::default(),
            runtimes: Vec::new(),
            env: Arc::new(SystemEnv::new()),
            at_rest: false,
            endpoint: None,
        }
    }

    /// The door for the person who runs Cortex: every command, every project.
    pub fn as_user(&self) -> Cx {
        self.as_caller(Caller::User)
    }

    /// The door for somebody who was found out to be `caller`.
    pub fn as_caller(&self, caller: Caller) -> Cx {
        Cx::new(caller, self.core.clone())
    }

    /// The committed events behind `after`, then those that come, in order and without a gap. Without `after`:
    /// from the oldest kept.
    pub fn events(&self, after: Option<u64>) -> Feed {
        self.core.store().follow(after)
    }

    /// The number of the newest event; pass it to [`events`](Self::events) to hear only what comes.
    ///
    /// # Errors
    ///
    /// `core.stopped`, `store.failed`.
    pub fn newest_event(&self) -> Result<u64> {
        self.core.store().read(|tx| tx.newest_seq())
    }

    /// What agents print, from now on.
    pub fn output(&self) -> OutputFeed {
        self.core.output()
    }

    /// The terminal of an agent in terminal mode, while its session lives.
    ///
    /// # Errors
    ///
    /// `agent.not_found`; `agent.not_in_terminal_mode`; `agent.state_conflict` when it has no session.
    pub fn terminal(&self, agent_id: &AgentId) -> Result<Arc<dyn Terminal>> {
        self.core.terminal(agent_id)
    }

    /// Where it stands.
    pub fn state(&self) -> CoreState {
        self.core.state()
    }

    /// Where it stands, as it changes.
    pub fn states(&self) -> tokio::sync::watch::Receiver<CoreState> {
        self.core.states()
    }

    /// Its data directory.
    pub fn data_dir(&self) -> &Path {
        &self.dir
    }

    /// The core behind the handle.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Stops in order: turns are interrupted, sessions closed, everything is on disk. Agents that ran are
    /// started again by the next open.
    ///
    /// # Errors
    ///
    /// `store.failed` when the store had failed, `store.disk_full` when the end could not be written. It has
    /// stopped all the same, and the next open settles what is on disk.
    pub async fn shutdown(&self) -> Result<()> {
        self.core.stop(Stop::InOrder).await
    }

    /// Stops at once: sessions are ended without asking. Turns that ran count as lost.
    ///
    /// # Errors
    ///
    /// As [`shutdown`](Self::shutdown).
    pub async fn shutdown_at_once(&self) -> Result<()> {
        self.core.stop(Stop::AtOnce).await
    }
}

/// Describes a core before it is opened.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is opened"]
pub struct Builder {
    data_dir: PathBuf,
    settings: Settings,
    runtimes: Vec<Arc<dyn Runtime>>,
    env: Arc<dyn Env>,
    at_rest: bool,
    endpoint: Option<String>,
}

impl Builder {
    /// How it behaves. Default: [`Settings::default`].
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds a kind of agent. Default: none.
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtimes.push(runtime);
        self
    }

    /// Where time and randomness come from. Default: this machine.
    pub fn env(mut self, env: Arc<dyn Env>) -> Self {
        self.env = env;
        self
    }

    /// Opens a core that only answers: it begins no verification and brings no agent back by itself. For a program
    /// that looks or decides and goes away again; what is owed waits for a core that stays. Default: it works.
    pub fn at_rest(mut self) -> Self {
        self.at_rest = true;
        self
    }

    /// Where the sessions of agents find the tools of Cortex: the address of a socket that is bound already, because
    /// agents that are started again connect before this core is handed out. Each session gets it with a credential of
    /// its own. Default: none; then workers run without the tools, and no orchestrator starts.
    ///
    /// ```no_run
    /// # async fn serve(data_dir: std::path::PathBuf) -> cortex_lib::Result<()> {
    /// use cortex_lib::{Cortex, limits, mcp};
    ///
    /// let socket = mcp::bind(limits::MCP_PORT).await?;
    /// let cortex = Cortex::builder(data_dir).endpoint(socket.url()).open().await?;
    /// let token = mcp::UserToken::of(cortex.data_dir()).load_or_create(&**cortex.core().env())?;
    /// let server = socket.serve(&cortex, &token);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "mcp")]
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// Takes the data directory, settles what an earlier life left, starts the agents again that ran then, and
    /// is ready.
    ///
    /// # Errors
    ///
    /// `core.data_dir_not_absolute`, `core.data_dir_in_use`, `core.data_dir_unusable`, `core.config_invalid`,
    /// `store.newer_version`, `store.corrupt`, `store.disk_full`, `store.failed`.
    pub async fn open(self) -> Result<Cortex> {
        self.check()?;
        let dir = DataDir::open(&self.data_dir)?;
        let options =
            StoreOptions { env: Arc::clone(&self.env), events_kept: self.settings.events.kept };
        let store = Store::open(&dir, options)?;
        let host: Arc<dyn Host> =
            Arc::new(crate::engine::SystemHost::new(Arc::clone(&self.env), &dir));
        self.start(store, host).await
    }

    /// Runs the same core on a store and a machine that a test brings.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[cfg(feature = "testing")]
    pub async fn open_on(self, store: Store, host: Arc<dyn Host>) -> Result<Cortex> {
        self.check()?;
        self.start(store, host).await
    }

    async fn start(self, store: Store, host: Arc<dyn Host>) -> Result<Cortex> {
        let runtimes =
            self.runtimes.into_iter().map(|runtime| (runtime.info().id.clone(), runtime)).collect();
        let closing = store.clone();
        let (env, settings, at_rest) = (self.env, self.settings, self.at_rest);
        let (data_dir, endpoint) = (self.data_dir.clone(), self.endpoint);
        let tools = TOOLS.iter().map(|tool| tool.name).collect();
        let parts =
            Parts { env, store, settings, runtimes, host, data_dir, at_rest, endpoint, tools };
        match Core::start(parts).await {
            Ok(core) => Ok(Cortex { core, dir: self.data_dir }),
            Err(error) => {
                // What made the start fail is the news.
                drop(closing.close().await);
                Err(error)
            }
        }
    }

    fn check(&self) -> Result<()> {
        let mut problems: Vec<Problem> = Vec::new();
        for (at, rule) in self.settings.approvals.rules.iter().enumerate() {
            problems.extend(
                rule.problem()
                    .map(|problem| Problem::new(format!("approvals.rules[{at}]"), problem)),
            );
        }
        let mut seen = BTreeSet::new();
        for runtime in &self.runtimes {
            let id = &runtime.info().id;
            if !seen.insert(id) {
                problems.push(Problem::new("runtimes", format!("{id} is given twice")));
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Error::invalid(Code::ConfigInvalid, problems))
        }
    }
}

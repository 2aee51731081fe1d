//! The handle to a running core: what callers, the endpoint and the engine itself share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use super::health::{HealthBoard, KnownHealth};
use super::output::{OutputBus, OutputFeed};
use super::run::Engine;
use super::supervisor::Supervisor;
use super::terminals::Terminals;
use super::wake::{Stop, Wake};
use crate::domain::event::EventKind;
use crate::env::Env;
use crate::error::{Code, Error, Result};
use crate::ids::RuntimeId;
use crate::limits::{SHUTDOWN_GRACE, WAKE_QUEUE_MAX};
use crate::port::{Host, Runtime};
use crate::progress::BoardFacts;
use crate::settings::Settings;
use crate::store::{NewEvent, ReadTx, Store};

/// Where a core stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(inline)]
pub enum CoreState {
    /// It settles what an earlier life left.
    Starting,
    /// It takes changes.
    Ready,
    /// It is on its way down.
    Stopping,
    /// It is down.
    Stopped,
    /// Its store failed; the next start settles what is on disk.
    Failed,
}

/// A handle to one running core. Clones are handles to the same one.
#[derive(Clone)]
pub struct Core {
    inner: Arc<Inner>,
}

/// What a core is made of.
pub(crate) struct Parts {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) runtimes: BTreeMap<RuntimeId, Arc<dyn Runtime>>,
    pub(crate) host: Arc<dyn Host>,
    /// Where it keeps what it has.
    pub(crate) data_dir: PathBuf,
    /// Whether it only answers and begins nothing by itself.
    pub(crate) at_rest: bool,
    /// Where its sessions find its tools, when an endpoint is served.
    pub(crate) endpoint: Option<String>,
    /// The names of these tools.
    pub(crate) tools: Vec<&'static str>,
}

struct Inner {
    parts: Parts,
    settings: Arc<Settings>,
    health: HealthBoard,
    output: OutputBus,
    terminals: Terminals,
    supervisor: Supervisor,
    state: watch::Sender<CoreState>,
    wakes: mpsc::Sender<Wake>,
}

impl Core {
    /// Settles what an earlier life left, and runs.
    pub(crate) async fn start(parts: Parts) -> Result<Self> {
        let (wakes, heard) = mpsc::channel(WAKE_QUEUE_MAX);
        let supervisor = Supervisor::default();
        let core = Self {
            inner: Arc::new(Inner {
                settings: Arc::new(parts.settings.clone()),
                health: HealthBoard::new(Arc::clone(&parts.env), supervisor.clone()),
                output: OutputBus::new(),
                terminals: Terminals::default(),
                supervisor,
                state: watch::channel(CoreState::Starting).0,
                wakes,
                parts,
            }),
        };
        core.settle_earlier_life().await?;
        let engine = Engine::new(core.clone(), heard);
        let failing = core.clone();
        core.supervisor().spawn(async move {
            // Only a defect gets here. A core without its engine takes calls that nobody acts on.
            if AssertUnwindSafe(engine.run()).catch_unwind().await.is_err() {
                tracing::error!("the engine panicked");
                failing.fail();
            }
        });
        let (watcher, store) = (core.clone(), core.store().clone());
        let stop = core.supervisor().stopping();
        core.supervisor().spawn(async move {
            tokio::select! { biased;
                () = stop.cancelled() => {}
                why = store.wait_failed() => {
                    tracing::error!(code = %why.code(), "the store failed: {}", why.message());
                    watcher.fail();
                }
            }
        });
        core.set_state(CoreState::Ready);
        core.restore_agents().await?;
        Ok(core)
    }

    async fn settle_earlier_life(&self) -> Result<()> {
        let settings = self.settings();
        let left = self.store().read(|tx| tx.left_behind())?;
        let sessions = left.sessions.iter().map(ToString::to_string);
        let verifications = left.verifications.iter().map(ToString::to_string);
        let markers: Vec<_> = sessions.chain(verifications).collect();
        // Before it is written that nothing of them lives: a core that dies in between finds the rows again,
        // and with them what to end.
        if !markers.is_empty() {
            let ended = self.host().sweep(markers).await;
            tracing::info!(
                sessions = left.sessions.len(),
                processes = ended,
                "ended what an earlier life left"
            );
        }
        for session in &left.sessions {
            self.host().remove_scratch(session);
        }
        self.store()
            .write(move |tx| {
                tx.recover(&settings)?;
                tx.emit(core_event(EventKind::CoreStarted))
            })
            .await
    }

    /// Starts the agents again that were meant to run. One that cannot start does not stop the others.
    async fn restore_agents(&self) -> Result<()> {
        if self.is_at_rest() || !self.settings().agents.restore_on_open {
            return Ok(());
        }
        for agent in self.store().read(|tx| tx.agents_to_restore())? {
            let (settings, id) = (self.settings(), agent.id.clone());
            if let Err(error) = self.store().write(move |tx| tx.start_agent(&id, &settings)).await {
                tracing::warn!(agent = %agent.name, code = %error.code(), "not started again: {}", error.message());
            }
        }
        Ok(())
    }

    /// Stops: interrupts turns and closes sessions, waits for both, and closes the store. What is left after a
    /// grace is killed. Again: waits for the same end.
    ///
    /// # Errors
    ///
    /// `store.failed` when the store had failed, `store.disk_full` when the end could not be written. It has
    /// stopped all the same, and the next start settles what is on disk.
    pub async fn stop(&self, how: Stop) -> Result<()> {
        self.inner.state.send_if_modified(|state| {
            let runs = matches!(state, CoreState::Ready | CoreState::Starting);
            if runs {
                *state = CoreState::Stopping;
            }
            runs
        });
        let (answer, done) = oneshot::channel();
        if self.inner.wakes.send(Wake::Stop(how, answer)).await.is_ok() {
            // The engine answers, or is gone: both mean that nothing runs any more.
            drop(done.await);
        }
        if !self.supervisor().join(SHUTDOWN_GRACE).await {
            tracing::warn!("some work did not end within {} s", SHUTDOWN_GRACE.as_secs());
        }
        let closed =
            match self.store().write(|tx| tx.emit(core_event(EventKind::CoreStopped))).await {
                Ok(()) => self.store().close().await,
                Err(error) if error.code() == Code::CoreStopped => Ok(()),
                Err(error) => self.store().close().await.and(Err(error)),
            };
        if self.state() != CoreState::Failed {
            self.set_state(CoreState::Stopped);
        }
        closed
    }

    /// Whether it only answers and begins nothing by itself.
    pub(super) fn is_at_rest(&self) -> bool {
        self.inner.parts.at_rest
    }

    /// Its clock and randomness.
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.inner.parts.env
    }

    /// Its data directory. No agent may work in it.
    pub(crate) fn data_dir(&self) -> &Path {
        &self.inner.parts.data_dir
    }

    /// Whether one of its tools has this name.
    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.inner.parts.tools.contains(&name)
    }

    /// Its data directory as it would stand in a text of an agent.
    pub(crate) fn data_dir_text(&self) -> String {
        self.data_dir().to_string_lossy().into_owned()
    }

    /// Its memory.
    pub(crate) fn store(&self) -> &Store {
        &self.inner.parts.store
    }

    /// Where its sessions find its tools, when an endpoint is served.
    pub(crate) fn endpoint(&self) -> Option<&str> {
        self.inner.parts.endpoint.as_deref()
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.inner.settings)
    }

    pub(crate) fn host(&self) -> &Arc<dyn Host> {
        &self.inner.parts.host
    }

    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.inner.supervisor
    }

    pub(super) fn output_bus(&self) -> &OutputBus {
        &self.inner.output
    }

    pub(super) fn terminals(&self) -> &Terminals {
        &self.inner.terminals
    }

    pub(super) fn wakes(&self) -> &mpsc::Sender<Wake> {
        &self.inner.wakes
    }

    /// What agents print, from now on.
    pub fn output(&self) -> OutputFeed {
        self.inner.output.subscribe()
    }

    /// The runtimes it was given.
    pub(crate) fn runtimes(&self) -> &BTreeMap<RuntimeId, Arc<dyn Runtime>> {
        &self.inner.parts.runtimes
    }

    /// One runtime.
    ///
    /// # Errors
    ///
    /// `runtime.not_found`.
    pub(crate) fn runtime(&self, id: &RuntimeId) -> Result<&Arc<dyn Runtime>> {
        self.runtimes().get(id).ok_or_else(|| {
            Error::new(Code::RuntimeNotFound, format!("there is no runtime {id}"))
                .with("runtime_id", id.as_str())
        })
    }

    /// What is known of a runtime's health.
    pub(crate) fn health(&self, runtime: &Arc<dyn Runtime>) -> KnownHealth {
        self.inner.health.look(runtime)
    }

    /// Looks at a runtime's health now. None: the core stops.
    pub(crate) async fn check_health(&self, runtime: &Arc<dyn Runtime>) -> Option<KnownHealth> {
        self.inner.health.check(runtime).await
    }

    /// Where it stands.
    pub fn state(&self) -> CoreState {
        *self.inner.state.borrow()
    }

    /// Where it stands, as it changes.
    pub fn states(&self) -> watch::Receiver<CoreState> {
        self.inner.state.subscribe()
    }

    fn set_state(&self, to: CoreState) {
        self.inner.state.send_replace(to);
    }

    /// It cannot do what its rows owe any more. One that is on its way down goes on down.
    pub(super) fn fail(&self) {
        self.inner.state.send_if_modified(|state| {
            let runs = matches!(state, CoreState::Ready | CoreState::Starting);
            if runs {
                *state = CoreState::Failed;
            }
            runs
        });
    }

    /// Fails with [`Code::CoreNotReady`] unless it takes changes.
    pub fn check_ready(&self) -> Result<()> {
        match self.state() {
            CoreState::Ready => Ok(()),
            CoreState::Failed => Err(self
                .store()
                .failed()
                .unwrap_or_else(|| Error::new(Code::StoreFailed, "the store failed"))),
            CoreState::Stopped => Err(Error::new(Code::CoreStopped, "the core has stopped")),
            CoreState::Starting => Err(Error::new(Code::CoreNotReady, "the core is starting")),
            CoreState::Stopping => Err(Error::new(Code::CoreNotReady, "the core is stopping")),
        }
    }

    /// What the scheduler needs beside the store.
    pub(crate) fn board_facts(&self) -> BoardFacts {
        let runtimes = self.runtimes().iter();
        BoardFacts {
            capabilities: runtimes
                .map(|(id, runtime)| (id.clone(), runtime.info().capabilities.clone()))
                .collect(),
            sessions_max: self.settings().resources.max_active_processes,
            stopping: !matches!(self.state(), CoreState::Ready | CoreState::Starting),
            dying: BTreeSet::new(),
            worktrees: self.host().worktrees(),
        }
    }

    /// Waits until `look` finds something in the store, at most `limit`. None: the time is over.
    pub(crate) async fn wait_for<T>(
        &self,
        limit: Duration,
        look: impl Fn(&ReadTx<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let (mut changes, stop) = (self.store().changes(), self.supervisor().stopping());
        let search = async {
            loop {
                // Looked at first: what is found then is the last word.
                let over = stop.is_cancelled();
                changes.mark_unchanged();
                if let Some(found) = self.store().read(&look)? {
                    return Ok(Some(found));
                }
                if over {
                    return Err(Error::new(Code::CoreStopped, "the core has stopped"));
                }
                tokio::select! { biased;
                    // The store outlives this wait, so it tells of every change.
                    more = changes.changed() => drop(more),
                    () = stop.cancelled() => {}
                    // Nothing that is waited for comes any more.
                    why = self.store().wait_failed() => return Err(why),
                }
            }
        };
        tokio::time::timeout(limit, search).await.unwrap_or(Ok(None))
    }
}

fn core_event(kind: EventKind) -> NewEvent {
    NewEvent {
        kind,
        project_id: None,
        agent_id: None,
        data: serde_json::json!({ "version": env!("CARGO_PKG_VERSION") }),
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("state", &self.state()).finish_non_exhaustive()
    }
}

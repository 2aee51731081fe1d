//! Who has which process: one for all sessions that can share it, or one for each.
//!
//! All sessions of this runtime have the same environment and the same login, so they share a process, except that those
//! that are confined have one of their own, with other tools. It is started when the first session needs it and
//! ends with the last one. One task hands the processes out, so that two sessions never start two.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use cortex_lib::env::Env;
use cortex_lib::error::{Code, Error, Result};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::CodexConfig;
use super::launch::{self, Purpose, Started};
use super::server::Server;
use super::summary::one_line;
use crate::process_use::ProcessUse;

/// Sessions that open or close at once and wait for it.
const CALLS_MAX: usize = 64;

/// A process and what is known about it.
#[derive(Debug)]
pub(super) struct Host {
    /// The process.
    pub(super) server: Server,
    /// The program that it runs.
    pub(super) executable: PathBuf,
    /// What it says about itself.
    pub(super) started: Started,
    /// Why it cannot run a command in a sandbox, if it cannot.
    pub(super) no_sandbox: Option<String>,
}

impl Host {
    /// Starts a process.
    ///
    /// # Errors
    ///
    /// As [`launch::start`].
    pub(super) async fn start(
        executable: &std::path::Path,
        config: &CodexConfig,
        env: &dyn Env,
        purpose: Purpose,
    ) -> Result<Self> {
        let (server, started) = launch::start(executable, config, env, purpose).await?;
        let no_sandbox = no_sandbox(&server).await.map_err(|error| launch::unstarted(&error))?;
        let executable = executable.to_owned();
        Ok(Self { server, executable, started, no_sandbox })
    }

    /// Ends the process unless somebody else has it.
    async fn end(self: Arc<Self>, deadline: Instant) -> watch::Receiver<Option<String>> {
        self.server.end_by(deadline).await;
        self.server.ended()
    }
}

/// Why no command can be run in a sandbox, if that is so. Nothing says so otherwise: each command of an agent would
/// fail, and its turns would succeed.
async fn no_sandbox(server: &Server) -> Result<Option<String>> {
    let params = json!({
        "command": ["/bin/sh", "-c", "echo ready"],
        "sandboxPolicy": {"type": "readOnly", "networkAccess": false},
        "cwd": "/",
        "timeoutMs": 5000,
    });
    let answer = server.ask("command/exec", params).await?;
    Ok(match answer {
        Ok(ran) if ran.get("exitCode").and_then(Value::as_i64) == Some(0) => None,
        Ok(ran) => {
            let said = ["stderr", "stdout"].map(|name| ran.get(name).and_then(Value::as_str));
            let said = said.into_iter().flatten().find(|text| !text.trim().is_empty());
            Some(one_line(said.unwrap_or("no reason given"), 200))
        }
        Err(refusal) => Some(one_line(&refusal.message, 200)),
    })
}

/// Hands processes out.
#[derive(Debug)]
pub(super) struct Pool {
    config: CodexConfig,
    env: Arc<dyn Env>,
    /// The task that has the shared processes, once there was a need.
    keeper: OnceLock<mpsc::Sender<Call>>,
}

/// A process that a session has.
#[derive(Debug)]
pub(super) struct Lease {
    host: Arc<Host>,
    keeper: Option<mpsc::Sender<Call>>,
}

#[derive(Debug)]
enum Call {
    Take { executable: PathBuf, purpose: Purpose, reply: oneshot::Sender<Result<Arc<Host>>> },
    Give { host: Arc<Host>, deadline: Instant, reply: oneshot::Sender<Option<Ended>> },
}

type Ended = watch::Receiver<Option<String>>;

impl Pool {
    pub(super) fn new(config: CodexConfig, env: Arc<dyn Env>) -> Self {
        Self { config, env, keeper: OnceLock::new() }
    }

    /// A process for a session.
    ///
    /// # Errors
    ///
    /// As [`Host::start`].
    pub(super) async fn take(&self, executable: PathBuf, purpose: Purpose) -> Result<Lease> {
        if self.config.process == ProcessUse::PerAgent {
            let host = Host::start(&executable, &self.config, &*self.env, purpose).await?;
            return Ok(Lease { host: Arc::new(host), keeper: None });
        }
        let keeper = self.keeper.get_or_init(|| {
            let (calls, asked) = mpsc::channel(CALLS_MAX);
            let keeper = Keeper {
                config: self.config.clone(),
                env: Arc::clone(&self.env),
                hosts: BTreeMap::new(),
            };
            // It ends when neither this nor a session holds the other end, so nobody joins it.
            drop(TaskTracker::new().spawn(keeper.run(asked)));
            calls
        });
        let (reply, answer) = oneshot::channel();
        let stopped = || Error::new(Code::RuntimeStartFailed, "the runtime is being stopped");
        let call = Call::Take { executable, purpose, reply };
        keeper.send(call).await.map_err(|_| stopped())?;
        let host = answer.await.map_err(|_| stopped())??;
        Ok(Lease { host, keeper: Some(keeper.clone()) })
    }
}

impl Lease {
    /// The process.
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Gives it back. When nobody else has it, it has ended by the deadline, and this returns when nothing of it lives.
    pub(super) async fn give_back(self, deadline: Instant) {
        let Self { host, keeper } = self;
        let ended = match keeper {
            None => Some(host.end(deadline).await),
            Some(keeper) => {
                let (reply, answer) = oneshot::channel();
                // A keeper that is gone has nobody else either; dropping the host ends it then.
                match keeper.send(Call::Give { host, deadline, reply }).await {
                    Ok(()) => answer.await.ok().flatten(),
                    Err(unsent) => match unsent.0 {
                        Call::Give { host, .. } => Some(host.end(deadline).await),
                        Call::Take { .. } => None,
                    },
                }
            }
        };
        if let Some(mut ended) = ended {
            // An error means that its task is gone without a word, which only a stopped runtime does.
            drop(ended.wait_for(Option::is_some).await);
        }
    }
}

/// The task that has the shared processes.
struct Keeper {
    config: CodexConfig,
    env: Arc<dyn Env>,
    /// Weak: a session that is dropped without a word gives its share back all the same.
    hosts: BTreeMap<Purpose, Weak<Host>>,
}

impl Keeper {
    async fn run(mut self, mut asked: mpsc::Receiver<Call>) {
        while let Some(call) = asked.recv().await {
            match call {
                Call::Take { executable, purpose, mut reply } => {
                    // A start that nobody waits for any more ends with the process it began.
                    let host = tokio::select! {
                        biased;
                        () = reply.closed() => continue,
                        host = self.host(&executable, purpose) => host,
                    };
                    drop(reply.send(host));
                }
                Call::Give { host, deadline, reply } => {
                    let ended = if Arc::strong_count(&host) == 1 {
                        self.hosts.retain(|_, kept| kept.as_ptr() != Arc::as_ptr(&host));
                        Some(host.end(deadline).await)
                    } else {
                        None
                    };
                    drop(reply.send(ended));
                }
            }
        }
    }

    async fn host(&mut self, executable: &std::path::Path, purpose: Purpose) -> Result<Arc<Host>> {
        let kept = self.hosts.get(&purpose).and_then(Weak::upgrade);
        if let Some(host) = kept.filter(|host| host.server.is_alive()) {
            return Ok(host);
        }
        let host = Arc::new(Host::start(executable, &self.config, &*self.env, purpose).await?);
        self.hosts.insert(purpose, Arc::downgrade(&host));
        Ok(host)
    }
}

//! Who has which process: one for all sessions that can share it, or one for each.
//!
//! All sessions of this runtime have the same environment and the same login, so they share a process, except that those
//! that are confined have one of their own, with other tools. It is started when the first session needs it and
//! ends with the last one. One task hands each of them out, so that two sessions never start two.

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
        match no_sandbox(&server).await {
            Ok(no_sandbox) => {
                let executable = executable.to_owned();
                Ok(Self { server, executable, started, no_sandbox })
            }
            Err(error) => {
                launch::end(server).await;
                Err(launch::unstarted(&error))
            }
        }
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
    /// The tasks that have the shared processes, once there was a need. Each purpose has its own: a process that starts holds
    /// up nobody who needs another.
    working: OnceLock<Line>,
    confined: OnceLock<Line>,
}

/// The line to a keeper. What is given back has a way of its own, past those who wait for a start.
#[derive(Clone, Debug)]
struct Line {
    takes: mpsc::Sender<Take>,
    gives: mpsc::Sender<Give>,
}

/// A process that a session has.
#[derive(Debug)]
pub(super) struct Lease {
    host: Arc<Host>,
    keeper: Option<mpsc::Sender<Give>>,
}

#[derive(Debug)]
struct Take {
    executable: PathBuf,
    reply: oneshot::Sender<Result<Arc<Host>>>,
}

#[derive(Debug)]
struct Give {
    host: Arc<Host>,
    deadline: Instant,
    reply: oneshot::Sender<Option<Ended>>,
}

type Ended = watch::Receiver<Option<String>>;

impl Pool {
    pub(super) fn new(config: CodexConfig, env: Arc<dyn Env>) -> Self {
        Self { config, env, working: OnceLock::new(), confined: OnceLock::new() }
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
        let keeper = match purpose {
            Purpose::Working => &self.working,
            Purpose::Confined => &self.confined,
        };
        let keeper = keeper.get_or_init(|| {
            let (takes, taken) = mpsc::channel(CALLS_MAX);
            let (gives, given) = mpsc::channel(CALLS_MAX);
            let (config, env) = (self.config.clone(), Arc::clone(&self.env));
            let keeper = Keeper { config, env, purpose, host: Weak::new() };
            // It ends when neither this nor a session holds the other end, so nobody joins it.
            drop(TaskTracker::new().spawn(keeper.run(taken, given)));
            Line { takes, gives }
        });
        let (reply, answer) = oneshot::channel();
        let stopped = || Error::new(Code::RuntimeStartFailed, "the runtime is being stopped");
        keeper.takes.send(Take { executable, reply }).await.map_err(|_| stopped())?;
        let host = answer.await.map_err(|_| stopped())??;
        Ok(Lease { host, keeper: Some(keeper.gives.clone()) })
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
                match keeper.send(Give { host, deadline, reply }).await {
                    Ok(()) => answer.await.ok().flatten(),
                    Err(unsent) => Some(unsent.0.host.end(deadline).await),
                }
            }
        };
        if let Some(mut ended) = ended {
            // An error means that its task is gone without a word, which only a stopped runtime does.
            drop(ended.wait_for(Option::is_some).await);
        }
    }
}

/// The task that has the shared process for a purpose.
struct Keeper {
    config: CodexConfig,
    env: Arc<dyn Env>,
    purpose: Purpose,
    /// Weak: a session that is dropped without a word gives its share back all the same.
    host: Weak<Host>,
}

impl Keeper {
    async fn run(mut self, mut takes: mpsc::Receiver<Take>, mut gives: mpsc::Receiver<Give>) {
        loop {
            tokio::select! {
                biased;
                // Whoever can take can give: no more of these means no more of the others.
                give = gives.recv() => match give {
                    Some(give) => self.take_back(give).await,
                    None => return,
                },
                Some(take) = takes.recv() => self.hand_out(take, &mut gives).await,
            }
        }
    }

    async fn hand_out(&mut self, take: Take, gives: &mut mpsc::Receiver<Give>) {
        let Take { executable, mut reply } = take;
        if let Some(host) = self.host.upgrade().filter(|host| host.server.is_alive()) {
            drop(reply.send(Ok(host)));
            return;
        }
        let (config, env) = (self.config.clone(), Arc::clone(&self.env));
        let starting = Host::start(&executable, &config, &*env, self.purpose);
        tokio::pin!(starting);
        loop {
            tokio::select! {
                biased;
                // A start that nobody waits for any more ends with the process it began.
                () = reply.closed() => return,
                Some(give) = gives.recv() => self.take_back(give).await,
                host = &mut starting => {
                    let host = host.map(Arc::new);
                    if let Ok(host) = &host {
                        self.host = Arc::downgrade(host);
                    }
                    drop(reply.send(host));
                    return;
                }
            }
        }
    }

    async fn take_back(&mut self, give: Give) {
        let Give { host, deadline, reply } = give;
        let ended = if Arc::strong_count(&host) == 1 {
            if self.host.as_ptr() == Arc::as_ptr(&host) {
                self.host = Weak::new();
            }
            Some(host.end(deadline).await)
        } else {
            None
        };
        drop(reply.send(ended));
    }
}

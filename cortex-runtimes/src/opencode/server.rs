//! One server of OpenCode and the loop that owns its process and reads its events. It ends with the last session that
//! holds it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::env::Env;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::limits::STDERR_TAIL_BYTES_MAX;
use cortex_lib::process::{Lines, Owned, Tail};
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::TaskTracker;

use super::folders::Folders;
use super::http::{Api, within};
use super::launch::{self, OWNERS};
use super::routes::{Ears, Routes};
use super::sse::{Events, Item};
use super::{OpenCodeConfig, brought, wire};
use crate::line::one_line;
use crate::own_folder::OwnFolder;

/// How long a server may take to listen. It took 2 s, and 10 s on a busy machine.
const START_WAIT: Duration = Duration::from_mins(1);
/// How long a quick answer may take: health, an abort, an answer to a request.
pub(super) const QUICK_WAIT: Duration = Duration::from_secs(20);
/// How long the end of all turns may take before the server is ended by force.
const DISPOSE_WAIT: Duration = Duration::from_secs(3);
/// How long after a broken stream of events it is asked for again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// What is shown of its last words.
const SHOWN_CHARS_MAX: usize = 500;
const LISTENING: &str = "listening on http://";

/// A server that runs. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) api: Api,
    pub(super) version: String,
    pub(super) pid: u32,
    pub(super) routes: Arc<Routes>,
    pub(super) folders: Folders,
    folder: PathBuf,
    /// Why it ended, once nothing of it lives.
    gone: watch::Receiver<Option<String>>,
    /// Says until when it may take to end. It also ends when this is dropped.
    alive: mpsc::Sender<Instant>,
}

/// What a server needs to start.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) executable: &'a Path,
    pub(super) config: &'a OpenCodeConfig,
    pub(super) trusted: bool,
    pub(super) env: &'a dyn Env,
}

/// Starts a server and waits until it answers and its events come.
///
/// # Errors
///
/// `runtime.start_failed`, `runtime.protocol_error`, `runtime.not_installed`.
pub(super) async fn start(wanted: Wanted<'_>) -> Result<Server> {
    let folder = OwnFolder::new("cortex-opencode-").map_err(|error| {
        let message = format!("no folder for OpenCode's server: {error}");
        Error::new(Code::RuntimeStartFailed, message)
    })?;
    // It starts in a folder below one that others may write to.
    brought::refuse(folder.path(), wanted.config)?;
    let password = wanted.env.mint_secret("");
    let program = launch::program(
        wanted.executable,
        wanted.config,
        wanted.trusted,
        folder.path(),
        &password,
    )?;
    let owned = program.spawn().await?;
    drop(owned.take_stdin());
    let mut output = Printed::new(&owned);
    let ready = async {
        let address = listening(&owned, &mut output).await?;
        let api = Api::new(address, &password);
        let health = api.get("/global/health", QUICK_WAIT).await;
        let health = health.map_err(|fault| start_failed(&fault.to_string()))?;
        let events = api.events(QUICK_WAIT).await;
        let mut events = events.map_err(|fault| start_failed(&fault.to_string()))?;
        // Nothing is lost from the first event on.
        events.next().await.ok_or_else(|| start_failed("its events do not come"))?;
        let version = health.get("version").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok((api, version, events))
    };
    let ready = timeout(START_WAIT, ready).await.unwrap_or_else(|_| {
        Err(start_failed(&format!("it does not listen after {} s", START_WAIT.as_secs())))
    });
    let (api, version, events) = match ready {
        Ok(ready) => ready,
        Err(error) => {
            owned.end().await;
            return Err(error);
        }
    };
    let (alive, holders) = mpsc::channel(1);
    let (ending, gone) = watch::channel(None);
    let routes = Arc::new(Routes::default());
    let server = Server {
        api: api.clone(),
        version,
        pid: owned.pid(),
        routes: Arc::clone(&routes),
        folders: Folders::default(),
        folder: folder.path().to_owned(),
        gone,
        alive,
    };
    let keeper = Keeper { api, owned, output, routes, folder };
    // Nobody joins it: `gone` says when it is done.
    drop(TaskTracker::new().spawn(keeper.run(events, holders, ending)));
    Ok(server)
}

fn start_failed(why: &str) -> Error {
    Error::new(Code::RuntimeStartFailed, format!("OpenCode's server did not start: {why}"))
}

/// Waits for the line that says where it listens. A warning may come before it.
async fn listening(owned: &Owned, output: &mut Printed) -> Result<SocketAddr> {
    loop {
        tokio::select! {
            line = output.next() => {
                let Some(line) = line else { continue };
                let address = line.split_once(LISTENING).map(|(_, rest)| rest.trim());
                if let Some(address) = address.and_then(|address| address.parse().ok()) {
                    return Ok(address);
                }
            }
            exit = owned.exited() => {
                output.drain().await;
                let told = output.told();
                return Err(start_failed(&format!("it ended by itself ({exit}){told}")));
            }
        }
    }
}

impl Server {
    /// Why it ended; `None` while it runs.
    pub(super) fn end(&self) -> Option<String> {
        self.gone.borrow().clone()
    }

    /// Says why it ended, once nothing of it lives.
    pub(super) fn watch(&self) -> watch::Receiver<Option<String>> {
        self.gone.clone()
    }

    /// Ends it: in order until `by`, then by force.
    pub(super) fn stop(self, by: Instant) {
        if self.alive.try_send(by).is_err() {
            tracing::debug!("a server had ended before it was stopped");
        }
    }

    /// Listens to a session, and lets what its tools start carry the name `owner`.
    ///
    /// # Errors
    ///
    /// `runtime.start_failed`.
    pub(super) fn listen(&self, session: &str, owner: &str) -> Result<Ears> {
        let written = fs_err::write(self.folder.join(OWNERS).join(session), owner);
        written.map_err(|error| start_failed(&error.to_string()))?;
        Ok(self.routes.open(session))
    }

    /// Lets go of a folder when no other session works in it: of what its configuration started, too.
    /// It is asked until `by`.
    pub(super) async fn leave_folder(&self, folder: &Path, by: Instant) {
        let end = async {
            let path = within("/instance/dispose", folder);
            if let Err(fault) = self.api.post(&path, &json!({}), until(by)).await {
                tracing::debug!(%fault, "OpenCode did not let go of a folder");
            }
        };
        self.folders.leave(folder, end).await;
    }

    /// Takes the tools of Cortex, by the name of their MCP server, from a folder.
    pub(super) async fn disconnect(&self, mcp: &str, folder: &Path, wait: Duration) {
        let path = within(&format!("/mcp/{mcp}/disconnect"), folder);
        if let Err(fault) = self.api.post(&path, &json!({}), wait).await {
            tracing::debug!(%fault, "the tools of Cortex stay connected");
        }
    }

    /// Listens no longer to a session.
    pub(super) fn leave(&self, session: &str) {
        self.routes.close(session);
        let mark = self.folder.join(OWNERS).join(session);
        if let Err(error) = fs_err::remove_file(mark) {
            tracing::debug!(%error, "the mark of a session was not removed");
        }
    }
}

/// How long an end in order may take that must be done by then.
fn until(by: Instant) -> Duration {
    DISPOSE_WAIT.min(by.saturating_duration_since(Instant::now()))
}

/// What the server prints. Nothing of it is protocol but one line.
struct Printed {
    stdout: Option<Lines<tokio::process::ChildStdout>>,
    stderr: Option<Lines<tokio::process::ChildStderr>>,
    tail: Tail,
}

impl Printed {
    fn new(owned: &Owned) -> Self {
        Self {
            stdout: owned.take_stdout().map(Lines::new),
            stderr: owned.take_stderr().map(Lines::new),
            tail: Tail::new(STDERR_TAIL_BYTES_MAX),
        }
    }

    /// The next line; `None`: one of the two streams has ended. It may be dropped and loses nothing.
    async fn next(&mut self) -> Option<String> {
        let line = tokio::select! {
            line = line(&mut self.stdout) => line,
            line = line(&mut self.stderr) => line,
        };
        if let Some(line) = &line {
            self.tail.push(line);
            self.tail.push("\n");
        }
        line
    }

    /// The last lines of a program that has ended.
    async fn drain(&mut self) {
        let all = async {
            while self.stdout.is_some() || self.stderr.is_some() {
                self.next().await;
            }
        };
        drop(timeout(Duration::from_secs(1), all).await);
    }

    fn told(&self) -> String {
        let told = one_line(&self.tail.redacted(), SHOWN_CHARS_MAX);
        if told.is_empty() { told } else { format!(": {told}") }
    }
}

async fn line<R: AsyncRead + Unpin>(lines: &mut Option<Lines<R>>) -> Option<String> {
    let Some(open) = lines else { return std::future::pending().await };
    if let Ok(Some(line)) = open.next_line().await {
        return Some(line.text);
    }
    *lines = None;
    None
}

/// Why the loop ends.
enum Over {
    /// Nobody holds the server. It may take so long to end.
    Unheld { by: Instant },
    /// It has ended, in this way.
    Exited(String),
}

/// The stream of events on its way.
type Opening = Pin<Box<dyn Future<Output = Option<Events>> + Send>>;

/// What the loop owns.
struct Keeper {
    api: Api,
    owned: Owned,
    output: Printed,
    routes: Arc<Routes>,
    folder: OwnFolder,
}

impl Keeper {
    async fn run(
        mut self,
        events: Events,
        mut holders: mpsc::Receiver<Instant>,
        ending: watch::Sender<Option<String>>,
    ) {
        let why = match self.until_over(events, &mut holders).await {
            Over::Unheld { by } => {
                // All turns are ended in order, so that what they were is written down.
                let nothing = json!({});
                let dispose = self.api.post("/global/dispose", &nothing, until(by));
                tokio::select! {
                    answer = dispose => drop(answer),
                    _ = self.owned.exited() => {}
                }
                None
            }
            Over::Exited(exit) => Some(exit),
        };
        self.owned.end().await;
        self.output.drain().await;
        if let Err(error) = self.folder.close() {
            tracing::debug!(%error, "the folder of a server was not removed");
        }
        let told = self.output.told();
        let why = why.map_or_else(
            || "OpenCode's server was ended".to_owned(),
            |exit| format!("OpenCode's server ended by itself ({exit}){told}"),
        );
        ending.send_replace(Some(why));
    }

    /// Reads until nobody holds the server any more, or it has ended.
    async fn until_over(&mut self, events: Events, holders: &mut mpsc::Receiver<Instant>) -> Over {
        let mut events = Some(events);
        // Kept while other things happen: they would begin it anew for ever.
        let mut opening: Option<Opening> = None;
        loop {
            let Self { owned, output, .. } = &mut *self;
            tokio::select! {
                biased;
                by = holders.recv() => {
                    let by = by.unwrap_or_else(|| Instant::now() + DISPOSE_WAIT);
                    return Over::Unheld { by };
                }
                exit = owned.exited() => return Over::Exited(exit.to_string()),
                item = next(&mut events) => match item {
                    Some(Item::Data(data)) => self.pass_on(&data),
                    Some(Item::TooLong) => self.routes.gap(),
                    None => {
                        events = None;
                        opening = Some(again(&self.api));
                    }
                },
                opened = opened(&mut opening) => {
                    opening = opened.is_none().then(|| again(&self.api));
                    events = opened;
                    if events.is_some() {
                        // It repeats nothing: what happened meanwhile is looked up.
                        self.routes.gap();
                    }
                }
                _ = output.next() => {}
            }
        }
    }

    fn pass_on(&self, data: &str) {
        if let Some(told) = wire::read(data) {
            self.routes.tell(told);
        } else {
            tracing::debug!("an event of OpenCode cannot be read");
        }
    }
}

async fn next(events: &mut Option<Events>) -> Option<Item> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

async fn opened(opening: &mut Option<Opening>) -> Option<Events> {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

/// Asks for the stream of events again.
fn again(api: &Api) -> Opening {
    let api = api.clone();
    Box::pin(async move {
        sleep_until(Instant::now() + AGAIN_AFTER).await;
        let open = async {
            let mut events = api.events(QUICK_WAIT).await.ok()?;
            // From its first event on nothing is lost.
            events.next().await.map(|_| events)
        };
        timeout(QUICK_WAIT, open).await.ok()?
    })
}

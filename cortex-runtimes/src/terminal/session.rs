//! A session in terminal mode: a program on a terminal, and the task that keeps its screen.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::TurnId;
use cortex_lib::limits::{DRAIN_MAX, SESSION_QUEUE_MAX};
use cortex_lib::port::{
    Attached, Opened, Picture, Session, SessionEvent, SessionFacts, Terminal, TerminalSize,
    ToolAnswer, Turn,
};
use cortex_lib::process::{Exit, Owned, Program, Pty, Signal};
use cortex_lib::secret::redact;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use super::screen::Screen;

/// The size before somebody attaches: that of a usual window.
const FIRST_SIZE: TerminalSize = TerminalSize { rows: 40, columns: 120 };
/// Lines of the screen that tell why a program ended.
const LAST_LINES: usize = 8;

/// Opens a session in terminal mode: starts the program on a terminal and returns once it has drawn something.
///
/// The session takes no turns; it ends with the program. `facts` are completed by the pid. How long a program may be
/// silent is up to the caller, and the core bounds each start: who drops this ends the program.
///
/// # Errors
///
/// Those of [`Program::spawn_on_terminal`]; `runtime.start_failed` when the program ends before it draws.
pub async fn open(program: &Program, facts: SessionFacts) -> Result<Opened> {
    let (owned, pty) = program.spawn_on_terminal(FIRST_SIZE).await?;
    let pid = owned.pid();
    let shared = Arc::new(Shared { screen: Screen::new(FIRST_SIZE), pty });
    let (events, received) = mpsc::channel(SESSION_QUEUE_MAX);
    let (close, closing) = watch::channel(None);
    let (tell, mut told) = watch::channel(Told::Silent);
    let keeper = Keeper { owned, shared: Arc::clone(&shared), tell, events };
    // The task outlives a dropped session until nothing of the program lives, so nobody joins it: `told` says when.
    drop(TaskTracker::new().spawn(keeper.run(closing)));
    let session = TerminalSession { close, told: told.clone() };
    // A task that is gone without a word is one whose runtime has stopped.
    let seen = told.wait_for(|told| !matches!(told, Told::Silent)).await.map(|told| told.clone());
    match seen {
        Ok(Told::Drawn) => {
            let facts = SessionFacts { pid: Some(pid), ..facts };
            let terminal = Arc::new(SessionTerminal { shared, told: session.told.clone() });
            let session = Arc::new(session);
            Ok(Opened { session, events: received, facts, terminal: Some(terminal) })
        }
        Ok(Told::Ended { why, .. }) => Err(Error::new(Code::RuntimeStartFailed, why)),
        Ok(Told::Silent) | Err(_) => {
            Err(Error::new(Code::RuntimeStartFailed, "nobody waits for it"))
        }
    }
}

/// What the terminal and its keeper have in common.
#[derive(Debug)]
struct Shared {
    screen: Screen,
    pty: Pty,
}

/// How far a session is.
#[derive(Clone, Debug)]
enum Told {
    /// The program has printed nothing.
    Silent,
    Drawn,
    /// Nothing of it lives.
    Ended {
        why: String,
        /// By itself, and with success.
        left: bool,
    },
}

/// Keeps the screen and sees to the end.
struct Keeper {
    owned: Owned,
    shared: Arc<Shared>,
    tell: watch::Sender<Told>,
    events: mpsc::Sender<SessionEvent>,
}

impl Keeper {
    async fn run(self, mut closing: watch::Receiver<Option<Instant>>) {
        // Taken once, here.
        let Some(mut output) = self.shared.pty.take_output() else { return };
        let (mut force_at, mut dropped) = (None, false);
        loop {
            tokio::select! {
                biased;
                changed = closing.changed(), if !dropped => {
                    dropped = changed.is_err();
                    if force_at.is_none() {
                        self.owned.signal(Signal::Terminate);
                    }
                    // A session that was dropped has no grace.
                    let until = closing.borrow_and_update().filter(|_| !dropped);
                    force_at = Some(until.unwrap_or_else(Instant::now));
                }
                () = until(force_at) => break,
                _ = self.owned.exited() => break,
                bytes = output.recv() => match bytes {
                    Some(bytes) => self.show(&bytes),
                    None => break,
                },
            }
        }
        self.finish(output, force_at.is_some()).await;
    }

    fn show(&self, bytes: &[u8]) {
        let answers = self.shared.screen.feed(bytes);
        if !answers.is_empty() && !self.shared.pty.try_write(answers) {
            tracing::debug!("a program does not read what its terminal answers");
        }
        self.tell.send_if_modified(|told| {
            let first = matches!(told, Told::Silent);
            if first {
                *told = Told::Drawn;
            }
            first
        });
    }

    /// Ends what is left, and shows what it printed last.
    async fn finish(self, mut output: mpsc::Receiver<Vec<u8>>, closed: bool) {
        let rest = async {
            while let Some(bytes) = output.recv().await {
                self.shared.screen.feed(&bytes);
            }
        };
        // The program may still print while it is ended, and waits if nobody takes that.
        let (_, ()) = tokio::join!(timeout(DRAIN_MAX, rest), self.owned.end());
        let exit = self.owned.exited().await;
        let message = if closed {
            "the session was closed".to_owned()
        } else {
            last_words(exit, &self.shared.screen.picture())
        };
        self.shared.screen.end();
        let left = !closed && exit.is_success();
        self.tell.send_replace(Told::Ended { why: message.clone(), left });
        // A core that is gone hears nothing.
        self.events.send(SessionEvent::Ended { message }).await.ok();
    }
}

/// How the program ended, and what it showed then if that was no success.
fn last_words(exit: Exit, picture: &Picture) -> String {
    let text = picture.text();
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    let last = lines.get(from..).unwrap_or_default().join("\n");
    if exit.is_success() || last.is_empty() {
        return format!("the program ended: {exit}");
    }
    format!("the program ended: {exit}: {}", redact(&last))
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What the core holds of it.
struct TerminalSession {
    /// Until when it may end by itself.
    close: watch::Sender<Option<Instant>>,
    told: watch::Receiver<Told>,
}

impl fmt::Debug for TerminalSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalSession")
            .field("told", &*self.told.borrow())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Session for TerminalSession {
    async fn send(&self, _: Turn) -> Result<()> {
        Err(no_turns())
    }

    async fn interrupt(&self, _: &TurnId) -> Result<()> {
        Err(no_turns())
    }

    async fn answer(&self, _: &str, _: ToolAnswer) -> Result<()> {
        Err(no_turns())
    }

    async fn close(&self, grace: Duration) {
        let until = Instant::now() + grace;
        self.close.send_if_modified(|close| {
            let sooner = close.is_none_or(|earlier| until < earlier);
            if sooner {
                *close = Some(until);
            }
            sooner
        });
        let mut told = self.told.clone();
        let ended = told.wait_for(|told| matches!(told, Told::Ended { .. }));
        // An error means that the task is gone, and then so is the program.
        ended.await.map(drop).ok();
    }
}

fn no_turns() -> Error {
    Error::new(Code::RuntimeUnsupportedInTerminalMode, "a session in terminal mode has no turns")
}

/// The terminal, for whoever attaches.
#[derive(Debug)]
struct SessionTerminal {
    shared: Arc<Shared>,
    told: watch::Receiver<Told>,
}

impl SessionTerminal {
    fn lives(&self) -> Result<()> {
        match &*self.told.borrow() {
            Told::Ended { why, .. } => Err(Error::new(Code::RuntimeSessionEnded, why.clone())),
            Told::Silent | Told::Drawn => Ok(()),
        }
    }
}

#[async_trait]
impl Terminal for SessionTerminal {
    fn attach(&self) -> Attached {
        self.shared.screen.attach()
    }

    fn picture(&self) -> Picture {
        self.shared.screen.picture()
    }

    fn was_left(&self) -> bool {
        matches!(&*self.told.borrow(), Told::Ended { left: true, .. })
    }

    async fn write(&self, bytes: Vec<u8>) -> Result<()> {
        self.lives()?;
        let mut told = self.told.clone();
        tokio::select! {
            biased;
            written = self.shared.pty.write(bytes) => written,
            // A program that does not read must not hold up who types for longer than it lives.
            _ = told.wait_for(|told| matches!(told, Told::Ended { .. })) => self.lives(),
        }
    }

    fn resize(&self, size: TerminalSize) -> Result<()> {
        self.lives()?;
        // The screen first: what the program draws when it hears of it is for the new size.
        self.shared.screen.resize(size);
        self.shared.pty.resize(size)
    }
}

//! A program that runs, and everything below it.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;

use super::platform::Control;

/// What can be asked of a program politely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// What Ctrl-C sends: `SIGINT`.
    Interrupt,
    /// What asks a program to end: `SIGTERM`.
    Terminate,
}

/// How a program ended. Both absent: nobody saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, when it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// Whether it ended by itself with code 0.
    pub fn is_success(self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => f.write_str("an unknown end"),
        }
    }
}

/// A running program and everything that it starts.
///
/// It ends in three steps: the program itself ends ([`exited`](Self::exited)), by itself or by force; what
/// it left behind is ended; nothing lives ([`end`](Self::end) returns). Dropping the handle starts the
/// same without waiting for it.
pub struct Owned {
    pid: u32,
    // Each pipe is taken once, from any task: too little to have an owner of its own.
    stdin: Mutex<Option<ChildStdin>>,
    stdout: Mutex<Option<ChildStdout>>,
    stderr: Mutex<Option<ChildStderr>>,
    /// Dropping it ends the tree: whoever watches it sees that nobody holds the other end.
    control: Control,
    progress: watch::Receiver<Progress>,
}

/// How far a tree has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The program has ended.
    pub(super) exit: Option<Exit>,
    /// How many requests to end what is below the program are done.
    pub(super) cleared: u32,
    /// Nothing of the tree lives.
    pub(super) gone: bool,
}

/// What a platform hands over when it has started a program.
pub(super) struct Started {
    pub(super) pid: u32,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
    pub(super) control: Control,
    pub(super) progress: watch::Receiver<Progress>,
}

impl Owned {
    pub(super) fn new(started: Started) -> Self {
        Self {
            pid: started.pid,
            stdin: Mutex::new(started.stdin),
            stdout: Mutex::new(started.stdout),
            stderr: Mutex::new(started.stderr),
            control: started.control,
            progress: started.progress,
        }
    }

    /// The pid of the program itself.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The program's standard input; `None` after the first call. Dropping it closes it.
    pub fn take_stdin(&self) -> Option<ChildStdin> {
        take(&self.stdin)
    }

    /// The program's standard output; `None` after the first call.
    pub fn take_stdout(&self) -> Option<ChildStdout> {
        take(&self.stdout)
    }

    /// The program's standard error; `None` after the first call.
    pub fn take_stderr(&self) -> Option<ChildStderr> {
        take(&self.stderr)
    }

    /// Asks the program politely. Only the program itself hears it; one that has ended does not mind.
    ///
    /// Windows knows no such thing: there nothing happens.
    pub fn signal(&self, signal: Signal) {
        self.control.signal(signal);
    }

    /// How the program ended, once it has. May be awaited any number of times.
    pub async fn exited(&self) -> Exit {
        self.until(|progress| progress.exit).await.unwrap_or(Exit { code: None, signal: None })
    }

    /// Ends the program and everything below it by force. Returns when nothing of it lives.
    ///
    /// It has no bound of its own: a process that the kernel does not let go of, or one of another
    /// user, is waited for.
    pub async fn end(&self) {
        self.control.end();
        self.until(|progress| progress.gone.then_some(())).await;
    }

    /// Ends everything below the program by force, but not the program. Returns when it is done.
    ///
    /// Elsewhere than on Linux it does nothing.
    pub async fn end_descendants(&self) {
        let Some(ticket) = self.control.clear() else { return };
        self.until(|progress| (progress.gone || progress.cleared >= ticket).then_some(())).await;
    }

    /// Waits for something to come about; `None` when nobody watches the tree any more.
    async fn until<T>(&self, seen: impl Fn(&Progress) -> Option<T>) -> Option<T> {
        let mut progress = self.progress.clone();
        let progress = progress.wait_for(|progress| seen(progress).is_some()).await.ok()?;
        seen(&progress)
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned")
            .field("pid", &self.pid)
            .field("progress", &*self.progress.borrow())
            .finish_non_exhaustive()
    }
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

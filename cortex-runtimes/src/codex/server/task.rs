//! The task that owns a process of the CLI and its pipes.

use std::collections::BTreeMap;
use std::future;
use std::time::Duration;

use cortex_lib::limits::STDERR_TAIL_BYTES_MAX;
use cortex_lib::process::{Lines, Owned, Signal, Tail};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Asker, Call, Registration, Told};
use crate::codex::summary::one_line;
use crate::codex::wire::{self, Answer, FromCli};

/// What the process was sent and does not read. More is more than all sessions say at once: it hangs.
const UNREAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long it may take to end by itself once nothing more can be said to it, and then after `SIGTERM`.
const BY_ITSELF_WAIT: Duration = Duration::from_secs(2);
const TERM_WAIT: Duration = Duration::from_secs(1);
/// How long the last lines of an ended process may take. Nothing lives that could write more.
const DRAIN_WAIT: Duration = Duration::from_secs(2);
/// What is shown of the last words of a process.
const SHOWN_CHARS_MAX: usize = 500;

/// The state of the task.
pub(super) struct Task {
    owned: Owned,
    stdin: Option<ChildStdin>,
    /// What is still to be written.
    unsent: Vec<u8>,
    requests: u64,
    /// Requests without an answer.
    waiting: BTreeMap<u64, Asker>,
    /// Who listens to which thread.
    sessions: BTreeMap<String, Listener>,
    tail: Tail,
    end_by: Option<Instant>,
    ending: watch::Sender<Option<String>>,
}

/// A session that listens.
struct Listener {
    number: u64,
    told: mpsc::Sender<Told>,
}

/// How a process came to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nobody held it any more.
    Unheld,
    /// It did not read what it was told.
    Deaf,
    ByItself,
}

/// What the task wakes up for.
enum Wake {
    /// Something is asked; `None`: nobody holds it any more.
    Asked(Option<Call>),
    /// So many bytes were written; `None`: the pipe broke.
    Wrote(Option<usize>),
    /// A line of standard output, or its end.
    Said(Option<String>),
    /// A line of standard error, or its end.
    Complained(Option<String>),
    Exited,
}

impl Task {
    pub(super) fn new(owned: Owned, ending: watch::Sender<Option<String>>) -> Self {
        Self {
            stdin: owned.take_stdin(),
            owned,
            unsent: Vec::new(),
            requests: 0,
            waiting: BTreeMap::new(),
            sessions: BTreeMap::new(),
            tail: Tail::new(STDERR_TAIL_BYTES_MAX),
            end_by: None,
            ending,
        }
    }

    pub(super) async fn run(mut self, mut asked: mpsc::Receiver<Call>) {
        let mut stdout = self.owned.take_stdout().map(Lines::new);
        let mut stderr = self.owned.take_stderr().map(Lines::new);
        let mut errors = stderr.as_mut();
        let end = loop {
            match self.next(&mut asked, &mut stdout, &mut errors).await {
                // Not to stop listening instead: whoever closes a session would wait for ever.
                Wake::Asked(Some(_)) if self.unsent.len() > UNREAD_BYTES_MAX => break End::Deaf,
                Wake::Asked(Some(call)) => self.call(call),
                Wake::Asked(None) => break End::Unheld,
                Wake::Wrote(Some(count)) => drop(self.unsent.drain(..count)),
                // The process is about to end and says more by its exit.
                Wake::Wrote(None) => self.hang_up(),
                Wake::Said(Some(line)) => self.heard(&line),
                // Without its output it is of no use. An end by itself explains more.
                Wake::Said(None) => {
                    drop(timeout(DRAIN_WAIT, self.owned.exited()).await);
                    break End::ByItself;
                }
                Wake::Complained(Some(line)) => self.complained(&line),
                Wake::Complained(None) => errors = None,
                Wake::Exited => break End::ByItself,
            }
        };
        drop(asked);
        self.finish(end, stdout, stderr).await;
    }

    /// Waits for the next thing. What is cut off by another loses nothing: each of them may be dropped.
    async fn next(
        &mut self,
        asked: &mut mpsc::Receiver<Call>,
        stdout: &mut Option<Lines<ChildStdout>>,
        stderr: &mut Option<&mut Lines<ChildStderr>>,
    ) -> Wake {
        tokio::select! {
            biased;
            call = asked.recv() => Wake::Asked(call),
            written = write(&mut self.stdin, &self.unsent), if !self.unsent.is_empty() => {
                Wake::Wrote(written)
            }
            line = next(stdout.as_mut()) => Wake::Said(line),
            line = next(stderr.as_deref_mut()) => Wake::Complained(line),
            _ = self.owned.exited() => Wake::Exited,
        }
    }

    fn call(&mut self, call: Call) {
        match call {
            Call::Request { method, params, asker } => {
                self.request(method, &params);
                self.waiting.insert(self.requests, asker);
            }
            Call::Say(line) => self.unsent.extend_from_slice(line.as_bytes()),
            Call::Leave(session) => self.abandon(&session),
            Call::EndBy(deadline) => self.end_by = Some(deadline),
        }
    }

    fn request(&mut self, method: &str, params: &Value) {
        self.requests += 1;
        let line = wire::request(self.requests, method, params);
        self.unsent.extend_from_slice(line.as_bytes());
    }

    /// A session does not listen any more: the CLI ends what runs in its thread, and lets go of that and of its connection to
    /// the endpoint. Nothing is done when the thread is closed already, or another session's.
    fn abandon(&mut self, session: &Registration) {
        let Registration { thread, number } = session;
        if self.sessions.get(thread).is_none_or(|listener| listener.number != *number) {
            return;
        }
        self.sessions.remove(thread);
        // Else the model would work on, and nobody would see it. Without a name it is whatever runs; often nothing does.
        self.request("turn/interrupt", &json!({"threadId": thread, "turnId": ""}));
        self.request("thread/unsubscribe", &json!({"threadId": thread}));
    }

    fn hang_up(&mut self) {
        self.stdin = None;
        self.unsent.clear();
    }

    fn complained(&mut self, line: &str) {
        self.tail.push(line);
        self.tail.push("\n");
        tracing::debug!(pid = self.owned.pid(), line, "Codex prints");
    }

    fn heard(&mut self, line: &str) {
        match wire::read(line) {
            FromCli::Answer { id, answer } => self.answered(id, answer),
            FromCli::Noise => {
                let shown = one_line(line, SHOWN_CHARS_MAX);
                tracing::debug!(pid = self.owned.pid(), shown, "not a line of the protocol");
                self.tail.push(&shown);
                self.tail.push("\n");
            }
            FromCli::Request { id, method, params } => {
                let session =
                    wire::thread(&params).filter(|thread| self.sessions.contains_key(*thread));
                match session.map(str::to_owned) {
                    Some(thread) => {
                        self.tell(&thread, Told::Said(FromCli::Request { id, method, params }));
                    }
                    // Who asks for something that nobody is there for must not wait for ever.
                    None => self.call(Call::Say(wire::refuse(&id, &method))),
                }
            }
            FromCli::Note { method, params } => self.noted(method, params),
        }
    }

    fn answered(&mut self, id: u64, answer: Answer) {
        match self.waiting.remove(&id) {
            Some(Asker::Caller(reply)) => drop(reply.send(answer)),
            Some(Asker::Opens(reply, told)) => {
                let thread = answer.as_ref().ok().and_then(|it| wire::text(it, "/thread/id"));
                if let Some(thread) = &thread {
                    self.sessions.insert(thread.clone(), Listener { number: id, told });
                }
                if let (Err(_), Some(thread)) = (reply.send((answer, id)), thread) {
                    self.abandon(&Registration { thread, number: id });
                }
            }
            Some(Asker::Session(Registration { thread, number }, tag)) => {
                let is_there = |listener: &Listener| listener.number == number;
                if self.sessions.get(&thread).is_some_and(is_there) {
                    self.tell(&thread, Told::Answered { tag, answer });
                }
            }
            None => {}
        }
    }

    fn noted(&mut self, method: String, params: Value) {
        if let Some(thread) = wire::thread(&params).map(str::to_owned) {
            let is_closed = method == wire::THREAD_CLOSED;
            self.tell(&thread, Told::Said(FromCli::Note { method, params }));
            if is_closed {
                self.sessions.remove(&thread);
            }
            return;
        }
        if method != "account/rateLimits/updated" {
            let pid = self.owned.pid();
            return tracing::debug!(pid, method, %params, "Codex says");
        }
        for thread in self.sessions.keys().cloned().collect::<Vec<_>>() {
            let note = FromCli::Note { method: method.clone(), params: params.clone() };
            self.tell(&thread, Told::Said(note));
        }
    }

    /// Tells a session something. One that hangs is cut off: it sees that nothing is told any more.
    fn tell(&mut self, thread: &str, told: Told) {
        let Some(listener) = self.sessions.get(thread) else { return };
        if let Err(error) = listener.told.try_send(told) {
            if matches!(error, TrySendError::Full(_)) {
                tracing::warn!(thread, "a session takes nothing any more and is cut off");
            }
            let number = listener.number;
            self.abandon(&Registration { thread: thread.to_owned(), number });
        }
    }

    /// Ends the process and says why it ended.
    async fn finish(
        mut self,
        end: End,
        stdout: Option<Lines<ChildStdout>>,
        stderr: Option<Lines<ChildStderr>>,
    ) {
        if end == End::Unheld {
            self.end_politely().await;
        }
        let exit = timeout(Duration::ZERO, self.owned.exited()).await.ok();
        self.hang_up();
        self.owned.end().await;
        self.drain(stdout, stderr).await;
        let told = self.tail.redacted();
        let told = one_line(&told, SHOWN_CHARS_MAX);
        let told = if told.is_empty() { told } else { format!(": {told}") };
        let why = match (end, exit) {
            (End::Unheld, _) => "Codex was ended".to_owned(),
            (End::Deaf, _) => format!("Codex took nothing any more and was ended{told}"),
            (End::ByItself, Some(exit)) => format!("Codex ended by itself ({exit}){told}"),
            (End::ByItself, None) => format!("Codex closed its output and was ended{told}"),
        };
        // Whoever waits for something looks here for the reason.
        self.ending.send_replace(Some(why));
    }

    /// An idle CLI ends once nothing more can be said to it, in order: with its tools.
    async fn end_politely(&mut self) {
        let now = Instant::now();
        let last = self.end_by.unwrap_or(now + BY_ITSELF_WAIT + TERM_WAIT);
        // What was said last still has to be read.
        while !self.unsent.is_empty() {
            match timeout_at(last, write(&mut self.stdin, &self.unsent)).await {
                Ok(Some(count)) => drop(self.unsent.drain(..count)),
                Ok(None) | Err(_) => break,
            }
        }
        self.hang_up();
        if timeout_at(last.min(now + BY_ITSELF_WAIT), self.owned.exited()).await.is_err() {
            self.owned.signal(Signal::Terminate);
            drop(timeout_at(last.min(now + BY_ITSELF_WAIT + TERM_WAIT), self.owned.exited()).await);
        }
    }

    async fn drain(
        &mut self,
        stdout: Option<Lines<ChildStdout>>,
        stderr: Option<Lines<ChildStderr>>,
    ) {
        let (mut stdout, mut stderr) = (stdout, stderr);
        let all = async {
            while let Some(line) = next(stderr.as_mut()).await {
                self.complained(&line);
            }
            while let Some(line) = next(stdout.as_mut()).await {
                self.heard(&line);
            }
        };
        if timeout(DRAIN_WAIT, all).await.is_err() {
            tracing::debug!("an ended process still holds its pipes");
        }
    }
}

/// The next line; `None` at the end of the stream. Without a stream it waits for ever.
async fn next<R: AsyncRead + Unpin>(lines: Option<&mut Lines<R>>) -> Option<String> {
    let Some(lines) = lines else { return future::pending().await };
    match lines.next_line().await {
        Ok(Some(line)) => {
            if line.cut {
                tracing::warn!("a line of Codex was too long and is cut");
            }
            Some(line.text)
        }
        Ok(None) => None,
        Err(error) => {
            tracing::debug!(%error, "a pipe of Codex broke");
            None
        }
    }
}

/// Writes some of `bytes`. A closed pipe takes everything and keeps nothing; `None`: it broke.
async fn write(stdin: &mut Option<ChildStdin>, bytes: &[u8]) -> Option<usize> {
    match stdin {
        Some(stdin) => stdin.write(bytes).await.ok().filter(|count| *count > 0),
        None => Some(bytes.len()),
    }
}

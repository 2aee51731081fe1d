//! A session: one thread of the CLI and the loop that talks about it.
//!
//! One task owns the [`Conversation`](super::map::Conversation) and the session's share of a process; the [`CodexSession`] that the core
//! holds only sends it commands. So nothing is shared, an interrupt overtakes a turn that is being sent, and a
//! session that is dropped without being closed still gives its process back.
//!
//! # When a turn is accepted, and when it is over
//!
//! [`Session::send`] returns when the CLI has given the turn a name, which it does before it works on it. A turn is over with
//! `turn/completed`. If it ran an attempt, or was broken off, what it left behind is ended first: the terminals that the CLI
//! keeps in the background by request, then every process that carries the session's marker.
//!
//! # What is not exact
//!
//! A tool in the sandbox has a space of processes of its own, of which nothing is left. One that a person let out of the
//! sandbox is found by the marker in its environment: if it clears that, leaves its session and its parents end, it lives
//! until the process of the CLI ends, which other sessions may share. With a process for each agent, that is the end of the
//! session.

use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::TurnId;
use cortex_lib::limits::SESSION_QUEUE_MAX;
use cortex_lib::port::{Session, SessionEvent, Steered, ToolAnswer, Turn};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use super::pump::{Parts, Pump};

/// Commands on their way to the loop. The core sends one at a time and an interrupt or two.
const COMMANDS_MAX: usize = 16;

/// What the core holds of a session.
#[derive(Debug)]
pub(super) struct CodexSession {
    commands: mpsc::Sender<Command>,
    ended: watch::Receiver<Option<String>>,
}

/// What the loop is told.
#[derive(Debug)]
pub(super) enum Command {
    /// [`Session::send`].
    Send { turn: Turn, reply: oneshot::Sender<Result<()>> },
    /// [`Session::steer`].
    Steer { turn: TurnId, text: String, reply: oneshot::Sender<Result<Steered>> },
    /// [`Session::interrupt`].
    Interrupt { turn: TurnId, reply: oneshot::Sender<()> },
    /// [`Session::answer`].
    Answer { request_id: String, answer: ToolAnswer, reply: oneshot::Sender<()> },
    /// [`Session::close`].
    Close { grace: Duration },
}

/// Starts the loop.
pub(super) fn begin(parts: Parts) -> (CodexSession, mpsc::Receiver<SessionEvent>) {
    let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
    let (events, received) = mpsc::channel(SESSION_QUEUE_MAX);
    let (ending, ended) = watch::channel(None);
    // The loop outlives a dropped session until nothing of it lives, so nobody joins it: `ended` says when.
    drop(TaskTracker::new().spawn(Pump::new(parts, events, ending).run(inbox)));
    (CodexSession { commands, ended }, received)
}

impl CodexSession {
    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        if self.commands.send(command(reply)).await.is_err() {
            return Err(self.ended_error().await);
        }
        match answer.await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.ended_error().await),
        }
    }

    /// The error of a session that has ended, once it is known why.
    async fn ended_error(&self) -> Error {
        let mut ended = self.ended.clone();
        let why = ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        // No reason means that the loop is gone without a word, which only a stopped runtime does.
        let why = why.unwrap_or_else(|| "the session is being ended".to_owned());
        Error::new(Code::RuntimeSessionEnded, why)
    }
}

#[async_trait]
impl Session for CodexSession {
    async fn send(&self, turn: Turn) -> Result<()> {
        self.ask(|reply| Command::Send { turn, reply }).await?
    }

    async fn steer(&self, turn: &TurnId, text: String) -> Result<Steered> {
        let turn = turn.clone();
        self.ask(|reply| Command::Steer { turn, text, reply }).await?
    }

    async fn interrupt(&self, turn: &TurnId) -> Result<()> {
        let turn = turn.clone();
        self.ask(|reply| Command::Interrupt { turn, reply }).await
    }

    async fn answer(&self, request_id: &str, answer: ToolAnswer) -> Result<()> {
        let request_id = request_id.to_owned();
        self.ask(|reply| Command::Answer { request_id, answer, reply }).await
    }

    async fn close(&self, grace: Duration) {
        // A loop that takes no commands is ending already.
        drop(self.commands.send(Command::Close { grace }).await);
        drop(self.ended.clone().wait_for(Option::is_some).await);
    }
}

//! A session: one session of the server and the loop that follows it.
//!
//! One task owns the hold on the server, the events and the [`Conversation`](super::map::Conversation); the
//! [`OpenCodeSession`] that the core holds only sends it commands. A session that is dropped without being closed ends
//! as if it were.

use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::TurnId;
use cortex_lib::limits::SESSION_QUEUE_MAX;
use cortex_lib::port::{Session, SessionEvent, ToolAnswer, Turn};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use super::pump::{Parts, Pump};

/// Commands on their way to the loop. The core sends one at a time and an interrupt or two.
const COMMANDS_MAX: usize = 16;

/// What the core holds of a session.
#[derive(Debug)]
pub(super) struct OpenCodeSession {
    commands: mpsc::Sender<Command>,
    ended: watch::Receiver<Option<String>>,
}

/// What the loop is told.
#[derive(Debug)]
pub(super) enum Command {
    /// [`Session::send`].
    Send { turn: Turn, reply: oneshot::Sender<Result<()>> },
    /// [`Session::interrupt`].
    Interrupt { turn: TurnId, reply: oneshot::Sender<()> },
    /// [`Session::answer`].
    Answer { request_id: String, answer: ToolAnswer, reply: oneshot::Sender<()> },
    /// [`Session::close`].
    Close { grace: Duration },
}

/// Starts the loop.
pub(super) fn begin(parts: Parts) -> (OpenCodeSession, mpsc::Receiver<SessionEvent>) {
    let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
    let (events, received) = mpsc::channel(SESSION_QUEUE_MAX);
    let (ending, ended) = watch::channel(None);
    // The loop outlives a dropped session until all of it has ended, so nobody joins it: `ended` says when.
    drop(TaskTracker::new().spawn(Pump::new(parts, events, ending).run(inbox)));
    (OpenCodeSession { commands, ended }, received)
}

impl OpenCodeSession {
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
        // An error means that the loop is gone without a word, which only a stopped runtime does.
        if self.ended.clone().wait_for(Option::is_some).await.is_err() {
            tracing::debug!("the loop of a session was dropped");
        }
        let why = self.ended.borrow().clone();
        Error::new(
            Code::RuntimeSessionEnded,
            why.unwrap_or_else(|| "the session is being ended".to_owned()),
        )
    }
}

#[async_trait]
impl Session for OpenCodeSession {
    async fn send(&self, turn: Turn) -> Result<()> {
        self.ask(|reply| Command::Send { turn, reply }).await?
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

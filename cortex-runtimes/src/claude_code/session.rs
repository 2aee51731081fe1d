//! A session: one CLI process and the loop that talks with it.
//!
//! One task owns the process, its pipes and the [`Conversation`](super::map::Conversation); the [`ClaudeSession`] that the core holds only
//! sends it commands. So nothing is shared, an interrupt overtakes a turn that is being sent, and a session that is
//! dropped without being closed still ends its process.
//!
//! # When a turn is accepted, and when it is over
//!
//! [`Session::send`] returns when the CLI says that it works (`running` or `init` behind our message). Before that it has
//! asked no model and run no tool, so a failed `send` did nothing. A turn is over when its result came *and* the CLI is
//! idle. If the turn ran an attempt, what it left behind is ended first: tasks in the background by request, so that the
//! CLI starts no turn about their end, then every process below the CLI. A turn that a person sent directly may
//! leave a server running until the next attempt or the end of the session.
//!
//! # More to go on
//!
//! What [`Session::steer`] gives while a tool runs the CLI puts into the running turn, behind the tool's result. What it gives
//! while the model speaks comes too late for that answer: the CLI answers it next, with a result of its own. To the core both are
//! the same turn. It is over when there is a result and the CLI has taken up everything it was given, which it tells for each
//! message. Once the end of the turn is wanted, what is still waiting is taken back.

use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::TurnId;
use cortex_lib::limits::SESSION_QUEUE_MAX;
use cortex_lib::port::{Session, SessionEvent, Steered, ToolAnswer, Turn};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use super::pump::{Parts, Pump};

/// Commands on their way to the loop. The core sends one at a time and an interrupt or two.
const COMMANDS_MAX: usize = 16;

/// What the core holds of a session.
#[derive(Debug)]
pub(super) struct ClaudeSession {
    commands: mpsc::Sender<Command>,
    ended: watch::Receiver<Option<String>>,
}

/// What the loop is told.
#[derive(Debug)]
pub(super) enum Command {
    /// Ask the CLI something.
    Control { request: Value, reply: oneshot::Sender<Result<Value, String>> },
    /// Pass on what happens from now on. Until now the conversation has cost so much, if that is known.
    Live { cost_usd: Option<f64> },
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

/// Starts the loop. Nothing is passed on as an event before [`ClaudeSession::live`].
pub(super) fn begin(parts: Parts) -> (ClaudeSession, mpsc::Receiver<SessionEvent>) {
    let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
    let (events, received) = mpsc::channel(SESSION_QUEUE_MAX);
    let (ending, ended) = watch::channel(None);
    // The loop outlives a dropped session until the process has ended, so nobody joins it: `ended` says when.
    drop(TaskTracker::new().spawn(Pump::new(parts, events, ending).run(inbox)));
    (ClaudeSession { commands, ended }, received)
}

impl ClaudeSession {
    /// Asks the CLI something. The inner error is what it answered.
    pub(super) async fn control(&self, request: Value) -> Result<Result<Value, String>> {
        self.ask(|reply| Command::Control { request, reply }).await
    }

    /// From now on what happens is passed on. Until now the conversation has cost so much, if that is known.
    pub(super) async fn live(&self, cost_usd: Option<f64>) -> Result<()> {
        self.commands.send(Command::Live { cost_usd }).await.map_err(|_| self.gone())
    }

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
        self.gone()
    }

    fn gone(&self) -> Error {
        let why = self.ended.borrow().clone();
        Error::new(
            Code::RuntimeSessionEnded,
            why.unwrap_or_else(|| "the session is being ended".to_owned()),
        )
    }
}

#[async_trait]
impl Session for ClaudeSession {
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
        // A loop that takes no commands is ending the process already.
        drop(self.commands.send(Command::Close { grace }).await);
        drop(self.ended.clone().wait_for(Option::is_some).await);
    }
}

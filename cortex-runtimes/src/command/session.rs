//! A session of a program: a row of runs, one for each turn, with nothing between them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::domain::usage::Usage;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::TurnId;
use cortex_lib::port::{Session, SessionEvent, SessionSpec, ToolAnswer, Turn, TurnEnd};
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::CommandConfig;
use super::turn::{Run, Stop};

/// A session that starts the program anew for each turn.
#[derive(Debug)]
pub(super) struct CommandSession {
    config: Arc<CommandConfig>,
    spec: Arc<SessionSpec>,
    events: mpsc::Sender<SessionEvent>,
    // Shared with the task of the turn that runs; each holds it for a few lines, never while waiting.
    state: Arc<Mutex<State>>,
    closed: CancellationToken,
    turns: TaskTracker,
}

#[derive(Debug)]
struct State {
    running: Option<Running>,
    /// Room for the last event, kept free from the beginning: closing never waits for a reader.
    last: Option<OwnedPermit<SessionEvent>>,
}

/// The turn that runs.
#[derive(Debug)]
struct Running {
    turn_id: TurnId,
    stop: watch::Sender<Stop>,
}

impl CommandSession {
    pub(super) fn open(
        config: Arc<CommandConfig>,
        spec: SessionSpec,
        events: mpsc::Sender<SessionEvent>,
    ) -> Result<Self> {
        let last = events
            .clone()
            .try_reserve_owned()
            .map_err(|_| Error::new(Code::Defect, "a fresh queue of events has no room"))?;
        Ok(Self {
            config,
            spec: Arc::new(spec),
            events,
            state: Arc::new(Mutex::new(State { running: None, last: Some(last) })),
            closed: CancellationToken::new(),
            turns: TaskTracker::new(),
        })
    }

    fn ended(&self) -> Error {
        let id = &self.spec.session_id;
        Error::new(Code::RuntimeSessionEnded, format!("session {id} is closed"))
    }

    /// Claims the session for this turn.
    fn begin(&self, turn_id: &TurnId) -> Result<watch::Receiver<Stop>> {
        let mut state = lock(&self.state);
        if self.closed.is_cancelled() {
            return Err(self.ended());
        }
        if let Some(running) = &state.running {
            let message = format!("turn {} still runs", running.turn_id);
            return Err(Error::new(Code::RuntimeTurnInProgress, message));
        }
        let (stop, stops) = watch::channel(Stop::Not);
        state.running = Some(Running { turn_id: turn_id.clone(), stop });
        Ok(stops)
    }

    fn stop(&self, how: Stop) {
        if let Some(running) = &lock(&self.state).running {
            running.stop.send_replace(how);
        }
    }
}

#[async_trait]
impl Session for CommandSession {
    async fn send(&self, turn: Turn) -> Result<()> {
        // The end of a turn finds room even when nobody reads while the session is closed.
        let room = tokio::select! {
            biased;
            () = self.closed.cancelled() => return Err(self.ended()),
            room = self.events.clone().reserve_owned() => room.map_err(|_| self.ended())?,
        };
        let stops = self.begin(&turn.id)?;
        let run = Run {
            config: Arc::clone(&self.config),
            spec: Arc::clone(&self.spec),
            events: self.events.clone(),
        };
        let state = Arc::clone(&self.state);
        self.turns.spawn(async move {
            let outcome = run.take(&turn, stops).await;
            // First this: whoever hears of the end may send the next turn.
            lock(&state).running = None;
            let end = TurnEnd { turn_id: turn.id, outcome, usage: Usage::default() };
            room.send(SessionEvent::TurnEnded(end));
        });
        Ok(())
    }

    async fn interrupt(&self, turn: &TurnId) -> Result<()> {
        if self.closed.is_cancelled() {
            return Err(self.ended());
        }
        if let Some(running) = &lock(&self.state).running
            && running.turn_id == *turn
        {
            running.stop.send_replace(Stop::Interrupt);
        }
        Ok(())
    }

    /// A program that is run once asks nothing, so no request waits.
    async fn answer(&self, _request_id: &str, _answer: ToolAnswer) -> Result<()> {
        if self.closed.is_cancelled() { Err(self.ended()) } else { Ok(()) }
    }

    async fn close(&self, grace: Duration) {
        self.closed.cancel();
        self.stop(Stop::Close(grace));
        self.turns.close();
        self.turns.wait().await;
        let room = lock(&self.state).last.take();
        if let Some(room) = room {
            room.send(SessionEvent::Ended { message: "The session was closed.".to_owned() });
        }
    }
}

impl Drop for CommandSession {
    fn drop(&mut self) {
        self.closed.cancel();
        self.stop(Stop::Close(Duration::ZERO));
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

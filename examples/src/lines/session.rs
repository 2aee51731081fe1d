//! A session: a row of runs of the agent, one for each turn.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::domain::usage::Usage;
use cortex_lib::ids::TurnId;
use cortex_lib::port::{Session, SessionEvent, SessionSpec, ToolAnswer, Turn, TurnEnd};
use cortex_lib::{Code, Error, Result};
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::protocol::Answer;
use super::turn::Run;

/// Answers on their way to a turn, which waits for one at a time.
const ANSWERS_MAX: usize = 8;

/// A session of a [`LineAgent`](super::LineAgent).
#[derive(Debug)]
pub(super) struct LineSession {
    program: PathBuf,
    spec: Arc<SessionSpec>,
    events: mpsc::Sender<SessionEvent>,
    /// Room for the last event, kept free from the beginning: closing never waits for somebody who reads.
    last: Mutex<Option<OwnedPermit<SessionEvent>>>,
    /// The turn that runs. Locked for a look, never while something is waited for.
    running: Arc<Mutex<Option<Running>>>,
    closed: CancellationToken,
    turns: TaskTracker,
}

#[derive(Debug)]
struct Running {
    turn: TurnId,
    stop: CancellationToken,
    answers: mpsc::Sender<Answer>,
}

impl LineSession {
    pub(super) fn new(
        program: PathBuf,
        spec: SessionSpec,
        events: mpsc::Sender<SessionEvent>,
    ) -> Result<Self> {
        let last = events.clone().try_reserve_owned();
        let last = last.map_err(|_| Error::new(Code::Defect, "a fresh queue has no room"))?;
        Ok(Self {
            program,
            spec: Arc::new(spec),
            events,
            last: Mutex::new(Some(last)),
            running: Arc::default(),
            closed: CancellationToken::new(),
            turns: TaskTracker::new(),
        })
    }

    fn live(&self) -> Result<()> {
        if self.closed.is_cancelled() {
            return Err(Error::new(Code::RuntimeSessionEnded, "the session is closed"));
        }
        Ok(())
    }

    /// Tells the turn that runs, when it is this one or any is meant.
    fn stop(&self, turn: Option<&TurnId>) {
        if let Some(running) = &*lock(&self.running)
            && turn.is_none_or(|turn| running.turn == *turn)
        {
            running.stop.cancel();
        }
    }
}

#[async_trait]
impl Session for LineSession {
    /// The turn is accepted once it is ours to run: what happens to it from here on is told as an event.
    async fn send(&self, turn: Turn) -> Result<()> {
        // The end of the turn finds room, even when nobody reads while the session is closed.
        let room = tokio::select! {
            biased;
            () = self.closed.cancelled() => return self.live(),
            room = self.events.clone().reserve_owned() => room,
        };
        let room = room.map_err(|_| Error::new(Code::RuntimeSessionEnded, "nobody listens"))?;
        let (answers, answered) = mpsc::channel(ANSWERS_MAX);
        let stop = CancellationToken::new();
        // Until the turn is spawned, so that a close waits for every turn that was accepted.
        let mut accepted = lock(&self.running);
        self.live()?;
        if accepted.is_some() {
            return Err(Error::new(Code::RuntimeTurnInProgress, "another turn runs"));
        }
        *accepted = Some(Running { turn: turn.id.clone(), stop: stop.clone(), answers });
        let run = Run { spec: Arc::clone(&self.spec), events: self.events.clone() };
        let (program, running) = (self.program.clone(), Arc::clone(&self.running));
        self.turns.spawn(async move {
            let outcome = run.take(&program, &turn, answered, &stop).await;
            // First this: whoever hears of the end may send the next turn.
            *lock(&running) = None;
            let end = TurnEnd { turn_id: turn.id, outcome, usage: Usage::default() };
            room.send(SessionEvent::TurnEnded(end));
        });
        Ok(())
    }

    async fn interrupt(&self, turn: &TurnId) -> Result<()> {
        self.live()?;
        self.stop(Some(turn));
        Ok(())
    }

    async fn answer(&self, request_id: &str, answer: ToolAnswer) -> Result<()> {
        self.live()?;
        let (allow, reason) = match answer {
            ToolAnswer::Allow => (true, None),
            ToolAnswer::Deny { reason } => (false, Some(reason)),
            // This agent asks its user nothing.
            ToolAnswer::Answers(_) => (false, Some("it was no question".to_owned())),
        };
        let answers = lock(&self.running).as_ref().map(|running| running.answers.clone());
        if let Some(answers) = answers {
            // A turn that no longer waits does not take it, which is no error.
            drop(answers.try_send(Answer { id: request_id.to_owned(), allow, reason }));
        }
        Ok(())
    }

    async fn close(&self, _grace: Duration) {
        {
            let _turn = lock(&self.running);
            self.closed.cancel();
        }
        self.stop(None);
        self.turns.close();
        self.turns.wait().await;
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(last) = last {
            last.send(SessionEvent::Ended { message: "the session was closed".to_owned() });
        }
    }
}

/// A session that is dropped without a close ends its turn too.
impl Drop for LineSession {
    fn drop(&mut self) {
        self.closed.cancel();
        self.stop(None);
    }
}

fn lock(running: &Mutex<Option<Running>>) -> std::sync::MutexGuard<'_, Option<Running>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

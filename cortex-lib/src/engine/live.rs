//! The sessions of this life, as the engine holds them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::incoming::Incoming;
use super::output::{Output, OutputBus};
use super::wake::Wake;
use crate::env::Env;
use crate::ids::{AgentId, AttemptId, SessionId, TaskId, TurnId};
use crate::port::{OutputKind, Session, SessionEvent, Terminal};
use crate::progress::SessionEnd;

/// A session that lives.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) session: Arc<dyn Session>,
    /// For a session in terminal mode.
    pub(super) terminal: Option<Arc<dyn Terminal>>,
    pub(super) pulse: Arc<Pulse>,
    /// Why it is over, once it is known.
    pub(super) end: Option<SessionEnd>,
}

/// When a session last showed a sign of life, and what it works on.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// A lock, because the pump of the session and the engine both write; it is held for a few fields.
    signs: Mutex<Signs>,
    /// A lock, because the pump of the session reads what the engine sets; it is held for a copy.
    work: Mutex<Option<Work>>,
}

/// What a session showed of itself.
#[derive(Debug, Default)]
struct Signs {
    /// When, by the monotonic clock.
    last: Duration,
    /// Whether it runs a tool: a tool may be silent for as long as it needs.
    in_tool: bool,
    /// Whether one of its tools was allowed since it last showed that none runs.
    allowed: bool,
    /// How often it showed that none runs.
    idle: u64,
}

/// What a session works on.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) turn: TurnId,
    pub(super) task: Option<TaskId>,
    pub(super) attempt: Option<AttemptId>,
    /// Told when the driver has begun to send it.
    pub(super) handed: CancellationToken,
}

impl Pulse {
    /// A turn begins.
    pub(super) fn begin(&self, work: Work, now: Duration) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
        self.beat(now, false);
    }

    /// It shows a sign of life. `in_tool`: from here on silence is no stall.
    pub(super) fn beat(&self, now: Duration, in_tool: bool) {
        let mut signs = self.signs();
        (signs.last, signs.in_tool) = (now, in_tool);
        signs.allowed &= in_tool;
        signs.idle = signs.idle.wrapping_add(u64::from(!in_tool));
    }

    /// A tool request of it was decided, and the answer is on its way. From here on its silence counts, unless another
    /// tool runs that was allowed. Returns what [`allowed`](Self::allowed) is told later.
    pub(super) fn decided(&self, now: Duration) -> u64 {
        let mut signs = self.signs();
        (signs.last, signs.in_tool) = (now, signs.allowed);
        signs.idle
    }

    /// It was told that a tool may run. What it has shown since that was `decided` counts more.
    pub(super) fn allowed(&self, now: Duration, decided: u64) {
        let mut signs = self.signs();
        if signs.idle == decided {
            (signs.last, signs.in_tool, signs.allowed) = (now, true, true);
        }
    }

    /// When its silence becomes a stall. None: a tool runs.
    pub(super) fn stalls_at(&self, limit: Duration) -> Option<Duration> {
        let signs = self.signs();
        (!signs.in_tool).then(|| signs.last.saturating_add(limit))
    }

    /// When to look for a stall again. While a tool runs nothing is due, but its end wakes nobody.
    pub(super) fn look_again_at(&self, limit: Duration, now: Duration) -> Duration {
        self.stalls_at(limit).unwrap_or_else(|| now.saturating_add(limit))
    }

    /// Whether this is the turn that it was given last.
    pub(super) fn works_on(&self, turn: &TurnId) -> bool {
        self.work().is_some_and(|work| work.turn == *turn)
    }

    /// Tells when the driver has begun to send this turn. None: it is not the one that it was given last.
    pub(super) fn handed(&self, turn: &TurnId) -> Option<CancellationToken> {
        self.work().filter(|work| work.turn == *turn).map(|work| work.handed)
    }

    fn signs(&self) -> MutexGuard<'_, Signs> {
        self.signs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) -> Option<Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Carries what happens in one session to the engine, and its output to whoever watches.
pub(super) struct Pump {
    pub(super) session_id: SessionId,
    pub(super) agent_id: AgentId,
    pub(super) events: mpsc::Receiver<SessionEvent>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) output: OutputBus,
    pub(super) wakes: mpsc::Sender<Wake>,
    pub(super) env: Arc<dyn Env>,
}

impl Pump {
    /// Runs until the session is over.
    pub(super) async fn run(mut self) {
        let (mut ended, mut incoming) = (false, Incoming::default());
        while let Some(event) = self.events.recv().await {
            let in_tool = matches!(
                event,
                SessionEvent::Output { kind: OutputKind::Tool, .. } | SessionEvent::ToolRequest(_)
            );
            self.pulse.beat(self.env.monotonic(), in_tool);
            match incoming.event(event) {
                SessionEvent::Output { turn_id, kind, text } => self.show(turn_id, kind, text),
                SessionEvent::Active => {}
                event => {
                    ended = matches!(event, SessionEvent::Ended { .. });
                    if self.wakes.send(Wake::Session(self.session_id.clone(), event)).await.is_err()
                    {
                        return;
                    }
                }
            }
        }
        if !ended {
            let message = "the driver let go of the session".to_owned();
            let gone = Wake::Session(self.session_id, SessionEvent::Ended { message });
            // An engine that is gone needs to hear nothing.
            drop(self.wakes.send(gone).await);
        }
    }

    fn show(&self, turn_id: Option<TurnId>, kind: OutputKind, text: String) {
        let work =
            self.pulse.work().filter(|work| turn_id.as_ref().is_none_or(|id| *id == work.turn));
        self.output.show(Output {
            agent_id: self.agent_id.clone(),
            turn_id,
            task_id: work.as_ref().and_then(|work| work.task.clone()),
            execution_id: work.and_then(|work| work.attempt),
            kind,
            text,
        });
    }
}

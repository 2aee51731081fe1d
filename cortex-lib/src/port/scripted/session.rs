//! A session that follows scripts.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::runtime::Turns;
use super::script::{Accept, Interrupt, Script, Step};
use super::wait;
use super::world::{Asked, Process, ScriptedWorld};
use crate::error::{Code, Error, Result};
use crate::ids::{SessionId, TurnId};
use crate::port::{OutputKind, Session, SessionEvent, ToolAnswer, Turn, TurnEnd, TurnOutcome};

/// A session that follows scripts.
pub(super) struct ScriptedSession {
    id: SessionId,
    cwd: PathBuf,
    world: ScriptedWorld,
    process: Process,
    turns: Turns,
    /// Gone once the session is over. A lock, as for the rest: the methods of a session may run at once.
    events: Mutex<Option<mpsc::Sender<SessionEvent>>>,
    running: Mutex<BTreeMap<TurnId, (Interrupt, CancellationToken)>>,
    asking: Mutex<BTreeMap<String, oneshot::Sender<ToolAnswer>>>,
    closed: CancellationToken,
    closing: AtomicBool,
    close_takes: Duration,
}

impl fmt::Debug for ScriptedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedSession").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ScriptedSession {
    pub(super) fn new(
        (id, cwd): (SessionId, PathBuf),
        world: ScriptedWorld,
        process: Process,
        turns: Turns,
        close_takes: Duration,
    ) -> (Arc<Self>, mpsc::Receiver<SessionEvent>) {
        let (events, heard) = mpsc::channel(crate::limits::SESSION_QUEUE_MAX);
        process.detach();
        let session = Arc::new(Self {
            id,
            cwd,
            world,
            process,
            turns,
            events: Mutex::new(Some(events)),
            running: Mutex::default(),
            asking: Mutex::default(),
            closed: CancellationToken::new(),
            closing: AtomicBool::new(false),
            close_takes,
        });
        (session, heard)
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    fn sender(&self) -> Option<mpsc::Sender<SessionEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says something. Returns whether anybody could hear it.
    pub(super) async fn say(&self, event: SessionEvent) -> bool {
        match self.sender() {
            Some(events) => events.send(event).await.is_ok(),
            None => false,
        }
    }

    /// Dies by itself; without a message the driver only lets go.
    pub(super) async fn die(&self, message: Option<String>) {
        self.process.end();
        if let Some(message) = message {
            self.say(SessionEvent::Ended { message }).await;
        }
        self.hang_up();
    }

    fn hang_up(&self) {
        drop(self.events.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.asking.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.closed.cancel();
    }

    fn over(&self) -> Error {
        Error::new(Code::RuntimeSessionEnded, "the session is over")
            .with("session_id", self.id.as_str())
    }

    /// Follows a script until it is over, the turn is interrupted or the session is.
    async fn follow(
        self: Arc<Self>,
        turn: Turn,
        script: Script,
        events: mpsc::Sender<SessionEvent>,
        interrupted: CancellationToken,
    ) {
        let obeyed = async {
            match script.interrupt {
                Interrupt::EndsAfter(time) => {
                    interrupted.cancelled().await;
                    wait(time).await;
                }
                Interrupt::Ignored | Interrupt::Refused(_) => std::future::pending().await,
            }
        };
        let over = async {
            self.closed.cancelled().await;
            if script.outlives_close {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! { biased;
            () = over => {}
            () = obeyed => {
                self.forget(&turn.id);
                drop(events.send(script.end(&turn, TurnOutcome::Interrupted)).await);
            }
            () = self.steps(&turn, &script, &events) => {}
        }
        self.forget(&turn.id);
    }

    /// A turn runs no more, whatever its script still says.
    fn forget(&self, turn: &TurnId) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(turn);
    }

    async fn steps(&self, turn: &Turn, script: &Script, events: &mpsc::Sender<SessionEvent>) {
        for step in script.steps.clone() {
            let event = match step {
                Step::Wait(time) => {
                    wait(time).await;
                    continue;
                }
                Step::Emit(event) => event,
                Step::Output(kind, text) => {
                    SessionEvent::Output { turn_id: Some(turn.id.clone()), kind, text }
                }
                Step::Ask(mut request) => {
                    request.request_id = format!("{}-{}", turn.id, request.request_id);
                    request.turn_id = Some(turn.id.clone());
                    let answer = self.ask(
                        events,
                        SessionEvent::ToolRequest(request.clone()),
                        &request.request_id,
                    );
                    let text = match answer.await {
                        Some(ToolAnswer::Allow) => "allowed".to_owned(),
                        Some(ToolAnswer::Deny { reason }) => reason,
                        Some(ToolAnswer::Answers(answers)) => format!("{answers:?}"),
                        None => return,
                    };
                    SessionEvent::Output {
                        turn_id: Some(turn.id.clone()),
                        kind: OutputKind::Text,
                        text,
                    }
                }
                Step::Write(path, content) => {
                    self.world.write_file(self.cwd.join(path), &content);
                    continue;
                }
                Step::End(outcome) => {
                    self.forget(&turn.id);
                    script.end(turn, outcome)
                }
                Step::EndAnother(turn_id) => {
                    self.forget(&turn_id);
                    let outcome = TurnOutcome::Succeeded { text: "of another turn".to_owned() };
                    SessionEvent::TurnEnded(TurnEnd { turn_id, outcome, usage: script.usage })
                }
                Step::Crash(message) => return self.die(Some(message)).await,
                Step::LetGo => return self.die(None).await,
            };
            if events.send(event).await.is_err() {
                return;
            }
        }
        // What has not ended goes on, silently.
        if !script.steps.iter().any(|step| matches!(step, Step::End(_))) {
            std::future::pending::<()>().await;
        }
    }

    async fn ask(
        &self,
        events: &mpsc::Sender<SessionEvent>,
        request: SessionEvent,
        id: &str,
    ) -> Option<ToolAnswer> {
        let (answer, answered) = oneshot::channel();
        self.asking.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), answer);
        events.send(request).await.ok()?;
        answered.await.ok()
    }
}

#[async_trait]
impl Session for ScriptedSession {
    #[expect(
        clippy::disallowed_methods,
        reason = "it stands for a process, which the core does not own"
    )]
    async fn send(&self, turn: Turn) -> Result<()> {
        self.world.note(Asked::Turn(self.id.clone(), turn.clone()));
        let script = (self.turns)(&turn);
        let Some((events, session)) = self.sender().zip(self.world.session(&self.id)) else {
            return Err(self.over());
        };
        if let Accept::Refuse(error) = &script.accept {
            return Err(error.clone());
        }
        let (accept, interrupt) = (script.accept.clone(), script.interrupt.clone());
        let interrupted = CancellationToken::new();
        {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            if !running.is_empty() {
                self.world.note_overlap(&turn.id);
            }
            running.insert(turn.id.clone(), (interrupt, interrupted.clone()));
        }
        drop(tokio::spawn(session.follow(turn, script, events, interrupted)));
        match accept {
            Accept::AtOnce | Accept::Refuse(_) => Ok(()),
            Accept::After(time) => {
                tokio::select! { biased;
                    () = self.closed.cancelled() => Err(self.over()),
                    () = wait(time) => Ok(()),
                }
            }
            Accept::Never => {
                self.closed.cancelled().await;
                Err(self.over())
            }
        }
    }

    async fn interrupt(&self, turn: &TurnId) -> Result<()> {
        self.world.note(Asked::Interrupt(self.id.clone(), turn.clone()));
        if self.sender().is_none() {
            return Err(self.over());
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match running.get(turn) {
            Some((Interrupt::Refused(error), _)) => Err(error.clone()),
            Some((Interrupt::EndsAfter(_) | Interrupt::Ignored, token)) => {
                token.cancel();
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn answer(&self, request_id: &str, answer: ToolAnswer) -> Result<()> {
        self.world.note(Asked::Answer(self.id.clone(), request_id.to_owned(), answer.clone()));
        if self.sender().is_none() {
            return Err(self.over());
        }
        let asked = self.asking.lock().unwrap_or_else(PoisonError::into_inner).remove(request_id);
        if let Some(asked) = asked {
            // Whoever asked may have been interrupted.
            drop(asked.send(answer));
        }
        Ok(())
    }

    async fn close(&self, grace: Duration) {
        self.world.note(Asked::Close(self.id.clone()));
        if !self.closing.swap(true, Ordering::Relaxed) {
            wait(self.close_takes.min(grace)).await;
        }
        self.process.end();
        self.hang_up();
    }
}

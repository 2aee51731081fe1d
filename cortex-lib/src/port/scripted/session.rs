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
use super::script::{Accept, Answers, Hears, Interrupt, Script, Step};
use super::wait;
use super::world::{Asked, Process, ScriptedWorld};
use crate::error::{Code, Error, Result};
use crate::ids::{SessionId, TurnId};
use crate::port::{
    OutputKind, Session, SessionEvent, Steered, ToolAnswer, Turn, TurnEnd, TurnOutcome,
};

/// A session that follows scripts.
pub(super) struct ScriptedSession {
    id: SessionId,
    cwd: PathBuf,
    /// Whether the runtime offers input during a turn.
    takes_input: bool,
    world: ScriptedWorld,
    process: Process,
    turns: Turns,
    /// Gone once the session is over. A lock, as for the rest: the methods of a session may run at once.
    events: Mutex<Option<mpsc::Sender<SessionEvent>>>,
    running: Mutex<BTreeMap<TurnId, Running>>,
    asking: Mutex<BTreeMap<String, (oneshot::Sender<ToolAnswer>, Answers)>>,
    closed: CancellationToken,
    closing: AtomicBool,
    close_takes: Duration,
}

/// A turn that runs.
struct Running {
    interrupt: Interrupt,
    interrupted: CancellationToken,
    hears: Hears,
    said: mpsc::Sender<String>,
}

impl fmt::Debug for ScriptedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedSession").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ScriptedSession {
    pub(super) fn new(
        (id, cwd, takes_input): (SessionId, PathBuf, bool),
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
            takes_input,
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
        (interrupted, mut heard): (CancellationToken, mpsc::Receiver<String>),
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
            () = self.steps(&turn, &script, &events, &mut heard) => {}
        }
        self.forget(&turn.id);
    }

    /// Looks at a turn that runs.
    fn with_running<T>(&self, turn: &TurnId, look: impl FnOnce(&Running) -> T) -> Option<T> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).get(turn).map(look)
    }

    /// A turn runs no more, whatever its script still says.
    fn forget(&self, turn: &TurnId) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(turn);
    }

    async fn steps(
        &self,
        turn: &Turn,
        script: &Script,
        events: &mpsc::Sender<SessionEvent>,
        heard: &mut mpsc::Receiver<String>,
    ) {
        for step in script.steps.clone() {
            let event = match step {
                Step::Wait(time) => {
                    wait(time).await;
                    continue;
                }
                Step::Hear => {
                    let Some(text) = heard.recv().await else { return };
                    let (turn_id, kind) = (Some(turn.id.clone()), OutputKind::Text);
                    SessionEvent::Output { turn_id, kind, text }
                }
                Step::Emit(event) => event,
                Step::Output(kind, text) => {
                    SessionEvent::Output { turn_id: Some(turn.id.clone()), kind, text }
                }
                Step::Ask(mut request) => {
                    request.request_id = format!("{}-{}", turn.id, request.request_id);
                    request.turn_id = Some(turn.id.clone());
                    let asked = (request.request_id.clone(), script.answers);
                    let answer = self.ask(events, SessionEvent::ToolRequest(request), asked);
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
        (id, answers): (String, Answers),
    ) -> Option<ToolAnswer> {
        let (answer, answered) = oneshot::channel();
        let answer = (answer, answers);
        self.asking.lock().unwrap_or_else(PoisonError::into_inner).insert(id, answer);
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
        let accept = script.accept.clone();
        let interrupted = CancellationToken::new();
        let (said, heard) = mpsc::channel(crate::limits::SESSION_QUEUE_MAX);
        {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            if !running.is_empty() {
                self.world.note_overlap(&turn.id);
            }
            let (interrupt, hears) = (script.interrupt.clone(), script.steer.clone());
            let turn_runs = Running { interrupt, interrupted: interrupted.clone(), hears, said };
            running.insert(turn.id.clone(), turn_runs);
        }
        drop(tokio::spawn(session.follow(turn, script, events, (interrupted, heard))));
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

    async fn steer(&self, turn: &TurnId, text: String) -> Result<Steered> {
        if !self.takes_input {
            let message = "this runtime takes no input during a turn";
            return Err(Error::new(Code::RuntimeCapabilityMissing, message));
        }
        self.world.note(Asked::Steer(self.id.clone(), turn.clone(), text.clone()));
        let how = self.with_running(turn, |running| running.hears.clone());
        match how {
            Some(Hears::After(time)) => wait(time).await,
            Some(Hears::Refuses(error)) => return Err(error),
            Some(Hears::Never) => self.closed.cancelled().await,
            Some(Hears::TooLate) | None => {}
        }
        if self.sender().is_none() {
            return Err(self.over());
        }
        let hears = |running: &Running| match running.hears {
            Hears::TooLate => false,
            _ => running.said.try_send(text).is_ok(),
        };
        let taken = self.with_running(turn, hears).unwrap_or(false);
        Ok(if taken { Steered::Taken } else { Steered::TurnOver })
    }

    async fn interrupt(&self, turn: &TurnId) -> Result<()> {
        self.world.note(Asked::Interrupt(self.id.clone(), turn.clone()));
        if self.sender().is_none() {
            return Err(self.over());
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = running.get(turn) else { return Ok(()) };
        match &running.interrupt {
            Interrupt::Refused(error) => Err(error.clone()),
            Interrupt::EndsAfter(_) | Interrupt::Ignored => {
                running.interrupted.cancel();
                Ok(())
            }
        }
    }

    async fn answer(&self, request_id: &str, answer: ToolAnswer) -> Result<()> {
        self.world.note(Asked::Answer(self.id.clone(), request_id.to_owned(), answer.clone()));
        if self.sender().is_none() {
            return Err(self.over());
        }
        let asked = self.asking.lock().unwrap_or_else(PoisonError::into_inner).remove(request_id);
        let Some((asked, answers)) = asked else { return Ok(()) };
        match answers {
            Answers::TakenAfter(time) => {
                // Whoever asked may have been interrupted.
                drop(asked.send(answer));
                wait(time).await;
                Ok(())
            }
            Answers::NeverTaken => {
                self.closed.cancelled().await;
                Err(self.over())
            }
        }
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

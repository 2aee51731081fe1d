//! The loop of a session: it alone owns the conversation and the session's share of a process.
//!
//! It does what the [`Step`]s of the conversation say and what [`Command`]s ask, and never waits for one thing only. What is
//! said about its thread is always taken, because the process may serve others too: a core that takes no events loses output
//! that would only be shown, and nothing else.

use std::collections::{BTreeMap, VecDeque};
use std::future;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::env::Env;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::limits::SESSION_QUEUE_MAX;
use cortex_lib::port::{SessionEvent, SessionSpec, Steered, Turn, TurnEnd};
use serde_json::{Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::map::{Conversation, Step};
use super::pool::Lease;
use super::server::{Registration, Told};
use super::session::Command;
use super::state::{Closing, Finishing, Happened, Sending, Waiter};
use super::wire::{Answer, text};
use super::{CodexConfig, thread};

/// How long the CLI may take to begin a turn. It took 3 ms; beyond this it hangs, and its session is ended.
const ACCEPT_WAIT: Duration = Duration::from_mins(1);
/// How long it may take to let go of what an ended turn left in its background.
const CLEAN_WAIT: Duration = Duration::from_secs(2);
/// How long it may take to say whether it takes more for a turn. It says so at once.
const STEER_WAIT: Duration = Duration::from_secs(10);
/// How long the processes of a session may take to end after a kill.
const CLEAR_WAIT: Duration = Duration::from_secs(5);
/// The same for a session that is to be closed by now.
const LATE_CLEAR_WAIT: Duration = Duration::from_secs(1);
/// The pause before an interrupt that came too early is asked for again.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(50);
/// How often a sign of life without anything to see is passed on. Stalls are counted in minutes.
const ACTIVE_EVERY: Duration = Duration::from_secs(1);
/// What a session that nobody closed leaves its process to end.
const DROPPED_GRACE: Duration = Duration::from_secs(3);

/// What the loop starts with.
pub(super) struct Parts {
    pub(super) lease: Lease,
    pub(super) told: mpsc::Receiver<Told>,
    pub(super) registration: Registration,
    pub(super) conversation: Conversation,
    pub(super) spec: SessionSpec,
    pub(super) config: CodexConfig,
    pub(super) env: Arc<dyn Env>,
}

/// The loop's state.
pub(super) struct Pump {
    lease: Lease,
    told: mpsc::Receiver<Told>,
    registration: Registration,
    conversation: Conversation,
    spec: SessionSpec,
    config: CodexConfig,
    env: Arc<dyn Env>,
    events: mpsc::Sender<SessionEvent>,
    /// What is still to be passed on.
    outbox: VecDeque<SessionEvent>,
    last_active: Option<Instant>,
    tags: u64,
    /// Our requests without an answer.
    waiting: BTreeMap<u64, Waiter>,
    sending: Option<Sending>,
    /// More for a turn that the CLI does not work on yet.
    steers: Vec<(String, oneshot::Sender<Result<Steered>>)>,
    interrupt_at: Option<Instant>,
    finishing: Option<Finishing>,
    closing: Option<Closing>,
    /// Why it ended, once nothing lives.
    ending: watch::Sender<Option<String>>,
}

impl Pump {
    pub(super) fn new(
        parts: Parts,
        events: mpsc::Sender<SessionEvent>,
        ending: watch::Sender<Option<String>>,
    ) -> Self {
        Self {
            lease: parts.lease,
            told: parts.told,
            registration: parts.registration,
            conversation: parts.conversation,
            spec: parts.spec,
            config: parts.config,
            env: parts.env,
            events,
            outbox: VecDeque::new(),
            last_active: None,
            tags: 0,
            waiting: BTreeMap::new(),
            sending: None,
            steers: Vec::new(),
            interrupt_at: None,
            finishing: None,
            closing: None,
            ending,
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let why = self.until_over(&mut inbox).await;
        // Who still asks something is told that the session has ended.
        drop(inbox);
        self.finish(why).await;
    }

    /// Runs the session until it is over. Returns why, when it is not for the process to say.
    async fn until_over(&mut self, inbox: &mut mpsc::Receiver<Command>) -> Option<&'static str> {
        loop {
            let over = match self.next(inbox).await {
                Happened::Commanded(Some(command)) => self.command(command).await,
                Happened::Commanded(None) => return Some("the session was dropped"),
                Happened::Due => self.on_time(Instant::now()).await,
                Happened::Room => {
                    self.pass_on();
                    None
                }
                Happened::Told(Some(Told::Said(said))) => {
                    let steps = self.conversation.take(said, self.env.now());
                    self.steps(steps).await
                }
                Happened::Told(Some(Told::Answered { tag, answer })) => {
                    self.answered(tag, answer);
                    None
                }
                Happened::Told(None) => return None,
            };
            if over.is_some() {
                return over;
            }
            self.settle().await;
        }
    }

    /// Waits for the next thing. What is cut off by another loses nothing: each of them may be dropped.
    async fn next(&mut self, inbox: &mut mpsc::Receiver<Command>) -> Happened {
        let wake = self.next_wake();
        tokio::select! {
            biased;
            command = inbox.recv() => Happened::Commanded(command),
            () = wait_until(wake) => Happened::Due,
            _ = self.events.reserve(), if !self.outbox.is_empty() => Happened::Room,
            told = self.told.recv() => Happened::Told(told),
        }
    }

    /// Passes on what there is room for.
    fn pass_on(&mut self) {
        while let Some(event) = self.outbox.pop_front() {
            match self.events.try_send(event) {
                Ok(()) => {}
                Err(TrySendError::Full(event)) => return self.outbox.push_front(event),
                // Nobody listens any more; the session still has to be closed.
                Err(TrySendError::Closed(_)) => self.outbox.clear(),
            }
        }
    }

    async fn command(&mut self, command: Command) -> Option<&'static str> {
        match command {
            Command::Send { turn, reply } => self.send(turn, reply).await,
            Command::Steer { turn, text, reply } => {
                if self.conversation.turn() != Some(&turn) || self.conversation.ends() {
                    tell(reply, Ok(Steered::TurnOver));
                } else if self.conversation.working().is_some() {
                    self.steer(text, reply).await;
                } else {
                    self.steers.push((text, reply));
                }
            }
            Command::Interrupt { turn, reply } => {
                if self.conversation.turn() == Some(&turn) {
                    self.conversation.interrupted();
                    self.interrupt().await;
                }
                tell(reply, ());
            }
            Command::Answer { request_id, answer, reply } => {
                if let Some(line) = self.conversation.answer(&request_id, &answer) {
                    self.say(line).await;
                }
                tell(reply, ());
            }
            Command::Close { grace } => self.close(grace).await,
        }
        None
    }

    /// Asks the CLI something. An error means that the process is gone, and that is seen by what it is told.
    async fn ask(&mut self, waiter: Waiter, method: &'static str, params: Value) {
        self.tags += 1;
        self.waiting.insert(self.tags, waiter);
        let server = &self.lease.host().server;
        drop(server.ask_for(&self.registration, self.tags, method, params).await);
    }

    async fn say(&mut self, line: String) {
        drop(self.lease.host().server.say(line).await);
    }

    async fn send(&mut self, turn: Turn, reply: oneshot::Sender<Result<()>>) {
        let busy = self.sending.is_some() || self.finishing.is_some();
        if busy || self.conversation.turn().is_some() {
            let error = Error::new(Code::RuntimeTurnInProgress, "Codex still runs a turn");
            return tell(reply, Err(error));
        }
        self.conversation.sent(&turn);
        self.sending = Some(Sending { reply, until: Instant::now() + ACCEPT_WAIT });
        let thread = self.conversation.thread();
        let params = thread::turn(&self.spec, &self.config, thread, &turn.instruction);
        self.ask(Waiter::Start, "turn/start", params).await;
    }

    async fn steer(&mut self, words: String, reply: oneshot::Sender<Result<Steered>>) {
        let Some(native) = self.conversation.working() else {
            return tell(reply, Ok(Steered::TurnOver));
        };
        let params = json!({
            "threadId": self.conversation.thread(),
            "expectedTurnId": native,
            "input": [thread::input(&words)],
        });
        self.ask(Waiter::Steer(reply, Instant::now() + STEER_WAIT), "turn/steer", params).await;
    }

    /// Asks for the end of the turn that runs. Before the CLI works on it there is none for it; then it is asked
    /// as soon as there is.
    async fn interrupt(&mut self) {
        let Some(native) = self.conversation.working().map(str::to_owned) else { return };
        let asked = |waiter: &Waiter| matches!(waiter, Waiter::Interrupt(turn) if *turn == native);
        if !self.waiting.values().any(asked) {
            self.end_turn(native).await;
        }
    }

    async fn end_turn(&mut self, native: String) {
        let params = json!({"threadId": self.conversation.thread(), "turnId": native});
        self.ask(Waiter::Interrupt(native), "turn/interrupt", params).await;
    }

    async fn close(&mut self, grace: Duration) {
        let started = Instant::now();
        match &mut self.closing {
            // A later call may only make it shorter.
            Some(closing) if closing.started + closing.grace > started + grace => {
                closing.grace = (started + grace).saturating_duration_since(closing.started);
            }
            Some(_) => {}
            None => {
                self.closing = Some(Closing { started, grace, leaves: false });
                self.conversation.interrupted();
                self.interrupt().await;
            }
        }
    }

    /// Whether the CLI works on something, or a turn is not quite over.
    fn works(&self) -> bool {
        self.conversation.turn().is_some() || self.finishing.is_some()
    }

    /// Leaves the thread: what runs in its background ends, and nobody listens to it any more. It is left when the CLI says
    /// that it is closed.
    async fn leave(&mut self) {
        if let Some(closing) = &mut self.closing {
            closing.leaves = true;
        }
        let params = json!({"threadId": self.conversation.thread()});
        self.ask(Waiter::Nobody, "thread/backgroundTerminals/clean", params.clone()).await;
        self.ask(Waiter::Nobody, "thread/unsubscribe", params).await;
    }

    fn next_wake(&self) -> Option<Instant> {
        let sending = self.sending.as_ref().map(|sending| sending.until);
        let finishing = self.finishing.as_ref().map(|finishing| finishing.until);
        let closing = self.closing.as_ref().map(Closing::until);
        let steered = self.waiting.values().filter_map(Waiter::until).min();
        [sending, finishing, closing, steered, self.interrupt_at].into_iter().flatten().min()
    }

    /// Does what is due. Returns why the session must be ended, if it must.
    async fn on_time(&mut self, now: Instant) -> Option<&'static str> {
        if let Some(closing) = &self.closing
            && closing.until() <= now
        {
            if closing.leaves {
                return Some(CLOSED);
            }
            self.leave().await;
        }
        if let Some(finishing) = &mut self.finishing
            && finishing.until <= now
        {
            finishing.cleans = false;
        }
        if self.interrupt_at.is_some_and(|at| at <= now) {
            self.interrupt_at = None;
            self.interrupt().await;
        }
        let late = |_: &u64, it: &mut Waiter| it.until().is_some_and(|until| until <= now);
        for (_, waiter) in self.waiting.extract_if(.., late) {
            if let Waiter::Steer(reply, _) = waiter {
                tell(reply, Err(unsteered("no answer")));
            }
        }
        let late = self.sending.as_ref().is_some_and(|sending| sending.until <= now);
        late.then_some("Codex did not begin the turn")
    }

    fn answered(&mut self, tag: u64, answer: Answer) {
        match self.waiting.remove(&tag) {
            Some(Waiter::Start) => self.started(answer),
            Some(Waiter::Interrupt(_)) => {
                // It may come before there is anything to interrupt, whatever was told.
                if answer.is_err() && self.conversation.ends() {
                    self.interrupt_at = Some(Instant::now() + INTERRUPT_AGAIN);
                }
            }
            Some(Waiter::Steer(reply, _)) => tell(reply, steered(answer)),
            Some(Waiter::Clean) => {
                if let Some(finishing) = &mut self.finishing {
                    finishing.cleans = false;
                }
            }
            Some(Waiter::Nobody) | None => {}
        }
    }

    fn started(&mut self, answer: Answer) {
        let Some(sending) = self.sending.take() else { return };
        let native = answer.map_err(|refusal| refusal.message);
        let native =
            native.and_then(|it| text(&it, "/turn/id").ok_or_else(|| "no turn".to_owned()));
        match native {
            Ok(native) => {
                self.conversation.accepted(native);
                tell(sending.reply, Ok(()));
            }
            Err(message) => {
                self.conversation.refused();
                // Not for the turn after this one.
                self.too_late();
                let message = format!("Codex did not take the turn: {message}");
                tell(sending.reply, Err(Error::new(Code::RuntimeProtocol, message)));
            }
        }
    }

    async fn steps(&mut self, steps: Vec<Step>) -> Option<&'static str> {
        for step in steps {
            match step {
                Step::Emit(event) => self.emit(event),
                Step::Say(line) => self.say(line).await,
                Step::Begun => self.begun().await,
                Step::Interrupt(native) => self.end_turn(native).await,
                Step::Over { end, leaves_nothing } => self.over(end, leaves_nothing).await,
                Step::Closed if self.closing.is_some() => return Some(CLOSED),
                Step::Closed => return Some("Codex closed the conversation"),
            }
        }
        None
    }

    /// The CLI works on our turn: what came too early for it comes now.
    async fn begun(&mut self) {
        if self.conversation.ends() {
            self.interrupt().await;
        }
        for (words, reply) in std::mem::take(&mut self.steers) {
            self.steer(words, reply).await;
        }
    }

    /// What was said for the turn found none.
    fn too_late(&mut self) {
        for (_, reply) in self.steers.drain(..) {
            tell(reply, Ok(Steered::TurnOver));
        }
    }

    async fn over(&mut self, end: TurnEnd, leaves_nothing: bool) {
        self.interrupt_at = None;
        self.too_late();
        let until = Instant::now() + CLEAN_WAIT;
        self.finishing = Some(Finishing { end, leaves_nothing, cleans: leaves_nothing, until });
        if leaves_nothing {
            let params = json!({"threadId": self.conversation.thread()});
            self.ask(Waiter::Clean, "thread/backgroundTerminals/clean", params).await;
        }
    }

    /// Reports the end of a turn once nothing of it lives, and goes on with closing.
    async fn settle(&mut self) {
        if let Some(finished) = self.finishing.take_if(|finishing| !finishing.cleans) {
            if finished.leaves_nothing {
                self.sweep().await;
            }
            self.emit(SessionEvent::TurnEnded(finished.end));
        }
        let waits = |closing: &Closing| !closing.leaves;
        if self.closing.as_ref().is_some_and(waits) && !self.works() {
            self.leave().await;
        }
    }

    /// Ends every process of the session's tools. The CLI itself carries another marker.
    async fn sweep(&self) {
        let marker = self.spec.session_id.as_str();
        let swept = cortex_lib::process::sweep([marker.to_owned()]);
        let left = |closing: &Closing| closing.deadline().saturating_duration_since(Instant::now());
        let left = self.closing.as_ref().map_or(CLEAR_WAIT, left);
        if timeout(left.clamp(LATE_CLEAR_WAIT, CLEAR_WAIT), swept).await.is_err() {
            tracing::warn!(marker, "processes of an ended turn live on");
        }
    }

    fn emit(&mut self, event: SessionEvent) {
        match &event {
            SessionEvent::Active => {
                let now = Instant::now();
                if self.last_active.is_some_and(|last| now < last + ACTIVE_EVERY) {
                    return;
                }
                self.last_active = Some(now);
            }
            SessionEvent::Output { .. } if self.outbox.len() >= SESSION_QUEUE_MAX => return,
            _ => {}
        }
        self.outbox.push_back(event);
        self.pass_on();
    }

    /// Ends everything, passes on the last words, and says why.
    async fn finish(mut self, why: Option<&'static str>) {
        let deadline = match &self.closing {
            Some(closing) => closing.deadline(),
            None => Instant::now() + DROPPED_GRACE,
        };
        self.waiting.clear();
        self.steers.clear();
        self.lease.host().server.leave(&self.registration).await;
        if let Some(finishing) = &mut self.finishing {
            finishing.cleans = false;
        }
        // Not by `settle`, which would go on with closing.
        self.sweep().await;
        if let Some(finished) = self.finishing.take() {
            self.emit(SessionEvent::TurnEnded(finished.end));
        }
        let mut ended = self.lease.host().server.ended();
        let crashed = why.is_none() && self.closing.is_none();
        let is_alive = self.lease.host().server.is_alive();
        self.lease.give_back(deadline).await;
        let message = match why {
            Some(why) => why.to_owned(),
            None if !crashed => CLOSED.to_owned(),
            None if is_alive => "the session took nothing any more and was cut off".to_owned(),
            None => {
                let words = ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
                words.unwrap_or_else(|| "Codex is being ended".to_owned())
            }
        };
        self.outbox.push_back(SessionEvent::Ended { message: message.clone() });
        self.ending.send_replace(Some(message));
        // Only now: a turn whose sending failed has its reason in `ending`.
        self.sending = None;
        for event in self.outbox.drain(..) {
            if self.events.send(event).await.is_err() {
                break;
            }
        }
    }
}

const CLOSED: &str = "the session was closed";

/// What became of more for a turn.
fn steered(answer: Answer) -> Result<Steered> {
    match answer {
        Ok(_) => Ok(Steered::Taken),
        Err(refusal) if refusal.message.contains("active turn") => Ok(Steered::TurnOver),
        Err(refusal) => Err(unsteered(&refusal.message)),
    }
}

fn unsteered(why: &str) -> Error {
    Error::new(Code::RuntimeProtocol, format!("Codex did not take more for its turn: {why}"))
}

/// Answers a caller, who may have gone away in the meantime.
fn tell<T>(caller: oneshot::Sender<T>, answer: T) {
    drop(caller.send(answer));
}

async fn wait_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => future::pending().await,
    }
}

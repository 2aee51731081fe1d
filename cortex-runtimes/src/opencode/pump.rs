//! The loop of a session: it alone owns the conversation and the hold on the server.
//!
//! It does what the [`Step`]s of the conversation say and what [`Command`]s ask. What it asks of the server runs beside it, so a
//! slow answer holds up neither an interrupt nor a close.

mod ending;
mod look;

use std::collections::VecDeque;
use std::future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::env::Env;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::{SessionId, TurnId};
use cortex_lib::limits::SESSION_QUEUE_MAX;
use cortex_lib::port::{SessionEvent, Turn, TurnEnd};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::OpenCodeConfig;
use super::asks::Reply;
use super::brought;
use super::http::{Fault, within};
use super::ids;
use super::map::{Conversation, Step};
use super::model::Model;
use super::outcome::failure;
use super::pool::Lease;
use super::routes::{Ears, Heard};
use super::server::QUICK_WAIT;
use super::session::Command;
use super::wire::Look;

/// How long the server may take to begin a turn. It took 0.1 s, and seconds in a folder that it was never in.
const ACCEPT_WAIT: Duration = Duration::from_mins(1);
/// The pause before the session is looked at again, while its end is in doubt.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// How long a request may wait for its arguments, which follow it at once.
const HOLD_WAIT: Duration = Duration::from_millis(500);
/// How much of the grace a turn has to end, in percent. The rest is for what the session leaves behind.
const TURN_PERCENT: u32 = 60;
/// The grace of a session that was dropped and not closed.
const DROP_GRACE: Duration = Duration::from_secs(3);
/// How often a sign of life without anything to see is passed on. Stalls are counted in minutes.
const ACTIVE_EVERY: Duration = Duration::from_secs(1);

/// What the loop starts with.
pub(super) struct Parts {
    pub(super) lease: Lease,
    pub(super) ears: Ears,
    pub(super) env: Arc<dyn Env>,
    pub(super) fixed: Fixed,
}

/// What does not change in a session.
pub(super) struct Fixed {
    pub(super) session_id: SessionId,
    /// Its name with the server.
    pub(super) native: String,
    pub(super) cwd: PathBuf,
    pub(super) agent: String,
    pub(super) model: Model,
    pub(super) instructions: Option<String>,
    /// The name of its MCP server.
    pub(super) mcp: Option<String>,
    /// The conversation is not kept.
    pub(super) fleeting: bool,
    /// How long the model may be silent.
    pub(super) silence: Duration,
    /// The configuration, where what the repository brings must not run.
    pub(super) distrusts: Option<OpenCodeConfig>,
}

/// What was asked of the server beside the loop.
type Asking = Pin<Box<dyn Future<Output = Done> + Send>>;

/// What the server answered.
enum Done {
    /// To our message of this name.
    Prompted(String, Result<Value, Fault>),
    Aborted(Result<Value, Fault>),
    Looked(Result<Look, Fault>),
    /// To an answer that was given in this turn.
    Replied(TurnId, Reply, Result<Value, Fault>),
}

/// What the loop wakes up for.
enum Happened {
    /// A command came; `None`: the session was dropped.
    Told(Option<Command>),
    /// Something is due.
    Due,
    /// The core takes another event.
    Room,
    /// The server said something.
    Heard(Heard),
    /// The server answered.
    Done(Done),
    /// The server has ended.
    Gone,
}

/// A turn that has not begun yet.
struct Sending {
    reply: oneshot::Sender<Result<()>>,
    until: Instant,
}

/// A session that ends.
#[derive(Clone, Copy)]
struct Closing {
    /// When its turn is no longer waited for.
    until: Instant,
    /// When its grace is over.
    end: Instant,
}

/// The loop's state.
pub(super) struct Pump {
    lease: Lease,
    ears: Ears,
    env: Arc<dyn Env>,
    fixed: Fixed,
    conversation: Conversation,
    asking: FuturesUnordered<Asking>,
    events: mpsc::Sender<SessionEvent>,
    /// What is still to be passed on. While it holds something, nothing is heard.
    outbox: VecDeque<SessionEvent>,
    last_active: Option<Instant>,
    /// When something of the session was heard last.
    last_heard: Instant,
    sending: Option<Sending>,
    aborting: bool,
    looking: bool,
    look_at: Option<Instant>,
    looks: u32,
    held_until: Option<Instant>,
    /// A turn that has its end, once what it left behind is gone.
    finished: Option<(TurnEnd, bool)>,
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
        let Parts { lease, ears, env, fixed } = parts;
        Self {
            conversation: Conversation::new(fixed.native.clone(), fixed.mcp.clone()),
            lease,
            ears,
            env,
            fixed,
            asking: FuturesUnordered::new(),
            events,
            outbox: VecDeque::new(),
            last_active: None,
            last_heard: Instant::now(),
            sending: None,
            aborting: false,
            looking: false,
            look_at: None,
            looks: 0,
            held_until: None,
            finished: None,
            closing: None,
            ending,
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut gone = self.lease.watch();
        loop {
            match self.next(&mut inbox, &mut gone).await {
                Happened::Told(Some(command)) => self.command(command),
                Happened::Told(None) => self.close(DROP_GRACE),
                Happened::Due => self.on_time(Instant::now()),
                Happened::Room => self.pass_on(),
                Happened::Heard(heard) => self.heard(heard),
                Happened::Done(done) => self.done(done),
                Happened::Gone => break,
            }
            self.settle().await;
            let closed = |closing: &Closing| !self.works() || closing.until <= Instant::now();
            if self.closing.as_ref().is_some_and(closed) {
                break;
            }
        }
        // Who still asks something is told that the session has ended.
        drop(inbox);
        self.finish().await;
    }

    /// Waits for the next thing. What is cut off by another loses nothing: each of them may be dropped.
    async fn next(
        &mut self,
        inbox: &mut mpsc::Receiver<Command>,
        gone: &mut watch::Receiver<Option<String>>,
    ) -> Happened {
        let wake = self.next_wake();
        let hears = self.outbox.is_empty() || self.closing.is_some();
        tokio::select! {
            biased;
            command = inbox.recv(), if self.closing.is_none() || !inbox.is_closed() => Happened::Told(command),
            () = wait_until(wake) => Happened::Due,
            _ = self.events.reserve(), if !self.outbox.is_empty() => Happened::Room,
            Some(heard) = self.ears.events.recv(), if hears => Happened::Heard(heard),
            Some(done) = self.asking.next(), if !self.asking.is_empty() => Happened::Done(done),
            _ = gone.wait_for(Option::is_some) => Happened::Gone,
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let sending = self.sending.as_ref().map(|sending| sending.until);
        let silent =
            self.conversation.waits_for_model().then(|| self.last_heard + self.fixed.silence);
        let closing = self.closing.map(|closing| closing.until);
        [sending, silent, self.look_at, self.held_until, closing].into_iter().flatten().min()
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

    fn command(&mut self, command: Command) {
        match command {
            Command::Send { turn, reply } => self.send(&turn, reply),
            Command::Interrupt { turn, reply } => {
                self.interrupt(&turn);
                tell(reply, ());
            }
            Command::Answer { request_id, answer, reply } => {
                let turn = self.conversation.turn().cloned();
                if let (Some(turn), Some(given)) =
                    (turn, self.conversation.answer(&request_id, &answer))
                {
                    self.reply(turn, given, Instant::now());
                }
                tell(reply, ());
            }
            Command::Close { grace } => self.close(grace),
        }
    }

    fn ask(&mut self, asking: impl Future<Output = Done> + Send + 'static) {
        self.asking.push(Box::pin(asking));
    }

    /// Answers a request of the agent, not before `at`.
    fn reply(&mut self, turn: TurnId, reply: Reply, at: Instant) {
        let path = within(&reply.path, &self.fixed.cwd);
        let api = self.lease.api.clone();
        self.ask(async move {
            wait_until(Some(at)).await;
            let answer = api.post(&path, &reply.body, QUICK_WAIT).await;
            Done::Replied(turn, reply, answer)
        });
    }

    fn send(&mut self, turn: &Turn, reply: oneshot::Sender<Result<()>>) {
        let busy = self.sending.is_some() || self.finished.is_some() || self.aborting;
        if busy || self.conversation.turn().is_some() {
            let error = Error::new(Code::RuntimeTurnInProgress, "OpenCode still runs a turn");
            tell(reply, Err(error));
            return;
        }
        if !self.fixed.cwd.is_dir() {
            // The server takes a prompt for a folder that is not there and never answers it.
            let message = format!("the folder {} is not there", self.fixed.cwd.display());
            tell(reply, Err(Error::new(Code::ProjectInvalidRoot, message)));
            return;
        }
        // It may have come since the last turn.
        let distrusts = self.fixed.distrusts.as_ref();
        if let Some(Err(error)) = distrusts.map(|config| brought::refuse(&self.fixed.cwd, config)) {
            tell(reply, Err(error));
            return;
        }
        self.sending = Some(Sending { reply, until: Instant::now() + ACCEPT_WAIT });
        self.looks = 0;
        self.look_at = None;
        let prompt = ids::message(&*self.env);
        // Both are named each time: what a session was made with does not count.
        let mut body = json!({
            "messageID": prompt,
            "agent": self.fixed.agent,
            "model": self.fixed.model.of_prompt(),
            "parts": [{"type": "text", "text": turn.instruction}],
        });
        if let (Some(instructions), Some(fields)) = (&self.fixed.instructions, body.as_object_mut())
        {
            fields.insert("system".to_owned(), instructions.clone().into());
        }
        self.conversation.sent(turn, prompt.clone());
        let path = self.of_session("/prompt_async");
        let api = self.lease.api.clone();
        self.ask(async move { Done::Prompted(prompt, api.post(&path, &body, ACCEPT_WAIT).await) });
    }

    fn of_session(&self, path: &str) -> String {
        let native = &self.fixed.native;
        within(&format!("/session/{native}{path}"), &self.fixed.cwd)
    }

    fn interrupt(&mut self, turn: &TurnId) {
        if self.conversation.turn() == Some(turn)
            && let Some(step) = self.conversation.interrupted()
        {
            self.step(step);
        }
    }

    fn close(&mut self, grace: Duration) {
        let now = Instant::now();
        let (until, end) = (now + grace * TURN_PERCENT / 100, now + grace);
        // A later call may only make it shorter.
        let closing = self.closing.map_or(Closing { until, end }, |earlier| Closing {
            until: earlier.until.min(until),
            end: earlier.end.min(end),
        });
        self.closing = Some(closing);
        if let Some(step) = self.conversation.interrupted() {
            self.step(step);
        }
    }

    /// Whether the server works for the session, or a turn is not quite over.
    fn works(&self) -> bool {
        self.conversation.turn().is_some() || self.finished.is_some() || self.aborting
    }

    fn heard(&mut self, heard: Heard) {
        self.last_heard = Instant::now();
        match heard {
            Heard::Told(told) => {
                let now = self.env.now();
                for step in self.conversation.take(*told, now) {
                    self.step(step);
                }
            }
            Heard::Gap => self.look(),
        }
        if self.ears.missed() {
            self.look();
        }
        self.hold();
    }

    /// Sees to it that no request waits for its arguments for ever.
    fn hold(&mut self) {
        if self.conversation.holds_asks() {
            self.held_until.get_or_insert(Instant::now() + HOLD_WAIT);
        } else {
            self.held_until = None;
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Emit(event) => self.emit(event),
            Step::Accepted => self.accepted(Ok(())),
            Step::Refused(why) => {
                let message = format!("OpenCode did not begin the turn: {why}");
                self.accepted(Err(Error::new(Code::RuntimeProtocol, message)));
            }
            Step::Abort => self.abort(),
            Step::Look => self.look_at = Some(Instant::now() + LOOK_AGAIN),
            Step::Over { end, leaves_nothing } => {
                self.look_at = None;
                self.finished = Some((end, leaves_nothing));
            }
        }
    }

    fn accepted(&mut self, begun: Result<()>) {
        self.last_heard = Instant::now();
        if let Some(sending) = self.sending.take() {
            tell(sending.reply, begun);
        }
    }

    /// Asks for the end of what runs. One request at a time is enough.
    fn abort(&mut self) {
        if self.aborting {
            return;
        }
        self.aborting = true;
        let path = self.of_session("/abort");
        let api = self.lease.api.clone();
        self.ask(async move { Done::Aborted(api.post(&path, &json!({}), QUICK_WAIT).await) });
    }

    fn done(&mut self, done: Done) {
        match done {
            // It says nothing about the turn: an event does, when it begins.
            Done::Prompted(_, Ok(_)) => {}
            Done::Prompted(prompt, Err(fault)) => {
                if self.sending.is_some() && self.conversation.prompt() == Some(&*prompt) {
                    self.conversation.unsent();
                    self.accepted(Err(self.lease.protocol("take the turn", &fault)));
                }
            }
            Done::Aborted(answer) => {
                self.aborting = false;
                if let Err(fault) = answer {
                    tracing::warn!(%fault, "OpenCode did not end a turn");
                }
                // The end of the turn is among the events, but not when nothing ran.
                if self.conversation.turn().is_some() {
                    self.look_at = Some(Instant::now() + LOOK_AGAIN);
                }
            }
            Done::Looked(seen) => {
                self.looking = false;
                self.looked(seen);
            }
            Done::Replied(_, _, Ok(_)) => {}
            Done::Replied(_, _, Err(fault @ Fault::Status { status: 404, .. })) => {
                tracing::debug!(%fault, "an answer to a request came too late");
            }
            Done::Replied(turn, reply, Err(fault)) => {
                tracing::warn!(%fault, "OpenCode did not take an answer to a request");
                // Nobody answers it a second time, so the turn would wait for ever.
                if self.conversation.turn() == Some(&turn) {
                    self.reply(turn, reply, Instant::now() + LOOK_AGAIN);
                }
            }
        }
    }

    fn on_time(&mut self, now: Instant) {
        if self.look_at.is_some_and(|at| at <= now) {
            self.look();
        }
        if self.held_until.is_some_and(|until| until <= now) {
            self.held_until = None;
            for step in self.conversation.pass_on_asks() {
                self.step(step);
            }
        }
        if self.sending.as_ref().is_some_and(|sending| sending.until <= now) {
            let seconds = ACCEPT_WAIT.as_secs();
            let message = format!("OpenCode did not begin the turn within {seconds} s");
            self.conversation.unsent();
            self.accepted(Err(Error::new(Code::RuntimeProtocol, message)));
            // It may begin yet.
            self.abort();
        }
        if self.conversation.waits_for_model() && self.last_heard + self.fixed.silence <= now {
            self.last_heard = now;
            let seconds = self.fixed.silence.as_secs();
            let why = failure(Cause::Transient, format!("the model was silent for {seconds} s"));
            for step in self.conversation.give_up(why) {
                self.step(step);
            }
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
            // A session that closes goes on, whether or not somebody takes what it says.
            SessionEvent::Output { .. }
                if self.closing.is_some() && self.outbox.len() >= SESSION_QUEUE_MAX =>
            {
                return;
            }
            _ => {}
        }
        self.outbox.push_back(event);
    }
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

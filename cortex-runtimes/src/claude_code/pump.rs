//! The loop of a session: it alone owns the process, its pipes and the conversation.
//!
//! It does what the [`Step`]s of the conversation say and what [`Command`]s ask, and never waits for one thing only: a core that
//! takes no events stops the reading, but not an interrupt or a close.

mod ending;

use std::collections::{BTreeMap, VecDeque};
use std::future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::env::Env;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::TurnId;
use cortex_lib::limits::{SESSION_QUEUE_MAX, STDERR_TAIL_BYTES_MAX};
use cortex_lib::port::{SessionEvent, Steered, Turn, TurnEnd};
use cortex_lib::process::{Lines, Owned, Tail};
use serde_json::{Value, json};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use self::ending::DRAIN_WAIT;
use super::closing::{Closing, Stage};
use super::map::{Conversation, Step};
use super::mention::literal;
use super::pipes::{buffered, next, write};
use super::session::Command;
use super::summary::one_line;
use super::wire;

/// How long after the result the CLI may take to be idle, and its background tasks to be stopped.
const IDLE_WAIT: Duration = Duration::from_secs(2);
/// How long the end of a turn that nobody asked for is waited for before ours is sent all the same.
const STRAY_WAIT: Duration = Duration::from_secs(5);
/// How long an idle CLI may take to begin with what a turn was given to go on. It took milliseconds.
const UNHEARD_WAIT: Duration = Duration::from_secs(5);
/// How long the CLI may take to begin a turn. It took 3 ms; beyond this it hangs, and its session is ended.
const ACCEPT_WAIT: Duration = Duration::from_mins(1);
/// How long the processes below the CLI may take to end after a kill.
const CLEAR_WAIT: Duration = Duration::from_secs(5);
/// How often a sign of life without anything to see is passed on. Stalls are counted in minutes.
const ACTIVE_EVERY: Duration = Duration::from_secs(1);

/// What is shown of a line that does not belong to the protocol, and of the last words of a process.
const SHOWN_CHARS_MAX: usize = 500;

/// What the loop starts with.
pub(super) struct Parts {
    pub(super) owned: Owned,
    pub(super) conversation: Conversation,
    pub(super) cwd: PathBuf,
    pub(super) home: Option<PathBuf>,
    pub(super) env: Arc<dyn Env>,
}

/// The loop's state.
pub(super) struct Pump {
    owned: Owned,
    stdin: Option<ChildStdin>,
    /// What is still to be written.
    unsent: Vec<u8>,
    conversation: Conversation,
    cwd: PathBuf,
    home: Option<PathBuf>,
    env: Arc<dyn Env>,
    events: mpsc::Sender<SessionEvent>,
    /// What is still to be passed on. While it holds something, nothing is read.
    outbox: VecDeque<SessionEvent>,
    live: bool,
    last_active: Option<Instant>,
    tail: Tail,
    requests: u64,
    /// Our control requests without an answer.
    waiting: BTreeMap<String, Waiter>,
    /// The turn whose interrupt came last before the turn itself.
    overtaken: Option<TurnId>,
    sending: Option<Sending>,
    /// When a turn with an answer no longer waits for the CLI to take up what it was given.
    unheard: Option<Instant>,
    finishing: Option<Finishing>,
    closing: Option<Closing>,
    /// Why it ended, once nothing lives.
    ending: watch::Sender<Option<String>>,
}

/// What the loop wakes up for.
enum Happened {
    /// A command came; `None`: the session was dropped.
    Told(Option<Command>),
    /// Something is due.
    Due,
    /// So many bytes were written; `None`: the pipe broke.
    Wrote(Option<usize>),
    /// The core takes another event.
    Room,
    /// A line of standard output, or its end.
    Said(Option<String>),
    /// A line of standard error, or its end.
    Complained(Option<String>),
    /// The process has ended.
    Exited,
}

/// Who waits for the answer to a control request.
enum Waiter {
    Caller(oneshot::Sender<Result<Value, String>>),
    Interrupt,
    StopTask,
    TakeBack,
}

/// A turn that the CLI has not begun yet.
struct Sending {
    /// Not written yet: a turn that nobody asked for ends first.
    unwritten: Option<Turn>,
    /// It was interrupted before it was written.
    interrupted: bool,
    reply: oneshot::Sender<Result<()>>,
    until: Instant,
}

/// A turn that has its result.
struct Finishing {
    end: TurnEnd,
    leaves_nothing: bool,
    idle: bool,
    until: Instant,
}

impl Pump {
    pub(super) fn new(
        parts: Parts,
        events: mpsc::Sender<SessionEvent>,
        ending: watch::Sender<Option<String>>,
    ) -> Self {
        Self {
            stdin: parts.owned.take_stdin(),
            unsent: Vec::new(),
            owned: parts.owned,
            conversation: parts.conversation,
            cwd: parts.cwd,
            home: parts.home,
            env: parts.env,
            events,
            outbox: VecDeque::new(),
            live: false,
            last_active: None,
            tail: Tail::new(STDERR_TAIL_BYTES_MAX),
            requests: 0,
            waiting: BTreeMap::new(),
            overtaken: None,
            sending: None,
            unheard: None,
            finishing: None,
            closing: None,
            ending,
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut stdout = self.owned.take_stdout().map(Lines::new);
        let mut stderr = self.owned.take_stderr().map(Lines::new);
        let why = self.until_over(&mut inbox, stdout.as_mut(), stderr.as_mut()).await;
        // Who still asks something is told that the session has ended.
        drop(inbox);
        self.finish(why, stdout, stderr).await;
    }

    /// Runs the session until its process has ended or must be ended. Returns what is known about why.
    async fn until_over(
        &mut self,
        inbox: &mut mpsc::Receiver<Command>,
        stdout: Option<&mut Lines<ChildStdout>>,
        stderr: Option<&mut Lines<ChildStderr>>,
    ) -> Option<&'static str> {
        let (mut stdout, mut stderr) = (stdout, stderr);
        loop {
            match self.next(inbox, &mut stdout, &mut stderr).await {
                Happened::Told(Some(command)) => self.command(command),
                Happened::Told(None) => return Some("the session was dropped"),
                Happened::Due => {
                    if let Some(why) = self.on_time(Instant::now()) {
                        return Some(why);
                    }
                    self.settle().await;
                }
                Happened::Wrote(Some(count)) => drop(self.unsent.drain(..count)),
                // The process is about to end and says more by its exit.
                Happened::Wrote(None) => self.hang_up(),
                Happened::Room => self.pass_on(),
                Happened::Said(Some(line)) => {
                    self.heard(&line).await;
                    // What was read with it needs no look at everything else, unless it leads to more than output.
                    while let Some(line) = self.reads_on().then(|| buffered(&mut stdout)).flatten()
                    {
                        self.heard(&line).await;
                    }
                }
                Happened::Said(None) => {
                    // Without its output it is of no use. An end by itself explains more.
                    drop(timeout(DRAIN_WAIT, self.owned.exited()).await);
                    return None;
                }
                Happened::Complained(Some(line)) => self.beside(&line),
                Happened::Complained(None) => stderr = None,
                Happened::Exited => return None,
            }
        }
    }

    /// Waits for the next thing. What is cut off by another loses nothing: each of them may be dropped.
    async fn next(
        &mut self,
        inbox: &mut mpsc::Receiver<Command>,
        stdout: &mut Option<&mut Lines<ChildStdout>>,
        stderr: &mut Option<&mut Lines<ChildStderr>>,
    ) -> Happened {
        let reads = self.outbox.is_empty() || self.closing.is_some();
        let wake = self.next_wake();
        tokio::select! {
            biased;
            command = inbox.recv() => Happened::Told(command),
            () = wait_until(wake) => Happened::Due,
            written = write(&mut self.stdin, &self.unsent), if !self.unsent.is_empty() => {
                Happened::Wrote(written)
            }
            _ = self.events.reserve(), if !self.outbox.is_empty() => Happened::Room,
            line = next(stdout), if reads => Happened::Said(line),
            line = next(stderr), if reads => Happened::Complained(line),
            _ = self.owned.exited() => Happened::Exited,
        }
    }

    /// Whether there is nothing to do but to read on.
    fn reads_on(&mut self) -> bool {
        self.pass_on();
        self.outbox.is_empty() && self.unsent.is_empty() && self.closing.is_none()
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
            Command::Control { request, reply } => {
                self.control(&request, Waiter::Caller(reply));
            }
            Command::Live { cost_usd } => {
                self.live = true;
                self.conversation.has_cost(cost_usd);
            }
            Command::Send { turn, reply } => self.send(turn, reply),
            Command::Steer { turn, text, reply } => tell(reply, self.steer(&turn, &text)),
            Command::Interrupt { turn, reply } => self.interrupt(&turn, reply),
            Command::Answer { request_id, answer, reply } => {
                if let Some(line) = self.conversation.answer(&request_id, &answer) {
                    self.say(&line);
                }
                tell(reply, ());
            }
            Command::Close { grace } => self.close(grace),
        }
    }

    fn say(&mut self, line: &str) {
        self.unsent.extend_from_slice(line.as_bytes());
    }

    fn hang_up(&mut self) {
        self.stdin = None;
        self.unsent.clear();
    }

    fn control(&mut self, request: &Value, waiter: Waiter) {
        self.requests += 1;
        let request_id = format!("cortex-{}", self.requests);
        self.say(&wire::request(&request_id, request));
        self.waiting.insert(request_id, waiter);
    }

    fn send(&mut self, turn: Turn, reply: oneshot::Sender<Result<()>>) {
        if self.closing.is_some() {
            // Without an answer the caller is told that the session has ended, once it has.
            return;
        }
        let busy = self.sending.is_some() || self.finishing.is_some();
        if busy || self.conversation.turn().is_some() {
            let error = Error::new(Code::RuntimeTurnInProgress, "Claude Code still runs a turn");
            tell(reply, Err(error));
            return;
        }
        let until = Instant::now() + STRAY_WAIT;
        let waits = self.conversation.is_stray();
        let interrupted = self.overtaken.take_if(|early| *early == turn.id).is_some();
        let sending = Sending { unwritten: Some(turn), interrupted, reply, until };
        self.sending = Some(sending);
        if !waits {
            self.write_turn();
        }
    }

    /// Writes the message of the turn that is being sent.
    fn write_turn(&mut self) {
        let Some(sending) = &mut self.sending else { return };
        let Some(turn) = sending.unwritten.take() else { return };
        sending.until = Instant::now() + ACCEPT_WAIT;
        let interrupted = sending.interrupted;
        let uuid = self.env.mint_v4().to_string();
        let text = literal(&turn.instruction, &self.cwd, self.home.as_deref());
        self.conversation.sent(&turn, uuid.clone());
        self.say(&wire::user(&text, &uuid));
        if interrupted {
            self.conversation.interrupted();
            self.ask_interrupt();
        }
    }

    /// Gives the turn that runs more to go on.
    fn steer(&mut self, turn: &TurnId, text: &str) -> Result<Steered> {
        if !self.conversation.takes(turn) || self.closing.is_some() {
            return Ok(Steered::TurnOver);
        }
        if self.conversation.is_mute() {
            let what = "this version of Claude Code does not tell what becomes of a message";
            return Err(Error::new(Code::RuntimeCapabilityMissing, what));
        }
        let uuid = self.env.mint_v4().to_string();
        self.say(&wire::user(&literal(text, &self.cwd, self.home.as_deref()), &uuid));
        self.conversation.gave(uuid);
        self.wait_for_hearing();
        Ok(Steered::Taken)
    }

    /// A turn with an answer, at which the CLI does nothing, goes on soon or not at all.
    fn wait_for_hearing(&mut self) {
        let waits = self.conversation.is_answered();
        self.unheard = waits.then(|| Instant::now() + UNHEARD_WAIT);
    }

    fn interrupt(&mut self, turn: &TurnId, reply: oneshot::Sender<()>) {
        if self.conversation.turn() == Some(turn) {
            self.conversation.interrupted();
            self.ask_interrupt();
        } else if let Some(sending) = &mut self.sending
            && sending.unwritten.as_ref().is_some_and(|unwritten| unwritten.id == *turn)
        {
            sending.interrupted = true;
        } else {
            self.overtaken = Some(turn.clone());
        }
        tell(reply, ());
    }

    /// Asks for the end of what runs. One request at a time is enough. What still waits would run as the next turn.
    fn ask_interrupt(&mut self) {
        self.take_back();
        if !self.waiting.values().any(|waiter| matches!(waiter, Waiter::Interrupt)) {
            self.control(&json!({"subtype": "interrupt"}), Waiter::Interrupt);
        }
    }

    fn take_back(&mut self) {
        for uuid in self.conversation.take_back() {
            let request = json!({"subtype": "cancel_async_message", "message_uuid": uuid});
            self.control(&request, Waiter::TakeBack);
        }
    }

    /// The turn is over while the CLI is idle, which it says but once.
    fn over(&mut self, over: Step) {
        self.step(over);
        self.step(Step::Idle);
    }

    fn next_wake(&self) -> Option<Instant> {
        let sending = self.sending.as_ref().map(|sending| sending.until);
        let finishing = self.finishing.as_ref().map(|finishing| finishing.until);
        let closing = self.closing.as_ref().map(Closing::until);
        [sending, finishing, closing, self.unheard].into_iter().flatten().min()
    }

    /// Does what is due. Returns why the session must be ended, if it must.
    fn on_time(&mut self, now: Instant) -> Option<&'static str> {
        if let Some(closing) = &self.closing
            && closing.until() <= now
        {
            match closing.stage {
                Stage::Interrupt => self.enter(Stage::Eof),
                Stage::Eof => self.enter(Stage::Sigint),
                Stage::Sigint => self.enter(Stage::Sigterm),
                Stage::Sigterm => return Some("the session was closed by force"),
            }
        }
        if self.unheard.take_if(|until| *until <= now).is_some() && self.conversation.is_answered()
        {
            self.take_back();
            if let Some(over) = self.conversation.answered_over() {
                self.over(over);
            }
        }
        if let Some(finishing) = &mut self.finishing
            && finishing.until <= now
        {
            finishing.idle = true;
            self.waiting.retain(|_, waiter| !matches!(waiter, Waiter::StopTask));
        }
        match &self.sending {
            Some(sending) if sending.until <= now && sending.unwritten.is_some() => {
                self.write_turn();
                None
            }
            Some(sending) if sending.until <= now => Some("Claude Code did not begin the turn"),
            _ => None,
        }
    }

    /// Takes in a line of standard output.
    async fn heard(&mut self, line: &str) {
        let message = wire::read(line);
        if matches!(message, wire::FromCli::Noise) {
            let shown = one_line(line, SHOWN_CHARS_MAX);
            let step = self.conversation.beside(&shown);
            self.step(step);
        }
        let now = self.env.now();
        for step in self.conversation.take(message, now) {
            self.step(step);
        }
        self.settle().await;
    }

    fn beside(&mut self, line: &str) {
        self.tail.push(line);
        self.tail.push("\n");
        let step = self.conversation.beside(line);
        self.step(step);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Emit(event) => self.emit(event),
            Step::Say(line) => self.say(&line),
            Step::Interrupt => self.ask_interrupt(),
            Step::Accepted => {
                if let Some(sending) = self.sending.take() {
                    tell(sending.reply, Ok(()));
                }
            }
            Step::Answered { request_id, answer } => match self.waiting.remove(&request_id) {
                Some(Waiter::Caller(reply)) => tell(reply, answer),
                Some(Waiter::TakeBack) => {
                    let taken =
                        answer.is_ok_and(|answer| answer.get("cancelled") == Some(&json!(true)));
                    if taken && let Some(over) = self.conversation.given_up() {
                        self.over(over);
                    }
                }
                Some(Waiter::Interrupt | Waiter::StopTask) | None => {}
            },
            Step::Over { end, leaves_nothing } => {
                let until = Instant::now() + IDLE_WAIT;
                self.finishing = Some(Finishing { end, leaves_nothing, idle: false, until });
                if leaves_nothing {
                    self.stop_tasks();
                }
            }
            Step::Idle => {
                if let Some(finishing) = &mut self.finishing {
                    finishing.idle = true;
                } else {
                    self.wait_for_hearing();
                    self.write_turn();
                }
            }
        }
    }

    /// Ends what the turn left in the background by request. A task that dies otherwise makes the CLI start a turn about it.
    fn stop_tasks(&mut self) {
        let tasks: Vec<_> = self.conversation.tasks().map(str::to_owned).collect();
        for task_id in tasks {
            let request = json!({"subtype": "stop_task", "task_id": task_id});
            self.control(&request, Waiter::StopTask);
        }
    }

    /// Reports the end of a turn once the CLI has let go of it, and goes on with closing.
    async fn settle(&mut self) {
        let stops = self.waiting.values().any(|waiter| matches!(waiter, Waiter::StopTask));
        if let Some(finished) = self.finishing.take_if(|finishing| finishing.idle && !stops) {
            if finished.leaves_nothing
                && timeout(CLEAR_WAIT, self.owned.end_descendants()).await.is_err()
            {
                tracing::warn!(pid = self.owned.pid(), "processes of an ended turn live on");
            }
            self.emit(SessionEvent::TurnEnded(finished.end));
        }
        let waits = |closing: &Closing| closing.stage == Stage::Interrupt;
        if self.closing.as_ref().is_some_and(waits) && !self.works() {
            self.enter(Stage::Eof);
        }
    }

    fn emit(&mut self, event: SessionEvent) {
        if !self.live {
            return;
        }
        match &event {
            SessionEvent::Active => {
                let now = Instant::now();
                if self.last_active.is_some_and(|last| now < last + ACTIVE_EVERY) {
                    return;
                }
                self.last_active = Some(now);
            }
            // A session that closes reads on, whether or not somebody takes what it says.
            SessionEvent::Output { .. } if self.outbox.len() >= SESSION_QUEUE_MAX => return,
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

//! From the CLI's messages to what happens in a session. Pure: it writes nothing, waits for nothing and
//! takes the time as an argument; the session's loop does what the [`Step`]s say.
//!
//! # Whose result is it?
//!
//! The CLI starts turns by itself when work in the background ends, and it may take a message of ours into such a
//! turn. So a result counts as ours when it names no other origin, or when the CLI took our message up since
//! we sent it. Turns that nobody asked for are ended at once: nothing runs in a session outside of a turn of the
//! core. What they used is added to the next turn, so that it is counted once.

mod more;

use std::collections::{BTreeMap, BTreeSet};

use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::usage::Usage;
use cortex_lib::ids::TurnId;
use cortex_lib::port::{OutputKind, SessionEvent, ToolAnswer, ToolRequest, Turn, TurnEnd};
use cortex_lib::time::Timestamp;
use serde_json::Value;

use self::more::Given;
use super::outcome::{self, Clues, hopeless, usage};
use super::questions::{ELICITATION, Waiting};
use super::selftest::asks;
use super::stream::Stream;
use super::summary::{SUMMARY_CHARS_MAX, one_line, summary};
use super::wire::{
    self, Answer, ApiRetry, Asked, Assistant, BackgroundTask, Block, ControlRequest, FromCli, Init,
    Sign, State, StreamLine, TurnResult, User,
};

/// How the tools of Cortex are called.
const OF_CORTEX: &str = "mcp__cortex__";

/// What the session's loop has to do.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Tell the core.
    Emit(SessionEvent),
    /// Write this line.
    Say(String),
    /// Ask the CLI to end what it runs.
    Interrupt,
    /// The turn that was sent has begun.
    Accepted,
    /// The CLI answered a control request.
    Answered {
        /// Which.
        request_id: String,
        /// What it said.
        answer: Result<Value, String>,
    },
    /// The turn has its result. It is over once the CLI is idle.
    Over {
        /// What the core is told then.
        end: TurnEnd,
        /// It ran an attempt: nothing that it started may outlive it.
        leaves_nothing: bool,
    },
    /// The CLI runs nothing and has nothing queued.
    Idle,
}

/// What is known about the conversation with one CLI.
#[derive(Debug)]
pub(super) struct Conversation {
    native: String,
    /// The tools that may be offered to the agent; `None`: any.
    offered: Option<BTreeSet<String>>,
    /// How the tools of Cortex are called, when they are there: no other server has that name then.
    of_cortex: Option<&'static str>,
    turn: Option<Current>,
    /// A turn runs that nobody asked for.
    stray: bool,
    /// The CLI runs nothing and has nothing queued.
    idle: bool,
    requests: BTreeMap<String, Waiting>,
    /// The CLI says for each message when it takes it up.
    tells: bool,
    tasks: BTreeSet<String>,
    stream: Stream,
    /// What the conversation had cost when it was last told. `None`: it goes on with an earlier one, and nobody knows.
    cost_reported: Option<f64>,
    /// What turns that nobody asked for used.
    unreported: Usage,
    odd: u64,
}

/// The turn of the core that runs.
#[derive(Debug)]
struct Current {
    id: TurnId,
    runs_attempt: bool,
    /// The name of our message in its echo.
    uuid: String,
    accepted: bool,
    /// The CLI took our message up. Known late, or not at all when no model answers.
    taken_up: bool,
    given: Given,
    clues: Clues,
}

impl Current {
    /// Somebody wants its end.
    fn ends(&self) -> bool {
        self.clues.interrupted || self.clues.ended_by_us.is_some()
    }
}

impl Conversation {
    /// A conversation by the name `native`. `offered`: all tools that the agent may be offered, when it is confined.
    pub(super) fn new(native: String, offered: Option<BTreeSet<String>>) -> Self {
        Self {
            native,
            offered,
            of_cortex: None,
            turn: None,
            stray: false,
            idle: true,
            requests: BTreeMap::new(),
            tells: false,
            tasks: BTreeSet::new(),
            stream: Stream::default(),
            cost_reported: Some(0.0),
            unreported: Usage::default(),
            odd: 0,
        }
    }

    /// Our message for `turn` is on its way.
    pub(super) fn sent(&mut self, turn: &Turn, uuid: String) {
        self.turn = Some(Current {
            id: turn.id.clone(),
            runs_attempt: turn.attempt_id.is_some(),
            uuid,
            accepted: false,
            taken_up: false,
            given: Given::default(),
            clues: Clues::default(),
        });
    }

    /// The session has the tools of Cortex.
    pub(super) fn has_cortex(&mut self) {
        self.of_cortex = Some(OF_CORTEX);
    }

    /// What the conversation has cost before its first turn here, if that is known.
    pub(super) fn has_cost(&mut self, cost_usd: Option<f64>) {
        self.cost_reported = cost_usd;
    }

    /// The turn that was sent and has no result yet.
    pub(super) fn turn(&self) -> Option<&TurnId> {
        self.turn.as_ref().map(|turn| &turn.id)
    }

    /// The CLI's name of the conversation.
    pub(super) fn native(&self) -> &str {
        &self.native
    }

    /// How many lines were not understood.
    pub(super) fn odd(&self) -> u64 {
        self.odd
    }

    /// Whether a turn runs that nobody asked for.
    pub(super) fn is_stray(&self) -> bool {
        self.stray
    }

    /// Somebody asked for the end of the turn that runs.
    pub(super) fn interrupted(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.clues.interrupted = true;
        }
    }

    /// Work in the background that still runs, by the CLI's names.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(String::as_str)
    }

    /// The line that answers a tool request; `None` when it no longer waits.
    pub(super) fn answer(&mut self, request_id: &str, answer: &ToolAnswer) -> Option<String> {
        let waiting = self.requests.remove(request_id)?;
        Some(wire::answer(request_id, &waiting.answered(answer)))
    }

    /// Takes in what the CLI said.
    pub(super) fn take(&mut self, message: FromCli, now: Timestamp) -> Vec<Step> {
        match message {
            FromCli::Init(init) => self.init(init),
            FromCli::State(state) => self.state(state),
            FromCli::Retry(retry) => self.retry(&retry, now),
            FromCli::Task(task) => self.task(&task),
            FromCli::Sign(sign) => self.sign(sign),
            FromCli::Assistant(message) => self.assistant(message),
            FromCli::Tasks(tasks) => {
                self.tasks = tasks.into_iter().collect();
                vec![active()]
            }
            FromCli::TakenUp { uuid, told } => {
                self.tells |= told;
                self.taken_up(&uuid)
            }
            FromCli::User(User { uuid: Some(uuid), is_replay: true }) => self.taken_up(&uuid),
            FromCli::User(_) => vec![active()],
            FromCli::Result(result) => self.result(*result, now),
            FromCli::Stream(line) => self.stream(line),
            FromCli::Request(request) => self.request(request),
            FromCli::Response(answer) => vec![answered(answer.response)],
            FromCli::Cancel { request_id } => self.withdraw(request_id).into_iter().collect(),
            FromCli::RateLimit(info) => {
                if let Some(turn) = &mut self.turn {
                    turn.clues.rate_limit(&info);
                }
                vec![active()]
            }
            FromCli::Unknown { what } => {
                self.odd += 1;
                tracing::debug!(
                    session = self.native,
                    what,
                    count = self.odd,
                    "a message of the CLI is not known"
                );
                vec![active()]
            }
            FromCli::Noise => {
                self.odd += 1;
                vec![active()]
            }
        }
    }

    /// Text that the CLI prints beside the protocol.
    pub(super) fn beside(&self, text: &str) -> Step {
        self.output(OutputKind::Stderr, text.to_owned())
    }

    fn output(&self, kind: OutputKind, text: String) -> Step {
        Step::Emit(SessionEvent::Output { turn_id: self.turn().cloned(), kind, text })
    }

    /// The CLI has begun to work: on our turn, or on one that nobody asked for.
    fn begun(&mut self) -> Vec<Step> {
        match &mut self.turn {
            Some(turn) if !turn.accepted => {
                turn.accepted = true;
                vec![Step::Accepted]
            }
            Some(_) => vec![active()],
            None if self.stray => vec![active()],
            None => {
                self.stray = true;
                vec![active(), Step::Interrupt]
            }
        }
    }

    /// The CLI took a message up: into a turn of its own, or into one that runs.
    fn taken_up(&mut self, uuid: &str) -> Vec<Step> {
        match &mut self.turn {
            Some(turn) if turn.uuid == uuid => {
                turn.taken_up = true;
                self.begun()
            }
            Some(turn) => {
                turn.given.waiting.remove(uuid);
                vec![active()]
            }
            None => vec![active()],
        }
    }

    fn init(&mut self, init: Init) -> Vec<Step> {
        let mut steps = self.begun();
        if !init.session_id.is_empty() && init.session_id != self.native {
            self.native.clone_from(&init.session_id);
            steps.push(Step::Emit(SessionEvent::NativeSession {
                native_session_id: init.session_id,
            }));
        }
        let refused =
            self.extra_tool(init.tools).or_else(|| self.unasked_mode(init.permission_mode));
        if let Some(why) = refused
            && let Some(turn) = &mut self.turn
        {
            turn.clues.ended_by_us = Some(outcome::failure(Cause::Refused, why));
            steps.push(Step::Interrupt);
        }
        steps
    }

    /// A confined agent that is offered more than it may use must not act: the CLI drops or adds names silently. Nor must
    /// one of which it is not known.
    fn extra_tool(&self, tools: Option<Vec<String>>) -> Option<String> {
        let offered = self.offered.as_ref()?;
        let Some(tools) = tools else {
            return Some("Claude Code does not say what it offers to a confined agent".to_owned());
        };
        let extra = tools.into_iter().find(|tool| {
            !offered.iter().any(|name| match name.strip_suffix('*') {
                Some(prefix) => tool.starts_with(prefix),
                None => tool == name,
            })
        })?;
        Some(format!("Claude Code offers the tool {extra} to an agent that must not have it"))
    }

    /// Why a turn must not go on in this mode: in another than these, tools run that nobody was asked about.
    fn unasked_mode(&self, mode: Option<String>) -> Option<String> {
        let Some(mode) = mode else {
            let what = "Claude Code does not say in which mode a confined agent works";
            return self.offered.is_some().then(|| what.to_owned());
        };
        let what = "in which it does not ask before it acts";
        (!asks(&mode)).then(|| format!("Claude Code works in the mode {mode}, {what}"))
    }

    fn state(&mut self, state: State) -> Vec<Step> {
        match state {
            State::Running => {
                self.idle = false;
                self.begun()
            }
            State::Idle => {
                self.stray = false;
                self.idle = true;
                self.given_up().into_iter().chain([Step::Idle]).collect()
            }
            State::RequiresAction | State::Other => vec![active()],
        }
    }

    fn retry(&mut self, retry: &ApiRetry, now: Timestamp) -> Vec<Step> {
        let Some(turn) = &mut self.turn else { return vec![active()] };
        if turn.clues.ended_by_us.is_some() {
            return vec![active()];
        }
        let Some(failure) = hopeless(retry, now) else { return vec![active()] };
        turn.clues.ended_by_us = Some(failure);
        vec![active(), Step::Interrupt]
    }

    fn task(&mut self, task: &BackgroundTask) -> Vec<Step> {
        if task.runs() {
            self.tasks.insert(task.task_id.clone());
        } else {
            self.tasks.remove(&task.task_id);
        }
        vec![active()]
    }

    /// A request to the model after we asked for the end: the interrupt came before there was anything to
    /// end. It is asked again; where nothing runs any more, that does nothing.
    fn sign(&mut self, sign: Sign) -> Vec<Step> {
        let ends = self.turn.as_ref().is_some_and(Current::ends);
        match sign {
            Sign::Requesting if ends || (self.stray && self.turn.is_none()) => {
                vec![active(), Step::Interrupt]
            }
            Sign::Requesting | Sign::Other => vec![active()],
        }
    }

    fn assistant(&mut self, message: Assistant) -> Vec<Step> {
        let own = message.parent_tool_use_id.is_none();
        if own
            && message.error.is_some()
            && let Some(turn) = &mut self.turn
        {
            turn.clues.error = message.error;
        }
        let streamed = self.stream.has_shown(&message.message.id);
        let synthetic = message.message.model.as_deref() == Some("<synthetic>");
        if own && !streamed && !synthetic {
            // The CLI fell back to an answer in one piece.
            self.stream.starts_over();
        }
        let mut steps = vec![active()];
        for block in message.message.content {
            let (kind, text) = match block {
                Block::ToolUse { name, input } => (OutputKind::Tool, summary(&name, &input)),
                // What a sub-agent says is for the agent that asked it.
                Block::Text { text } if own && !streamed => (OutputKind::Text, text),
                Block::Thinking { thinking } if own && !streamed => {
                    (OutputKind::Thinking, thinking)
                }
                Block::Text { .. } | Block::Thinking { .. } | Block::Other => continue,
            };
            steps.extend(self.flush());
            steps.extend(text.lines().map(|line| self.output(kind, line.to_owned())));
        }
        steps
    }

    fn stream(&mut self, line: StreamLine) -> Vec<Step> {
        if line.parent_tool_use_id.is_some() {
            return vec![active()];
        }
        let lines = self.stream.take(line.event).into_iter();
        let shown = lines.map(|(kind, text)| self.output(kind, text));
        shown.chain([active()]).collect()
    }

    /// The line that is not complete yet, shown as it is.
    fn flush(&mut self) -> Option<Step> {
        let (kind, text) = self.stream.flush()?;
        Some(self.output(kind, text))
    }

    fn request(&mut self, ControlRequest { request_id, request }: ControlRequest) -> Vec<Step> {
        let (tool, summary, input, waiting) = match request {
            Asked::CanUseTool { tool_name, input } => {
                let waiting = Waiting::tool(&tool_name, input.clone());
                (tool_name.clone(), summary(&tool_name, &input), input, waiting)
            }
            Asked::Elicitation(asked) => {
                let line = format!("{} asks: {}", asked.mcp_server_name, asked.message);
                let waiting = Waiting::elicitation(&asked);
                (ELICITATION.to_owned(), one_line(&line, SUMMARY_CHARS_MAX), asked.input(), waiting)
            }
            Asked::Other => return vec![Step::Say(wire::unsupported(&request_id))],
        };
        let ends = self.turn.as_ref().is_none_or(Current::ends);
        if ends {
            return vec![Step::Say(waiting.refused(&request_id))];
        }
        if self.of_cortex.is_some_and(|prefix| tool.starts_with(prefix)) {
            // Cortex itself decides what its tools do. It asks here only because a rule makes all servers ask.
            let allow = waiting.answered(&ToolAnswer::Allow);
            return vec![active(), Step::Say(wire::answer(&request_id, &allow))];
        }
        let mut steps: Vec<Step> = self.flush().into_iter().collect();
        steps.push(Step::Emit(SessionEvent::ToolRequest(ToolRequest {
            request_id: request_id.clone(),
            turn_id: self.turn().cloned(),
            of_cortex: None,
            summary,
            tool,
            input,
            questions: waiting.questions(),
        })));
        self.requests.insert(request_id, waiting);
        steps
    }

    fn withdraw(&mut self, request_id: String) -> Option<Step> {
        self.requests.remove(&request_id)?;
        Some(Step::Emit(SessionEvent::ToolRequestWithdrawn { request_id }))
    }

    fn result(&mut self, result: TurnResult, now: Timestamp) -> Vec<Step> {
        let total = result.total_cost_usd.or(self.cost_reported);
        let cost = total.zip(self.cost_reported).map(|(total, before)| total - before);
        let used = usage(result.usage, cost);
        self.cost_reported = total;
        let used = std::mem::take(&mut self.unreported).plus(used);
        let foreign = result.origin.as_ref().is_some_and(|origin| origin.kind != "human");
        let ours = |turn: &Current| !foreign || turn.taken_up;
        if self.turn.as_ref().is_some_and(|turn| ours(turn) && turn.goes_on()) {
            return self.go_on(result, used, now);
        }
        let ours = self.turn.take_if(|turn| ours(turn));
        let Some(mut turn) = ours else {
            self.unreported = used;
            self.stray = false;
            // Its last line must not be taken for the first of ours.
            self.stream = Stream::default();
            return vec![active()];
        };
        self.stray = false;
        let mut steps: Vec<Step> = Vec::new();
        if !turn.accepted {
            steps.push(Step::Accepted);
        }
        // Output belongs to the turn: it is shown before its end.
        let turn_id = turn.id.clone();
        if let Some((kind, text)) = self.stream.flush() {
            let turn_id = Some(turn_id.clone());
            steps.push(Step::Emit(SessionEvent::Output { turn_id, kind, text }));
        }
        for request_id in std::mem::take(&mut self.requests).into_keys() {
            steps.push(Step::Emit(SessionEvent::ToolRequestWithdrawn { request_id }));
        }
        turn.clues.cut = std::mem::take(&mut self.stream).is_open();
        let outcome = turn.clues.outcome(result, now);
        let end = TurnEnd { turn_id, outcome, usage: used };
        steps.push(Step::Over { end, leaves_nothing: turn.runs_attempt });
        steps
    }
}

fn active() -> Step {
    Step::Emit(SessionEvent::Active)
}

fn answered(answer: Answer) -> Step {
    let Answer { subtype, request_id, response, error } = answer;
    let answer = match subtype.as_str() {
        "success" => Ok(response),
        _ => Err(error.unwrap_or_else(|| "no reason given".to_owned())),
    };
    Step::Answered { request_id, answer }
}

#[cfg(test)]
mod tests;

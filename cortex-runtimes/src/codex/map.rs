//! From the CLI's messages to what happens in a session. Pure: it writes nothing, waits for nothing and takes the time
//! as an argument; the session's loop does what the [`Step`]s say.
//!
//! # Whose turn is it?
//!
//! Each turn has a name of the CLI's own, which the answer to our request tells. What is told about a turn of
//! another name is not ours: a turn that nobody asked for is ended at once, and what a command of an earlier
//! turn still says is only a sign of life. `turn/completed` is the only end of a turn.

use std::collections::BTreeMap;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::ids::TurnId;
use cortex_lib::port::{OutputKind, SessionEvent, ToolAnswer, Turn, TurnEnd, TurnOutcome};
use cortex_lib::time::Timestamp;
use serde_json::Value;

use super::ask::{self, Asked, Known};
use super::outcome::{self, Clues, Meter};
use super::stream::Stream;
use super::summary;
use super::wire::{self, FromCli, Item, RateLimits, shape, text};

/// What the session's loop has to do.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Tell the core.
    Emit(SessionEvent),
    /// Write this line.
    Say(String),
    /// The CLI works on our turn: it can be interrupted and given more from now on.
    Begun,
    /// Ask the CLI to end the turn of this name.
    Interrupt(String),
    /// The turn is over for the CLI.
    Over {
        /// What the core is told once nothing of the turn lives.
        end: TurnEnd,
        /// Nothing that it started may outlive it: it ran an attempt, or it was broken off.
        leaves_nothing: bool,
    },
    /// The CLI has let go of the thread.
    Closed,
}

/// What an agent that is confined may be seen to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confined {
    /// The tools of Cortex and no others.
    ToCortex,
    /// Commands that read, in a sandbox that lets them do no more, and the tools of Cortex.
    ToReading,
}

/// What is known about one thread of the CLI.
#[derive(Debug)]
pub(super) struct Conversation {
    thread: String,
    confined: Option<Confined>,
    /// The MCP server with the tools of Cortex, when the session has them.
    own: Option<String>,
    turn: Option<Current>,
    requests: BTreeMap<String, Asked>,
    /// What the items of the turn that have begun do, by their names.
    items: BTreeMap<String, Option<Value>>,
    stream: Stream,
    meter: Meter,
    limits: RateLimits,
    unknown: u64,
}

/// The turn of the core that runs.
#[derive(Debug)]
struct Current {
    id: TurnId,
    runs_attempt: bool,
    /// The CLI's name of it, once it has told.
    native: Option<String>,
    begun: bool,
    clues: Clues,
}

impl Conversation {
    /// The conversation in this thread. `confined`: how far the agent is; `own`: the MCP server with the tools of Cortex,
    /// when it has them.
    pub(super) fn new(thread: String, confined: Option<Confined>, own: Option<String>) -> Self {
        Self {
            thread,
            confined,
            own,
            turn: None,
            requests: BTreeMap::new(),
            items: BTreeMap::new(),
            stream: Stream::default(),
            meter: Meter::default(),
            limits: RateLimits::default(),
            unknown: 0,
        }
    }

    /// The CLI's name of the thread.
    pub(super) fn thread(&self) -> &str {
        &self.thread
    }

    /// Our request for `turn` is on its way.
    pub(super) fn sent(&mut self, turn: &Turn) {
        self.turn = Some(Current {
            id: turn.id.clone(),
            runs_attempt: turn.attempt_id.is_some(),
            native: None,
            begun: false,
            clues: Clues::default(),
        });
    }

    /// The CLI has taken the turn and calls it so.
    pub(super) fn accepted(&mut self, native: String) {
        if let Some(turn) = &mut self.turn {
            turn.native = Some(native);
        }
    }

    /// The CLI has not taken the turn.
    pub(super) fn refused(&mut self) {
        self.turn = None;
    }

    /// The turn that was sent and is not over.
    pub(super) fn turn(&self) -> Option<&TurnId> {
        self.turn.as_ref().map(|turn| &turn.id)
    }

    /// The CLI's name of the turn that it works on. Before that it can neither be interrupted nor be given more.
    pub(super) fn working(&self) -> Option<&str> {
        self.turn.as_ref().filter(|turn| turn.begun)?.native.as_deref()
    }

    /// Somebody asked for the end of the turn that runs.
    pub(super) fn interrupted(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.clues.interrupted = true;
        }
    }

    /// Whether the turn that runs is to end.
    pub(super) fn ends(&self) -> bool {
        let clues = self.turn.as_ref().map(|turn| &turn.clues);
        clues.is_some_and(|clues| clues.interrupted || clues.ended_by_us.is_some())
    }

    /// The line that answers a tool request; `None` when it no longer waits.
    pub(super) fn answer(&mut self, request_id: &str, answer: &ToolAnswer) -> Option<String> {
        self.requests.remove(request_id).map(|asked| asked.answer(answer))
    }

    /// Takes in what the CLI said about this thread, or about the account.
    pub(super) fn take(&mut self, said: FromCli, now: Timestamp) -> Vec<Step> {
        match said {
            FromCli::Request { id, method, params } => self.request(&id, &method, &params),
            FromCli::Note { method, params } => self.note(&method, params, now),
            FromCli::Answer { .. } | FromCli::Noise => vec![active()],
        }
    }

    fn note(&mut self, method: &str, params: Value, now: Timestamp) -> Vec<Step> {
        match method {
            "turn/started" => self.started(&part(params, "turn")),
            "turn/completed" => self.completed(part(params, "turn"), now),
            "item/started" => self.item(&params, Moment::Began),
            "item/completed" => self.item(&params, Moment::Ended),
            "item/agentMessage/delta" => self.delta(OutputKind::Text, &params),
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                self.delta(OutputKind::Thinking, &params)
            }
            "thread/tokenUsage/updated" => {
                let native = text(&params, "/turnId").unwrap_or_default();
                self.meter.told(part(params, "tokenUsage"), self.is_ours(&native));
                vec![active()]
            }
            "account/rateLimits/updated" => {
                self.limits = part(params, "rateLimits");
                Vec::new()
            }
            "error" => self.error(params),
            "serverRequest/resolved" => {
                let id = params.get("requestId").map(ask::name).unwrap_or_default();
                self.withdraw(id).into_iter().collect()
            }
            wire::THREAD_CLOSED => vec![Step::Closed],
            _ => {
                if !KNOWN.contains(&method) {
                    self.unknown += 1;
                    let (thread, count) = (&self.thread, self.unknown);
                    tracing::debug!(thread, method, count, "a notification of Codex is not known");
                }
                vec![active()]
            }
        }
    }

    /// Whether something is about the turn that runs.
    fn is_ours(&self, native: &str) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.native.as_deref() == Some(native))
    }

    fn started(&mut self, told: &wire::Turn) -> Vec<Step> {
        // Without a name it is nobody's, and an interrupt without one ends whatever runs.
        if told.id.is_empty() {
            return vec![active()];
        }
        // It may be told before our request is answered. A turn that began by itself meanwhile is ours too: the CLI
        // takes what we sent into it.
        let ours = self
            .turn
            .as_mut()
            .filter(|turn| turn.native.as_ref().is_none_or(|native| *native == told.id));
        let Some(turn) = ours else {
            return vec![active(), Step::Interrupt(told.id.clone())];
        };
        turn.native = Some(told.id.clone());
        turn.begun = true;
        vec![active(), Step::Begun]
    }

    fn completed(&mut self, told: wire::Turn, now: Timestamp) -> Vec<Step> {
        if !self.is_ours(&told.id) {
            return vec![active()];
        }
        let Some(turn) = self.turn.take() else { return vec![active()] };
        let turn_id = turn.id;
        // Output belongs to the turn: it is shown before its end.
        let rest = std::mem::take(&mut self.stream).flush();
        let mut steps: Vec<Step> = rest
            .into_iter()
            .map(|(kind, text)| output(Some(turn_id.clone()), kind, text))
            .collect();
        // What began and never ended gets no end of its own.
        self.items.clear();
        for request_id in std::mem::take(&mut self.requests).into_keys() {
            steps.push(Step::Emit(SessionEvent::ToolRequestWithdrawn { request_id }));
        }
        let usage = self.meter.turn();
        let outcome = turn.clues.outcome(told, usage, &self.limits, now);
        let leaves_nothing = turn.runs_attempt || !matches!(outcome, TurnOutcome::Succeeded { .. });
        steps.push(Step::Over { end: TurnEnd { turn_id, outcome, usage }, leaves_nothing });
        steps
    }

    fn item(&mut self, params: &Value, moment: Moment) -> Vec<Step> {
        let native = text(params, "/turnId").unwrap_or_default();
        let item: Item = part(params.clone(), "item");
        if !self.is_ours(&native) {
            return vec![active()];
        }
        let mut steps = vec![active()];
        let first = !self.items.contains_key(&item.id);
        if first && let Some(line) = summary::item(&item.kind, &item.rest) {
            steps.extend(self.rest());
            steps.push(self.output(OutputKind::Tool, line));
        }
        steps.extend(self.check(&item));
        if moment == Moment::Began {
            self.items.insert(item.id, item.rest.get("changes").cloned());
            return steps;
        }
        self.items.remove(&item.id);
        if item.kind == "agentMessage" {
            steps.extend(self.said(&item));
        }
        steps
    }

    /// A message of the agent is whole.
    fn said(&mut self, item: &Item) -> Vec<Step> {
        let streamed = self.stream.had(&item.id);
        let mut steps = self.rest();
        if !streamed {
            let lines =
                item.text.lines().map(|line| self.output(OutputKind::Text, line.to_owned()));
            steps.extend(lines.collect::<Vec<_>>());
        }
        if let Some(turn) = &mut self.turn {
            turn.clues.answer = Some(item.text.clone());
        }
        steps
    }

    /// A confined agent that uses what it must not have is stopped, whatever the CLI would have made of it.
    fn check(&mut self, item: &Item) -> Option<Step> {
        let confined = self.confined?;
        let server = item.rest.get("server").and_then(Value::as_str);
        let of_cortex = server.is_some() && server == self.own.as_deref();
        let may = match item.kind.as_str() {
            "userMessage" | "agentMessage" | "reasoning" | "plan" | "contextCompaction"
            | "functionCallOutput" => true,
            "mcpToolCall" => of_cortex,
            "commandExecution" | "imageView" => confined == Confined::ToReading,
            _ => false,
        };
        let turn = self.turn.as_mut().filter(|_| !may)?;
        let what = &item.kind;
        let message = format!("Codex used {what} for an agent that must not have it");
        turn.clues.ended_by_us = Some(outcome::failure(Cause::Refused, message));
        turn.native.clone().map(Step::Interrupt)
    }

    fn delta(&mut self, kind: OutputKind, params: &Value) -> Vec<Step> {
        let native = text(params, "/turnId").unwrap_or_default();
        let (item, delta) = (text(params, "/itemId"), text(params, "/delta"));
        let (Some(item), Some(delta), true) = (item, delta, self.is_ours(&native)) else {
            return vec![active()];
        };
        let lines = self.stream.piece(kind, &item, &delta);
        let shown = lines.into_iter().map(|(kind, line)| self.output(kind, line));
        [active()].into_iter().chain(shown).collect()
    }

    /// Something went wrong on the way. With `willRetry` the CLI goes on by itself.
    fn error(&mut self, params: Value) -> Vec<Step> {
        let error: wire::TurnError = part(params, "error");
        let line = self.output(OutputKind::Stderr, outcome::message(&error));
        if let Some(turn) = &mut self.turn {
            turn.clues.error = Some(error);
        }
        vec![active(), line]
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) -> Vec<Step> {
        let item = text(params, "/itemId").unwrap_or_default();
        let changes = self.items.get(&item).and_then(Option::as_ref);
        let known = Known { changes, own: self.own.as_deref() };
        let read = ask::read(id, method, params, known, self.turn().cloned());
        let Some((asked, request)) = read else {
            return vec![Step::Say(wire::refuse(id, method))];
        };
        let foreign = text(params, "/turnId").is_some_and(|native| !self.is_ours(&native));
        if foreign || self.turn.is_none() || self.ends() {
            let reason = "The turn is being ended.".to_owned();
            return vec![Step::Say(asked.answer(&ToolAnswer::Deny { reason }))];
        }
        let mut steps = self.rest();
        self.requests.insert(request.request_id.clone(), asked);
        steps.push(Step::Emit(SessionEvent::ToolRequest(request)));
        steps
    }

    fn withdraw(&mut self, request_id: String) -> Option<Step> {
        self.requests.remove(&request_id)?;
        Some(Step::Emit(SessionEvent::ToolRequestWithdrawn { request_id }))
    }

    /// The line that is not complete yet, shown as it is.
    fn rest(&mut self) -> Vec<Step> {
        let rest = self.stream.flush();
        rest.into_iter().map(|(kind, line)| self.output(kind, line)).collect()
    }

    fn output(&self, kind: OutputKind, text: String) -> Step {
        output(self.turn().cloned(), kind, text)
    }
}

/// Which end of an item was told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Began,
    Ended,
}

/// What is told and needs nothing done.
const KNOWN: [&str; 15] = [
    "thread/started",
    "thread/status/changed",
    "thread/readState/changed",
    "thread/settings/updated",
    "thread/name/updated",
    "turn/diff/updated",
    "turn/plan/updated",
    "item/commandExecution/outputDelta",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/reasoning/summaryPartAdded",
    "item/mcpToolCall/progress",
    "mcpServer/startupStatus/updated",
    "warning",
];

fn part<T: serde::de::DeserializeOwned + Default>(mut params: Value, name: &str) -> T {
    shape(params.get_mut(name).map(Value::take).unwrap_or_default())
}

fn output(turn_id: Option<TurnId>, kind: OutputKind, text: String) -> Step {
    Step::Emit(SessionEvent::Output { turn_id, kind, text })
}

fn active() -> Step {
    Step::Emit(SessionEvent::Active)
}

#[cfg(test)]
mod tests;

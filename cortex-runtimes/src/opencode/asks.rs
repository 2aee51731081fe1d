//! What the agent asks for: leave to use a tool, or an answer of its user. Pure.

use std::collections::{BTreeMap, BTreeSet};

use cortex_lib::ids::TurnId;
use cortex_lib::port::{Choice, Question, SessionEvent, ToolAnswer, ToolRequest};
use serde_json::{Value, json};

use super::map::{Call, Step};
use super::summary::summary;
use super::wire::{Permission, Questions};
use crate::line::one_line;

/// Requests that are known not to wait any more. The server still lists those that were never answered.
const OVER_MAX: usize = 1024;
/// Longest summary of what is no tool.
const SUMMARY_CHARS_MAX: usize = 300;

/// What waits for an answer.
#[derive(Debug)]
pub(super) struct Asks {
    /// The name of the session's MCP server.
    mcp: Option<String>,
    waiting: BTreeMap<String, Kind>,
    /// Requests whose arguments are still to come: the event with them follows at once.
    held: Vec<Permission>,
    /// Requests of turns that are over stay with the server for ever: they are known and dropped.
    over: BTreeSet<String>,
}

#[derive(Debug)]
enum Kind {
    Permission,
    /// With the number of questions.
    Questions(usize),
}

/// What is asked of the server.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    pub(super) path: String,
    pub(super) body: Value,
}

impl Asks {
    pub(super) fn new(mcp: Option<String>) -> Self {
        Self { mcp, waiting: BTreeMap::new(), held: Vec::new(), over: BTreeSet::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty()
    }

    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn permission(
        &mut self,
        permission: Permission,
        calls: &BTreeMap<String, Call>,
        turn: Option<&TurnId>,
    ) -> Vec<Step> {
        if self.is_known(&permission.id) {
            return Vec::new();
        }
        self.held.push(permission);
        self.informed(calls, turn)
    }

    /// Passes on the requests whose calls are known by now.
    pub(super) fn informed(
        &mut self,
        calls: &BTreeMap<String, Call>,
        turn: Option<&TurnId>,
    ) -> Vec<Step> {
        let knows = |held: &Permission| {
            held.tool.as_ref().is_none_or(|tool| calls.contains_key(&tool.call))
        };
        let (known, held) = std::mem::take(&mut self.held).into_iter().partition(knows);
        self.held = held;
        self.ask(known, calls, turn)
    }

    /// Passes on what is still held.
    pub(super) fn overdue(
        &mut self,
        calls: &BTreeMap<String, Call>,
        turn: Option<&TurnId>,
    ) -> Vec<Step> {
        let held = std::mem::take(&mut self.held);
        self.ask(held, calls, turn)
    }

    fn ask(
        &mut self,
        permissions: Vec<Permission>,
        calls: &BTreeMap<String, Call>,
        turn: Option<&TurnId>,
    ) -> Vec<Step> {
        permissions
            .into_iter()
            .map(|permission| {
                self.waiting.insert(permission.id.clone(), Kind::Permission);
                let call = permission.tool.as_ref().and_then(|tool| calls.get(&tool.call));
                let request = self.request(&permission, call, turn);
                Step::Emit(SessionEvent::ToolRequest(request))
            })
            .collect()
    }

    fn request(
        &self,
        permission: &Permission,
        call: Option<&Call>,
        turn: Option<&TurnId>,
    ) -> ToolRequest {
        let asked = permission.what.as_str();
        // Not for a tool, but for what it is about to do: leave the folder, or repeat itself.
        let beside = matches!(asked, "external_directory" | "doom_loop");
        let (tool, input) = match call {
            Some(call) if !beside => (call.tool.clone(), call.input.clone()),
            Some(call) => {
                let input = json!({"tool": call.tool, "input": call.input, "patterns": permission.patterns});
                (asked.to_owned(), input)
            }
            None => (asked.to_owned(), permission.metadata.clone()),
        };
        let summary = match call {
            Some(call) if beside => {
                let what = summary(&call.tool, &call.input);
                let patterns = permission.patterns.join(", ");
                one_line(&format!("{asked}: {patterns} ({what})"), SUMMARY_CHARS_MAX)
            }
            _ => summary(&tool, &input),
        };
        let of_cortex = self
            .mcp
            .as_ref()
            .and_then(|mcp| tool.strip_prefix(mcp.as_str())?.strip_prefix('_'))
            .map(str::to_owned);
        ToolRequest {
            request_id: permission.id.clone(),
            turn_id: turn.cloned(),
            tool,
            summary,
            input,
            questions: Vec::new(),
            of_cortex,
        }
    }

    pub(super) fn questions(&mut self, asked: Questions, turn: Option<&TurnId>) -> Option<Step> {
        if self.is_known(&asked.id) || asked.all.is_empty() {
            return None;
        }
        self.waiting.insert(asked.id.clone(), Kind::Questions(asked.all.len()));
        let texts: Vec<&str> = asked.all.iter().map(|one| one.text.as_str()).collect();
        let summary = one_line(&texts.join(" "), SUMMARY_CHARS_MAX);
        let input = json!({"questions": texts});
        let questions = asked.all.into_iter().enumerate().map(|(number, one)| Question {
            id: number.to_string(),
            text: one.text,
            choices: one
                .options
                .into_iter()
                .map(|option| Choice {
                    label: option.label,
                    description: option.description.filter(|text| !text.is_empty()),
                })
                .collect(),
            multiple: one.multiple.unwrap_or(false),
            free_text: one.custom.unwrap_or(true),
        });
        Some(Step::Emit(SessionEvent::ToolRequest(ToolRequest {
            request_id: asked.id,
            turn_id: turn.cloned(),
            tool: "question".to_owned(),
            summary,
            input,
            questions: questions.collect(),
            of_cortex: None,
        })))
    }

    /// A request no longer waits: it was answered, by us or by somebody else who is connected to the server.
    pub(super) fn settled(&mut self, request: &str) -> Option<Step> {
        self.held.retain(|held| held.id != request);
        self.waiting.remove(request).map(|_| withdrawn(request.to_owned()))
    }

    /// Nothing waits any more.
    pub(super) fn withdraw(&mut self) -> Vec<Step> {
        for held in std::mem::take(&mut self.held) {
            self.ended(held.id);
        }
        let waiting = std::mem::take(&mut self.waiting).into_keys();
        let steps = waiting.map(|id| {
            self.ended(id.clone());
            withdrawn(id)
        });
        steps.collect()
    }

    fn ended(&mut self, id: String) {
        self.over.insert(id);
        // Names are in the order of time.
        if self.over.len() > OVER_MAX {
            self.over.pop_first();
        }
    }

    /// What is asked of the server for an answer.
    pub(super) fn answer(&mut self, request_id: &str, answer: &ToolAnswer) -> Option<Reply> {
        let kind = self.waiting.remove(request_id)?;
        // What the server still lists until it has heard of it.
        self.ended(request_id.to_owned());
        Some(match kind {
            Kind::Permission => {
                let body = match answer {
                    ToolAnswer::Allow => json!({"reply": "once"}),
                    // Without a text the turn would end here.
                    ToolAnswer::Deny { reason } => {
                        json!({"reply": "reject", "message": text(reason)})
                    }
                    ToolAnswer::Answers(_) => {
                        json!({"reply": "reject", "message": "This was no question."})
                    }
                };
                Reply { path: format!("/permission/{request_id}/reply"), body }
            }
            Kind::Questions(count) => {
                let answers: Vec<Vec<String>> = (0..count)
                    .map(|number| match answer {
                        ToolAnswer::Answers(answers) => {
                            answers.get(&number.to_string()).cloned().unwrap_or_default()
                        }
                        // A rejection would end the turn and could not say why.
                        ToolAnswer::Deny { reason } => {
                            vec![format!("(no answer: {})", text(reason))]
                        }
                        ToolAnswer::Allow => vec!["(no answer)".to_owned()],
                    })
                    .collect();
                let path = format!("/question/{request_id}/reply");
                Reply { path, body: json!({"answers": answers}) }
            }
        })
    }

    fn is_known(&self, id: &str) -> bool {
        self.waiting.contains_key(id)
            || self.over.contains(id)
            || self.held.iter().any(|held| held.id == id)
    }
}

fn text(reason: &str) -> &str {
    if reason.trim().is_empty() { "It is not allowed." } else { reason }
}

fn withdrawn(request_id: String) -> Step {
    Step::Emit(SessionEvent::ToolRequestWithdrawn { request_id })
}

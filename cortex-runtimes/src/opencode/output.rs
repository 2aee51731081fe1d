//! What the agent says, put together to lines, and its text at the end. Pure.

use std::collections::BTreeMap;

use cortex_lib::ids::TurnId;
use cortex_lib::port::OutputKind;

use super::map::{Step, output};
use super::wire::{Delta, Part};

/// The output of one turn.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Parts of the messages of the model, by name.
    parts: BTreeMap<String, Said>,
    /// The message that is the last one.
    message: String,
    line: String,
    kind: Option<OutputKind>,
    /// Tools ran.
    pub(super) tools: bool,
}

#[derive(Debug)]
struct Said {
    message: String,
    kind: OutputKind,
    /// It came in pieces: the whole is not shown again.
    streamed: bool,
    shown: bool,
    text: String,
}

impl Output {
    /// A message of the model began. What the ones before it said is no result.
    pub(super) fn message(&mut self, id: &str, turn: Option<&TurnId>) -> Option<Step> {
        self.message.clear();
        self.message.push_str(id);
        let said = self.flush(turn);
        for part in self.parts.values_mut().filter(|part| part.message != id) {
            part.text = String::new();
        }
        said
    }

    /// A part of a message: its text counts when it is whole.
    pub(super) fn part(&mut self, part: &Part, turn: Option<&TurnId>) -> Vec<Step> {
        let kind = match part.kind.as_str() {
            "text" => OutputKind::Text,
            "reasoning" => OutputKind::Thinking,
            _ => return Vec::new(),
        };
        if part.message != self.message {
            // Our own message, or one that is over.
            return Vec::new();
        }
        let said = self.parts.entry(part.id.clone()).or_insert_with(|| Said {
            message: part.message.clone(),
            kind,
            streamed: false,
            shown: false,
            text: String::new(),
        });
        let text = part.text.clone().unwrap_or_default();
        if kind == OutputKind::Text {
            said.text.clone_from(&text);
        }
        let whole = part.time.as_ref().is_some_and(|time| time.get("end").is_some());
        if !whole || said.shown {
            return Vec::new();
        }
        said.shown = true;
        if said.streamed {
            return self.flush(turn).into_iter().collect();
        }
        let mut steps: Vec<Step> = self.flush(turn).into_iter().collect();
        steps.extend(text.lines().map(|line| output(turn, kind, line.to_owned())));
        steps
    }

    /// A piece of a part: every line is shown when it is complete.
    pub(super) fn delta(&mut self, delta: &Delta, turn: Option<&TurnId>) -> Vec<Step> {
        let Some(said) = self.parts.get_mut(&delta.part).filter(|_| delta.field == "text") else {
            return Vec::new();
        };
        if said.message != delta.message || said.shown {
            return Vec::new();
        }
        said.streamed = true;
        let kind = said.kind;
        let mut steps = Vec::new();
        if self.kind.is_some_and(|before| before != kind) {
            steps.extend(self.flush(turn));
        }
        self.kind = Some(kind);
        let mut pieces = delta.text.split('\n');
        self.line.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let line = std::mem::replace(&mut self.line, piece.to_owned());
            steps.push(output(turn, kind, line.trim_end_matches('\r').to_owned()));
        }
        steps
    }

    /// The line that is not complete yet, shown as it is.
    pub(super) fn flush(&mut self, turn: Option<&TurnId>) -> Option<Step> {
        let kind = self.kind.take()?;
        let line = std::mem::take(&mut self.line);
        (!line.is_empty()).then(|| output(turn, kind, line))
    }

    /// What the last message says. Its parts are named in their order.
    pub(super) fn text(&self) -> String {
        let parts = self.parts.values().filter(|part| part.message == self.message);
        let texts: Vec<&str> =
            parts.map(|part| part.text.as_str()).filter(|text| !text.is_empty()).collect();
        texts.join("\n\n")
    }
}

//! The model's stream, put together to lines. Every line is shown when it is complete.

use std::collections::BTreeSet;

use cortex_lib::port::OutputKind;

use super::wire::{StreamEvent, StreamKind};

/// A line to show.
type Shown = (OutputKind, String);

/// What came of the model's answer so far.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Messages whose text came in pieces: their whole blocks are not shown again.
    messages: BTreeSet<String>,
    line: String,
    kind: Option<OutputKind>,
    /// A message began and its end did not come yet.
    open: bool,
}

impl Stream {
    /// Takes in an event of it.
    pub(super) fn take(&mut self, event: StreamEvent) -> Vec<Shown> {
        let StreamEvent { kind, message, delta } = event;
        match kind {
            StreamKind::MessageStart => {
                let rest = self.flush();
                self.messages.insert(message.id);
                self.open = true;
                rest.into_iter().collect()
            }
            StreamKind::ContentBlockDelta => match (delta.text, delta.thinking) {
                (Some(text), _) => self.piece(OutputKind::Text, &text),
                (None, Some(text)) => self.piece(OutputKind::Thinking, &text),
                (None, None) => Vec::new(),
            },
            StreamKind::ContentBlockStop => self.flush().into_iter().collect(),
            StreamKind::MessageDelta => {
                // The late end of a stream that broke off gives no reason.
                self.open &= delta.stop_reason.is_none();
                Vec::new()
            }
            StreamKind::Other => Vec::new(),
        }
    }

    /// The line that is not complete yet.
    pub(super) fn flush(&mut self) -> Option<Shown> {
        let kind = self.kind.take()?;
        let line = std::mem::take(&mut self.line);
        (!line.is_empty()).then_some((kind, line))
    }

    /// Whether the text of this message came in pieces.
    pub(super) fn has_shown(&self, message: &str) -> bool {
        self.messages.contains(message)
    }

    /// The answer comes again, in one piece.
    pub(super) fn starts_over(&mut self) {
        self.open = false;
    }

    /// Whether a message began whose end never came.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    fn piece(&mut self, kind: OutputKind, text: &str) -> Vec<Shown> {
        let mut lines = Vec::new();
        if self.kind.is_some_and(|before| before != kind) {
            lines.extend(self.flush());
        }
        self.kind = Some(kind);
        let mut parts = text.split('\n');
        self.line.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let line = std::mem::replace(&mut self.line, part.to_owned());
            lines.push((kind, line.trim_end_matches('\r').to_owned()));
        }
        lines
    }
}

//! The model's stream, put together to lines. Pure.

use std::collections::BTreeSet;

use cortex_lib::port::OutputKind;

/// A line that came in pieces, and which messages did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stream {
    /// Messages whose text came in pieces: their whole is not shown again.
    messages: BTreeSet<String>,
    line: String,
    kind: Option<OutputKind>,
}

impl Stream {
    /// Takes in a piece of a message. Returns the lines that are complete now.
    pub(super) fn piece(
        &mut self,
        kind: OutputKind,
        message: &str,
        text: &str,
    ) -> Vec<(OutputKind, String)> {
        let mut lines = Vec::new();
        let other = self.kind.is_some_and(|before| before != kind);
        let fresh = !self.messages.contains(message);
        if other || fresh {
            lines.extend(self.flush());
        }
        if fresh {
            self.messages.insert(message.to_owned());
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

    /// The line that is not complete yet.
    pub(super) fn flush(&mut self) -> Option<(OutputKind, String)> {
        let kind = self.kind.take()?;
        let line = std::mem::take(&mut self.line);
        (!line.is_empty()).then_some((kind, line))
    }

    /// Whether this message came in pieces. It is asked once, at its end.
    pub(super) fn had(&mut self, message: &str) -> bool {
        self.messages.remove(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_when_it_is_complete() {
        let mut stream = Stream::default();
        let line = |text: &str| (OutputKind::Text, text.to_owned());
        assert_eq!(stream.piece(OutputKind::Text, "m", "one\r\ntw"), [line("one")]);
        assert_eq!(stream.piece(OutputKind::Text, "m", "o\n\nthree"), [line("two"), line("")]);
        let thought = stream.piece(OutputKind::Thinking, "r", "hm");
        assert_eq!(thought, [line("three")]);
        assert_eq!(stream.flush(), Some((OutputKind::Thinking, "hm".to_owned())));
        assert_eq!(stream.flush(), None);
        assert!(stream.had("m") && !stream.had("m"));
    }
}

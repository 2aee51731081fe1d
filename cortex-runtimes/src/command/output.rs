//! What a program prints: bounded, and shown as it comes.

use std::time::Duration;

use cortex_lib::ids::TurnId;
use cortex_lib::limits;
use cortex_lib::port::{OutputKind, SessionEvent};
use cortex_lib::process::{Lines, Tail};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What is kept of a result, from its beginning and from its end: far more than the core keeps of it, so
/// that it is the core that cuts.
const RESULT_HALF_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What is shown of one line. It is shown, not stored; the result has all of it.
const SHOWN_BYTES_MAX: usize = 64 * 1024;

/// The result: all that is printed, unless it is more than anybody reads.
#[derive(Debug)]
pub(super) struct Printed {
    head: String,
    tail: Tail,
}

impl Printed {
    pub(super) fn new() -> Self {
        Self { head: String::new(), tail: Tail::new(RESULT_HALF_BYTES_MAX) }
    }

    pub(super) fn push(&mut self, line: &str) {
        for text in [line, "\n"] {
            if self.tail.is_empty() && self.head.len() + text.len() <= RESULT_HALF_BYTES_MAX {
                self.head.push_str(text);
            } else {
                self.tail.push(text);
            }
        }
    }

    /// The text without the last line end.
    pub(super) fn into_text(mut self) -> String {
        if self.tail.is_cut() {
            self.head.push_str("\n[\u{2026}]\n");
        }
        self.head.push_str(&self.tail.text());
        self.head.truncate(self.head.trim_end_matches('\n').len());
        self.head
    }
}

/// Where lines go while they are read.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    pub(super) turn_id: &'a TurnId,
    pub(super) events: &'a mpsc::Sender<SessionEvent>,
    /// Nothing of the program lives.
    pub(super) gone: &'a CancellationToken,
}

impl Shown<'_> {
    /// Reads to the end of the stream, shows each line and hands it to `keep`.
    ///
    /// A stream of a program that is gone ends by itself, unless something that escaped holds it: then the
    /// end is where it falls silent. What is said to someone who does not listen any more is only kept.
    pub(super) async fn read(
        &self,
        stream: impl AsyncRead + Unpin,
        kind: OutputKind,
        mut keep: impl FnMut(&str),
    ) {
        let mut lines = Lines::new(stream);
        loop {
            let line = tokio::select! {
                biased;
                line = lines.next_line() => line,
                () = self.silence(limits::DRAIN_MAX) => return,
            };
            // An error of a pipe is its end.
            let Ok(Some(line)) = line else { return };
            keep(&line.text);
            let mut text = line.text;
            truncate(&mut text, SHOWN_BYTES_MAX);
            let turn_id = Some(self.turn_id.clone());
            self.events.send(SessionEvent::Output { turn_id, kind, text }).await.ok();
        }
    }

    async fn silence(&self, length: Duration) {
        self.gone.cancelled().await;
        tokio::time::timeout(length, std::future::pending::<()>()).await.ok();
    }
}

/// Cuts at a character.
fn truncate(text: &mut String, max: usize) {
    text.truncate(text.floor_char_boundary(max));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_whole_and_loses_only_its_last_line_end() {
        let mut printed = Printed::new();
        for line in ["", "a", "", "b", ""] {
            printed.push(line);
        }
        assert_eq!(printed.into_text(), "\na\n\nb");
    }

    #[test]
    fn a_flood_is_bounded_and_keeps_both_ends() {
        let mut printed = Printed::new();
        printed.push("first");
        for _ in 0..20 {
            printed.push(&"x".repeat(1024 * 1024));
        }
        printed.push("last");
        let text = printed.into_text();
        assert!(text.starts_with("first\nx") && text.ends_with("x\nlast"));
        assert!(text.len() < 2 * RESULT_HALF_BYTES_MAX + 10);
    }

    #[test]
    fn a_line_is_shown_up_to_a_whole_character() {
        let mut text = "a\u{e4}".to_owned();
        truncate(&mut text, 2);
        assert_eq!(text, "a");
    }
}

//! A stream of server-sent events: only their data, each with a bound.

use std::collections::VecDeque;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;

/// Longest event. The largest carry a whole text of a model or what a tool printed.
const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Something of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// The data of one event. Bytes that are not UTF-8 are replaced by U+FFFD.
    Data(String),
    /// An event that was longer than the bound was skipped.
    TooLong,
}

/// Takes the stream apart. It never holds more than one bound of bytes.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    line: Vec<u8>,
    too_long: bool,
    data: Vec<u8>,
    ready: VecDeque<Item>,
}

impl Decoder {
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = bytes.split_at(end);
            self.keep(head);
            self.end_line();
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.keep(bytes);
    }

    pub(super) fn next(&mut self) -> Option<Item> {
        self.ready.pop_front()
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + self.data.len() + bytes.len() > EVENT_BYTES_MAX {
            self.too_long = true;
            self.line = Vec::new();
            self.data = Vec::new();
        } else if !self.too_long {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if self.too_long {
            // One event of this server is one line of data.
            self.too_long = false;
            self.ready.push_back(Item::TooLong);
        } else if line.is_empty() {
            if !self.data.is_empty() {
                let data = std::mem::take(&mut self.data);
                self.ready.push_back(Item::Data(text(data)));
            }
        } else if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The events as they come.
#[derive(Debug)]
pub(super) struct Events {
    body: Incoming,
    decoder: Decoder,
}

impl Events {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, decoder: Decoder::default() }
    }

    /// The next one; `None` when the stream has ended. A call that is dropped loses nothing.
    pub(super) async fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.decoder.next() {
                return Some(item);
            }
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.decoder.push(&bytes);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the events of OpenCode broke off");
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(pieces: &[&[u8]]) -> Vec<Item> {
        let mut decoder = Decoder::default();
        for piece in pieces {
            decoder.push(piece);
        }
        std::iter::from_fn(|| decoder.next()).collect()
    }

    fn data(text: &str) -> Item {
        Item::Data(text.to_owned())
    }

    #[test]
    fn events_come_whole_whatever_pieces_they_came_in() {
        let stream: &[&[u8]] = &[
            b"data: {\"a\":",
            b"1}\n",
            b"\ndata: two\r\n\r\n: note\n\ndata:x\ndata:y\n\n",
            b"data: cut",
        ];
        assert_eq!(items(stream), [data("{\"a\":1}"), data("two"), data("x\ny")]);
    }

    /// Streams: invalid UTF-8.
    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(items(&[b"data: a\xffb\n\n"]), [data("a\u{fffd}b")]);
    }

    /// Streams: an event of 20 MB.
    #[test]
    fn a_large_event_comes_whole_and_one_beyond_the_bound_is_skipped() {
        let large = "x".repeat(20 * 1024 * 1024);
        let text = format!("data: {large}\n\n");
        assert_eq!(items(&[text.as_bytes()]), [data(&large)]);
        let piece = vec![b'x'; 1024 * 1024];
        let mut decoder = Decoder::default();
        decoder.push(b"data: ");
        for _ in 0..70 {
            decoder.push(&piece);
        }
        decoder.push(b"\n\ndata: next\n\n");
        assert_eq!(decoder.next(), Some(Item::TooLong));
        assert_eq!(decoder.next(), Some(data("next")));
    }
}

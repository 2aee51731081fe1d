//! Lines of a stream, each with a bound.

use std::io::{self, BufRead as _};
use std::mem;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use crate::limits;

/// What is asked of the system at once: a pipe holds no more.
const CHUNK_BYTES: usize = 64 * 1024;

/// One line, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The text. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: String,
    /// It was longer than the bound: the rest of the line was skipped.
    pub cut: bool,
}

/// Reads lines and never holds more than one bound of bytes.
#[derive(Debug)]
pub struct Lines<R> {
    reader: BufReader<R>,
    max: usize,
    line: Vec<u8>,
    begun: bool,
    cut: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most [`limits::LINE_BYTES_MAX`].
    pub fn new(reader: R) -> Self {
        Self::with_max(reader, limits::LINE_BYTES_MAX)
    }

    /// Lines of at most `max` bytes.
    pub fn with_max(reader: R, max: usize) -> Self {
        let reader = BufReader::with_capacity(CHUNK_BYTES, reader);
        Self { reader, max, line: Vec::new(), begun: false, cut: false }
    }

    /// The next line, or `None` at the end. A last line without a line end counts. A call that is dropped
    /// loses nothing: the next one goes on.
    ///
    /// # Errors
    ///
    /// What the stream says.
    pub async fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            if self.reader.fill_buf().await?.is_empty() {
                return Ok(self.begun.then(|| self.finish()));
            }
            if let Some(line) = self.buffered_line() {
                return Ok(Some(line));
            }
        }
    }

    /// The next line, when its end was read from the stream already. It does not wait, and asks nothing of the stream.
    pub fn buffered_line(&mut self) -> Option<Line> {
        let buffered = self.reader.buffer();
        if buffered.is_empty() {
            return None;
        }
        let taken = { buffered }.skip_until(b'\n').unwrap_or(buffered.len());
        let piece = buffered.get(..taken).unwrap_or(buffered);
        let body = piece.strip_suffix(b"\n");
        let (bytes, ended) = (body.unwrap_or(piece), body.is_some());
        let room = self.max.saturating_sub(self.line.len());
        match bytes.get(..room) {
            Some(fits) if fits.len() < bytes.len() => {
                self.line.extend_from_slice(fits);
                self.cut = true;
            }
            _ => self.line.extend_from_slice(bytes),
        }
        self.begun = true;
        self.reader.consume(taken);
        ended.then(|| self.finish())
    }

    fn finish(&mut self) -> Line {
        let mut bytes = mem::take(&mut self.line);
        self.begun = false;
        let cut = mem::take(&mut self.cut);
        if cut {
            // The bound may fall into a character.
            let broken = bytes.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
            bytes.truncate(bytes.len().saturating_sub(broken));
        } else if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Line { text, cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8], max: usize) -> Vec<(String, bool)> {
        let mut lines = Lines::with_max(bytes, max);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            found.push((line.text, line.cut));
        }
        found
    }

    fn whole(text: &str) -> (String, bool) {
        (text.to_owned(), false)
    }

    #[tokio::test]
    async fn line_ends_of_both_kinds_end_a_line_and_the_last_needs_none() {
        let want = [whole("a"), whole("b"), whole(""), whole("c")];
        assert_eq!(all(b"a\nb\r\n\nc", 100).await, want);
        assert_eq!(all(b"", 100).await, []);
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_lose_nothing_around_them() {
        let want = [whole("a\u{fffd}b"), whole("\u{e4}")];
        assert_eq!(all(b"a\xffb\n\xc3\xa4\n", 100).await, want);
    }

    #[tokio::test]
    async fn a_long_line_is_cut_at_a_character_and_the_next_is_whole() {
        let want = [("ab".to_owned(), true), whole("next")];
        assert_eq!(
            all("ab\u{e4}cdefgh\nnext\n".as_bytes(), 3).await,
            [want[0].clone(), ("nex".to_owned(), true)]
        );
        assert_eq!(
            all("ab\u{e4}\u{e4}\u{e4}\nnext".as_bytes(), 7).await,
            [("ab\u{e4}\u{e4}".to_owned(), true), whole("next")]
        );
        assert_eq!(all(b"abc\n", 3).await, [whole("abc")]);
    }

    #[tokio::test]
    async fn twenty_megabytes_in_one_line_arrive_whole() {
        let text = "x".repeat(20 * 1024 * 1024);
        let bytes = format!("{text}\nnext\n");
        let found = all(bytes.as_bytes(), limits::LINE_BYTES_MAX).await;
        assert_eq!(found.iter().map(|line| line.0.len()).collect::<Vec<_>>(), [text.len(), 4]);
    }

    #[tokio::test]
    async fn a_dropped_call_loses_nothing() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let mut lines = Lines::new(reader);
        tokio::io::AsyncWriteExt::write_all(&mut writer, b"half a ").await.unwrap();
        tokio::select! {
            biased;
            _ = lines.next_line() => panic!("there is no line yet"),
            () = std::future::ready(()) => {}
        }
        tokio::io::AsyncWriteExt::write_all(&mut writer, b"line\n").await.unwrap();
        let line = lines.next_line().await.unwrap().unwrap();
        assert_eq!(line, Line { text: "half a line".to_owned(), cut: false });
    }
}

//! The end of a stream.

use crate::secret::redact;

/// A word that lost its beginning is looked for this far: the longest secrets of one word are signed tokens.
const WORD_BYTES_MAX: usize = 4 * 1024;

/// Keeps the last bytes of what is pushed.
#[derive(Clone, Debug)]
pub struct Tail {
    max: usize,
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    /// Keeps the last `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { max, bytes: Vec::new(), cut: false }
    }

    /// Adds to the end. What is too old goes.
    pub fn push(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let newest = bytes.len().saturating_sub(self.max);
        self.cut |= newest > 0;
        self.bytes.extend_from_slice(bytes.get(newest..).unwrap_or_default());
        // Moved rarely, not for each push: the memory is bounded by twice the size.
        if self.bytes.len() > self.max.saturating_mul(2) {
            self.trim();
        }
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.cut
    }

    /// Whether something older was dropped.
    pub fn is_cut(&self) -> bool {
        self.cut || self.bytes.len() > self.max
    }

    /// What is kept, as text: it begins with a whole character, is at most as many bytes as asked for, and
    /// bytes that are not UTF-8 are replaced by U+FFFD.
    pub fn text(&self) -> String {
        let newest = self.bytes.len().saturating_sub(self.max);
        let mut bytes = self.bytes.get(newest..).unwrap_or_default();
        if self.is_cut() {
            // The rest of a character whose beginning is gone.
            while let [0x80..=0xBF, rest @ ..] = bytes {
                bytes = rest;
            }
        }
        let text = String::from_utf8_lossy(bytes);
        // Replacing may have made it longer.
        let mut from = text.len().saturating_sub(self.max);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        text.get(from..).unwrap_or_default().to_owned()
    }

    /// What is kept without its secrets. A word that lost its beginning goes too: the rest of a secret
    /// would not be known for one.
    pub fn redacted(&self) -> String {
        let text = self.text();
        let mut whole = text.as_str();
        if self.is_cut() {
            let begins = text.get(..text.floor_char_boundary(WORD_BYTES_MAX));
            let word = begins.and_then(|begins| begins.find(char::is_whitespace));
            whole = text.get(word.unwrap_or(0)..).unwrap_or_default().trim_start();
        }
        redact(whole).into_owned()
    }

    fn trim(&mut self) {
        let old = self.bytes.len().saturating_sub(self.max);
        self.cut |= old > 0;
        self.bytes.drain(..old);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let mut tail = Tail::new(4);
        assert!(tail.is_empty());
        for piece in ["a", "bc", "de"] {
            tail.push(piece);
        }
        assert_eq!((tail.text().as_str(), tail.is_cut()), ("bcde", true));
        tail.push("0123456789");
        assert_eq!(tail.text(), "6789");
    }

    #[test]
    fn what_is_left_of_a_secret_goes_with_it() {
        let mut tail = Tail::new(40);
        tail.push("key sk-ant-api03-0123456789abcdef-0123456789abcdef then DB_PASSWORD=hunter22");
        assert_eq!(tail.text(), "23456789abcdef then DB_PASSWORD=hunter22");
        assert_eq!(tail.redacted(), "then DB_PASSWORD=[secret]");
    }

    #[test]
    fn a_character_is_never_halved() {
        let mut tail = Tail::new(3);
        tail.push("\u{e4}\u{f6}");
        assert_eq!(tail.text(), "\u{f6}");
    }

    proptest! {
        #[test]
        fn it_is_the_end_of_all_that_was_pushed(pieces: Vec<String>, max in 0_usize..40) {
            let mut tail = Tail::new(max);
            for piece in &pieces {
                tail.push(piece);
            }
            let (all, kept) = (pieces.concat(), tail.text());
            prop_assert!(all.ends_with(&kept));
            prop_assert!(kept.len() <= max && all.len().min(max) - kept.len() < 4);
            prop_assert_eq!(tail.is_cut(), all.len() > max);
        }
    }
}

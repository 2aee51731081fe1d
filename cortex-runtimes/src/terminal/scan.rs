//! What a program prints, cut into text and whole escape sequences.
//!
//! Whoever begins to watch begins between two pieces, so that nobody sees the end of a sequence or of a character
//! without its beginning. A sequence that is longer than anything means is dropped, so it takes no memory either.

use std::mem;

/// A control sequence of numbers. The longest that are printed set a few dozen of them.
const CONTROL_BYTES_MAX: usize = 4 * 1024;
/// A sequence that carries a text: a title, a clipboard, a picture.
const STRING_BYTES_MAX: usize = 1024 * 1024;

const BEL: u8 = 0x07;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
const ESCAPE: u8 = 0x1b;

/// A piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Characters, and controls of one byte.
    Text(&'a [u8]),
    /// A whole escape sequence.
    Sequence(&'a [u8]),
}

/// Cuts output into pieces.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    state: State,
    /// What has no end yet.
    open: Vec<u8>,
    /// It is too long, and nothing of it is kept.
    too_long: bool,
}

/// Inside what the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    Intermediate,
    Control,
    /// A text that ends by `ESC \`, or by BEL if it is an operating system command.
    String {
        bell_ends: bool,
    },
    /// `ESC` inside a text.
    StringEscape {
        bell_ends: bool,
    },
}

/// What a byte does.
enum Effect {
    /// It belongs to the piece.
    On(State),
    /// It is the last one of the piece.
    Last,
    /// The piece is over before it, and it is looked at once more.
    Before,
    /// A new sequence begins with the `ESC` before it, and it is looked at once more.
    BeforeEscape,
}

impl Scanner {
    /// Takes output, and hands on what is whole, in order.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Piece<'_>)) {
        let mut at = self.open.len();
        let mut from = 0;
        self.open.extend_from_slice(bytes);
        let all = mem::take(&mut self.open);
        let part = |from: usize, to: usize| all.get(from..to).unwrap_or_default();
        while let Some(byte) = all.get(at).copied() {
            match self.state.effect(byte) {
                Effect::On(state) => {
                    if self.state == State::Text && state != State::Text && at > from {
                        each(Piece::Text(part(from, at)));
                        from = at;
                    }
                    self.state = state;
                    at += 1;
                }
                Effect::Last => {
                    at += 1;
                    self.end(part(from, at), &mut each);
                    from = at;
                }
                Effect::Before => {
                    self.end(part(from, at), &mut each);
                    from = at;
                }
                Effect::BeforeEscape => {
                    self.end(part(from, at - 1), &mut each);
                    self.state = State::Escape;
                    from = at - 1;
                }
            }
        }
        if self.state == State::Text {
            let whole = at - unfinished(part(from, at));
            if whole > from {
                each(Piece::Text(part(from, whole)));
                from = whole;
            }
        }
        self.too_long |= at - from > self.state.bytes_max();
        self.open = match self.state {
            // It may begin the next sequence.
            State::StringEscape { .. } if self.too_long => vec![ESCAPE],
            _ if self.too_long => Vec::new(),
            // Put back as it is: a long text that comes byte by byte is not copied for each.
            _ if from == 0 => all,
            _ => part(from, at).to_vec(),
        };
    }

    fn end(&mut self, sequence: &[u8], each: &mut impl FnMut(Piece<'_>)) {
        if !mem::take(&mut self.too_long) && sequence.len() <= self.state.bytes_max() {
            each(Piece::Sequence(sequence));
        }
        self.state = State::Text;
    }
}

impl State {
    fn effect(self, byte: u8) -> Effect {
        match (self, byte) {
            (Self::Text, ESCAPE) => Effect::On(Self::Escape),
            (Self::Text, _) => Effect::On(Self::Text),
            (Self::StringEscape { .. }, b'\\') => Effect::Last,
            (Self::StringEscape { .. }, _) => Effect::BeforeEscape,
            (_, CANCEL | SUBSTITUTE) => Effect::Last,
            (Self::String { bell_ends: true }, BEL) => Effect::Last,
            (Self::String { bell_ends }, ESCAPE) => Effect::On(Self::StringEscape { bell_ends }),
            (Self::String { .. }, _) => Effect::On(self),
            (_, ESCAPE) => Effect::Before,
            (Self::Escape, b'[') => Effect::On(Self::Control),
            (Self::Escape, b']') => Effect::On(Self::String { bell_ends: true }),
            (Self::Escape, b'P' | b'X' | b'^' | b'_') => {
                Effect::On(Self::String { bell_ends: false })
            }
            (Self::Escape | Self::Intermediate, 0x20..=0x2f) => Effect::On(Self::Intermediate),
            (Self::Escape | Self::Intermediate, 0x30..=0x7e) => Effect::Last,
            (Self::Control, 0x40..=0x7e) => Effect::Last,
            // Controls of one byte are done or ignored in the middle of a sequence, which goes on.
            (Self::Escape | Self::Intermediate | Self::Control, _) => Effect::On(self),
        }
    }

    fn bytes_max(self) -> usize {
        match self {
            Self::String { .. } | Self::StringEscape { .. } => STRING_BYTES_MAX,
            Self::Text | Self::Escape | Self::Intermediate | Self::Control => CONTROL_BYTES_MAX,
        }
    }
}

/// How many bytes at the end are the beginning of a character.
fn unfinished(text: &[u8]) -> usize {
    let is_lead = |byte: &u8| *byte & 0b1100_0000 != 0b1000_0000;
    let Some(back) = text.iter().rev().take(3).position(is_lead) else { return 0 };
    let needs = match text.iter().rev().nth(back) {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    if back + 1 < needs { back + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(parts: &[&[u8]]) -> Vec<String> {
        let mut scanner = Scanner::default();
        let mut all = Vec::new();
        for part in parts {
            scanner.push(part, |piece| {
                all.push(match piece {
                    Piece::Text(text) => format!("t{}", text.escape_ascii()),
                    Piece::Sequence(text) => format!("s{}", text.escape_ascii()),
                });
            });
        }
        all
    }

    #[test]
    fn text_and_sequences_are_told_apart() {
        let all = pieces(&[b"a\x1b[1;31mb\r\n\x1b]0;title\x07\x1bPq\x07#\x1b\\c\x1b(0\x1b7"]);
        let want = [
            "ta",
            r"s\x1b[1;31m",
            r"tb\r\n",
            r"s\x1b]0;title\x07",
            r"s\x1bPq\x07#\x1b\\",
            "tc",
            r"s\x1b(0",
            r"s\x1b7",
        ];
        assert_eq!(all, want);
    }

    #[test]
    fn a_sequence_is_whole_before_it_is_handed_on_and_so_is_a_character() {
        assert_eq!(pieces(&[b"a\x1b", b"[3", b"1", b"mb"]), ["ta", r"s\x1b[31m", "tb"]);
        assert_eq!(pieces(&[b"\x1b]2;x\x1b", b"\\y"]), [r"s\x1b]2;x\x1b\\", "ty"]);
        assert_eq!(pieces(&[b"a\xe2\x82", b"\xacb"]), ["ta", r"t\xe2\x82\xacb"]);
        assert_eq!(pieces(&[b"a\xff\x80\x80\x80\x80"]), [r"ta\xff\x80\x80\x80\x80"]);
    }

    #[test]
    fn a_sequence_that_is_broken_off_does_not_swallow_the_next() {
        assert_eq!(pieces(&[b"\x1b[3\x1b[1m"]), [r"s\x1b[3", r"s\x1b[1m"]);
        assert_eq!(pieces(&[b"\x1b]0;a\x1b[1mb"]), [r"s\x1b]0;a", r"s\x1b[1m", "tb"]);
        assert_eq!(pieces(&[b"\x1b[3\x18b"]), [r"s\x1b[3\x18", "tb"]);
    }

    #[test]
    fn what_a_terminal_ignores_inside_a_sequence_does_not_end_it() {
        assert_eq!(pieces(&[b"\x1b[\x7f?ua"]), [r"s\x1b[\x7f?u", "ta"]);
        assert_eq!(pieces(&[b"\x1b\x7f[6na"]), [r"s\x1b\x7f[6n", "ta"]);
        assert_eq!(pieces(&[b"\x1b(\x7f0a"]), [r"s\x1b(\x7f0", "ta"]);
        assert_eq!(pieces(&[b"\x1b[\x00\xc2\x9b6na"]), [r"s\x1b[\x00\xc2\x9b6n", "ta"]);
    }

    /// Memory: a text without an end is not kept, and what follows its end is seen.
    #[test]
    fn a_sequence_without_an_end_takes_no_memory() {
        let mut scanner = Scanner::default();
        let mut all = Vec::new();
        scanner.push(b"\x1b]0;", |_| {});
        for _ in 0..1_000 {
            scanner.push(&[b'x'; 10_000], |_| all.push(0));
        }
        assert!(scanner.open.len() <= STRING_BYTES_MAX && all.is_empty());
        scanner.push(b"\x07after", |piece| {
            assert_eq!(piece, Piece::Text(b"after"));
            all.push(1);
        });
        assert_eq!(all, [1]);
    }

    proptest! {
        /// However the output is cut, the pieces are the same output.
        #[test]
        fn nothing_is_lost_or_doubled(parts: Vec<Vec<u8>>) {
            let mut scanner = Scanner::default();
            let mut all = Vec::new();
            for part in &parts {
                scanner.push(part, |piece| match piece {
                    Piece::Text(bytes) | Piece::Sequence(bytes) => all.extend_from_slice(bytes),
                });
            }
            all.extend_from_slice(&scanner.open);
            prop_assert_eq!(all, parts.concat());
        }
    }
}

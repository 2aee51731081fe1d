//! For whom a piece of output is: for the screen that is kept, or for whoever watches.
//!
//! A question to the terminal is answered by the screen. The terminal of a person who watches must not answer it
//! too: its answer would reach the program as if it were typed. And what the screen does not keep must not
//! change how such a terminal sends keys: who attaches later would send others.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar as _;

/// The texts that the screen keeps: titles and colours. What it keeps for each cell is bounded by this.
const KEPT_BYTES_MAX: usize = 4 * 1024;
/// Marks that are put on one character. Each takes memory until it is overwritten.
const MARKS_MAX: u8 = 8;
/// Private modes that make a terminal send what the screen does not know of.
const FOREIGN_MODES: [&str; 6] = ["1015", "1016", "2031", "2048", "5522", "9001"];

/// For whom a sequence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Audience {
    pub(super) screen: bool,
    pub(super) watchers: bool,
}

const ALL: Audience = Audience { screen: true, watchers: true };
const SCREEN: Audience = Audience { screen: true, watchers: false };
const WATCHERS: Audience = Audience { screen: false, watchers: true };
const NOBODY: Audience = Audience { screen: false, watchers: false };

/// What a sequence does besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Nothing,
    /// The lines that scroll, counted from 1; `None` for all.
    Margins(Option<(u16, u16)>),
    /// The main screen is back, and a terminal that was attached meanwhile does not have it.
    MainScreen,
}

/// For whom this sequence is.
pub(super) fn audience(sequence: &[u8]) -> Audience {
    match sequence {
        [0x1b, b'[', rest @ .., last] => control(rest, *last),
        [0x1b, b']', rest @ ..] => command(rest),
        // Requests for a setting (`$q`) and for a capability (`+q`).
        [0x1b, b'P', b'$' | b'+', b'q', ..] | [0x1b, b'Z'] => SCREEN,
        [0x1b, b'_', b'G', rest @ ..] if contains(rest, b"a=q") => NOBODY,
        // What it draws is not kept, so it is not parsed either.
        [0x1b, b'P' | b'X' | b'^' | b'_', ..] => WATCHERS,
        _ => ALL,
    }
}

fn control(rest: &[u8], last: u8) -> Audience {
    match (rest, last) {
        // Identity, state, mode, parameters.
        (_, b'c' | b'n') | ([.., b'$'], b'p') | ([b'>', ..], b'q') => SCREEN,
        ([] | [b'0'..=b'9'], b'x') => SCREEN,
        // How keys are sent.
        ([b'?' | b'>' | b'<' | b'=', ..], b'u') | ([b'>' | b'?', ..], b'm') => NOBODY,
        // Of the operations on windows only the stack of titles.
        ([b'2', b'2' | b'3', ..], b't') => ALL,
        (_, b't') => SCREEN,
        ([b'?', modes @ ..], b'h' | b'l') if has_foreign_mode(modes) => SCREEN,
        _ => ALL,
    }
}

fn has_foreign_mode(modes: &[u8]) -> bool {
    modes
        .split(|byte| *byte == b';')
        .any(|mode| FOREIGN_MODES.iter().any(|foreign| foreign.as_bytes() == mode))
}

fn command(rest: &[u8]) -> Audience {
    let number = rest.split(|byte| matches!(byte, b';' | 0x07 | 0x1b)).next().unwrap_or_default();
    let asks = rest.split(|byte| matches!(byte, b';' | 0x07 | 0x1b)).any(|part| part == b"?");
    match number {
        // What is in the clipboard is not the program's to know.
        b"52" if asks => NOBODY,
        // A link would be kept for each character of it.
        b"52" | b"8" => WATCHERS,
        _ if asks => SCREEN,
        _ if rest.len() > KEPT_BYTES_MAX => WATCHERS,
        _ => ALL,
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// What a sequence does that the screen does not tell.
pub(super) fn note(sequence: &[u8]) -> Note {
    match sequence {
        [0x1b, b'[', rest @ .., b'r'] if !rest.starts_with(b"?") => margins(rest),
        [0x1b, b'c'] | [0x1b, b'[', b'!', b'p'] => Note::Margins(None),
        [0x1b, b'[', b'?', modes @ .., b'l']
            if modes
                .split(|byte| *byte == b';')
                .any(|mode| matches!(mode, b"47" | b"1047" | b"1049")) =>
        {
            Note::MainScreen
        }
        _ => Note::Nothing,
    }
}

fn margins(rest: &[u8]) -> Note {
    let Ok(text) = str::from_utf8(rest) else { return Note::Nothing };
    let mut numbers = text.split(';').map(|number| number.parse().unwrap_or(0));
    let (top, bottom) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    Note::Margins(if top <= 1 && bottom == 0 { None } else { Some((top.max(1), bottom)) })
}

/// The text for whoever watches: without the question that is one byte.
pub(super) fn shown(text: &[u8]) -> Cow<'_, [u8]> {
    const ENQUIRY: u8 = 0x05;
    if text.contains(&ENQUIRY) {
        return text.iter().copied().filter(|byte| *byte != ENQUIRY).collect();
    }
    Cow::Borrowed(text)
}

/// The text for the screen: without the marks that are too many. `marks` counts over texts.
pub(super) fn kept<'a>(text: &'a [u8], marks: &mut u8) -> Cow<'a, [u8]> {
    if text.is_ascii() {
        *marks = 0;
        return Cow::Borrowed(text);
    }
    let Ok(text) = str::from_utf8(text) else { return Cow::Borrowed(text) };
    let mut is_kept = |character: &char| {
        *marks = if character.width() == Some(0) { marks.saturating_add(1) } else { 0 };
        *marks <= MARKS_MAX
    };
    text.chars().filter(|character| is_kept(character)).collect::<String>().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_for_the_screen_alone() {
        for question in [
            "\x1b[c",
            "\x1b[>c",
            "\x1b[6n",
            "\x1b[?6n",
            "\x1b[5n",
            "\x1b[?2026$p",
            "\x1b[>q",
            "\x1b[18t",
            "\x1b]11;?\x07",
            "\x1b]4;1;?\x1b\\",
            "\x1bP+q544e\x1b\\",
            "\x1bZ",
        ] {
            assert_eq!(audience(question.as_bytes()), SCREEN, "{question:?}");
        }
        for secret in ["\x1b]52;c;?\x07", "\x1b_Gi=1,a=q;AAAA\x1b\\"] {
            assert_eq!(audience(secret.as_bytes()), NOBODY, "{secret:?}");
        }
    }

    #[test]
    fn how_keys_are_sent_is_not_changed_behind_the_screen() {
        for keys in ["\x1b[?u", "\x1b[>1u", "\x1b[<u", "\x1b[>4;2m"] {
            assert_eq!(audience(keys.as_bytes()), NOBODY, "{keys:?}");
        }
        assert_eq!(audience(b"\x1b[?2031h"), SCREEN);
    }

    #[test]
    fn what_draws_is_for_all() {
        for drawing in [
            "\x1b[1;31m",
            "\x1b[2J",
            "\x1b[?1049h",
            "\x1b[?2026h",
            "\x1b]2;title\x07",
            "\x1b7",
            "\x1b[u",
            "\x1b[22;0t",
            "\x1b]10;#fff\x07",
            "\x1b[2 q",
            "\x1b[!p",
        ] {
            assert_eq!(audience(drawing.as_bytes()), ALL, "{drawing:?}");
        }
        assert_eq!(audience(b"\x1b]52;c;aGk=\x07"), WATCHERS);
        assert_eq!(audience(b"\x1b]8;;https://a\x07"), WATCHERS);
    }

    #[test]
    fn margins_are_noted() {
        assert_eq!(note(b"\x1b[2;10r"), Note::Margins(Some((2, 10))));
        assert_eq!(note(b"\x1b[r"), Note::Margins(None));
        assert_eq!(note(b"\x1b[?1r"), Note::Nothing);
        assert_eq!(note(b"\x1b[?25;1049l"), Note::MainScreen);
    }

    #[test]
    fn a_character_carries_few_marks() {
        let mut marks = 0;
        let text = format!("a{}b", "\u{301}".repeat(5));
        assert_eq!(&*kept(text.as_bytes(), &mut marks), text.as_bytes());
        for _ in 0..10 {
            kept("\u{301}".as_bytes(), &mut marks);
        }
        assert!(kept("\u{301}".as_bytes(), &mut marks).is_empty());
        assert_eq!(&*kept("\u{e4}\u{301}".as_bytes(), &mut marks), "\u{e4}\u{301}".as_bytes());
    }
}

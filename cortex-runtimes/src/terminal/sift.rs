//! For whom a piece of output is: for the screen that is kept, or for whoever watches.
//!
//! A question to the terminal is answered by the screen. The terminal of a person who watches must not answer it
//! too: its answer would reach the program as if it were typed. And what the screen does not keep must not
//! change such a terminal: who attaches later would see another one, and nobody would set it back. So only what is
//! known passes, in its plain form: with other bytes inside, each terminal reads something else.

use std::borrow::Cow;

use cortex_lib::port::TerminalSize;
use unicode_width::UnicodeWidthChar as _;

/// The texts that the screen keeps: titles and colours.
const KEPT_BYTES_MAX: usize = 4 * 1024;
/// Numbers in a control sequence. The screen ignores one with more.
const NUMBERS_MAX: usize = 32;
/// How often a character is repeated at once: as often as it fits in the longest line.
const REPEATED_MAX: u16 = TerminalSize::MAX.columns;
/// The private modes that the screen knows, and whoever gives a terminal back switches off.
const PRIVATE_MODES: [&[u8]; 15] = [
    b"1", b"6", b"7", b"12", b"25", b"1000", b"1002", b"1003", b"1004", b"1005", b"1006", b"1007",
    b"1049", b"2004", b"2026",
];

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

/// What a sequence does that the screen does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Nothing,
    /// The lines that scroll, counted from 1; `None` for all.
    Margins(Option<(u16, u16)>),
    /// Everything is as at first.
    Reset,
}

/// For whom this sequence is.
pub(super) fn audience(sequence: &[u8]) -> Audience {
    match sequence {
        [0x1b, b'[', rest @ .., last] => control(rest, *last),
        [0x1b, b']', rest @ ..] => command(rest),
        [0x1b, b'7' | b'8' | b'=' | b'>' | b'D' | b'E' | b'H' | b'M' | b'c'] => ALL,
        [0x1b, b'('..=b'+', b'0' | b'B'] => ALL,
        // Who are you?
        [0x1b, b'Z'] => SCREEN,
        _ => NOBODY,
    }
}

fn control(rest: &[u8], last: u8) -> Audience {
    let (marker, rest) = match rest {
        [marker @ b'<'..=b'?', rest @ ..] => (Some(*marker), rest),
        _ => (None, rest),
    };
    let is_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b';' | b':');
    let end = rest.iter().position(|byte| !is_number(byte)).unwrap_or(rest.len());
    let (numbers, between) = rest.split_at(end);
    if numbers.split(|byte| matches!(byte, b';' | b':')).count() > NUMBERS_MAX
        || (numbers.contains(&b':') && last != b'm')
    {
        return NOBODY;
    }
    match (marker, numbers, between, last) {
        // Moves, erases, inserts, deletes, scrolls, and how characters look.
        (None, _, b"", b'@'..=b'M' | b'P' | b'S' | b'T' | b'X' | b'Z' | b'`' | b'a') => ALL,
        (None, _, b"", b'd'..=b'g' | b'm' | b'r') | (None, _, b" ", b'q') => ALL,
        (None, b"", b"", b's' | b'u') | (Some(b'?'), b"5", b"", b'W') => ALL,
        (None, b"4" | b"20", b"", b'h' | b'l') => ALL,
        (Some(b'?'), mode, b"", b'h' | b'l') if PRIVATE_MODES.contains(&mode) => ALL,
        (None, count, b"", b'b') if number(count) <= REPEATED_MAX => ALL,
        // The stack of titles.
        (None, b"22" | b"22;0" | b"22;2" | b"23" | b"23;0" | b"23;2", b"", b't') => ALL,
        // Size, identity, state, modes.
        (None, b"14" | b"18", b"", b't') | (None | Some(b'>'), _, b"", b'c') => SCREEN,
        (None, _, b"", b'n') | (None | Some(b'?'), _, b"$", b'p') => SCREEN,
        _ => NOBODY,
    }
}

fn number(text: &[u8]) -> u16 {
    let digits = str::from_utf8(text).unwrap_or_default();
    if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u16::MAX) }
}

fn command(rest: &[u8]) -> Audience {
    let text = rest.strip_suffix(b"\x07").or_else(|| rest.strip_suffix(b"\x1b\\"));
    let Some(Ok(text)) = text.map(str::from_utf8) else { return NOBODY };
    if text.chars().any(char::is_control) {
        return NOBODY;
    }
    let (number, text) = text.split_once(';').unwrap_or((text, ""));
    match number {
        // A link would be kept for each character of it.
        "8" => WATCHERS,
        "52" if is_copy(text) => WATCHERS,
        // Notices. One that begins with a number is something else for some terminals, up to the start of a program.
        "9" if !text.starts_with(|first: char| first.is_ascii_digit()) => WATCHERS,
        "777" if text.starts_with("notify;") => WATCHERS,
        _ if text.len() > KEPT_BYTES_MAX => NOBODY,
        "0" | "2" | "104" | "110" | "111" | "112" => ALL,
        "4" | "10" | "11" | "12" if text.contains('?') => SCREEN,
        // Several at once are those that follow, and there are more of them than the screen knows.
        "10" | "11" | "12" if text.contains(';') => NOBODY,
        "4" | "10" | "11" | "12" => ALL,
        _ => NOBODY,
    }
}

/// Whether it writes into a clipboard. What is in there already is not the program's to know.
fn is_copy(text: &str) -> bool {
    let Some((places, bytes)) = text.split_once(';') else { return false };
    places.bytes().all(|place| matches!(place, b'c' | b'p' | b'q' | b's' | b'0'..=b'7'))
        && bytes
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
}

/// A sequence that changes several modes, as one for each: some of them may pass and others not.
pub(super) fn apart(sequence: &[u8]) -> Option<Vec<Vec<u8>>> {
    let [0x1b, b'[', modes @ .., last @ (b'h' | b'l')] = sequence else { return None };
    if !modes.contains(&b';') {
        return None;
    }
    let (marker, modes): (&[u8], _) = match modes {
        [b'?', modes @ ..] => (b"?", modes),
        _ => (b"", modes),
    };
    let each = modes.split(|byte| *byte == b';').take(NUMBERS_MAX);
    Some(each.map(|mode| [b"\x1b[", marker, mode, &[*last]].concat()).collect())
}

/// What a sequence does that the screen does not tell.
pub(super) fn note(sequence: &[u8]) -> Note {
    match sequence {
        [0x1b, b'[', rest @ .., b'r'] => margins(rest),
        [0x1b, b'c'] => Note::Reset,
        _ => Note::Nothing,
    }
}

fn margins(rest: &[u8]) -> Note {
    let mut numbers = rest.split(|byte| *byte == b';').map(number);
    let (top, bottom) = (numbers.next().unwrap_or(0).max(1), numbers.next().unwrap_or(0));
    match (top, bottom) {
        (1, 0) => Note::Margins(None),
        (_, 1..) if top >= bottom => Note::Nothing,
        _ => Note::Margins(Some((top, bottom))),
    }
}

/// The text, without controls that nothing is known of: questions, and beginnings of sequences in one character.
pub(super) fn text(text: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(text);
    if text.chars().all(passes) {
        return text;
    }
    text.chars().filter(|character| passes(*character)).collect::<String>().into()
}

fn passes(character: char) -> bool {
    // The bell, moves, and which characters are printed.
    !character.is_control() || matches!(character, '\x07'..='\x0f')
}

/// Whether it is put on the character before it.
pub(super) fn is_mark(character: char) -> bool {
    character.width() == Some(0)
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
            "\x1b[5n",
            "\x1b[?2026$p",
            "\x1b[18t",
            "\x1b]11;?\x07",
            "\x1b]4;1;?\x1b\\",
            "\x1bZ",
        ] {
            assert_eq!(audience(question.as_bytes()), SCREEN, "{question:?}");
        }
    }

    /// What the screen neither answers nor keeps: it is not asked of the person's terminal, nor changed there.
    #[test]
    fn what_is_not_known_is_for_nobody() {
        for unknown in [
            "\x1b]52;c;?\x07",
            "\x1b]52;c;\0?\x07",
            "\x1b]052;c;?\x07",
            "\x1b]21;foreground=?\x1b\\",
            "\x1b]99;i=1:p=?;\x1b\\",
            "\x1b]1337;ReportCellSize\x07",
            "\x1b]5522;type=read\x1b\\",
            "\x1b]9;7;program\x07",
            "\x1b]10;#fff;#000;#000;#fff\x07",
            "\x1b]2;a\u{9c}\u{9b}6n\x07",
            "\x1b]2;without an end",
            "\x1b_Gi=1,a=q;AAAA\x1b\\",
            "\x1bP+q544e\x1b\\",
            "\x1b[?u",
            "\x1b[>1u",
            "\x1b[\0>1u",
            "\x1b[\x7f?u",
            "\x1b\x7f[6n",
            "\x1b[6\0n",
            "\x1b[<u",
            "\x1b[>4;2m",
            "\x1b[?4m",
            "\x1b[?6n",
            "\x1b[>q",
            "\x1b[?47h",
            "\x1b[?1047h",
            "\x1b[?01049h",
            "\x1b[?5h",
            "\x1b[?9h",
            "\x1b[?69h",
            "\x1b[?2031h",
            "\x1b[2h",
            "\x1b[5i",
            "\x1b[!p",
            "\x1b%@",
            "\x1b[3",
            "\x1b[3\x18",
            "\x1b[65535b",
        ] {
            assert_eq!(audience(unknown.as_bytes()), NOBODY, "{unknown:?}");
        }
    }

    #[test]
    fn what_draws_is_for_all() {
        for drawing in [
            "\x1b[1;31m",
            "\x1b[4:3;58:2::1:2:3m",
            "\x1b[2J",
            "\x1b[?1049h",
            "\x1b[?2026h",
            "\x1b]2;\u{2733} title\x07",
            "\x1b7",
            "\x1b(0",
            "\x1b[u",
            "\x1b[3b",
            "\x1b[22;0t",
            "\x1b]10;#fff\x07",
            "\x1b]104\x07",
            "\x1b[2 q",
        ] {
            assert_eq!(audience(drawing.as_bytes()), ALL, "{drawing:?}");
        }
        for passed_on in ["52;c;aGk=", "8;;https://a", "9;it is done", "777;notify;a;b"] {
            assert_eq!(audience(format!("\x1b]{passed_on}\x07").as_bytes()), WATCHERS);
        }
    }

    #[test]
    fn modes_are_told_apart() {
        let modes = apart(b"\x1b[?1002;1015;1006h").unwrap();
        assert_eq!(modes, [&b"\x1b[?1002h"[..], b"\x1b[?1015h", b"\x1b[?1006h"]);
        assert_eq!(apart(b"\x1b[4;20l").unwrap(), [&b"\x1b[4l"[..], b"\x1b[20l"]);
        assert_eq!(apart(b"\x1b[?25h"), None);
        assert_eq!(apart(b"\x1b[1;31m"), None);
    }

    #[test]
    fn margins_are_noted() {
        assert_eq!(note(b"\x1b[2;10r"), Note::Margins(Some((2, 10))));
        assert_eq!(note(b"\x1b[r"), Note::Margins(None));
        assert_eq!(note(b"\x1b[5;3r"), Note::Nothing);
        assert_eq!(note(b"\x1bc"), Note::Reset);
    }

    #[test]
    fn text_has_no_controls_that_ask_or_begin_something() {
        assert_eq!(
            text("a\x05b\u{9b}6n\u{9d}\x7f\0\r\n\te\u{301}".as_bytes()),
            "ab6n\r\n\te\u{301}"
        );
        assert_eq!(text(b"a\x9b6n"), "a\u{fffd}6n");
    }
}

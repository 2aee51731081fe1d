use alacritty_terminal::vte::{Params, Parser, Perform};
use proptest::prelude::*;

use super::*;

const SIZE: TerminalSize = TerminalSize { rows: 6, columns: 12 };

fn screen(output: &[u8]) -> Screen {
    let screen = Screen::new(SIZE);
    screen.feed(output);
    screen
}

/// What one sees who attaches now.
fn drawn(of: &Screen) -> Screen {
    screen(&of.attach().screen)
}

fn state(of: &Screen) -> String {
    let inner = of.inner();
    let grid = inner.term.grid();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {}",
        inner.term.mode(),
        grid.cursor,
        inner.term.cursor_style(),
        inner.beside.margins,
        inner.beside.title,
        grid.history_size(),
    )
}

#[test]
fn a_drawing_shows_the_same_screen() {
    for output in [
        "hello\r\nworld",
        "\x1b[1;3;4;9;31;48;5;17mred\x1b[0m \x1b[38;2;1;2;3;7mrgb\x1b[m plain",
        "one long line that wraps more than once around the edge",
        "exactly 12 c",
        "exactly 11 \u{4f60}",
        "a\u{301}b\u{4f60}\u{597d}c",
        "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9",
        "main\x1b[?1049h\x1b[2;3Halternate\x1b[?25l",
        "\x1b[?1h\x1b=\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[5 q",
        "\x1b[2;4r\x1b[3;1Hin the margins",
        "\x1b[2;4r\x1b[?6h\x1b[2;2Horigin",
        "\x1b[41m\x1b[2J\x1b[1;1Hred everywhere",
        "\x1b]2;a title\x07text",
        "\x1b[2;2H\x1b[32m\x1b7\x1b[5;5H\x1b[0mx",
        "\x1b(0lqk\x1b(Babc\x1b(0",
        "tab\there",
    ] {
        let first = screen(output.as_bytes());
        let second = drawn(&first);
        assert_eq!(second.picture(), first.picture(), "{output:?}");
        assert_eq!(state(&second), state(&first), "{output:?}");
    }
}

#[test]
fn what_is_saved_and_the_lines_above_are_drawn_too() {
    let mut first = screen(b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\x1b[2;2H\x1b7\x1b[H");
    let second = drawn(&first);
    for screen in [&mut first, &mut { second }] {
        assert_eq!(screen.inner().term.grid().history_size(), 2);
        screen.feed(b"\x1b8x");
        assert_eq!(screen.picture().text(), "3\n4x\n5\n6\n7\n8");
    }
}

/// Who attaches gets everything once: what was printed before is in the drawing, what is printed later comes.
#[test]
fn between_the_drawing_and_the_output_there_is_neither_gap_nor_doubling() {
    let output = "a\x1b[31mb\u{20ac}\x1b]2;t\x07\x1b[2;3Hc\x1b[?1049hd\x1b[?1049le".as_bytes();
    for cut in 0..=output.len() {
        let (before, after) = output.split_at(cut);
        let first = screen(before);
        let mut attached = first.attach();
        first.feed(after);
        let second = screen(&attached.screen);
        while let Ok(bytes) = attached.output.try_recv() {
            second.feed(&bytes);
        }
        assert_eq!(second.picture(), first.picture(), "cut at {cut}");
        assert_eq!(state(&second), state(&first), "cut at {cut}");
    }
}

#[test]
fn the_screen_answers_for_the_terminal_and_those_who_watch_do_not() {
    let screen = Screen::new(SIZE);
    let mut attached = screen.attach();
    let answers = screen.feed(b"ab\x1b[6n\x1b[c\x1b]11;?\x07\x1b[18t\x1b]52;c;?\x07\x1b[?u");
    let answers = String::from_utf8(answers).unwrap();
    assert_eq!(answers, "\x1b[1;3R\x1b[?6c\x1b]11;rgb:1818/1818/1818\x07\x1b[8;6;12t");
    assert_eq!(attached.output.try_recv().unwrap(), b"ab");
    assert!(attached.output.try_recv().is_err());
}

/// Streams: one who does not read is let go, and neither the program nor another one waits.
#[test]
fn one_who_is_too_slow_is_let_go() {
    let screen = Screen::new(SIZE);
    let (mut slow, mut quick) = (screen.attach(), screen.attach());
    for _ in 0..WATCHER_PIECES_MAX * 2 {
        screen.feed(b"x");
        assert_eq!(quick.output.try_recv().unwrap(), b"x");
    }
    let mut heard = 0;
    while let Ok(bytes) = slow.output.try_recv() {
        heard += bytes.len();
    }
    assert_eq!(heard, WATCHER_PIECES_MAX);
    assert_eq!(slow.output.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    screen.end();
    assert_eq!(quick.output.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    assert_eq!(screen.attach().output.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
}

#[test]
fn a_new_size_keeps_what_is_shown() {
    let screen = screen(b"hello\r\nworld");
    screen.resize(TerminalSize { rows: 10, columns: 40 });
    assert!(screen.picture().text().starts_with("hello\nworld\n"));
    assert_eq!((screen.picture().lines.len(), screen.picture().lines[0].len()), (10, 40));
    screen.resize(TerminalSize { rows: 0, columns: 60_000 });
    let size = screen.picture().size;
    assert_eq!((size.rows, size.columns), (TerminalSize::MIN.rows, TerminalSize::MAX.columns));
}

#[test]
fn what_scrolls_out_is_bounded() {
    let screen = Screen::new(SIZE);
    for _ in 0..100 {
        screen.feed("a line\r\n".repeat(100).as_bytes());
    }
    assert_eq!(screen.inner().term.grid().history_size(), HISTORY_LINES);
}

/// Memory: what is passed on is what was printed, and at most one drawing, for whoever takes it.
#[test]
fn one_small_write_is_not_made_a_large_one() {
    let first = screen("a line\r\n".repeat(HISTORY_LINES).as_bytes());
    let mut attached = first.attach();
    let mut passed_on = |output: &str| {
        first.feed(output.repeat(16 * 1024 / output.len()).as_bytes());
        let mut pieces = Vec::new();
        while let Ok(piece) = attached.output.try_recv() {
            assert!(piece.len() <= PIECE_BYTES_MAX);
            pieces.extend(piece);
        }
        pieces.len()
    };
    assert_eq!(passed_on("\x1b[?47l"), 0);
    assert_eq!(passed_on("\x1b[?1047l"), 0);
    assert_eq!(passed_on("\x1b[?1049l"), 16 * 1024);
    let drawn = passed_on("\x1b[?1049h\x1b[?1049l").saturating_sub(16 * 1024);
    assert!((1..500).contains(&drawn), "{drawn}");
}

/// Who attaches while the program draws on a screen of its own has not seen the main one, and gets it as it is,
/// whatever the program had set meanwhile.
#[test]
fn the_main_screen_comes_back_as_it_was() {
    for settings in ["", "\x1b[2;4r\x1b[?6h\x1b[2;2H", "\x1b[4h\x1b[20h", "\x0e\x1b)0", "\x1b[?7l"]
    {
        let first = screen(b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8 long line\x1b[3;3H\x1b[?1049h");
        let mut attached = first.attach();
        first.feed(format!("{settings}its own\x1b[?1049l").as_bytes());
        let second = screen(&attached.screen);
        while let Ok(bytes) = attached.output.try_recv() {
            second.feed(&bytes);
        }
        // The lines above scrolled away before; they do not do so again.
        assert_eq!(second.inner().term.grid().history_size(), 0);
        second.feed(b"lqk");
        first.feed(b"lqk");
        assert_eq!(second.picture(), first.picture(), "{settings:?}");
    }
}

#[test]
fn modes_that_are_changed_together_pass_each_for_itself() {
    let screen = Screen::new(SIZE);
    let mut attached = screen.attach();
    screen.feed(b"\x1b[?25;1049;47;69;5;1006h\x1b[4;2h");
    let passed_on = attached.output.try_recv().unwrap();
    assert_eq!(passed_on, b"\x1b[?25h\x1b[?1049h\x1b[?1006h\x1b[4h");
    assert!(screen.picture().alternate);
}

/// Memory: a character carries few marks, however they are put on it.
#[test]
fn a_character_carries_few_marks() {
    let (mark, many) = ("\u{301}", "\u{301}".repeat(50));
    for output in [
        format!("e{many}").into_bytes(),
        [b"\xff".to_vec(), format!("e{many}").into_bytes()].concat(),
        format!("e{mark}\x1b[900b\x07\x1b[900b").into_bytes(),
        format!("e{many}\x1b[5;5Hx\x1b[1;2H{many}").into_bytes(),
        format!("\u{4f60}{many}\x07{many}").into_bytes(),
    ] {
        let screen = screen(&output);
        let picture = screen.picture();
        let most = picture.lines.iter().flatten().map(|cell| cell.marks.len()).max().unwrap();
        assert!((1..=MARKS_MAX).contains(&most), "{most}: {output:?}");
    }
    let text = format!("e{mark}{mark} \u{4f60}{mark}");
    assert_eq!(screen(text.as_bytes()).picture().text().trim_end(), text);
}

/// Halves of wide characters at the end of a line, where they were wrapped or pushed out.
#[test]
fn what_is_left_of_a_wide_character_stays_where_it_is() {
    for output in [
        "\x1b[1;12H\u{4f60}\x1b[2;2H\x1b[4Xa",
        "\x1b[1;11H\u{4f60}\x1b[1;1H\x1b[@\x1b[1;11H\u{4f60}\u{301}",
        "\x1b[1;11H\u{4f60}\u{597d}\x1b[1;1H\x1b[@aaaaaa    \u{4f60}\u{301}",
    ] {
        let first = screen(output.as_bytes());
        let second = drawn(&first);
        assert_eq!(second.picture(), first.picture(), "{output:?}");
        let needs = |screen: &Screen| screen.inner().term.grid().cursor.input_needs_wrap;
        assert_eq!(needs(&second), needs(&first), "{output:?}");
    }
}

/// Characters and sequences that move, erase, scroll, wrap and colour.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{1,15}",
        Just("\u{4f60}\u{597d}".to_owned()),
        Just("e\u{301}".to_owned()),
        Just("\u{4f60}\u{301}".to_owned()),
        Just("\r\n".to_owned()),
        (0..9_u8, 0..15_u8).prop_map(|(row, column)| format!("\x1b[{row};{column}H")),
        (30..38_u8).prop_map(|number| format!("\x1b[{number}m")),
        (40..48_u8).prop_map(|number| format!("\x1b[1;{number}m")),
        prop::sample::select(vec![
            "\x1b[m",
            "\x1b[J",
            "\x1b[1K",
            "\x1b[2L",
            "\x1b[M",
            "\x1b[3P",
            "\x1b[2S",
            "\x1b[T",
            "\x1bM",
            "\x1b[?1049h",
            "\x1b[?1049l",
            "\x1b[4X",
            "\x1b[@",
            "\x1b[3@",
            "\x1b[7m",
            "\t",
        ])
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_printed_a_drawing_shows_it(pieces in prop::collection::vec(piece(), 0..40)) {
        let first = screen(pieces.concat().as_bytes());
        let second = drawn(&first);
        prop_assert_eq!(second.picture(), first.picture());
        let cursor = |screen: &Screen| screen.inner().term.grid().cursor.clone();
        prop_assert_eq!(cursor(&second), cursor(&first));
    }

    /// Whatever bytes come, the screen goes on.
    #[test]
    fn no_output_stops_it(parts: Vec<Vec<u8>>) {
        let screen = Screen::new(SIZE);
        for part in &parts {
            screen.feed(part);
        }
        drawn(&screen);
    }

    /// The terminal of a person is asked nothing and gets nothing that stays, whatever bytes come in whatever
    /// pieces.
    #[test]
    fn those_who_watch_get_only_what_is_known(parts in prop::collection::vec(hostile(), 0..40), cut in 1..9_usize) {
        let screen = Screen::new(SIZE);
        let mut attached = screen.attach();
        let (mut seen, mut parser) = (Seen::default(), Parser::<1024>::default());
        for piece in parts.concat().chunks(cut) {
            screen.feed(piece);
            while let Ok(bytes) = attached.output.try_recv() {
                parser.advance(&mut seen, &bytes);
                // Sequences of one byte, which this parser does not know; and texts that it skips.
                let text = String::from_utf8(bytes).unwrap();
                let control = |it| matches!(it, '\0'..='\x06' | '\x10'..='\x1a' | '\x7f'..='\u{9f}');
                prop_assert!(!text.contains(control), "{:?}", text);
                prop_assert!(!["\x1bP", "\x1bX", "\x1b^", "\x1b_"].iter().any(|it| text.contains(it)));
            }
        }
        prop_assert_eq!(seen.unknown, Vec::<String>::new());
    }
}

/// Bytes of which sequences are made, plain and in disguise.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::sample::select(vec![
            "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b_G", "\u{9b}", "\u{9d}", "\x1b\\", "\x07",
            "\x18", "\x7f", "\0", ";", "?", ">", "$", " ", "a", "6n", "c", "?u", ">1u", "u", "m",
            "q", "p", "t", "18t", "r", "h", "l", "?1049", "?47", "?2004;69", "1049", "52;c;",
            "52;c;?", "11;", "2;", "21;a=?", "4;1;?", "8;;", "\u{20ac}",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 1..4),
    ]
}

/// What the terminal of a person understands.
#[derive(Default)]
struct Seen {
    unknown: Vec<String>,
}

impl Perform for Seen {
    fn csi_dispatch(&mut self, numbers: &Params, between: &[u8], ignored: bool, last: char) {
        let numbers: Vec<u16> = numbers.iter().map(|number| number[0]).collect();
        let known = match (between, last) {
            (
                b"",
                '@'..='M'
                | 'P'
                | 'S'
                | 'T'
                | 'X'
                | 'Z'
                | '`'
                | 'a'
                | 'b'
                | 'd'..='g'
                | 'm'
                | 'r'
                | 's'
                | 'u',
            )
            | (b" ", 'q') => true,
            (b"", 'h' | 'l') => matches!(*numbers, [4 | 20]),
            (b"", 't') => matches!(*numbers, [22 | 23] | [22 | 23, 0 | 2]),
            (b"?", 'W') => *numbers == [5],
            (b"?", 'h' | 'l') => {
                matches!(*numbers, [1 | 6 | 7 | 12 | 25 | 1000 | 1002..=1007 | 1049 | 2004 | 2026])
            }
            _ => false,
        };
        if !known || ignored {
            self.unknown.push(format!("CSI {numbers:?} {between:?} {last}"));
        }
    }

    fn osc_dispatch(&mut self, parts: &[&[u8]], _: bool) {
        let asks = parts.iter().any(|part| part.contains(&b'?'));
        let known = match parts[0] {
            b"4" | b"10" | b"11" | b"12" | b"52" => !asks,
            b"0" | b"2" | b"8" | b"9" | b"104" | b"110" | b"111" | b"112" | b"777" => true,
            _ => false,
        };
        if !known {
            self.unknown.push(format!("OSC {parts:?}"));
        }
    }

    fn esc_dispatch(&mut self, between: &[u8], _: bool, last: u8) {
        let known = match between {
            [] => b"78=>DEHMc\\".contains(&last),
            [b'('..=b'+'] => matches!(last, b'0' | b'B'),
            _ => false,
        };
        if !known {
            self.unknown.push(format!("ESC {between:?} {last}"));
        }
    }

    fn hook(&mut self, _: &Params, _: &[u8], _: bool, last: char) {
        self.unknown.push(format!("DCS {last}"));
    }
}

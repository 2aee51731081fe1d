//! The screen that is kept of a terminal, and those who watch it.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alacritty_terminal::Term;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::{Config, Osc52};
use alacritty_terminal::vte::ansi::{Processor, Timeout};
use cortex_lib::port::{Attached, Picture, TerminalSize};
use tokio::sync::mpsc;

use super::answer::{Listener, Told, listener};
use super::draw::{Beside, drawing, picture};
use super::scan::{Piece, Scanner};
use super::sift::{self, Note};

/// Lines that have left the screen and are kept. A line of 200 characters takes 5 KB.
const HISTORY_LINES: usize = 1_000;
/// Pieces of output that wait for one who watches before that one is let go: at most 2 MiB, more than a second of what a
/// CLI prints that works hard.
const WATCHER_PIECES_MAX: usize = 128;

/// The screen. Fed by one task, looked at by any number.
#[derive(Debug)]
pub(super) struct Screen {
    /// A lock, because what is drawn for one who attaches and what comes then must meet without a gap. It is held
    /// for a piece of output or a drawing.
    inner: Mutex<Inner>,
}

struct Inner {
    term: Term<Listener>,
    parser: Processor<AtOnce>,
    scanner: Scanner,
    told: Told,
    beside: Beside,
    marks: u8,
    size: TerminalSize,
    watchers: Vec<mpsc::Sender<Vec<u8>>>,
    ended: bool,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let watchers = self.watchers.len();
        f.debug_struct("Inner")
            .field("size", &self.size)
            .field("watchers", &watchers)
            .finish_non_exhaustive()
    }
}

/// Updates that a program wants to be seen at once are parsed as they come: the screen must not lack what was
/// printed.
#[derive(Debug, Default)]
struct AtOnce;

impl Timeout for AtOnce {
    fn set_timeout(&mut self, _: Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}

/// The size, as the library asks for it.
struct Size(TerminalSize);

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        self.0.rows.into()
    }

    fn columns(&self) -> usize {
        self.0.columns.into()
    }
}

impl Screen {
    pub(super) fn new(size: TerminalSize) -> Self {
        let size = size.within_bounds();
        let config = Config {
            scrolling_history: HISTORY_LINES,
            osc52: Osc52::Disabled,
            ..Config::default()
        };
        let (listener, told) = listener();
        let inner = Inner {
            term: Term::new(config, &Size(size), listener),
            parser: Processor::new(),
            scanner: Scanner::default(),
            told,
            beside: Beside::default(),
            marks: 0,
            size,
            watchers: Vec::new(),
            ended: false,
        };
        Self { inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes output. Returns what the terminal answers.
    pub(super) fn feed(&self, output: &[u8]) -> Vec<u8> {
        self.inner().feed(output)
    }

    pub(super) fn attach(&self) -> Attached {
        let mut inner = self.inner();
        let (watcher, output) = mpsc::channel(WATCHER_PIECES_MAX);
        let screen = drawing(&inner.term, &inner.beside);
        if !inner.ended {
            // Those who have left are seen when something is printed; without that they would gather here.
            inner.watchers.retain(|watcher| !watcher.is_closed());
            inner.watchers.push(watcher);
        }
        Attached { size: inner.size, screen, output }
    }

    pub(super) fn picture(&self) -> Picture {
        let inner = self.inner();
        picture(&inner.term, &inner.beside, inner.size)
    }

    pub(super) fn resize(&self, size: TerminalSize) {
        let mut inner = self.inner();
        let size = size.within_bounds();
        if inner.size != size {
            inner.size = size;
            inner.beside.margins = None;
            inner.term.resize(Size(size));
        }
    }

    /// Nothing comes any more.
    pub(super) fn end(&self) {
        let mut inner = self.inner();
        inner.ended = true;
        inner.watchers.clear();
    }
}

impl Inner {
    fn feed(&mut self, output: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(output.len());
        let mut scanner = mem::take(&mut self.scanner);
        scanner.push(output, |piece| match piece {
            Piece::Text(text) => {
                let kept = sift::kept(text, &mut self.marks);
                self.parser.advance(&mut self.term, &kept);
                shown.extend_from_slice(&sift::shown(text));
            }
            Piece::Sequence(sequence) => self.sequence(sequence, &mut shown),
        });
        self.scanner = scanner;
        let answers = self.told.answers(self.size, |index| self.term.colors()[index]);
        if let Some(title) = answers.title {
            self.beside.title = Some(title).filter(|title| !title.is_empty());
        }
        if !shown.is_empty() {
            // One who is too slow is let go and may come again; the program never waits.
            self.watchers.retain(|watcher| watcher.try_send(shown.clone()).is_ok());
        }
        answers.bytes
    }

    fn sequence(&mut self, sequence: &[u8], shown: &mut Vec<u8>) {
        let audience = sift::audience(sequence);
        if audience.screen {
            self.parser.advance(&mut self.term, sequence);
        }
        if audience.watchers {
            shown.extend_from_slice(sequence);
        }
        match sift::note(sequence) {
            Note::Nothing => {}
            Note::Margins(margins) => self.beside.margins = margins,
            Note::MainScreen => shown.extend(drawing(&self.term, &self.beside)),
        }
    }
}

#[cfg(test)]
mod tests {
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

    /// Characters and sequences that move, erase, scroll, wrap and colour.
    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z ]{1,15}",
            Just("\u{4f60}\u{597d}".to_owned()),
            Just("e\u{301}".to_owned()),
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
    }
}

//! The screen that is kept of a terminal, and those who watch it.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alacritty_terminal::Term;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::Column;
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::{Config, Osc52, TermMode};
use alacritty_terminal::vte::ansi::{Processor, Timeout};
use cortex_lib::port::{Attached, Picture, TerminalSize};
use tokio::sync::mpsc;

use super::answer::{Listener, Told, listener};
use super::draw::{Beside, drawing, drawing_in_place};
use super::picture::picture;
use super::scan::{Piece, Scanner};
use super::sift::{self, Note};

/// Lines that have left the screen and are kept. A line of 200 characters takes 5 KB.
const HISTORY_LINES: usize = 1_000;
/// What is passed on at once.
const PIECE_BYTES_MAX: usize = 16 * 1024;
/// Pieces of output that wait for one who watches before that one is let go: at most 2 MiB, more than a second of what a
/// CLI prints that works hard.
const WATCHER_PIECES_MAX: usize = 128;
/// Marks that are put on one character. Each takes memory until it is overwritten.
const MARKS_MAX: usize = 8;

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
    /// The main screen is back, and a terminal that was attached meanwhile does not have it.
    is_back: bool,
    /// The last character is a mark, of which no more are made by repeating it.
    is_marked: bool,
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
            is_back: false,
            is_marked: false,
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
            Piece::Text(text) => self.text(text, &mut shown),
            Piece::Sequence(sequence) => self.sequence(sequence, &mut shown),
        });
        self.scanner = scanner;
        let answers = self.told.answers(self.size, |index| self.term.colors()[index]);
        if let Some(title) = answers.title {
            self.beside.title = Some(title).filter(|title| !title.is_empty());
        }
        // Once, however often the screens were changed.
        if mem::take(&mut self.is_back) && !self.is_alternate() && !self.watchers.is_empty() {
            shown.extend(drawing_in_place(&self.term, &self.beside));
        }
        // One who is too slow is let go and may come again; the program never waits.
        self.watchers.retain(|watcher| {
            let mut pieces = shown.chunks(PIECE_BYTES_MAX);
            pieces.all(|piece| watcher.try_send(piece.to_vec()).is_ok())
        });
        answers.bytes
    }

    fn text(&mut self, text: &[u8], shown: &mut Vec<u8>) {
        const SHIFT_OUT: char = '\x0e';
        const SHIFT_IN: char = '\x0f';
        let text = sift::text(text);
        for part in text.split_inclusive(sift::is_mark) {
            let before = part.strip_suffix(sift::is_mark).unwrap_or(part);
            self.parser.advance(&mut self.term, before.as_bytes());
            let mark = part.strip_prefix(before).unwrap_or_default();
            if marks(&self.term) < MARKS_MAX {
                self.parser.advance(&mut self.term, mark.as_bytes());
            }
        }
        if let Some(last) = text.chars().rfind(|character| !character.is_control()) {
            self.is_marked = sift::is_mark(last);
        }
        if let Some(shift) = text.rfind([SHIFT_OUT, SHIFT_IN]) {
            self.beside.shifted = text.as_bytes().get(shift) == Some(&(SHIFT_OUT as u8));
        }
        shown.extend_from_slice(text.as_bytes());
    }

    fn sequence(&mut self, sequence: &[u8], shown: &mut Vec<u8>) {
        if let Some(each) = sift::apart(sequence) {
            return each.iter().for_each(|sequence| self.sequence(sequence, shown));
        }
        if self.is_marked && sequence.ends_with(b"b") {
            return;
        }
        let audience = sift::audience(sequence);
        if audience.watchers {
            shown.extend_from_slice(sequence);
        }
        if !audience.screen {
            return;
        }
        let was_alternate = self.is_alternate();
        self.parser.advance(&mut self.term, sequence);
        self.is_back |= was_alternate && !self.is_alternate();
        match sift::note(sequence) {
            Note::Nothing => {}
            Note::Margins(margins) => self.beside.margins = margins,
            Note::Reset => (self.beside.margins, self.beside.shifted) = (None, false),
        }
    }

    fn is_alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }
}

/// How many marks the character has that the next one is put on.
fn marks(term: &Term<Listener>) -> usize {
    let cursor = &term.grid().cursor;
    let row = &term.grid()[cursor.point.line];
    let Column(mut column) = cursor.point.column;
    if !cursor.input_needs_wrap {
        column = column.saturating_sub(1);
    }
    if row[Column(column)].flags.contains(Flags::WIDE_CHAR_SPACER) {
        column = column.saturating_sub(1);
    }
    row[Column(column)].zerowidth().map_or(0, <[char]>::len)
}

#[cfg(test)]
mod tests;

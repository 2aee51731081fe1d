//! The screen as cells, for whoever paints it.

use alacritty_terminal::Term;
use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{Color, Rgb};
use cortex_lib::port;

use super::draw::Beside;

/// What it shows, cell by cell.
pub(super) fn picture<T>(
    term: &Term<T>,
    beside: &Beside,
    size: port::TerminalSize,
) -> port::Picture {
    let grid = term.grid();
    let line = |line| {
        let cells = cells(term, Line(line));
        cells.iter().enumerate().map(|(at, it)| cell(it, Place::of(&cells, at))).collect()
    };
    let point = grid.cursor.point;
    let at = || Some((u16::try_from(point.line.0).ok()?, u16::try_from(point.column.0).ok()?));
    port::Picture {
        size,
        lines: (0..=grid.bottommost_line().0).map(line).collect(),
        cursor: if term.mode().contains(TermMode::SHOW_CURSOR) { at() } else { None },
        title: beside.title.clone(),
        alternate: term.mode().contains(TermMode::ALT_SCREEN),
    }
}

fn cell(cell: &Cell, place: Place) -> port::Cell {
    use port::Style;

    let styles = [
        (Flags::BOLD, Style::BOLD),
        (Flags::DIM, Style::DIM),
        (Flags::ITALIC, Style::ITALIC),
        (Flags::ALL_UNDERLINES, Style::UNDERLINED),
        (Flags::INVERSE, Style::INVERSE),
        (Flags::HIDDEN, Style::HIDDEN),
        (Flags::STRIKEOUT, Style::STRUCK),
    ];
    let style = styles
        .into_iter()
        .filter(|(flag, _)| cell.flags.intersects(*flag))
        .fold(Style::default(), |all, (_, style)| all.and(style));
    let columns = match place {
        Place::Single | Place::Broken => 1,
        Place::Wide => 2,
        Place::Behind => 0,
    };
    let marks = cell.zerowidth().unwrap_or_default().to_vec();
    port::Cell {
        character: if place == Place::Broken { ' ' } else { character(cell) },
        marks: if place == Place::Broken { Vec::new() } else { marks },
        columns,
        foreground: shade(cell.fg),
        background: shade(cell.bg),
        style,
    }
}

fn shade(color: Color) -> port::Color {
    match color {
        Color::Spec(Rgb { r, g, b }) => port::Color::Rgb(r, g, b),
        Color::Indexed(index) => port::Color::Palette(index),
        Color::Named(name) => match u8::try_from(name as usize) {
            Ok(index @ 0..16) => port::Color::Palette(index),
            _ => port::Color::Usual,
        },
    }
}

/// What a cell is to its neighbours. A wide character of which one half was erased is none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Single,
    Wide,
    /// The second half of a wide character.
    Behind,
    Broken,
}

impl Place {
    pub(super) fn of(cells: &[&Cell], at: usize) -> Self {
        let has = |at: Option<usize>, flag| {
            at.and_then(|at| cells.get(at)).is_some_and(|cell| cell.flags.contains(flag))
        };
        let (before, after) = (at.checked_sub(1), at.checked_add(1));
        if has(Some(at), Flags::WIDE_CHAR) {
            if has(after, Flags::WIDE_CHAR_SPACER) { Self::Wide } else { Self::Broken }
        } else if has(Some(at), Flags::WIDE_CHAR_SPACER) {
            if has(before, Flags::WIDE_CHAR) { Self::Behind } else { Self::Broken }
        } else {
            Self::Single
        }
    }
}

pub(super) fn cells<T>(term: &Term<T>, line: Line) -> Vec<&Cell> {
    let grid = term.grid();
    (0..grid.columns()).map(|column| &grid[line][Column(column)]).collect()
}

/// A tab is kept where it was printed, and the cells behind it are blank.
pub(super) fn character(cell: &Cell) -> char {
    if cell.c == '\t' { ' ' } else { cell.c }
}

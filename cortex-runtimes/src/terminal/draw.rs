//! The screen as escape sequences that draw it.

use std::fmt::Write as _;

use alacritty_terminal::Term;
use alacritty_terminal::grid::{Cursor, Dimensions as _};
use alacritty_terminal::index::{Line, Point};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{
    CharsetIndex, Color, CursorShape, NamedColor, Rgb, StandardCharset,
};

use super::picture::{Place, cells, character};

/// What of the screen the library does not tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// The lines that scroll, counted from 1; a bottom of 0 is the last line.
    pub(super) margins: Option<(u16, u16)>,
    pub(super) title: Option<String>,
    /// Characters are those of the second set.
    pub(super) shifted: bool,
}

/// The modes that are off on an empty terminal, and how they are switched on.
const MODES: [(TermMode, &str); 12] = [
    (TermMode::APP_CURSOR, "\x1b[?1h"),
    (TermMode::APP_KEYPAD, "\x1b="),
    (TermMode::MOUSE_REPORT_CLICK, "\x1b[?1000h"),
    (TermMode::MOUSE_DRAG, "\x1b[?1002h"),
    (TermMode::MOUSE_MOTION, "\x1b[?1003h"),
    (TermMode::FOCUS_IN_OUT, "\x1b[?1004h"),
    (TermMode::UTF8_MOUSE, "\x1b[?1005h"),
    (TermMode::SGR_MOUSE, "\x1b[?1006h"),
    (TermMode::ALTERNATE_SCROLL, "\x1b[?1007h"),
    (TermMode::BRACKETED_PASTE, "\x1b[?2004h"),
    (TermMode::INSERT, "\x1b[4h"),
    (TermMode::LINE_FEED_NEW_LINE, "\x1b[20h"),
];

/// What a drawing begins with, whatever was there: links, look, origin, margins, wrapping, inserting, line ends,
/// characters.
const PLAIN: &str =
    "\x1b]8;;\x1b\\\x1b[0m\x1b[?6l\x1b[r\x1b[?7h\x1b[4l\x1b[20l\x1b(B\x1b)B\x1b*B\x1b+B\x0f";

/// Draws it on an empty terminal of its size, with the lines above.
pub(super) fn drawing<T>(term: &Term<T>, beside: &Beside) -> Vec<u8> {
    draw(term, beside, term.grid().topmost_line())
}

/// Draws it where another screen was, without the lines above.
pub(super) fn drawing_in_place<T>(term: &Term<T>, beside: &Beside) -> Vec<u8> {
    draw(term, beside, Line(0))
}

fn draw<T>(term: &Term<T>, beside: &Beside, top: Line) -> Vec<u8> {
    let mut page = Page::default();
    page.say(PLAIN);
    if term.mode().contains(TermMode::ALT_SCREEN) {
        page.say("\x1b[?1049h");
    }
    page.say("\x1b[H\x1b[J");
    page.lines(term, top);
    page.colors(term);
    page.state(term, beside);
    page.text.into_bytes()
}

/// What is written, and the look of the next character.
#[derive(Default)]
struct Page {
    text: String,
    look: Look,
}

/// How characters look from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    foreground: Color,
    background: Color,
    underline: Option<Color>,
    flags: Flags,
}

impl Default for Look {
    fn default() -> Self {
        Self::of(&Cell::default())
    }
}

impl Look {
    fn of(cell: &Cell) -> Self {
        let places = Flags::WRAPLINE
            | Flags::WIDE_CHAR
            | Flags::WIDE_CHAR_SPACER
            | Flags::LEADING_WIDE_CHAR_SPACER;
        Self {
            foreground: cell.fg,
            background: cell.bg,
            underline: cell.underline_color(),
            flags: cell.flags.difference(places),
        }
    }

    /// The numbers that set it, from nothing.
    fn numbers(&self) -> String {
        const FLAGS: [(Flags, &str); 10] = [
            (Flags::BOLD, ";1"),
            (Flags::DIM, ";2"),
            (Flags::ITALIC, ";3"),
            (Flags::UNDERLINE, ";4"),
            (Flags::DOUBLE_UNDERLINE, ";4:2"),
            (Flags::UNDERCURL, ";4:3"),
            (Flags::DOTTED_UNDERLINE, ";4:4"),
            (Flags::DASHED_UNDERLINE, ";4:5"),
            (Flags::INVERSE, ";7"),
            (Flags::HIDDEN, ";8"),
        ];
        let mut numbers = String::from("0");
        for (flag, number) in FLAGS {
            if self.flags.contains(flag) {
                numbers.push_str(number);
            }
        }
        if self.flags.contains(Flags::STRIKEOUT) {
            numbers.push_str(";9");
        }
        numbers.push_str(&color(self.foreground, 30));
        numbers.push_str(&color(self.background, 40));
        numbers.push_str(&self.underline.map_or_else(String::new, |it| color(it, 50)));
        numbers
    }
}

/// The numbers that set a colour: of the character (30), behind it (40), or of the line below it (50).
fn color(color: Color, base: u8) -> String {
    match color {
        Color::Spec(Rgb { r, g, b }) => format!(";{};2;{r};{g};{b}", base + 8),
        Color::Indexed(index) => format!(";{};5;{index}", base + 8),
        Color::Named(name) => match name as usize {
            index @ 0..8 if base < 50 => format!(";{}", usize::from(base) + index),
            index @ 8..16 if base < 50 => format!(";{}", usize::from(base) + 52 + index),
            index @ 0..16 => format!(";{};5;{index}", base + 8),
            _ => String::new(),
        },
    }
}

impl Page {
    fn say(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn look(&mut self, look: Look) {
        if self.look != look {
            // Writing to a text cannot fail.
            write!(self.text, "\x1b[{}m", look.numbers()).ok();
            self.look = look;
        }
    }

    fn cell(&mut self, cell: &Cell, place: Place) {
        if place == Place::Behind {
            return;
        }
        self.look(Look::of(cell));
        if place == Place::Broken {
            return self.text.push(' ');
        }
        self.text.push(character(cell));
        self.text.extend(cell.zerowidth().into_iter().flatten());
    }

    fn lines<T>(&mut self, term: &Term<T>, top: Line) {
        let grid = term.grid();
        let (top, bottom) = (top.0, grid.bottommost_line().0);
        let mut goes_on = false;
        for line in top..=bottom {
            let cells = cells(term, Line(line));
            let blank = |cell: &&Cell| **cell == Cell::default();
            let length = cells.iter().rposition(|cell| !blank(cell)).map_or(0, |last| last + 1);
            let wrapped = line > top && goes_on && length > 0;
            if line > top && !wrapped {
                // A new line takes the colour that is set.
                self.look(Look::default());
                self.say("\r\n");
            }
            let last = cells.last().copied().cloned().unwrap_or_default();
            goes_on = last.flags.contains(Flags::WRAPLINE);
            // A wide character that had no room at the end of a line goes to the next one by itself, unless half of it was erased.
            let follows = |next: &[&Cell]| {
                Place::of(next, 0) == Place::Wide
                    && next.first().is_some_and(|next| Look::of(next) == Look::of(&last))
            };
            let makes_room = goes_on
                && last.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER)
                && line < bottom
                && follows(&self::cells(term, Line(line + 1)));
            let length = if makes_room { length.saturating_sub(1) } else { length };
            for (at, cell) in cells.iter().enumerate().take(length) {
                self.cell(cell, Place::of(&cells, at));
            }
            if wrapped && length < cells.len() {
                // So does a line that is wrapped into.
                self.look(Look::default());
                self.say("\x1b[K");
            }
        }
    }

    /// The colours that the program has changed.
    fn colors<T>(&mut self, term: &Term<T>) {
        for (number, name) in
            [(10, NamedColor::Foreground), (11, NamedColor::Background), (12, NamedColor::Cursor)]
        {
            if let Some(Rgb { r, g, b }) = term.colors()[name] {
                write!(self.text, "\x1b]{number};rgb:{r:02x}/{g:02x}/{b:02x}\x1b\\").ok();
            }
        }
    }

    /// Everything but what is to be seen: what the next output depends on.
    fn state<T>(&mut self, term: &Term<T>, beside: &Beside) {
        let (grid, mode) = (term.grid(), term.mode());
        if let Some(title) = &beside.title {
            let title: String = title.chars().filter(|it| !it.is_control()).collect();
            write!(self.text, "\x1b]2;{title}\x1b\\").ok();
        }
        if grid.saved_cursor != Cursor::default() {
            self.cursor(term, &grid.saved_cursor, 0);
            self.say("\x1b7");
            self.charsets(&Cursor::default());
        }
        let mut top = 0;
        if let Some((first, last)) = beside.margins {
            let last = if last == 0 { String::new() } else { last.to_string() };
            write!(self.text, "\x1b[{first};{last}r").ok();
            if mode.contains(TermMode::ORIGIN) {
                top = first.saturating_sub(1);
            }
        }
        if mode.contains(TermMode::ORIGIN) {
            self.say("\x1b[?6h");
        }
        self.cursor(term, &grid.cursor, top);
        for (on, sequence) in MODES {
            if mode.contains(on) {
                self.say(sequence);
            }
        }
        if !mode.contains(TermMode::LINE_WRAP) {
            self.say("\x1b[?7l");
        }
        if !mode.contains(TermMode::ALTERNATE_SCROLL) {
            self.say("\x1b[?1007l");
        }
        let style = term.cursor_style();
        let shape = match style.shape {
            CursorShape::Underline => Some(4),
            CursorShape::Beam => Some(6),
            CursorShape::Block if style.blinking => Some(2),
            CursorShape::Block | CursorShape::HollowBlock | CursorShape::Hidden => None,
        };
        if let Some(number) = shape {
            write!(self.text, "\x1b[{} q", number - u8::from(style.blinking)).ok();
        }
        if beside.shifted {
            self.say("\x0e");
        }
        self.say(if mode.contains(TermMode::SHOW_CURSOR) { "\x1b[?25h" } else { "\x1b[?25l" });
    }

    /// Puts the cursor there, with the look and the characters that it has.
    fn cursor<T>(&mut self, term: &Term<T>, cursor: &Cursor<Cell>, top: u16) {
        let Point { line, column } = cursor.point;
        let row = line.0.saturating_sub(top.into()).saturating_add(1);
        // Behind the last column there is a place where only the next character shows that it is there.
        if cursor.input_needs_wrap {
            let cells = cells(term, line);
            let is_behind = Place::of(&cells, column.0) == Place::Behind;
            let column = if is_behind { column.0.saturating_sub(1) } else { column.0 };
            write!(self.text, "\x1b[{row};{}H", column + 1).ok();
            if let Some(cell) = cells.get(column) {
                self.cell(cell, Place::of(&cells, column));
            }
        } else {
            write!(self.text, "\x1b[{row};{}H", column.0 + 1).ok();
        }
        self.look(Look::of(&cursor.template));
        self.charsets(cursor);
    }

    fn charsets(&mut self, cursor: &Cursor<Cell>) {
        for (index, slot) in [
            (CharsetIndex::G0, '('),
            (CharsetIndex::G1, ')'),
            (CharsetIndex::G2, '*'),
            (CharsetIndex::G3, '+'),
        ] {
            if cursor.charsets[index] == StandardCharset::SpecialCharacterAndLineDrawing {
                self.text.extend(['\x1b', slot, '0']);
            } else if cursor == &Cursor::default() {
                self.text.extend(['\x1b', slot, 'B']);
            }
        }
    }
}

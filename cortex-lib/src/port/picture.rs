//! What a terminal shows, character by character.

use crate::domain::terminal::TerminalSize;

/// What a terminal shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its size.
    pub size: TerminalSize,
    /// Its lines from the top, each with a cell for every column.
    pub lines: Vec<Vec<Cell>>,
    /// Line and column of the cursor, counted from 0; `None`: it is hidden.
    pub cursor: Option<(u16, u16)>,
    /// The title that the program gave it.
    pub title: Option<String>,
    /// The program draws on a screen of its own and not where its output scrolls.
    pub alternate: bool,
}

/// One place of a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What stands there.
    pub character: char,
    /// What is put on it: accents and such.
    pub marks: Vec<char>,
    /// How many columns it takes: 2 if it is wide, and then 0 for the place behind it.
    pub columns: u8,
    /// The colour of the character.
    pub foreground: Color,
    /// The colour behind it.
    pub background: Color,
    /// How it looks.
    pub style: Style,
}

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// That of the terminal.
    Usual,
    /// One of the palette: 16 basic ones, a cube of 216, 24 greys.
    Palette(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

/// How a character looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style(u8);

impl Style {
    /// Heavier.
    pub const BOLD: Self = Self(1);
    /// Fainter.
    pub const DIM: Self = Self(1 << 1);
    /// Slanted.
    pub const ITALIC: Self = Self(1 << 2);
    /// With a line below.
    pub const UNDERLINED: Self = Self(1 << 3);
    /// The two colours are exchanged.
    pub const INVERSE: Self = Self(1 << 4);
    /// Not to be seen.
    pub const HIDDEN: Self = Self(1 << 5);
    /// With a line through it.
    pub const STRUCK: Self = Self(1 << 6);

    /// This and that.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has all of that.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Picture {
    /// Its text, without blanks at the ends of its lines.
    pub fn text(&self) -> String {
        let line = |line: &Vec<Cell>| {
            let cells = line.iter().filter(|cell| cell.columns > 0);
            let text: String = cells
                .flat_map(|cell| std::iter::once(&cell.character).chain(&cell.marks))
                .collect();
            text.trim_end().to_owned()
        };
        self.lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

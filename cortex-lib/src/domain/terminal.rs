//! The size of a terminal.

use serde::{Deserialize, Serialize};

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl TerminalSize {
    /// The smallest that programs can draw on at all.
    pub const MIN: Self = Self { rows: 2, columns: 2 };
    /// More than the largest screens show in small letters; what is kept of a terminal grows with it.
    pub const MAX: Self = Self { rows: 500, columns: 1_000 };

    /// The nearest size that a terminal may have.
    #[must_use]
    pub fn within_bounds(self) -> Self {
        Self {
            rows: self.rows.clamp(Self::MIN.rows, Self::MAX.rows),
            columns: self.columns.clamp(Self::MIN.columns, Self::MAX.columns),
        }
    }
}

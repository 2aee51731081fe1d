//! How the program ends.

use std::process::ExitCode;

use cortex_lib::error::{Error, Kind};

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It is done.
    Done,
    /// It failed.
    Failed,
    /// The arguments or the configuration are wrong.
    Usage,
    /// The thing is not there.
    NotFound,
    /// The thing is in a state that forbids it.
    Conflict,
    /// As `cortex run` counts: it has codes of its own.
    Run(u8),
}

impl Exit {
    /// The codes and what they say, for the help.
    pub const TABLE: &str = "\
Exit codes:
  0  done
  1  failed
  2  the arguments or the configuration are wrong
  3  the thing is not there
  4  the thing is in a state that forbids it: in use, taken, not ready";

    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Run(code) => code,
        }
    }

    /// How the program ends after `error`.
    pub fn after(error: &Error) -> Self {
        match error.code().kind() {
            Kind::InvalidArgument => Self::Usage,
            Kind::NotFound => Self::NotFound,
            Kind::StateConflict | Kind::Unsupported => Self::Conflict,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

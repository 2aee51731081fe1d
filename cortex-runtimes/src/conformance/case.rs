//! A case: a claim about drivers, what it needs, and how it is shown.

use std::fmt;
use std::pin::Pin;

use cortex_lib::domain::capability::Capability;
use cortex_lib::error::Error;

use super::place::Bench;
use super::subject::Ability;

/// A claim about drivers.
#[derive(Clone, Copy)]
pub struct Case {
    /// The claim, as a sentence in snake case.
    pub name: &'static str,
    /// What it is about.
    pub area: &'static str,
    /// The capabilities that it takes, and that it shows.
    pub shows: &'static [Capability],
    /// What else it takes.
    pub needs: &'static [Ability],
    pub(super) run: for<'a> fn(&'a Bench<'a>) -> Running<'a>,
}

pub(super) type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How a case ended for a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds. With what else was seen, when that is worth knowing.
    Passed(Option<String>),
    /// The driver does not offer what it takes: this.
    NotOffered(String),
    /// It cannot be shown here, for this reason.
    NotShown(String),
    /// It does not hold, or something else went wrong on the way.
    Failed(String),
}

/// What a case came to, in its own words.
pub(super) type Outcome = Result<Seen, Stop>;

/// What a case saw that holds.
#[derive(Debug)]
pub(super) enum Seen {
    /// The claim.
    Held,
    /// The claim, and this.
    Noted(String),
}

/// Why a case goes no further, in one sentence.
#[derive(Debug)]
pub(super) enum Stop {
    /// The claim does not hold.
    Failed(String),
    /// It cannot be shown here.
    NotShown(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(format!("an error that nobody expects: {error} ({})", error.code()))
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Fails the case with a sentence unless something holds.
macro_rules! ensure {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err($crate::conformance::case::Stop::Failed(format!($($words)+)));
        }
    };
}

/// The cases of some functions, each named after its function.
macro_rules! cases {
    ($area:literal: $($name:ident [$($shows:ident)*] [$($needs:ident)*]),* $(,)?) => {
        &[$($crate::conformance::case::Case {
            name: stringify!($name),
            area: $area,
            shows: &[$(cortex_lib::domain::capability::Capability::$shows),*],
            needs: &[$($crate::conformance::subject::Ability::$needs),*],
            run: |bench| Box::pin($name(bench)),
        }),*]
    };
}

pub(super) use {cases, ensure};

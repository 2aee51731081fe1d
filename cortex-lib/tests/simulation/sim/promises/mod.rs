//! What must hold, whatever happens. Each rule is a function with a name; where it stands says when it is checked.
//!
//! | module | when |
//! | --- | --- |
//! | `commit` | after every commit, by SQL of its own on the file |
//! | `rows` | after every commit: more rules in SQL |
//! | `requests` | tool requests: after every commit, and between two lives |
//! | `files` | worktrees and what is staged: after every commit, between two lives, at the end |
//! | `story` | after every commit: the log, and the rows beside it |
//! | `disk` | between two lives, when nothing runs |
//! | `rest` | at the end, when every caller has helped |
//! | `world` | between two lives: what the core asked of the world |

mod commit;
mod disk;
mod files;
mod requests;
mod rest;
mod rows;
mod story;
mod world;

use std::fmt;

pub use commit::Watch;
pub use disk::on_disk;
pub use files::{disowned_worktrees_stay, worktrees_have_rows};
pub use requests::answers_agree;
pub use rest::{agents_have_sessions, everything_rests, messages_expire, waits_have_reasons};
pub use story::Story;
pub use world::of_world;

/// What was promised (`reliability`), and two things without which no promise could be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// 1. Nothing acknowledged is lost.
    NothingIsLost,
    /// 2. No attempt runs twice unnoticed, and a stale one counts nothing.
    NothingRunsTwice,
    /// 3. No process is left behind.
    NothingIsLeftBehind,
    /// 4. Nothing waits for ever, nothing loops for ever.
    NothingWaitsForEver,
    /// 5. No work of a person is touched.
    NothingOfOthersIsTouched,
    /// A call ends well or with a code that it declares; nothing panics.
    AnswersAreDeclared,
    /// Events tell the same as rows, in one order.
    EventsAgreeWithRows,
}

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub promise: Promise,
    pub what: String,
}

impl Broken {
    pub fn new(promise: Promise, what: impl Into<String>) -> Self {
        Self { promise, what: what.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.what)
    }
}

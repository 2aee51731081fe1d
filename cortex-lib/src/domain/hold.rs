//! What holds a task back for a while, and what a pause does to that.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Why a task is held back for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Hold {
    /// Its last attempt failed.
    Backoff,
    /// The quota of the runtime is used up.
    RateLimited,
}

/// When a hold is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldEnd {
    /// At this point in time.
    At(Timestamp),
    /// This long after the resume: its objective is paused.
    AfterResume(Duration),
}

impl Hold {
    /// Whether a pause stops its clock. A wait of ours goes on from where it was (S-155); a quota comes back
    /// when its runtime says so, whatever we do.
    pub const fn stops_in_a_pause(self) -> bool {
        match self {
            Self::Backoff => true,
            Self::RateLimited => false,
        }
    }
}

impl HoldEnd {
    /// What is left of it at a pause. One that is paused stays as it is.
    #[must_use]
    pub fn paused(self, now: Timestamp) -> Self {
        match self {
            Self::At(until) => Self::AfterResume(until.since(now)),
            Self::AfterResume(_) => self,
        }
    }

    /// When what was left of it is over after a resume. One that runs stays as it is.
    #[must_use]
    pub fn resumed(self, now: Timestamp) -> Self {
        match self {
            Self::At(_) => self,
            Self::AfterResume(left) => Self::At(now.after(left)),
        }
    }

    /// The point in time, if it runs.
    pub const fn at(self) -> Option<Timestamp> {
        match self {
            Self::At(until) => Some(until),
            Self::AfterResume(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// S-155, H-29.
    #[test]
    fn what_was_left_at_the_pause_counts_on_from_the_resume() {
        let held = HoldEnd::At(at(5_000)).paused(at(2_000));
        assert_eq!(held.at(), None, "nothing is due while it is paused");
        assert_eq!(held.paused(at(4_000)), held, "a second pause takes nothing away");
        assert_eq!(held.resumed(at(60_000)), HoldEnd::At(at(63_000)));
    }

    #[test]
    fn what_was_over_at_the_pause_is_over_at_the_resume() {
        let held = HoldEnd::At(at(1_000)).paused(at(2_000));
        assert_eq!(held.resumed(at(60_000)), HoldEnd::At(at(60_000)));
        assert_eq!(HoldEnd::At(at(1_000)).resumed(at(60_000)), HoldEnd::At(at(1_000)));
    }
}

//! How a session closes: in stages of rising force, each with its share of the grace.
//!
//! A CLI that is told to end while it works leaves its tools behind, so its turn is interrupted first; an
//! idle one ends by itself when nothing more can be said to it.

use std::time::Duration;

use tokio::time::Instant;

/// An orderly end, in stages of rising force.
pub(super) struct Closing {
    pub(super) started: Instant,
    pub(super) grace: Duration,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The turn that runs is interrupted.
    Interrupt,
    /// Nothing more is said: an idle CLI ends by itself.
    Eof,
    /// Ctrl-C: it ends its tools, also those in the background, and itself.
    Sigint,
    /// It ends at once and leaves its tools.
    Sigterm,
}

impl Closing {
    /// When the stage has had its time, in percent of the grace.
    pub(super) fn until(&self) -> Instant {
        let percent = match self.stage {
            Stage::Interrupt => 35,
            Stage::Eof => 60,
            Stage::Sigint => 80,
            Stage::Sigterm => 95,
        };
        self.started + self.grace * percent / 100
    }
}

//! What the loop of a session keeps track of.

use std::time::Duration;

use cortex_lib::error::Result;
use cortex_lib::port::{Steered, TurnEnd};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::server::Told;
use super::session::Command;

/// What the loop wakes up for.
pub(super) enum Happened {
    /// A command came; `None`: the session was dropped.
    Commanded(Option<Command>),
    /// Something is due.
    Due,
    /// The core takes another event.
    Room,
    /// The process said something; `None`: it never will again.
    Told(Option<Told>),
}

/// What the answer to a request is for.
pub(super) enum Waiter {
    Start,
    /// Of the turn that the CLI calls so.
    Interrupt(String),
    /// The CLI may take so long.
    Steer(oneshot::Sender<Result<Steered>>, Instant),
    Clean,
    /// What comes of it is seen otherwise.
    Nobody,
}

impl Waiter {
    /// When it is waited for no longer, where nothing else says so.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Steer(_, until) => Some(*until),
            Self::Start | Self::Interrupt(_) | Self::Clean | Self::Nobody => None,
        }
    }
}

/// A turn that the CLI has not taken yet.
pub(super) struct Sending {
    pub(super) reply: oneshot::Sender<Result<()>>,
    pub(super) until: Instant,
}

/// A turn that is over for the CLI.
pub(super) struct Finishing {
    pub(super) end: TurnEnd,
    pub(super) leaves_nothing: bool,
    /// What it left in the background is still being ended.
    pub(super) cleans: bool,
    pub(super) until: Instant,
}

/// An orderly end.
pub(super) struct Closing {
    pub(super) started: Instant,
    pub(super) grace: Duration,
    /// The turn was interrupted and is over, or had its time; the thread is being left.
    pub(super) leaves: bool,
}

impl Closing {
    /// When all of it must be over.
    pub(super) fn deadline(&self) -> Instant {
        self.started + self.grace
    }

    /// When the stage has had its time, in percent of the grace. The rest is for the process.
    pub(super) fn until(&self) -> Instant {
        self.started + self.grace * if self.leaves { 60 } else { 40 } / 100
    }
}

//! What the engine hears, besides the commits of the store.

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::ids::{AttemptId, SessionId, TurnId};
use crate::port::{Opened, SessionEvent, VerificationOutcome};

/// What the engine hears.
#[derive(Debug)]
pub(super) enum Wake {
    /// Something happened in a session.
    Session(SessionId, SessionEvent),
    /// Something that was owed is done.
    Done(Job, Done),
    /// The core is told to end. Answered when nothing runs any more.
    Stop(Stop, oneshot::Sender<()>),
}

/// How the core ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Turns are interrupted and sessions closed, each with its grace.
    InOrder,
    /// Sessions are ended without asking.
    AtOnce,
}

/// Something the world is owed, by what it is for. Done once as long as it is owed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// Open a session.
    Open(SessionId),
    /// End a session.
    Close(SessionId),
    /// Send the turn of an attempt.
    SendTurn(AttemptId),
    /// Interrupt the turn of an attempt.
    InterruptTurn(AttemptId),
    /// Run the verification of an attempt.
    Verify(AttemptId),
    /// Send a direct turn.
    SendDirect(TurnId),
    /// Interrupt a direct turn.
    InterruptDirect(TurnId),
}

/// What came of a job.
#[derive(Debug)]
pub(super) enum Done {
    /// A session is open, or could not be opened.
    Opened(Result<Opened>),
    /// A session is closed; nothing of it lives.
    Closed,
    /// A turn was accepted, or not.
    Sent(Result<()>),
    /// A turn was not sent: its objective was paused after its assignment.
    HeldBack,
    /// A session was asked to end a turn, or could not be.
    Interrupted(Result<()>),
    /// A turn that was to be interrupted had not even been sent.
    NeverSent,
    /// A verification ended by itself.
    Verified(VerificationOutcome),
    /// It was ended before.
    Cancelled,
}

impl Done {
    /// The failure of a job that could not even begin.
    pub(super) fn failed(job: &Job, error: Error) -> Self {
        match job {
            Job::Open(_) => Self::Opened(Err(error)),
            Job::Close(_) => Self::Closed,
            Job::SendTurn(_) | Job::SendDirect(_) => Self::Sent(Err(error)),
            Job::InterruptTurn(_) | Job::InterruptDirect(_) => Self::Interrupted(Err(error)),
            Job::Verify(_) => Self::Verified(VerificationOutcome::Unavailable {
                commands: Vec::new(),
                message: error.message().to_owned(),
            }),
        }
    }
}

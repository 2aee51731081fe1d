//! What the engine hears, besides the commits of the store.

use tokio::sync::oneshot;

use super::workspaces::Prepared;
use crate::domain::workspace::ChangedFile;
use crate::error::{Error, Result};
use crate::ids::{ApprovalId, AttemptId, SessionId, TurnId};
use crate::port::{Opened, SessionEvent, Steered, VerificationOutcome};
use crate::store::Files;

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
    /// Make the worktree of an attempt, or note the files of its folder.
    Prepare(AttemptId),
    /// Commit what a turn left, or note what it changed.
    Gather(AttemptId),
    /// Run the verification of an attempt.
    Verify(AttemptId),
    /// Commit what a worktree holds before it goes.
    Save(AttemptId),
    /// Point the branch of a task at the commit of an attempt.
    Point(AttemptId),
    /// Bring the commit of an attempt into the project's folder.
    Squash(AttemptId),
    /// Remove the worktree of an attempt.
    Remove(AttemptId),
    /// Send a direct turn.
    SendDirect(TurnId),
    /// Interrupt a direct turn.
    InterruptDirect(TurnId),
    /// Tell a session what was decided about a tool request.
    Answer(ApprovalId),
    /// Hand a message to the direct turn that it is for. Both by their ids: it may be for another one later.
    Steer(TurnId, TurnId),
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
    /// A turn heard a message, was over, or could not be asked.
    Steered(Result<Steered>),
    /// A turn that was to be interrupted had not even been sent.
    NeverSent,
    /// A session was told an answer, or does not take it.
    Answered(Result<()>),
    /// A workspace is ready, or could not be made so.
    Prepared(Result<Prepared>),
    /// What a turn did to the files is known, or could not be kept.
    Gathered(Result<Files>),
    /// Something that was owed to a worktree is done, or could not be.
    Workspace(Result<()>),
    /// An integration is done, and this was changed in the worktree since its commit (none: that cannot be told); or
    /// it could not be.
    Squashed(Result<Option<Vec<ChangedFile>>>),
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
            Job::Answer(_) => Self::Answered(Err(error)),
            Job::Steer(..) => Self::Steered(Err(error)),
            Job::Prepare(_) => Self::Prepared(Err(error)),
            Job::Gather(_) => Self::Gathered(Err(error)),
            Job::Save(_) | Job::Point(_) | Job::Remove(_) => Self::Workspace(Err(error)),
            Job::Squash(_) => Self::Squashed(Err(error)),
            Job::Verify(_) => Self::Verified(VerificationOutcome::Unavailable {
                commands: Vec::new(),
                message: error.message().to_owned(),
            }),
        }
    }
}

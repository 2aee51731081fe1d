//! Faults of the disk and the power that a simulation decides, commit by commit.

use std::fmt::Debug;

/// What becomes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It commits.
    Commit,
    /// The power goes before COMMIT. Nothing is kept and nobody is answered.
    LoseBefore,
    /// The power goes after COMMIT. All is kept and nobody is answered.
    LoseAfter,
    /// The power goes after COMMIT, when every caller was answered and before anybody acts on it.
    LoseAnswered,
    /// The disk is full. Nothing is kept, every caller hears it, the store goes on.
    DiskFull,
    /// Another program holds the file: nothing is kept, the store goes on.
    Locked,
    /// COMMIT fails with an outcome that nobody can know; it turns out that nothing was kept.
    FailCommit,
    /// COMMIT fails with an outcome that nobody can know; it turns out that all was kept.
    FailButKeep,
    /// A planted defect: nothing is kept, and every caller hears that it is.
    Forget,
}

/// Decides the fate of commits.
pub trait Faults: Debug + Send + Sync + 'static {
    /// Called once for each commit, when its closures have run.
    fn at_commit(&self) -> Fate;
}

/// A disk that never fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn at_commit(&self) -> Fate {
        Fate::Commit
    }
}

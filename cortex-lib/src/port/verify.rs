//! Running a project's verification commands.

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::verification::{CommandReport, VerificationCommand};
use crate::ids::AttemptId;
use async_trait::async_trait;

/// Runs verification commands. The core has one that starts processes; a simulation brings its own.
#[async_trait]
pub trait Verifier: Debug + Send + Sync + 'static {
    /// Runs the commands in order and stops at the first that fails.
    ///
    /// When it is dropped before it returns, nothing that it started may live on.
    async fn verify(&self, request: VerificationRequest) -> VerificationOutcome;
}

/// What to verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationRequest {
    /// The attempt whose result is verified. Also the marker of the processes.
    pub attempt_id: AttemptId,
    /// Where.
    pub cwd: PathBuf,
    /// What to run, in order.
    pub commands: Vec<VerificationCommand>,
    /// For all of them together.
    pub timeout: Duration,
}

/// How a verification ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerificationOutcome {
    /// Every command ended with exit code 0.
    Passed {
        /// What ran.
        commands: Vec<CommandReport>,
    },
    /// A command ended otherwise.
    Failed {
        /// What ran; the last one failed.
        commands: Vec<CommandReport>,
        /// What failed, in one sentence.
        message: String,
    },
    /// A command could not run.
    Unavailable {
        /// What ran before.
        commands: Vec<CommandReport>,
        /// Why, in one sentence.
        message: String,
    },
}

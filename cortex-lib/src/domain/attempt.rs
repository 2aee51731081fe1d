//! The life of an attempt: one try of a task, made of one turn and its verification.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::{Machine, Refusal, Step};

/// The class of a failure. It decides whether and when a task is tried again.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Cause {
    /// The network, an overloaded or a broken service: likely to pass.
    Transient,
    /// The runtime's quota is used up until a point in time.
    RateLimited,
    /// The session died by itself.
    Crashed,
    /// The task's time was over.
    TimedOut,
    /// The turn was silent for too long.
    Stalled,
    /// A verification command failed.
    VerificationFailed,
    /// The runtime refused: its login or the request is bad. Trying again would not help.
    Refused,
    /// Nobody answered a tool request in time.
    ApprovalTimedOut,
    /// The project's folder is not there.
    InvalidRoot,
    /// Its own worktree could not be made or committed.
    WorkspaceUnavailable,
    /// Anything else.
    Error,
}

impl Cause {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::RateLimited => "rate_limited",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::Stalled => "stalled",
            Self::VerificationFailed => "verification_failed",
            Self::Refused => "refused",
            Self::ApprovalTimedOut => "approval.timed_out",
            Self::InvalidRoot => "project.invalid_root",
            Self::WorkspaceUnavailable => "workspace.unavailable",
            Self::Error => "error",
        }
    }
}

/// Why an attempt was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its task was cancelled.
    TaskCancelled,
    /// Its objective was paused.
    ObjectivePaused,
    /// Its agent was stopped.
    AgentStopped,
    /// The core stops in order.
    CoreStopping,
    /// Its time was over.
    TimedOut,
    /// It was silent for too long.
    Stalled,
    /// Nobody answered a tool request in time.
    ApprovalTimedOut,
}

impl EndReason {
    /// What the attempt counts as once it has let go.
    const fn outcome(self) -> Outcome {
        match self {
            Self::TimedOut => Outcome::Failed(Cause::TimedOut),
            Self::Stalled => Outcome::Failed(Cause::Stalled),
            Self::ApprovalTimedOut => Outcome::Failed(Cause::ApprovalTimedOut),
            Self::TaskCancelled
            | Self::ObjectivePaused
            | Self::AgentStopped
            | Self::CoreStopping => Outcome::Cancelled(self),
        }
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TaskCancelled => "task.cancelled",
            Self::ObjectivePaused => "objective.paused",
            Self::AgentStopped => "agent.stopped",
            Self::CoreStopping => "core.stopping",
            Self::TimedOut => "timed_out",
            Self::Stalled => "stalled",
            Self::ApprovalTimedOut => "approval.timed_out",
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With a result and passed verification, or with a result and nothing to verify it with.
    Succeeded(Proof),
    /// Without a result that counts.
    Failed(Cause),
    /// It was told to end and did.
    Cancelled(EndReason),
    /// The core went down while it ran: nobody knows how far it came.
    Lost,
}

/// What speaks for a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// The project's verification passed.
    Verified,
    /// The project has no verification.
    Missing,
    /// The verification could not run.
    Unavailable,
}

/// Where an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Its workspace is being prepared: a worktree is made, or the files of the folder are noted.
    Preparing,
    /// The session that is its own alone is being opened.
    Opening,
    /// Stored. Its turn may have been sent, and is not yet known to be accepted.
    Starting,
    /// The runtime works on it.
    Running,
    /// Told to end; the agent has not let go yet.
    Ending(EndReason),
    /// The agent did not let go in time; its session is being ended.
    Killing(EndReason),
    /// The turn has a result; what it did to the files is being committed or noted.
    Gathering,
    /// The turn has a result; the project's commands check it.
    Verifying,
    /// Cancelled while its commands run; they are being ended.
    Halting(EndReason),
    /// Over.
    Over(Outcome),
}

/// What follows on a turn with a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// What it did to the files is looked at first.
    Gather,
    /// The project's commands check it.
    Verify,
    /// Nothing can be said about it.
    Nothing,
}

/// What happens to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptInput {
    /// Its workspace is ready; `session`: a session of its own is to be opened in it.
    Prepared {
        /// Whether it gets a session of its own.
        session: bool,
    },
    /// Its workspace could not be made, or what stands in it could not be committed.
    WorkspaceFailed,
    /// Its own session is open.
    SessionOpened,
    /// The runtime accepted the turn.
    TurnAccepted,
    /// The turn ended with a result.
    TurnSucceeded(Next),
    /// What the turn did to the files is known, as far as it can be; `verify`: the project has commands to check it.
    Gathered {
        /// Whether there is something to verify it with.
        verify: bool,
    },
    /// The turn ended without a result, or could not be sent.
    TurnFailed(Cause),
    /// The session is gone.
    SessionLost,
    /// The core that ran it is gone.
    CoreLost,
    /// Somebody tells it to end.
    End(EndReason),
    /// The patience with an ending attempt is over.
    GraceOver,
    /// Every command ended well.
    VerificationPassed,
    /// A command failed.
    VerificationFailed,
    /// A command could not run.
    VerificationUnavailable,
    /// The commands were ended.
    VerificationHalted,
}

/// What the world owes an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptDuty {
    /// Make its worktree, or note the files of the folder.
    Prepare,
    /// Open its own session.
    OpenSession,
    /// Commit its worktree, or note the files of the folder.
    Gather,
    /// Hand the turn to its session.
    SendTurn,
    /// Ask the session to stop the turn.
    InterruptTurn,
    /// End the session.
    EndSession,
    /// Run the project's commands.
    Verify,
    /// End the project's commands.
    HaltVerification,
}

impl Machine for AttemptState {
    type Input = AttemptInput;
    type Duty = AttemptDuty;

    fn step(&self, input: AttemptInput) -> Result<Step<Self>, Refusal> {
        use AttemptInput as I;

        Ok(Step::To(match (*self, input) {
            (Self::Preparing | Self::Opening | Self::Gathering, input) => {
                return self.step_around_turn(input);
            }

            (Self::Starting, I::TurnAccepted) => Self::Running,
            (Self::Running, I::TurnAccepted) => return Ok(Step::Stay),
            (Self::Starting | Self::Running, I::TurnSucceeded(Next::Gather)) => Self::Gathering,
            (Self::Starting | Self::Running, I::TurnSucceeded(Next::Verify)) => Self::Verifying,
            (Self::Starting | Self::Running, I::TurnSucceeded(Next::Nothing)) => {
                Self::Over(Outcome::Succeeded(Proof::Missing))
            }
            (Self::Starting | Self::Running, I::TurnFailed(cause)) => {
                Self::Over(Outcome::Failed(cause))
            }
            (Self::Starting | Self::Running, I::SessionLost) => {
                Self::Over(Outcome::Failed(Cause::Crashed))
            }
            (Self::Starting | Self::Running, I::CoreLost) => Self::Over(Outcome::Lost),
            // The turn may have been sent already, so ending is always a duty.
            (Self::Starting | Self::Running, I::End(reason)) => Self::Ending(reason),

            // Whatever the turn says now, it was told to end.
            (
                Self::Ending(reason) | Self::Killing(reason),
                I::TurnSucceeded(_) | I::TurnFailed(_) | I::SessionLost,
            ) => Self::Over(reason.outcome()),
            // A stop of the core that nobody confirmed is no better than a crash.
            (
                Self::Ending(EndReason::CoreStopping) | Self::Killing(EndReason::CoreStopping),
                I::CoreLost,
            ) => Self::Over(Outcome::Lost),
            (Self::Ending(reason) | Self::Killing(reason), I::CoreLost) => {
                Self::Over(reason.outcome())
            }
            (Self::Ending(reason), I::GraceOver) => Self::Killing(reason),
            (Self::Ending(_) | Self::Killing(_), I::End(_) | I::TurnAccepted) => {
                return Ok(Step::Stay);
            }

            (Self::Verifying, I::VerificationPassed) => {
                Self::Over(Outcome::Succeeded(Proof::Verified))
            }
            (Self::Verifying, I::VerificationFailed) => {
                Self::Over(Outcome::Failed(Cause::VerificationFailed))
            }
            (Self::Verifying, I::VerificationUnavailable) => {
                Self::Over(Outcome::Succeeded(Proof::Unavailable))
            }
            // Only a cancellation ends a verification: the turn is over, so a pause, a stopped agent or a
            // core that comes back change nothing about its result.
            (Self::Verifying, I::End(reason @ EndReason::TaskCancelled)) => Self::Halting(reason),
            (Self::Verifying, I::End(_) | I::SessionLost | I::CoreLost) => return Ok(Step::Stay),

            (
                Self::Halting(reason),
                I::VerificationPassed
                | I::VerificationFailed
                | I::VerificationUnavailable
                | I::VerificationHalted
                | I::CoreLost,
            ) => Self::Over(reason.outcome()),
            (Self::Halting(_), I::End(_) | I::SessionLost) => return Ok(Step::Stay),

            (Self::Over(_), I::End(_)) => return Ok(Step::Stay),
            (Self::Over(_), _) => return Err(Refusal::Stale),
            (
                Self::Starting
                | Self::Running
                | Self::Ending(_)
                | Self::Killing(_)
                | Self::Verifying
                | Self::Halting(_),
                _,
            ) => return Err(Refusal::WrongState),
        }))
    }

    fn owes(&self) -> Option<AttemptDuty> {
        match self {
            Self::Preparing => Some(AttemptDuty::Prepare),
            Self::Opening => Some(AttemptDuty::OpenSession),
            Self::Gathering => Some(AttemptDuty::Gather),
            Self::Starting => Some(AttemptDuty::SendTurn),
            Self::Ending(_) => Some(AttemptDuty::InterruptTurn),
            Self::Killing(_) => Some(AttemptDuty::EndSession),
            Self::Verifying => Some(AttemptDuty::Verify),
            Self::Halting(_) => Some(AttemptDuty::HaltVerification),
            Self::Running | Self::Over(_) => None,
        }
    }

    fn is_final(&self) -> bool {
        matches!(self, Self::Over(_))
    }
}

impl AttemptState {
    /// Before the turn is sent, and between its end and its verification: what concerns the workspace alone.
    fn step_around_turn(self, input: AttemptInput) -> Result<Step<Self>, Refusal> {
        use AttemptInput as I;

        Ok(Step::To(match (self, input) {
            (Self::Preparing, I::Prepared { session: true }) => Self::Opening,
            (Self::Preparing, I::Prepared { session: false })
            | (Self::Opening, I::SessionOpened) => Self::Starting,
            (Self::Preparing | Self::Gathering, I::WorkspaceFailed) => {
                Self::Over(Outcome::Failed(Cause::WorkspaceUnavailable))
            }
            (Self::Preparing | Self::Opening, I::TurnFailed(cause)) => {
                Self::Over(Outcome::Failed(cause))
            }
            (Self::Preparing | Self::Opening, I::SessionLost) => {
                Self::Over(Outcome::Failed(Cause::Crashed))
            }
            // No turn was sent, so it may run again without harm.
            (Self::Preparing | Self::Opening, I::CoreLost) => {
                Self::Over(Outcome::Cancelled(EndReason::CoreStopping))
            }
            // No turn was sent, so there is nothing to let go of.
            (Self::Preparing, I::End(reason)) => Self::Over(reason.outcome()),
            // What is being opened is ended like a session that is open.
            (Self::Opening, I::End(reason)) => Self::Killing(reason),

            (Self::Gathering, I::Gathered { verify: true }) => Self::Verifying,
            (Self::Gathering, I::Gathered { verify: false }) => {
                Self::Over(Outcome::Succeeded(Proof::Missing))
            }
            // No command runs yet.
            (Self::Gathering, I::End(reason @ EndReason::TaskCancelled)) => {
                Self::Over(reason.outcome())
            }
            (Self::Gathering, I::End(_) | I::SessionLost | I::CoreLost) => return Ok(Step::Stay),
            (_, _) => return Err(Refusal::WrongState),
        }))
    }

    /// Whether nothing can happen to it any more.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Over(_))
    }

    /// Whether it was told to end and has not.
    pub fn is_letting_go(&self) -> bool {
        match self {
            Self::Ending(_) | Self::Killing(_) | Self::Halting(_) => true,
            Self::Preparing
            | Self::Opening
            | Self::Starting
            | Self::Running
            | Self::Gathering
            | Self::Verifying
            | Self::Over(_) => false,
        }
    }

    /// Whether its turn may still act: it holds its agent and was not told to end.
    pub fn may_act(&self) -> bool {
        self.holds_agent() && !self.is_letting_go()
    }

    /// Whether its turn may still be running on an agent.
    pub fn holds_agent(&self) -> bool {
        match self {
            Self::Preparing
            | Self::Opening
            | Self::Starting
            | Self::Running
            | Self::Ending(_)
            | Self::Killing(_) => true,
            Self::Gathering | Self::Verifying | Self::Halting(_) | Self::Over(_) => false,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::machine::walk;

    pub(in crate::domain) fn inputs() -> Vec<AttemptInput> {
        vec![
            AttemptInput::Prepared { session: true },
            AttemptInput::Prepared { session: false },
            AttemptInput::WorkspaceFailed,
            AttemptInput::SessionOpened,
            AttemptInput::TurnAccepted,
            AttemptInput::TurnSucceeded(Next::Gather),
            AttemptInput::TurnSucceeded(Next::Verify),
            AttemptInput::TurnSucceeded(Next::Nothing),
            AttemptInput::Gathered { verify: true },
            AttemptInput::Gathered { verify: false },
            AttemptInput::TurnFailed(Cause::Error),
            AttemptInput::SessionLost,
            AttemptInput::CoreLost,
            AttemptInput::End(EndReason::TaskCancelled),
            AttemptInput::End(EndReason::ObjectivePaused),
            AttemptInput::End(EndReason::AgentStopped),
            AttemptInput::End(EndReason::CoreStopping),
            AttemptInput::End(EndReason::TimedOut),
            AttemptInput::End(EndReason::Stalled),
            AttemptInput::End(EndReason::ApprovalTimedOut),
            AttemptInput::GraceOver,
            AttemptInput::VerificationPassed,
            AttemptInput::VerificationFailed,
            AttemptInput::VerificationUnavailable,
            AttemptInput::VerificationHalted,
        ]
    }

    #[test]
    fn what_was_told_to_end_never_counts_as_a_success() {
        let seen = walk(AttemptState::Preparing, &inputs(), true, |from, input, to| {
            if matches!(
                from,
                AttemptState::Ending(_) | AttemptState::Killing(_) | AttemptState::Halting(_)
            ) {
                assert!(
                    !matches!(to, AttemptState::Over(Outcome::Succeeded(_))),
                    "{from:?} --{input:?}--> {to:?}"
                );
            }
        });
        assert_eq!(
            (seen.states.len(), seen.edges, seen.refusals),
            (36, 155, 503),
            "the lifecycle changed: is that meant?"
        );
    }

    /// A crash forgets what was done, never what is owed: doing the duties of the stored state leads to rest.
    #[test]
    fn duties_lead_every_state_to_rest() {
        let answer = |duty| match duty {
            AttemptDuty::Prepare => AttemptInput::Prepared { session: true },
            AttemptDuty::OpenSession => AttemptInput::SessionOpened,
            AttemptDuty::Gather => AttemptInput::Gathered { verify: true },
            AttemptDuty::SendTurn => AttemptInput::TurnAccepted,
            AttemptDuty::InterruptTurn => AttemptInput::TurnFailed(Cause::Error),
            AttemptDuty::EndSession => AttemptInput::SessionLost,
            AttemptDuty::Verify => AttemptInput::VerificationPassed,
            AttemptDuty::HaltVerification => AttemptInput::VerificationHalted,
        };
        for state in walk(AttemptState::Preparing, &inputs(), true, |_, _, _| ()).states {
            let mut settled = state;
            while let Some(duty) = settled.owes() {
                let Ok(Step::To(next)) = settled.step(answer(duty)) else {
                    panic!("{settled:?} refuses {duty:?}")
                };
                settled = next;
            }
            assert!(matches!(settled, AttemptState::Running | AttemptState::Over(_)), "{state:?}");
        }
    }

    #[test]
    fn a_turn_that_is_verified_outlives_its_session_and_its_core() {
        for input in [
            AttemptInput::SessionLost,
            AttemptInput::CoreLost,
            AttemptInput::End(EndReason::ObjectivePaused),
        ] {
            for state in [AttemptState::Gathering, AttemptState::Verifying] {
                assert_eq!(state.step(input), Ok(Step::Stay), "H-27: {state:?}, {input:?}");
            }
        }
    }
}

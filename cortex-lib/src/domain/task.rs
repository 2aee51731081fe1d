//! The life of a task: waits, is tried, and completes only on evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attempt::{Cause, EndReason, Outcome, Proof};
use super::machine::{Machine, Refusal, Step};
use crate::ids::AttemptId;
use crate::limits::FREE_REPEATS_MAX;

/// Why a task waits for a person.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline)]
pub enum BlockCause {
    /// The project has no verification.
    #[serde(rename = "verification.missing")]
    VerificationMissing,
    /// Verification failed, also after every retry.
    #[serde(rename = "verification.failed")]
    VerificationFailed,
    /// Verification could not run.
    #[serde(rename = "verification.unavailable")]
    VerificationUnavailable,
    /// The core went down during the turn; it may have changed files.
    #[serde(rename = "recovery.outcome_unknown")]
    OutcomeUnknown,
    /// The runtime refused.
    #[serde(rename = "runtime.refused")]
    Refused,
    /// Nobody answered a tool request.
    #[serde(rename = "approval.timed_out")]
    ApprovalTimedOut,
    /// The project's folder is not there.
    #[serde(rename = "project.invalid_root")]
    InvalidRoot,
    /// Its attempt's own worktree could not be made or committed.
    #[serde(rename = "workspace.unavailable")]
    WorkspaceUnavailable,
    /// It was lost or interrupted too often without anybody's fault.
    #[serde(rename = "retry.free_repeats_spent")]
    FreeRepeatsSpent,
    /// The attempt that a person asked for failed.
    #[serde(rename = "attempt.failed")]
    AttemptFailed,
}

impl BlockCause {
    /// Whether the last attempt has a result that a person may accept (S-165, S-167).
    pub const fn is_approvable(self) -> bool {
        match self {
            Self::VerificationMissing
            | Self::VerificationFailed
            | Self::VerificationUnavailable => true,
            Self::OutcomeUnknown
            | Self::Refused
            | Self::ApprovalTimedOut
            | Self::InvalidRoot
            | Self::WorkspaceUnavailable
            | Self::FreeRepeatsSpent
            | Self::AttemptFailed => false,
        }
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::VerificationMissing => "verification.missing",
            Self::VerificationFailed => "verification.failed",
            Self::VerificationUnavailable => "verification.unavailable",
            Self::OutcomeUnknown => "recovery.outcome_unknown",
            Self::Refused => "runtime.refused",
            Self::ApprovalTimedOut => "approval.timed_out",
            Self::InvalidRoot => "project.invalid_root",
            Self::WorkspaceUnavailable => "workspace.unavailable",
            Self::FreeRepeatsSpent => "retry.free_repeats_spent",
            Self::AttemptFailed => "attempt.failed",
        }
    }
}

/// Why a task was cancelled.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline)]
pub enum CancelCause {
    /// Somebody cancelled it, or its objective.
    #[serde(rename = "task.cancelled")]
    Asked,
    /// A task it depends on was cancelled.
    #[serde(rename = "dependency.cancelled")]
    DependencyCancelled,
    /// A task it depends on failed.
    #[serde(rename = "dependency.failed")]
    DependencyFailed,
}

impl CancelCause {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "task.cancelled",
            Self::DependencyCancelled => "dependency.cancelled",
            Self::DependencyFailed => "dependency.failed",
        }
    }
}

/// What speaks for a completed task.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Evidence {
    /// The project's verification passed.
    Verified,
    /// A person approved the result.
    Approved,
    /// Nothing: the project's settings complete unverified results.
    None,
}

/// Where a task stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waits for its dependencies.
    Created,
    /// May start.
    Ready,
    /// An attempt runs.
    Running(AttemptId),
    /// An attempt's result is verified.
    Verifying(AttemptId),
    /// Waits for a person.
    Blocked(BlockCause),
    /// Ended well.
    Completed(Evidence),
    /// Ended badly.
    Failed(Cause),
    /// Ended by decision.
    Cancelled(CancelCause),
}

/// A task's state by its name alone.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(inline)]
pub enum TaskStatus {
    /// Waits for its dependencies.
    Created,
    /// May start.
    Ready,
    /// An attempt runs.
    Running,
    /// An attempt's result is verified.
    Verifying,
    /// Waits for a person.
    Blocked,
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed,
    /// Ended by decision.
    Cancelled,
}

impl TaskStatus {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Ready => "READY",
            Self::Running => "RUNNING",
            Self::Verifying => "VERIFYING",
            Self::Blocked => "BLOCKED",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// Whether nothing can happen any more.
    pub const fn is_ended(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Created | Self::Ready | Self::Running | Self::Verifying | Self::Blocked => false,
        }
    }
}

impl Phase {
    /// Its name alone.
    pub const fn status(&self) -> TaskStatus {
        match self {
            Self::Created => TaskStatus::Created,
            Self::Ready => TaskStatus::Ready,
            Self::Running(_) => TaskStatus::Running,
            Self::Verifying(_) => TaskStatus::Verifying,
            Self::Blocked(_) => TaskStatus::Blocked,
            Self::Completed(_) => TaskStatus::Completed,
            Self::Failed(_) => TaskStatus::Failed,
            Self::Cancelled(_) => TaskStatus::Cancelled,
        }
    }
}

/// A task's phase with what it has spent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskState {
    /// Where it stands.
    pub phase: Phase,
    /// Retries spent on failures.
    pub retries: u8,
    /// Repeats that were nobody's fault.
    pub free_repeats: u8,
    /// Whether a person asked for the last attempt: its failure blocks instead of ending the task (S-171).
    pub asked: bool,
}

/// What an attempt's end means for its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// Retries that the task may spend.
    pub retries_max: u8,
    /// Whether it ran in a worktree of its own, so that repeating it cannot do harm.
    pub isolated: bool,
    /// Whether results without evidence complete a task without asking a person.
    pub approve_unverified: bool,
}

/// What happens to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskInput {
    /// Every dependency has completed.
    DependenciesMet,
    /// The scheduler gives it an attempt.
    Assign(AttemptId),
    /// The attempt's turn has a result; verification begins.
    Verify(AttemptId),
    /// A pause ends the attempt: the task may run again once that has let go and the pause is over.
    Interrupt(AttemptId),
    /// The attempt is over.
    AttemptOver(AttemptId, AttemptEnd),
    /// A person accepts the result of its last attempt.
    Approve,
    /// A person asks for another attempt.
    Retry,
    /// It is cancelled.
    Cancel(CancelCause),
}

impl TaskState {
    /// A task that waits for its dependencies.
    pub const fn new() -> Self {
        Self { phase: Phase::Created, retries: 0, free_repeats: 0, asked: false }
    }

    fn with(&self, phase: Phase) -> Self {
        Self { phase, ..self.clone() }
    }

    /// Tries again at nobody's cost, but not for ever.
    fn repeat(&self) -> Self {
        if self.free_repeats < FREE_REPEATS_MAX {
            Self {
                phase: Phase::Ready,
                free_repeats: self.free_repeats.saturating_add(1),
                ..self.clone()
            }
        } else {
            self.with(Phase::Blocked(BlockCause::FreeRepeatsSpent))
        }
    }

    /// Tries again at the cost of a retry, or gives up.
    fn retry_or(&self, retries_max: u8, exhausted: Phase) -> Self {
        if self.retries < retries_max {
            Self { phase: Phase::Ready, retries: self.retries.saturating_add(1), ..self.clone() }
        } else {
            self.with(exhausted)
        }
    }

    fn after(&self, end: AttemptEnd) -> Self {
        match end.outcome {
            Outcome::Succeeded(Proof::Verified) => self.with(Phase::Completed(Evidence::Verified)),
            Outcome::Succeeded(_) if end.approve_unverified => {
                self.with(Phase::Completed(Evidence::None))
            }
            Outcome::Succeeded(Proof::Missing) => {
                self.with(Phase::Blocked(BlockCause::VerificationMissing))
            }
            Outcome::Succeeded(Proof::Unavailable) => {
                self.with(Phase::Blocked(BlockCause::VerificationUnavailable))
            }

            Outcome::Failed(Cause::Refused) => self.with(Phase::Blocked(BlockCause::Refused)),
            Outcome::Failed(Cause::ApprovalTimedOut) => {
                self.with(Phase::Blocked(BlockCause::ApprovalTimedOut))
            }
            Outcome::Failed(Cause::InvalidRoot) => {
                self.with(Phase::Blocked(BlockCause::InvalidRoot))
            }
            Outcome::Failed(Cause::WorkspaceUnavailable) => {
                self.with(Phase::Blocked(BlockCause::WorkspaceUnavailable))
            }
            Outcome::Failed(Cause::RateLimited) => self.repeat(),
            Outcome::Failed(Cause::VerificationFailed) => {
                self.retry_or(end.retries_max, Phase::Blocked(BlockCause::VerificationFailed))
            }
            Outcome::Failed(
                cause @ (Cause::Transient
                | Cause::Crashed
                | Cause::TimedOut
                | Cause::Stalled
                | Cause::Error),
            ) => {
                let exhausted = if self.asked {
                    Phase::Blocked(BlockCause::AttemptFailed)
                } else {
                    Phase::Failed(cause)
                };
                self.retry_or(end.retries_max, exhausted)
            }

            // A person's decision costs nothing (S-147): the resume lets it run again.
            Outcome::Cancelled(EndReason::ObjectivePaused) => self.with(Phase::Ready),
            Outcome::Cancelled(
                EndReason::AgentStopped
                | EndReason::CoreStopping
                | EndReason::TaskCancelled
                | EndReason::TimedOut
                | EndReason::Stalled
                | EndReason::ApprovalTimedOut,
            ) => self.repeat(),
            Outcome::Lost if end.isolated => self.repeat(),
            Outcome::Lost => self.with(Phase::Blocked(BlockCause::OutcomeUnknown)),
        }
    }
}

impl Default for TaskState {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine for TaskState {
    type Input = TaskInput;
    /// What a task's work owes stands with its attempt.
    type Duty = std::convert::Infallible;

    fn step(&self, input: TaskInput) -> Result<Step<Self>, Refusal> {
        use TaskInput as I;

        Ok(Step::To(match (&self.phase, input) {
            (Phase::Created, I::DependenciesMet) => self.with(Phase::Ready),
            (Phase::Ready, I::Assign(attempt)) => self.with(Phase::Running(attempt)),
            (Phase::Running(current), I::Verify(attempt)) if *current == attempt => {
                self.with(Phase::Verifying(attempt))
            }
            (Phase::Verifying(current), I::Verify(attempt)) if *current == attempt => {
                return Ok(Step::Stay);
            }
            (Phase::Running(current) | Phase::Verifying(current), I::AttemptOver(attempt, end))
                if *current == attempt =>
            {
                self.after(end)
            }
            (Phase::Running(current), I::Interrupt(attempt)) if *current == attempt => {
                self.with(Phase::Ready)
            }
            // Its attempt lets go only now; the task was cancelled, or given back by a pause, before.
            (Phase::Cancelled(_), I::AttemptOver(..) | I::Verify(_))
            | (Phase::Ready, I::AttemptOver(..)) => return Ok(Step::Stay),
            (_, I::AttemptOver(..) | I::Verify(_) | I::Interrupt(_)) => return Err(Refusal::Stale),

            (Phase::Blocked(cause), I::Approve) if cause.is_approvable() => {
                self.with(Phase::Completed(Evidence::Approved))
            }
            (Phase::Blocked(_), I::Retry) => {
                Self { phase: Phase::Ready, asked: true, ..self.clone() }
            }

            (Phase::Cancelled(_), I::Cancel(_)) => return Ok(Step::Stay),
            (
                Phase::Created
                | Phase::Ready
                | Phase::Running(_)
                | Phase::Verifying(_)
                | Phase::Blocked(_),
                I::Cancel(cause),
            ) => self.with(Phase::Cancelled(cause)),

            (
                Phase::Created
                | Phase::Ready
                | Phase::Running(_)
                | Phase::Verifying(_)
                | Phase::Blocked(_)
                | Phase::Completed(_)
                | Phase::Failed(_)
                | Phase::Cancelled(_),
                _,
            ) => return Err(Refusal::WrongState),
        }))
    }

    fn owes(&self) -> Option<Self::Duty> {
        None
    }

    fn is_final(&self) -> bool {
        self.phase.status().is_ended()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::machine::walk;

    const RETRIES_MAX: u8 = 2;

    fn outcomes() -> Vec<Outcome> {
        let failures = [
            Cause::Transient,
            Cause::RateLimited,
            Cause::Crashed,
            Cause::TimedOut,
            Cause::Stalled,
            Cause::VerificationFailed,
            Cause::Refused,
            Cause::ApprovalTimedOut,
            Cause::InvalidRoot,
            Cause::WorkspaceUnavailable,
            Cause::Error,
        ];
        let proofs = [Proof::Verified, Proof::Missing, Proof::Unavailable];
        let ends = [
            EndReason::TaskCancelled,
            EndReason::ObjectivePaused,
            EndReason::AgentStopped,
            EndReason::CoreStopping,
        ];
        failures
            .map(Outcome::Failed)
            .into_iter()
            .chain(proofs.map(Outcome::Succeeded))
            .chain(ends.map(Outcome::Cancelled))
            .chain([Outcome::Lost])
            .collect()
    }

    fn end(outcome: Outcome) -> AttemptEnd {
        AttemptEnd { outcome, retries_max: RETRIES_MAX, isolated: false, approve_unverified: false }
    }

    pub(in crate::domain) fn inputs() -> Vec<TaskInput> {
        let mut all = vec![TaskInput::DependenciesMet, TaskInput::Approve, TaskInput::Retry];
        all.extend(
            [CancelCause::Asked, CancelCause::DependencyCancelled, CancelCause::DependencyFailed]
                .map(TaskInput::Cancel),
        );
        for id in ["1", "2"].map(AttemptId::new) {
            all.extend([
                TaskInput::Assign(id.clone()),
                TaskInput::Verify(id.clone()),
                TaskInput::Interrupt(id.clone()),
            ]);
            for outcome in outcomes() {
                all.push(TaskInput::AttemptOver(id.clone(), end(outcome)));
                all.push(TaskInput::AttemptOver(
                    id.clone(),
                    AttemptEnd { isolated: true, ..end(outcome) },
                ));
                all.push(TaskInput::AttemptOver(
                    id.clone(),
                    AttemptEnd { approve_unverified: true, ..end(outcome) },
                ));
            }
        }
        all
    }

    #[test]
    fn every_reachable_edge_obeys_the_laws() {
        let seen = walk(TaskState::new(), &inputs(), true, |from, input, to| {
            assert!(
                to.retries <= RETRIES_MAX && to.free_repeats <= FREE_REPEATS_MAX,
                "{from:?} --{input:?}--> {to:?}"
            );
            // A task completes only on evidence, or by the setting that says it needs none.
            if let Phase::Completed(evidence) = to.phase {
                match (evidence, input) {
                    (Evidence::Verified, TaskInput::AttemptOver(_, end)) => {
                        assert_eq!(end.outcome, Outcome::Succeeded(Proof::Verified));
                    }
                    (Evidence::None, TaskInput::AttemptOver(_, end)) => {
                        assert!(end.approve_unverified);
                    }
                    (Evidence::Approved, TaskInput::Approve) => {}
                    _ => panic!("{from:?} --{input:?}--> {to:?}"),
                }
            }
            // S-171: what a person asked for never ends as FAILED.
            assert!(
                !(from.asked && matches!(to.phase, Phase::Failed(_))),
                "{from:?} --{input:?}--> {to:?}"
            );
        });
        assert_eq!(
            (seen.states.len(), seen.edges),
            (703, 10156),
            "the lifecycle changed: is that meant?"
        );
    }

    /// The table of calls by state (`decisions.md`, Transitions), cell by cell: `x` refused, `=` unchanged.
    #[test]
    fn the_call_table_holds() {
        let attempt = AttemptId::new("a");
        let phases = [
            Phase::Created,
            Phase::Ready,
            Phase::Running(attempt.clone()),
            Phase::Verifying(attempt.clone()),
            Phase::Blocked(BlockCause::VerificationMissing),
            Phase::Blocked(BlockCause::OutcomeUnknown),
            Phase::Completed(Evidence::Verified),
            Phase::Failed(Cause::Error),
            Phase::Cancelled(CancelCause::Asked),
        ];
        let lost = |isolated| {
            TaskInput::AttemptOver(attempt.clone(), AttemptEnd { isolated, ..end(Outcome::Lost) })
        };
        let paused = TaskInput::AttemptOver(
            attempt.clone(),
            end(Outcome::Cancelled(EndReason::ObjectivePaused)),
        );
        let table = [
            (
                TaskInput::Cancel(CancelCause::Asked),
                "CANCELLED CANCELLED CANCELLED CANCELLED CANCELLED CANCELLED x x =",
            ),
            (TaskInput::Retry, "x x x x READY READY x x x"),
            (TaskInput::Approve, "x x x x COMPLETED x x x x"),
            (TaskInput::Interrupt(attempt.clone()), "x x READY x x x x x x"),
            (lost(false), "x = BLOCKED BLOCKED x x x x ="),
            (lost(true), "x = READY READY x x x x ="),
            (paused, "x = READY READY x x x x ="),
        ];
        for (input, row) in table {
            let seen: Vec<_> = phases
                .iter()
                .map(|phase| match TaskState::new().with(phase.clone()).step(input.clone()) {
                    Ok(Step::To(next)) => next.phase.status().as_str(),
                    Ok(Step::Stay) => "=",
                    Err(_) => "x",
                })
                .collect();
            assert_eq!(seen.join(" "), row, "{input:?}");
        }
    }

    #[test]
    fn an_outcome_of_another_attempt_changes_nothing() {
        let task = TaskState::new().with(Phase::Running(AttemptId::new("2")));
        let late =
            TaskInput::AttemptOver(AttemptId::new("1"), end(Outcome::Succeeded(Proof::Verified)));
        assert_eq!(task.step(late), Err(Refusal::Stale));
    }

    /// Promise 4: however attempts end, a task gets no more of them than its limits allow.
    #[test]
    fn attempts_are_bounded() {
        for outcome in outcomes()
            .into_iter()
            .filter(|outcome| *outcome != Outcome::Cancelled(EndReason::ObjectivePaused))
        {
            let (mut task, mut attempts) = (TaskState::new().with(Phase::Ready), 0);
            while task.phase == Phase::Ready {
                attempts += 1;
                assert!(
                    attempts <= 1 + u32::from(RETRIES_MAX) + u32::from(FREE_REPEATS_MAX),
                    "{outcome:?}"
                );
                task = task.after(end(outcome));
            }
        }
    }
}

//! The flow of an objective: whether its tasks may start. Its status is derived from its tasks, never stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::{Machine, Refusal, Step};
use super::task::TaskStatus;

/// How a pause treats what runs.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PausePolicy {
    /// Attempts that run end by themselves.
    #[default]
    Drain,
    /// Their turns are interrupted; they run again after the resume.
    Interrupt,
}

/// Whether tasks of an objective may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// They may.
    Running,
    /// None starts.
    Paused(PausePolicy),
}

/// What happens to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowInput {
    /// A person pauses the objective.
    Pause(PausePolicy),
    /// A person lets it go on.
    Resume,
    /// A person cancels it.
    Cancel,
    /// Its last task ended.
    Ended,
}

impl Machine for FlowState {
    type Input = FlowInput;
    type Duty = std::convert::Infallible;

    fn step(&self, input: FlowInput) -> Result<Step<Self>, Refusal> {
        Ok(match (self, input) {
            (Self::Running, FlowInput::Pause(policy)) => Step::To(Self::Paused(policy)),
            (Self::Paused(PausePolicy::Drain), FlowInput::Pause(PausePolicy::Interrupt)) => {
                Step::To(Self::Paused(PausePolicy::Interrupt))
            }
            // S-150: pausing again changes nothing, except an interrupt over a drain.
            (Self::Paused(_), FlowInput::Pause(_)) => Step::Stay,
            (Self::Paused(_), FlowInput::Resume | FlowInput::Cancel | FlowInput::Ended) => {
                Step::To(Self::Running)
            }
            (Self::Running, FlowInput::Resume | FlowInput::Cancel | FlowInput::Ended) => Step::Stay,
        })
    }

    fn owes(&self) -> Option<Self::Duty> {
        None
    }

    fn is_final(&self) -> bool {
        false
    }
}

/// Where an objective stands, derived from its tasks and its flow.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(inline)]
pub enum ObjectiveStatus {
    /// Nothing was tried yet.
    Created,
    /// Something runs, or ran and goes on.
    Running,
    /// No task starts until it is resumed.
    Paused,
    /// Only a person can get it on.
    Blocked,
    /// Every task completed.
    Completed,
    /// Everything ended, and a task failed.
    Failed,
    /// Everything ended, nothing failed, and a task was cancelled.
    Cancelled,
}

impl ObjectiveStatus {
    /// Whether nothing can happen any more.
    pub const fn is_ended(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Created | Self::Running | Self::Paused | Self::Blocked => false,
        }
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Running => "RUNNING",
            Self::Paused => "PAUSED",
            Self::Blocked => "BLOCKED",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }
}

/// Derives an objective's status from those of its tasks. `tried`: an attempt was ever made.
pub fn status(flow: FlowState, tasks: &[TaskStatus], tried: bool) -> ObjectiveStatus {
    let any = |status| tasks.contains(&status);
    if tasks.iter().all(|task| task.is_ended()) {
        return if any(TaskStatus::Failed) {
            ObjectiveStatus::Failed
        } else if any(TaskStatus::Cancelled) {
            ObjectiveStatus::Cancelled
        } else {
            ObjectiveStatus::Completed
        };
    }
    match flow {
        FlowState::Paused(_) => ObjectiveStatus::Paused,
        FlowState::Running if any(TaskStatus::Running) || any(TaskStatus::Verifying) => {
            ObjectiveStatus::Running
        }
        FlowState::Running if any(TaskStatus::Ready) && tried => ObjectiveStatus::Running,
        FlowState::Running if any(TaskStatus::Blocked) && !any(TaskStatus::Ready) => {
            ObjectiveStatus::Blocked
        }
        FlowState::Running => ObjectiveStatus::Created,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::machine::walk;

    pub(in crate::domain) fn inputs() -> Vec<FlowInput> {
        vec![
            FlowInput::Pause(PausePolicy::Drain),
            FlowInput::Pause(PausePolicy::Interrupt),
            FlowInput::Resume,
            FlowInput::Cancel,
            FlowInput::Ended,
        ]
    }

    #[test]
    fn the_flow_is_walked() {
        let seen = walk(FlowState::Running, &inputs(), false, |_, _, _| ());
        assert_eq!(
            (seen.states.len(), seen.edges, seen.refusals),
            (3, 9, 0),
            "the lifecycle changed: is that meant?"
        );
    }

    #[test]
    fn the_status_is_derived() {
        use ObjectiveStatus as O;
        use TaskStatus as T;
        let running = |tasks: &[T], tried| status(FlowState::Running, tasks, tried);
        let cases = [
            (running(&[T::Ready, T::Created], false), O::Created),
            (running(&[T::Running, T::Created], true), O::Running),
            (running(&[T::Verifying, T::Blocked], true), O::Running),
            (running(&[T::Ready, T::Blocked], true), O::Running),
            (running(&[T::Blocked, T::Created], true), O::Blocked),
            (running(&[T::Completed, T::Completed], true), O::Completed),
            (running(&[T::Completed, T::Failed, T::Cancelled], true), O::Failed),
            (running(&[T::Completed, T::Cancelled], true), O::Cancelled),
            (status(FlowState::Paused(PausePolicy::Drain), &[T::Running], true), O::Paused),
            (status(FlowState::Paused(PausePolicy::Drain), &[T::Completed], true), O::Completed),
        ];
        for (at, (seen, wanted)) in cases.into_iter().enumerate() {
            assert_eq!(seen, wanted, "case {at}");
        }
    }
}

//! The life of a message that is meant for a turn that runs.
//!
//! Whether it still reaches the turn is decided by the runtime, and the turn's own end may be on its way at the same
//! time. What comes too late becomes a turn of its own, so that a message that was taken in is never lost.

use serde::{Deserialize, Serialize};

use super::machine::{Machine, Refusal, Step};

/// Where such a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteerState {
    /// Stored; on its way to the turn.
    Sending,
    /// The turn was over for its runtime. It waits until that is told here too.
    Late,
    /// The turn heard it.
    Taken,
    /// It became a turn of its own.
    Begun,
    /// It was not delivered.
    Failed,
}

/// What happens to such a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteerInput {
    /// The turn heard it.
    Taken,
    /// The turn was over.
    TurnOver,
    /// Another turn runs by now: it is for that one.
    Again,
    /// It became a turn of its own.
    Begun,
    /// It cannot be delivered.
    Failed,
}

/// What the world owes such a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SteerDuty {
    /// Hand it to the turn.
    Steer,
}

impl Machine for SteerState {
    type Input = SteerInput;
    type Duty = SteerDuty;

    fn step(&self, input: SteerInput) -> Result<Step<Self>, Refusal> {
        Ok(Step::To(match (self, input) {
            (Self::Sending, SteerInput::Taken) => Self::Taken,
            (Self::Sending, SteerInput::TurnOver) => Self::Late,
            (Self::Late, SteerInput::Again) => Self::Sending,
            (Self::Late, SteerInput::Begun) => Self::Begun,
            (Self::Sending | Self::Late, SteerInput::Failed) => Self::Failed,
            (Self::Sending, SteerInput::Again | SteerInput::Begun)
            | (Self::Late, SteerInput::Taken | SteerInput::TurnOver) => {
                return Err(Refusal::WrongState);
            }
            (Self::Taken | Self::Begun | Self::Failed, _) => return Err(Refusal::Stale),
        }))
    }

    fn owes(&self) -> Option<SteerDuty> {
        match self {
            Self::Sending => Some(SteerDuty::Steer),
            // The end of the turn is what it waits for, and a turn has bounds of its own.
            Self::Late | Self::Taken | Self::Begun | Self::Failed => None,
        }
    }

    fn is_final(&self) -> bool {
        matches!(self, Self::Taken | Self::Begun | Self::Failed)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::machine::walk;

    pub(in crate::domain) fn inputs() -> Vec<SteerInput> {
        vec![
            SteerInput::Taken,
            SteerInput::TurnOver,
            SteerInput::Again,
            SteerInput::Begun,
            SteerInput::Failed,
        ]
    }

    #[test]
    fn the_message_is_walked() {
        let seen = walk(SteerState::Sending, &inputs(), true, |_, _, _| ());
        assert_eq!(
            (seen.states.len(), seen.edges, seen.refusals),
            (5, 6, 19),
            "the lifecycle changed: is that meant?"
        );
    }
}

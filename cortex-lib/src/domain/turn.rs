//! The life of a turn that a person sends directly to an agent.

use serde::{Deserialize, Serialize};

use super::machine::{Machine, Refusal, Step};

/// Where a direct turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// Stored; on its way to the session.
    Sending,
    /// The runtime works on it.
    Running,
    /// It was told to end.
    Interrupting,
    /// It said nothing for too long, and was told to end.
    Stalled,
    /// Nobody answered a tool request of it in time, and it was told to end.
    Unanswered,
    /// Over.
    Over,
}

/// What happens to a direct turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnInput {
    /// The runtime accepted it.
    Accepted,
    /// Somebody interrupts it.
    Interrupt,
    /// It said nothing for too long.
    Stall,
    /// Nobody answered a tool request of it in time.
    GiveUpWaiting,
    /// It ended, could not be sent, or its session is gone.
    Ended,
}

/// What the world owes a direct turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TurnDuty {
    /// Hand it to its session.
    Send,
    /// Ask the session to stop it.
    Interrupt,
}

impl Machine for TurnState {
    type Input = TurnInput;
    type Duty = TurnDuty;

    fn step(&self, input: TurnInput) -> Result<Step<Self>, Refusal> {
        Ok(match (self, input) {
            (Self::Sending, TurnInput::Accepted) => Step::To(Self::Running),
            (
                Self::Running | Self::Interrupting | Self::Stalled | Self::Unanswered,
                TurnInput::Accepted,
            ) => Step::Stay,
            (Self::Sending | Self::Running, TurnInput::Interrupt) => Step::To(Self::Interrupting),
            (Self::Sending | Self::Running, TurnInput::Stall) => Step::To(Self::Stalled),
            (Self::Sending | Self::Running, TurnInput::GiveUpWaiting) => Step::To(Self::Unanswered),
            // It is being told already.
            (
                Self::Interrupting | Self::Stalled | Self::Unanswered | Self::Over,
                TurnInput::Interrupt | TurnInput::Stall | TurnInput::GiveUpWaiting,
            ) => Step::Stay,
            (
                Self::Sending
                | Self::Running
                | Self::Interrupting
                | Self::Stalled
                | Self::Unanswered,
                TurnInput::Ended,
            ) => Step::To(Self::Over),
            (Self::Over, TurnInput::Accepted | TurnInput::Ended) => return Err(Refusal::Stale),
        })
    }

    fn owes(&self) -> Option<TurnDuty> {
        match self {
            Self::Sending => Some(TurnDuty::Send),
            Self::Interrupting | Self::Stalled | Self::Unanswered => Some(TurnDuty::Interrupt),
            Self::Running | Self::Over => None,
        }
    }

    fn is_final(&self) -> bool {
        *self == Self::Over
    }
}

impl TurnState {
    /// Whether it may still act: it is not over and was not told to end.
    pub fn may_act(self) -> bool {
        matches!(self, Self::Sending | Self::Running)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::machine::walk;

    pub(in crate::domain) fn inputs() -> Vec<TurnInput> {
        vec![
            TurnInput::Accepted,
            TurnInput::Interrupt,
            TurnInput::Stall,
            TurnInput::GiveUpWaiting,
            TurnInput::Ended,
        ]
    }

    #[test]
    fn the_turn_is_walked() {
        let seen = walk(TurnState::Sending, &inputs(), true, |_, _, _| ());
        assert_eq!(
            (seen.states.len(), seen.edges, seen.refusals),
            (6, 12, 2),
            "the lifecycle changed: is that meant?"
        );
    }
}

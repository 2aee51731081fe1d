//! The life of one revision of a proposed plan: it waits until somebody decides, once and for good.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::{Machine, Refusal, Step};
use crate::ids::{ObjectiveId, ProposalId, RuntimeId};

/// Where a revision stands, with what is known there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalState {
    /// It waits for a decision.
    Pending,
    /// An edit took its place.
    Superseded {
        /// The revision that came from the edit.
        by: ProposalId,
    },
    /// It became work.
    Approved {
        /// What was made of it.
        objective: ObjectiveId,
    },
    /// It will not become work.
    Rejected,
}

/// Where a revision stands, in one word.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ProposalStatus {
    /// It waits for a decision.
    Pending,
    /// A newer revision took its place.
    Superseded,
    /// It became an objective.
    Approved,
    /// It was turned down.
    Rejected,
}

/// What a person decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposalInput {
    /// To replace it.
    Edit {
        /// The revision that takes its place.
        by: ProposalId,
    },
    /// To make work of it.
    Approve {
        /// The work.
        objective: ObjectiveId,
    },
    /// To turn it down.
    Reject,
}

/// Who wrote a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalSource {
    /// A turn of the planner.
    Planner {
        /// The runtime that ran it.
        runtime_id: RuntimeId,
        /// Its model, when it is known.
        model: Option<String>,
    },
    /// The person who runs Cortex.
    Operator,
}

impl ProposalState {
    /// Where it stands, in one word.
    pub const fn status(&self) -> ProposalStatus {
        match self {
            Self::Pending => ProposalStatus::Pending,
            Self::Superseded { .. } => ProposalStatus::Superseded,
            Self::Approved { .. } => ProposalStatus::Approved,
            Self::Rejected => ProposalStatus::Rejected,
        }
    }
}

impl ProposalStatus {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Superseded => "superseded",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
        }
    }

    /// Whether a person said yes or no to the plan. A superseded one is neither: its newest revision counts.
    pub const fn is_decided(self) -> bool {
        match self {
            Self::Approved | Self::Rejected => true,
            Self::Pending | Self::Superseded => false,
        }
    }
}

impl fmt::Display for ProposalStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Machine for ProposalState {
    type Input = ProposalInput;
    /// A plan is data: the world owes it nothing.
    type Duty = std::convert::Infallible;

    fn step(&self, input: ProposalInput) -> Result<Step<Self>, Refusal> {
        match (self, input) {
            (Self::Pending, ProposalInput::Edit { by }) => Ok(Step::To(Self::Superseded { by })),
            (Self::Pending, ProposalInput::Approve { objective }) => {
                Ok(Step::To(Self::Approved { objective }))
            }
            (Self::Pending, ProposalInput::Reject) => Ok(Step::To(Self::Rejected)),
            // The same decision again is refused as well: it would answer with another objective or revision.
            (Self::Superseded { .. } | Self::Approved { .. } | Self::Rejected, _) => {
                Err(Refusal::WrongState)
            }
        }
    }

    fn owes(&self) -> Option<Self::Duty> {
        None
    }

    fn is_final(&self) -> bool {
        *self != Self::Pending
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::machine::walk;

    pub(in crate::domain) fn inputs() -> [ProposalInput; 3] {
        [
            ProposalInput::Edit { by: ProposalId::new("p2") },
            ProposalInput::Approve { objective: ObjectiveId::new("o1") },
            ProposalInput::Reject,
        ]
    }

    /// S-117
    #[test]
    fn the_proposal_is_walked() {
        let seen = walk(ProposalState::Pending, &inputs(), true, |_, _, _| ());
        assert_eq!(
            (seen.states.len(), seen.edges, seen.refusals),
            (4, 3, 9),
            "the lifecycle changed: is that meant?"
        );
    }

    /// S-117, S-121
    #[test]
    fn of_any_two_decisions_only_the_first_counts() {
        for first in inputs() {
            let Ok(Step::To(decided)) = ProposalState::Pending.step(first.clone()) else {
                panic!("{first:?} was refused")
            };
            for second in inputs() {
                assert_eq!(decided.step(second), Err(Refusal::WrongState), "after {first:?}");
            }
        }
    }

    #[test]
    fn the_words_are_those_of_the_wire() {
        use ProposalStatus as S;
        for status in [S::Pending, S::Superseded, S::Approved, S::Rejected] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}

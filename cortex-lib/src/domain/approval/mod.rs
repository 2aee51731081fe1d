//! Approvals: a tool that an agent wants to use, who decides about it, and the life of that question.
//!
//! `decide` knows who decides: the role of the agent, the first [`Rule`] that matches, or the default. What
//! nobody decided waits for a person as a row in [`ApprovalState::Pending`]. A decision is a state that owes the
//! session its answer, so a crash between the two forgets nothing and never answers differently.

mod always;
mod built_in;
mod decide;
mod input;
mod question;
mod rights;
mod rule;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::always::{NoRule, always_rule, rule_for_tool};
pub use self::decide::{Asked, DecidedBy, Decision, Listed, Origin, RuleList, Unmatched};
pub use self::input::{Bounded, bounded};
pub use self::question::{Answers, Choice, Question, problems_of_answers};
pub use self::rule::{Decide, Rule};
use super::machine::{Machine, Refusal, Step};

/// Where a tool request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// A person has to decide. The session waits.
    Pending,
    /// The tool may run, or the questions were answered.
    Allowed(Delivery),
    /// The tool may not run.
    Denied(Delivery),
    /// It ended undecided: it was withdrawn, or its turn or session ended.
    Cancelled,
    /// It ended undecided with the core that held it.
    Expired,
}

/// How far an answer is on its way to the session that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// The session has to be told.
    Owed,
    /// The session was told.
    Given,
    /// Nobody waits for it any more.
    Void,
}

/// Where a tool request stands, in one word.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ApprovalStatus {
    /// It waits for a person.
    Pending,
    /// The tool was allowed, or the questions were answered.
    Allowed,
    /// The tool was denied.
    Denied,
    /// It ended undecided with its turn or its session.
    Cancelled,
    /// It ended undecided with the core.
    Expired,
}

/// What happens to a tool request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalInput {
    /// It is allowed, or its questions are answered.
    Allow,
    /// It is denied.
    Deny,
    /// The session was told the answer.
    Told,
    /// The runtime withdrew it, or its turn was told to end: nothing may be allowed any more.
    Withdraw,
    /// Its session is over, or does not take the answer.
    SessionGone,
    /// The core that held it is gone, and its session with it.
    CoreGone,
}

/// What the world owes a tool request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApprovalDuty {
    /// Tell the session.
    Answer,
}

impl Machine for ApprovalState {
    type Input = ApprovalInput;
    type Duty = ApprovalDuty;

    fn step(&self, input: ApprovalInput) -> Result<Step<Self>, Refusal> {
        use ApprovalInput as I;

        Ok(Step::To(match (*self, input) {
            (Self::Pending, I::Allow) => Self::Allowed(Delivery::Owed),
            (Self::Pending, I::Deny) => Self::Denied(Delivery::Owed),
            (Self::Pending, I::Withdraw | I::SessionGone) => Self::Cancelled,
            (Self::Pending, I::CoreGone) => Self::Expired,
            // Nothing was decided, so there is nothing to tell.
            (Self::Pending, I::Told) => return Err(Refusal::WrongState),

            (Self::Allowed(Delivery::Owed), I::Told) => Self::Allowed(Delivery::Given),
            // What was allowed for a turn that has to end must not begin.
            (Self::Allowed(Delivery::Owed), I::Withdraw | I::SessionGone | I::CoreGone) => {
                Self::Allowed(Delivery::Void)
            }
            (Self::Denied(Delivery::Owed), I::Told) => Self::Denied(Delivery::Given),
            // A denial does no harm to a turn that ends, and its reason should still be read.
            (Self::Denied(Delivery::Owed), I::Withdraw) => return Ok(Step::Stay),
            (Self::Denied(Delivery::Owed), I::SessionGone | I::CoreGone) => {
                Self::Denied(Delivery::Void)
            }

            // Decided once: whoever comes later is told so.
            (
                Self::Allowed(_) | Self::Denied(_) | Self::Cancelled | Self::Expired,
                I::Allow | I::Deny,
            ) => return Err(Refusal::WrongState),
            (
                Self::Allowed(Delivery::Given | Delivery::Void)
                | Self::Denied(Delivery::Given | Delivery::Void)
                | Self::Cancelled
                | Self::Expired,
                I::Told | I::Withdraw | I::SessionGone | I::CoreGone,
            ) => return Ok(Step::Stay),
        }))
    }

    fn owes(&self) -> Option<ApprovalDuty> {
        match self {
            Self::Allowed(Delivery::Owed) | Self::Denied(Delivery::Owed) => {
                Some(ApprovalDuty::Answer)
            }
            Self::Pending
            | Self::Allowed(Delivery::Given | Delivery::Void)
            | Self::Denied(Delivery::Given | Delivery::Void)
            | Self::Cancelled
            | Self::Expired => None,
        }
    }

    fn is_final(&self) -> bool {
        !matches!(self, Self::Pending) && self.owes().is_none()
    }
}

impl ApprovalState {
    /// Where it stands, in one word.
    pub const fn status(&self) -> ApprovalStatus {
        match self {
            Self::Pending => ApprovalStatus::Pending,
            Self::Allowed(_) => ApprovalStatus::Allowed,
            Self::Denied(_) => ApprovalStatus::Denied,
            Self::Cancelled => ApprovalStatus::Cancelled,
            Self::Expired => ApprovalStatus::Expired,
        }
    }
}

impl ApprovalStatus {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::machine::walk;

    pub(in crate::domain) fn inputs() -> Vec<ApprovalInput> {
        vec![
            ApprovalInput::Allow,
            ApprovalInput::Deny,
            ApprovalInput::Told,
            ApprovalInput::Withdraw,
            ApprovalInput::SessionGone,
            ApprovalInput::CoreGone,
        ]
    }

    #[test]
    fn a_decision_is_never_changed() {
        let seen = walk(ApprovalState::Pending, &inputs(), true, |from, input, to| {
            assert!(
                from.status() == ApprovalStatus::Pending || from.status() == to.status(),
                "{from:?} --{input:?}--> {to:?}"
            );
        });
        assert_eq!(
            (seen.states.len(), seen.edges, seen.refusals),
            (9, 12, 17),
            "the lifecycle changed: is that meant?"
        );
    }

    /// A crash forgets what was done, never what is owed.
    #[test]
    fn duties_lead_every_state_to_rest() {
        for state in walk(ApprovalState::Pending, &inputs(), true, |_, _, _| ()).states {
            let mut settled = state;
            while settled.owes() == Some(ApprovalDuty::Answer) {
                let Ok(Step::To(next)) = settled.step(ApprovalInput::Told) else {
                    panic!("{settled:?} is owed an answer and does not take it")
                };
                settled = next;
            }
            assert!(settled == ApprovalState::Pending || settled.is_final(), "{state:?}");
        }
    }

    #[test]
    fn nothing_is_allowed_for_a_turn_that_has_to_end() {
        for input in [ApprovalInput::Withdraw, ApprovalInput::SessionGone, ApprovalInput::CoreGone]
        {
            let allowed = ApprovalState::Allowed(Delivery::Owed).step(input);
            assert_eq!(allowed, Ok(Step::To(ApprovalState::Allowed(Delivery::Void))), "{input:?}");
        }
    }
}

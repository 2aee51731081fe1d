//! The life of a connection: the access of one remote client, from its question to its end.
//!
//! A client asks, the person decides at the machine, the client takes what was granted. Nothing is granted by
//! what a browser or a client sends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::{Machine, Refusal, Step};

/// Where a connection stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ConnectionState {
    /// The person has to decide.
    Pending,
    /// The person allowed it; the client has not taken its tokens yet.
    Allowed,
    /// The client has its tokens.
    Connected,
    /// The person denied it.
    Denied,
    /// Nobody decided in time, or the client did not take or renew its tokens in time.
    Expired,
    /// It was ended: by the person, by the client, or because a token was used twice.
    Revoked,
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionInput {
    /// The person allows it.
    Allow,
    /// The person denies it.
    Deny,
    /// The client takes its tokens.
    Connect,
    /// Its time is over.
    Expire,
    /// It is ended.
    Revoke,
}

/// What the world owes a connection: nothing, ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionDuty {}

impl Machine for ConnectionState {
    type Input = ConnectionInput;
    type Duty = ConnectionDuty;

    fn step(&self, input: ConnectionInput) -> Result<Step<Self>, Refusal> {
        use ConnectionInput as I;

        Ok(Step::To(match (*self, input) {
            (Self::Pending, I::Allow) => Self::Allowed,
            (Self::Pending, I::Deny) => Self::Denied,
            (Self::Allowed, I::Connect) => Self::Connected,
            (Self::Pending | Self::Allowed | Self::Connected, I::Expire) => Self::Expired,
            (Self::Allowed | Self::Connected, I::Revoke) => Self::Revoked,
            (Self::Pending, I::Connect | I::Revoke)
            | (Self::Allowed, I::Allow | I::Deny)
            | (Self::Connected, I::Allow | I::Deny | I::Connect) => {
                return Err(Refusal::WrongState);
            }
            // A timer that comes late.
            (Self::Denied | Self::Expired | Self::Revoked, I::Expire) => return Ok(Step::Stay),
            (
                Self::Denied | Self::Expired | Self::Revoked,
                I::Allow | I::Deny | I::Connect | I::Revoke,
            ) => return Err(Refusal::WrongState),
        }))
    }

    fn owes(&self) -> Option<ConnectionDuty> {
        None
    }

    fn is_final(&self) -> bool {
        matches!(self, Self::Denied | Self::Expired | Self::Revoked)
    }
}

impl ConnectionState {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Allowed => "allowed",
            Self::Connected => "connected",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::machine::walk;

    pub(in crate::domain) fn inputs() -> Vec<ConnectionInput> {
        vec![
            ConnectionInput::Allow,
            ConnectionInput::Deny,
            ConnectionInput::Connect,
            ConnectionInput::Expire,
            ConnectionInput::Revoke,
        ]
    }

    /// Who was not allowed never gets tokens.
    #[test]
    fn only_what_the_person_allowed_connects() {
        let seen = walk(ConnectionState::Pending, &inputs(), true, |from, _, to| {
            assert!(
                *to != ConnectionState::Connected || *from == ConnectionState::Allowed,
                "{from:?} connects"
            );
            assert!(
                *to != ConnectionState::Allowed || *from == ConnectionState::Pending,
                "{from:?} is allowed"
            );
        });
        assert_eq!(
            (seen.states.len(), seen.edges, seen.refusals),
            (6, 8, 19),
            "the lifecycle changed: is that meant?"
        );
    }
}

//! Identifiers: one newtype for each kind of object, so that they cannot be mixed up.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares an identifier: a newtype over text that is transparent on the wire.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(inline)]
        pub struct $name(#[schemars(length(min = 1, max = 128))] String);

        impl $name {
            /// Wraps an identifier that was minted by an [`Env`](crate::env::Env), read from the store or given by a caller.
            pub fn new(raw: impl Into<String>) -> Self {
                Self(raw.into())
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(/// Identifies a project.
    ProjectId);
id!(/// Identifies an agent.
    AgentId);
id!(/// Identifies a runtime: `claude-code`, `command:<name>`. Readable and stable.
    RuntimeId);
id!(/// Identifies an objective.
    ObjectiveId);
id!(/// Identifies a task.
    TaskId);
id!(/// Identifies one revision of a proposed plan.
    ProposalId);
id!(/// Identifies one attempt of a task. On the wire `execution_id`.
    AttemptId);
id!(/// Identifies one live session of an agent with its runtime.
    SessionId);
id!(/// Identifies one turn of a session.
    TurnId);
id!(/// Identifies a tool request of a session.
    ApprovalId);
id!(/// Identifies the connection of a remote client.
    ConnectionId);
id!(/// Identifies a message of the bus.
    MessageId);
id!(/// Ties an error that a caller saw to the log.
    CorrelationId);

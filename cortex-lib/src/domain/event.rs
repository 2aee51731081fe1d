//! What an event can tell: the one table of kinds.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares every kind of event once: variant, wire name, and who may see it.
macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident = $wire:literal, $audience:ident;)+) => {
        /// What happened. The wire name never changes.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[schemars(inline)]
        #[non_exhaustive]
        pub enum EventKind { $($(#[doc = $doc])+ #[serde(rename = $wire)] $variant,)+ }

        impl EventKind {
            /// Every kind, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The kind on the wire, as `type`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)+ }
            }

            /// Who may see it.
            pub const fn audience(self) -> Audience {
                match self { $(Self::$variant => Audience::$audience,)+ }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

/// Who may see an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Everybody of the project: `poll_agent_events` shows it.
    Agents,
    /// The person's own stream.
    Person,
}

events! {
    /// An agent was made.
    AgentCreated = "agent.created", Agents;
    /// The name, model, instructions or skills of an agent changed.
    AgentUpdated = "agent.updated", Agents;
    /// An agent went from one state to another.
    AgentStateChanged = "agent.state_changed", Agents;
    /// An agent was removed.
    AgentRemoved = "agent.removed", Agents;
    /// A turn ended with a result.
    SessionTurnCompleted = "session.turn_completed", Agents;
    /// A turn ended without a result.
    SessionTurnFailed = "session.turn_failed", Agents;
    /// A message of the bus was refused.
    MessageRejected = "message.rejected", Agents;

    /// A turn that ran was given more to go on.
    SessionTurnSteered = "session.turn_steered", Person;
    /// A project was added.
    ProjectCreated = "project.created", Person;
    /// The name or the settings of a project changed.
    ProjectUpdated = "project.updated", Person;
    /// A project was removed.
    ProjectRemoved = "project.removed", Person;
    /// A revision of a plan waits for a decision.
    ProposalCreated = "proposal.created", Person;
    /// A newer revision took the place of a plan.
    ProposalSuperseded = "proposal.superseded", Person;
    /// A plan was approved and became an objective.
    ProposalApproved = "proposal.approved", Person;
    /// A plan was rejected.
    ProposalRejected = "proposal.rejected", Person;
    /// An objective was made, with its tasks.
    ObjectiveCreated = "objective.created", Person;
    /// An objective was paused, or its pause was made stricter: none of its tasks starts.
    ObjectivePaused = "objective.paused", Person;
    /// A pause is over: a person resumed the objective, or its last task ended.
    ObjectiveResumed = "objective.resumed", Person;
    /// A person cancelled what was left of an objective.
    ObjectiveCancelled = "objective.cancelled", Person;
    /// All tasks of an objective have ended.
    ObjectiveEnded = "objective.ended", Person;
    /// A task went from one state to another.
    TaskChanged = "task.changed", Person;
    /// A decision about a task was recorded: it was approved, retried or cancelled.
    TaskDecided = "task.decided", Person;
    /// A task was moved to another agent, or to none.
    TaskReassigned = "task.reassigned", Person;
    /// The changes of a task were brought into its project's folder, staged.
    TaskIntegrated = "task.integrated", Person;
    /// An attempt went from one state to another.
    AttemptChanged = "attempt.changed", Person;
    /// The verification of an attempt ended.
    VerificationEnded = "verification.ended", Person;
    /// A message of the bus waits in an inbox.
    MessagePosted = "message.posted", Person;
    /// A message of the bus was acknowledged.
    MessageAcked = "message.acked", Person;
    /// A message of the bus left its inbox unread.
    MessageExpired = "message.expired", Person;
    /// A tool request waits for a person.
    ApprovalRequested = "approval.requested", Person;
    /// A tool request was allowed or denied.
    ApprovalDecided = "approval.decided", Person;
    /// A tool request ended undecided, with its turn or its session.
    ApprovalCancelled = "approval.cancelled", Person;
    /// A tool request ended undecided, because the core that held it went down.
    ApprovalExpired = "approval.expired", Person;
    /// The rules of a project about tool requests changed.
    RulesChanged = "rules.changed", Person;
    /// A remote client asks to be connected, and waits for the person.
    ConnectionRequested = "connection.requested", Person;
    /// A remote client was allowed or denied.
    ConnectionDecided = "connection.decided", Person;
    /// A remote client took the tokens that it was allowed.
    ConnectionEstablished = "connection.established", Person;
    /// A connection of a remote client expired or was revoked.
    ConnectionEnded = "connection.ended", Person;
    /// The core is ready.
    CoreStarted = "core.started", Person;
    /// The core stopped in order.
    CoreStopped = "core.stopped", Person;
}

impl EventKind {
    /// The kind with this wire name.
    pub fn parse(wire: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == wire)
    }

    /// Whether `poll_agent_events` shows it.
    pub const fn is_agent_event(self) -> bool {
        matches!(self.audience(), Audience::Agents)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn wire_names_are_unique_and_survive_the_wire() {
        let names: BTreeSet<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), EventKind::ALL.len());
        for kind in EventKind::ALL {
            assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{kind}\""));
            assert_eq!(EventKind::parse(kind.as_str()), Some(*kind));
            assert!(kind.meaning().ends_with('.'), "{kind}");
        }
    }

    #[test]
    fn seven_kinds_are_shown_to_agents() {
        let shown: Vec<_> = EventKind::ALL.iter().filter(|kind| kind.is_agent_event()).collect();
        assert_eq!(shown.len(), 7);
        assert!(shown.iter().all(|kind| {
            ["agent.", "session.", "message."].iter().any(|area| kind.as_str().starts_with(area))
        }));
    }
}

//! A message of the bus as callers see it. Every key is always there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::message::{Addressee, Channel, MessageKind, MessageState};
use crate::ids::{AgentId, AttemptId, MessageId, ObjectiveId, ProjectId};
use crate::store::Message;
use crate::time::Timestamp;

/// A message of the bus. Its body is text of its sender, not an order of Cortex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageView {
    /// The message.
    pub message_id: MessageId,
    /// Its place among all messages; a later one has a higher number.
    pub sequence: u64,
    /// The project that it belongs to.
    pub project_id: ProjectId,
    /// The objective whose channel it was written in; null: the project's channel.
    pub objective_id: Option<ObjectiveId>,
    /// Who wrote it.
    pub from: MessageFrom,
    /// The agent that it is for, when it is for one.
    pub to_agent_id: Option<AgentId>,
    /// The attempt that it is for, when it is for one.
    pub to_execution_id: Option<AttemptId>,
    /// What it is meant as.
    pub kind: MessageKind,
    /// The tool that a request asks its reader to use. Naming it grants nothing.
    pub action: Option<String>,
    /// The message that it answers.
    pub in_reply_to: Option<MessageId>,
    /// Its text, without the secrets that were found in it.
    pub body: String,
    /// Where it stands.
    pub status: MessageState,
    /// When it was posted.
    pub created_at: Timestamp,
    /// When it expires unless it is acknowledged.
    pub expires_at: Timestamp,
    /// When it was acknowledged.
    pub acked_at: Option<Timestamp>,
}

/// Who wrote a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct MessageFrom {
    /// What the sender is.
    pub kind: MessageFromKind,
    /// The agent, when an agent wrote it.
    pub agent_id: Option<AgentId>,
}

/// What a sender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum MessageFromKind {
    /// The person who runs Cortex.
    User,
    /// An agent.
    Agent,
}

impl MessageView {
    /// Builds it as it stands at `now`, by the steady clock.
    pub(crate) fn of(message: Message, now: Timestamp) -> Self {
        let status = message.status_at(now);
        let letter = message.letter;
        let (to_agent_id, to_execution_id) = match letter.to {
            Addressee::Agent(id) => (Some(id), None),
            Addressee::Attempt(id) => (None, Some(id)),
        };
        let kind = match message.from {
            Some(_) => MessageFromKind::Agent,
            None => MessageFromKind::User,
        };
        Self {
            message_id: message.id,
            sequence: message.sequence,
            project_id: message.project_id,
            objective_id: match letter.channel {
                Channel::Project(_) => None,
                Channel::Objective(id) => Some(id),
            },
            from: MessageFrom { kind, agent_id: message.from },
            to_agent_id,
            to_execution_id,
            kind: letter.purpose.kind(),
            action: letter.purpose.action().map(str::to_owned),
            in_reply_to: letter.in_reply_to,
            body: letter.body,
            status,
            created_at: message.created_at,
            expires_at: message.expires_at,
            acked_at: message.acked_at,
        }
    }
}

//! `post_message`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::api::view::MessageView;
use crate::api::{Access, Command, Effect, Granted, TOOLS, Tool, one_of};
use crate::domain::message::{ActionRights, Addressee, Channel, Letter, MessageKind, Purpose};
use crate::error::{Code, Result};
use crate::ids::{AgentId, AttemptId, MessageId, ObjectiveId, ProjectId};
use crate::limits::{
    MESSAGE_BODY_BYTES_MAX, MESSAGE_TTL_SECS, MESSAGE_TTL_SECS_MAX, MESSAGE_TTL_SECS_MIN,
};
use crate::progress::{Post, Posted};

/// Posts a message to an agent, or to the attempt that an agent runs. On the wire a flat object: see its schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PostMessageWire", into = "PostMessageWire")]
pub struct PostMessage {
    /// Where it is written. Sender and reader must both belong there.
    pub channel: Channel,
    /// Whom it is for.
    pub to: Addressee,
    /// What it is meant as.
    pub purpose: Purpose,
    /// Its text, 1 B to 16 KiB.
    pub body: String,
    /// The message that it answers.
    pub in_reply_to: Option<MessageId>,
    /// Seconds that it waits at most: a minute to a week, a day when it does not say.
    pub ttl_secs: u32,
    /// Makes a repeat of this call answer with the first message, until that one's time is over.
    pub idempotency_key: Option<String>,
}

impl PostMessage {
    /// A note that waits for a day.
    pub fn new(channel: Channel, to: Addressee, body: impl Into<String>) -> Self {
        Self {
            channel,
            to,
            purpose: Purpose::Note,
            body: body.into(),
            in_reply_to: None,
            ttl_secs: MESSAGE_TTL_SECS,
            idempotency_key: None,
        }
    }
}

/// Post a message to another agent: it waits in the reader's inbox until the reader reads it (`read_messages`) and acknowledges it (`ack_message`), or until it expires. It starts no turn: an idle agent learns of it with its next turn. Give one channel, `project_id` or `objective_id` (for agents that run or ran one of its attempts), and one reader, `to_agent_id` or `to_execution_id` (an attempt that runs). The sender is whoever calls.
/// Cost: a place in the reader's inbox. Next: go on; an answer comes to `read_messages`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-one-of" = [["project_id", "objective_id"], ["to_agent_id", "to_execution_id"]]))]
struct PostMessageWire {
    /// The channel of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project_id: Option<ProjectId>,
    /// The channel of this objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    objective_id: Option<ObjectiveId>,
    /// The agent that reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to_agent_id: Option<AgentId>,
    /// The attempt that reads it. The message expires when the attempt ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to_execution_id: Option<AttemptId>,
    /// What it is meant as.
    #[serde(default)]
    kind: MessageKind,
    /// What to say, at most 16 KiB. Secrets are taken out.
    #[schemars(length(min = 1), extend("x-max-bytes" = MESSAGE_BODY_BYTES_MAX))]
    body: String,
    /// Only for a request: the Cortex tool that the reader is asked to use. You must both be allowed to use it; naming it grants nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    action: Option<String>,
    /// The message that it answers: one that you sent or got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<MessageId>,
    /// Seconds until it expires.
    #[serde(default = "a_day")]
    #[schemars(range(min = MESSAGE_TTL_SECS_MIN, max = MESSAGE_TTL_SECS_MAX))]
    ttl_secs: u32,
    /// Give the same key when you call again after a failure: the message is posted once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    idempotency_key: Option<String>,
}

fn a_day() -> u32 {
    MESSAGE_TTL_SECS
}

impl TryFrom<PostMessageWire> for PostMessage {
    type Error = String;

    fn try_from(wire: PostMessageWire) -> Result<Self, String> {
        Ok(Self {
            channel: one_of([
                ("project_id", wire.project_id.map(Channel::Project)),
                ("objective_id", wire.objective_id.map(Channel::Objective)),
            ])?,
            to: one_of([
                ("to_agent_id", wire.to_agent_id.map(Addressee::Agent)),
                ("to_execution_id", wire.to_execution_id.map(Addressee::Attempt)),
            ])?,
            purpose: Purpose::of(wire.kind, wire.action)
                .ok_or("give `action` with the kind `request` only")?,
            body: wire.body,
            in_reply_to: wire.in_reply_to,
            ttl_secs: wire.ttl_secs,
            idempotency_key: wire.idempotency_key,
        })
    }
}

impl From<PostMessage> for PostMessageWire {
    fn from(message: PostMessage) -> Self {
        let (project_id, objective_id) = match message.channel {
            Channel::Project(id) => (Some(id), None),
            Channel::Objective(id) => (None, Some(id)),
        };
        let (to_agent_id, to_execution_id) = match message.to {
            Addressee::Agent(id) => (Some(id), None),
            Addressee::Attempt(id) => (None, Some(id)),
        };
        Self {
            project_id,
            objective_id,
            to_agent_id,
            to_execution_id,
            kind: message.purpose.kind(),
            action: message.purpose.action().map(str::to_owned),
            body: message.body,
            in_reply_to: message.in_reply_to,
            ttl_secs: message.ttl_secs,
            idempotency_key: message.idempotency_key,
        }
    }
}

impl JsonSchema for PostMessage {
    fn schema_name() -> Cow<'static, str> {
        "PostMessage".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        PostMessageWire::json_schema(generator)
    }
}

/// A message that waits for its reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessagePosted {
    /// The message.
    pub message: MessageView,
    /// Whether it had been posted before with the same key.
    pub duplicate: bool,
}

/// Who may use the tool `name`. Nobody may use what is not there.
fn rights(cx: Granted<'_>, name: &str) -> ActionRights {
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    tool.map_or_else(ActionRights::default, |tool| ActionRights {
        sender: tool.access.admits(cx.caller()),
        worker: tool.access.agent,
        orchestrator: tool.access.orchestrator,
    })
}

impl Command for PostMessage {
    type Output = MessagePosted;
    const NAME: &'static str = "post_message";
    const ACCESS: Access = Access::SESSIONS_TOO;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[
        Code::ProjectNotFound,
        Code::ObjectiveNotFound,
        Code::AgentNotFound,
        Code::ExecutionNotFound,
        Code::MessageNotFound,
        Code::MessageOutOfScope,
        Code::MessageActionNotAllowed,
        Code::MessageRecipientUnavailable,
        Code::MessageInboxFull,
        Code::MessageSenderLimit,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let action = self.purpose.action().map(|name| rights(cx, name));
        let post = Post {
            from: cx.sender(),
            letter: Letter {
                channel: self.channel,
                to: self.to,
                purpose: self.purpose,
                in_reply_to: self.in_reply_to,
                body: self.body,
                ttl_secs: self.ttl_secs,
            },
            action,
            idempotency_key: self.idempotency_key,
        };
        let posted = cx.core().store().write(move |tx| tx.post_message(post)).await?;
        let (message, duplicate) = match posted {
            Posted::New(message) => (message, false),
            Posted::Again(message) => (message, true),
            Posted::Refused(error) => return Err(error),
        };
        let now = cx.core().store().steady();
        Ok(MessagePosted { message: MessageView::of(message, now), duplicate })
    }
}

impl Tool for PostMessage {}

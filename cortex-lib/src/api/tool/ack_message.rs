//! `ack_message`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::view::MessageView;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::MessageId;

/// Acknowledge a message that you have dealt with: it leaves your inbox and frees its place. Again: nothing changes. Only its reader acknowledges a message; the user may acknowledge any.
/// Cost: one record, at once. Next: `post_message` if it wants an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AckMessage {
    /// The message, from `read_messages`.
    pub message_id: MessageId,
}

/// The message, ACKED.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageReply {
    /// The message.
    pub message: MessageView,
}

impl Command for AckMessage {
    type Output = MessageReply;
    const NAME: &'static str = "ack_message";
    const ACCESS: Access = Access::SESSIONS_TOO;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[Code::MessageNotFound, Code::MessageExpired];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let by = cx.sender();
        let store = cx.core().store();
        let message = store.write(move |tx| tx.ack_message(&self.message_id, &by)).await?;
        Ok(MessageReply { message: MessageView::of(message, store.steady()) })
    }
}

impl Tool for AckMessage {}

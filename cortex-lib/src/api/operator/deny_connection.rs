//! `deny_connection`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ConnectionReply;
use crate::api::view::ConnectionView;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::ConnectionId;

/// Deny a remote client that waits for a decision. It is told so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyConnection {
    /// The connection.
    pub connection_id: ConnectionId,
}

impl Command for DenyConnection {
    type Output = ConnectionReply;
    const NAME: &'static str = "deny_connection";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::ConnectionNotFound, Code::ConnectionStateConflict];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let id = self.connection_id;
        let denied = cx.core().store().write(move |tx| tx.deny_connection(&id)).await?;
        Ok(ConnectionReply { connection: ConnectionView::of(denied) })
    }
}

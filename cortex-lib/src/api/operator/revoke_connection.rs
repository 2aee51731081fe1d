//! `revoke_connection`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ConnectionReply;
use crate::api::view::ConnectionView;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::ConnectionId;

/// End the connection of a remote client that was allowed. Its tokens count no more, from its next request on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeConnection {
    /// The connection.
    pub connection_id: ConnectionId,
}

impl Command for RevokeConnection {
    type Output = ConnectionReply;
    const NAME: &'static str = "revoke_connection";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::ConnectionNotFound, Code::ConnectionStateConflict];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let id = self.connection_id;
        let revoke = move |tx: &mut crate::store::WriteTx<'_>| {
            tx.revoke_connection(&id, "the person ended it")
        };
        let revoked = cx.core().store().write(revoke).await?;
        Ok(ConnectionReply { connection: ConnectionView::of(revoked) })
    }
}

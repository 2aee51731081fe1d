//! `allow_connection`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ConnectionReply;
use crate::api::view::ConnectionView;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};

/// Allow a remote client to use the tools of Cortex as you may, until it is revoked. The code stands on the page that the client opened in your browser: allow no client whose page is not before you.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowConnection {
    /// The code on the client's page, with or without its hyphen.
    #[schemars(length(min = 8, max = 16))]
    pub code: String,
}

impl Command for AllowConnection {
    type Output = ConnectionReply;
    const NAME: &'static str = "allow_connection";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::ConnectionNotFound, Code::ConnectionStateConflict];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let allowed = cx.core().store().write(move |tx| tx.allow_connection(&self.code)).await?;
        Ok(ConnectionReply { connection: ConnectionView::of(allowed) })
    }
}

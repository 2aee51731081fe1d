//! `list_connections`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::view::ConnectionView;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};

/// List the remote clients that ask to be connected or are, by `mcp.public_url`: those that are open first, then the newest first. Those that ended are kept up to 200.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListConnections {}

/// Connections of remote clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectionList {
    /// The connections.
    pub connections: Vec<ConnectionView>,
}

impl Command for ListConnections {
    type Output = ConnectionList;
    const NAME: &'static str = "list_connections";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let found = cx.core().store().read(|tx| tx.connections())?;
        Ok(ConnectionList { connections: found.into_iter().map(ConnectionView::of).collect() })
    }
}

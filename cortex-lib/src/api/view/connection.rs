//! Connections of remote clients as the person who runs Cortex sees them. Every key is always there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::connection::ConnectionState;
use crate::ids::ConnectionId;
use crate::store::Connection;
use crate::time::Timestamp;

/// The access of one remote client by `mcp.public_url`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectionView {
    /// The connection.
    pub connection_id: ConnectionId,
    /// The client's identifier. An `https` address is the client's own; others were made when it registered.
    pub client_id: String,
    /// What the client calls itself. Nobody checks that.
    pub client_name: String,
    /// Where its answer goes.
    pub redirect_uri: String,
    /// What it is for: the public address of the endpoint.
    pub resource: String,
    /// Where it stands.
    pub state: ConnectionState,
    /// Why it ended; null while it is open, and when the person denied it.
    pub reason: Option<String>,
    /// When the client asked.
    pub created_at: Timestamp,
    /// When the person decided.
    pub decided_at: Option<Timestamp>,
    /// When the client last took tokens.
    pub renewed_at: Option<Timestamp>,
    /// When it ended; null for one that is open.
    pub ended_at: Option<Timestamp>,
    /// When it ends by itself: undecided, or unless its client comes back.
    pub due_at: Option<Timestamp>,
}

impl ConnectionView {
    pub(crate) fn of(connection: Connection) -> Self {
        Self {
            connection_id: connection.id,
            client_id: connection.client_id,
            client_name: connection.client_name,
            redirect_uri: connection.redirect_uri,
            resource: connection.resource,
            state: connection.state,
            reason: connection.reason,
            created_at: connection.created_at,
            decided_at: connection.decided_at,
            renewed_at: connection.renewed_at,
            ended_at: connection.ended_at,
            due_at: connection.due_at,
        }
    }
}

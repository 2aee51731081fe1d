//! Connections of remote clients, and the one door of their state.

use serde_json::json;

use super::column::word;
use super::row::Row;
use super::{NewEvent, ReadTx, WriteTx};
use crate::domain::connection::{ConnectionInput, ConnectionState};
use crate::domain::event::EventKind;
use crate::domain::{Machine as _, Refusal, Step};
use crate::error::{Code, Error, Result};
use crate::ids::ConnectionId;
use crate::limits::CONNECTIONS_KEPT;
use crate::time::Timestamp;

/// The access of one remote client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The connection.
    pub id: ConnectionId,
    /// The client's identifier: an address for those that describe themselves in a document.
    pub client_id: String,
    /// What the client calls itself. Nobody checks that.
    pub client_name: String,
    /// Where its answer goes.
    pub redirect_uri: String,
    /// What it is for: the public address of the endpoint.
    pub resource: String,
    /// What the client gets back with its answer.
    pub client_state: Option<String>,
    /// The S256 challenge.
    pub challenge: String,
    /// What the page shows and the person types.
    pub user_code: String,
    /// Whether the authorization code was given out.
    pub granted: bool,
    /// Where it stands.
    pub state: ConnectionState,
    /// Why it ended.
    pub reason: Option<String>,
    /// When the client asked.
    pub created_at: Timestamp,
    /// When the person decided.
    pub decided_at: Option<Timestamp>,
    /// When the client last took tokens.
    pub renewed_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it expires, by the steady clock.
    pub due_at: Option<Timestamp>,
}

pub(super) const COLUMNS: &str = "connection_id, client_id, client_name, redirect_uri, resource, client_state, challenge, \
                                  user_code, grant_hash IS NOT NULL AS granted, state, reason, created_at, decided_at, \
                                  renewed_at, ended_at, due_at";

pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Connection> {
    Ok(Connection {
        id: row.get("connection_id")?,
        client_id: row.get("client_id")?,
        client_name: row.get("client_name")?,
        redirect_uri: row.get("redirect_uri")?,
        resource: row.get("resource")?,
        client_state: row.get("client_state")?,
        challenge: row.get("challenge")?,
        user_code: row.get("user_code")?,
        granted: row.get("granted")?,
        state: word(row, "state")?,
        reason: row.get("reason")?,
        created_at: row.get("created_at")?,
        decided_at: row.get("decided_at")?,
        renewed_at: row.get("renewed_at")?,
        ended_at: row.get("ended_at")?,
        due_at: row.get("due_at")?,
    })
}

impl ReadTx<'_> {
    /// One connection.
    ///
    /// # Errors
    ///
    /// `connection.not_found`.
    pub fn connection(&self, id: &ConnectionId) -> Result<Connection> {
        let query = format!("SELECT {COLUMNS} FROM connection WHERE connection_id = ?1");
        self.row(&query, [id], from_row)?.ok_or_else(|| {
            Error::new(Code::ConnectionNotFound, format!("there is no connection {id}"))
                .with("connection_id", id.as_str())
        })
    }

    /// The connection whose page shows this code.
    ///
    /// # Errors
    ///
    /// `connection.not_found`.
    pub fn connection_by_user_code(&self, code: &str) -> Result<Connection> {
        let query = format!("SELECT {COLUMNS} FROM connection WHERE user_code = ?1");
        self.row(&query, [code], from_row)?.ok_or_else(|| {
            Error::new(Code::ConnectionNotFound, "no client that asked shows this code")
                .remedy("Type the code as the page in the browser shows it.")
        })
    }

    /// All that are kept: those that are open first, then the newest first.
    pub fn connections(&self) -> Result<Vec<Connection>> {
        let query =
            format!("SELECT {COLUMNS} FROM connection ORDER BY ended_at IS NOT NULL, nth DESC");
        self.rows(&query, [], from_row)
    }
}

impl WriteTx<'_> {
    /// The one door of a connection's state. `reason`: why it ends.
    ///
    /// # Errors
    ///
    /// `connection.state_conflict`.
    pub(crate) fn step_connection(
        &mut self,
        mut connection: Connection,
        input: ConnectionInput,
        reason: Option<&str>,
    ) -> Result<Connection> {
        match connection.state.step(input) {
            Ok(Step::To(next)) => connection.state = next,
            Ok(Step::Stay) => return Ok(connection),
            Err(Refusal::WrongState | Refusal::Stale) => return Err(conflict(&connection)),
        }
        let now = self.now();
        if matches!(input, ConnectionInput::Allow | ConnectionInput::Deny) {
            connection.decided_at = Some(now);
        }
        connection.reason = reason.map(str::to_owned);
        if connection.state.is_final() {
            connection.ended_at = Some(now);
            connection.due_at = None;
        }
        self.execute(
            "UPDATE connection SET state = ?2, reason = ?3, decided_at = ?4, ended_at = ?5, due_at = ?6
             WHERE connection_id = ?1",
            (
                &connection.id,
                connection.state.as_str(),
                &connection.reason,
                connection.decided_at,
                connection.ended_at,
                connection.due_at,
            ),
        )?;
        if connection.state.is_final() {
            self.execute(
                "DELETE FROM connection_token WHERE connection_id = ?1",
                [&connection.id],
            )?;
            self.clear_timers_of(connection.id.as_str())?;
            self.forget_old_connections()?;
        }
        self.tell_connection(&connection)?;
        Ok(connection)
    }

    /// Keeps until when a connection is open.
    pub(crate) fn set_connection_due(&mut self, id: &ConnectionId, due: Timestamp) -> Result<()> {
        self.execute("UPDATE connection SET due_at = ?2 WHERE connection_id = ?1", (id, due))
    }

    /// Drops the oldest connections that ended beyond those that are kept.
    fn forget_old_connections(&self) -> Result<()> {
        let kept = i64::try_from(CONNECTIONS_KEPT).unwrap_or(i64::MAX);
        self.execute(
            "DELETE FROM connection WHERE ended_at IS NOT NULL AND nth <=
                 (SELECT nth FROM connection WHERE ended_at IS NOT NULL ORDER BY nth DESC LIMIT 1 OFFSET ?1)",
            [kept],
        )
    }

    /// Tells where a connection stands. The code is not in the event: it stands on the client's page alone.
    pub(super) fn tell_connection(&mut self, connection: &Connection) -> Result<()> {
        let kind = match connection.state {
            ConnectionState::Pending => EventKind::ConnectionRequested,
            ConnectionState::Allowed | ConnectionState::Denied => EventKind::ConnectionDecided,
            ConnectionState::Connected => EventKind::ConnectionEstablished,
            ConnectionState::Expired | ConnectionState::Revoked => EventKind::ConnectionEnded,
        };
        let mut data = json!({
            "connection_id": connection.id, "client_id": connection.client_id,
            "client_name": connection.client_name, "state": connection.state,
        });
        if let (Some(fields), Some(reason)) = (data.as_object_mut(), &connection.reason) {
            fields.insert("reason".to_owned(), json!(reason));
        }
        self.emit(NewEvent { kind, project_id: None, agent_id: None, data })
    }
}

/// Why this cannot happen to it any more.
fn conflict(connection: &Connection) -> Error {
    let (id, state) = (&connection.id, connection.state.as_str());
    let why = connection.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    Error::new(Code::ConnectionStateConflict, format!("connection {id} is {state}{why}"))
        .with("connection_id", id.as_str())
        .with("state", state)
}

//! What remote clients hold: the requests that they made, their codes and tokens, as hashes, and their registrations.

use std::time::Duration;

use rusqlite::named_params;

use super::column::{Json, json, word};
use super::connection::{COLUMNS, from_row};
use super::row::Row;
use super::{Connection, ReadTx, WriteTx};
use crate::error::Result;
use crate::ids::ConnectionId;
use crate::limits::{ACCESS_TOKENS_MAX, REFRESH_TOKENS_KEPT};
use crate::secret::SecretHash;
use crate::time::Timestamp;

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TokenKind {
    /// It opens the endpoint.
    Access,
    /// It is exchanged for new tokens, once.
    Refresh,
}

/// A token of a connection that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Whose it is.
    pub connection_id: ConnectionId,
    /// What it is for.
    pub kind: TokenKind,
    /// Whether it was exchanged.
    pub used: bool,
    /// When it ends, by the steady clock.
    pub expires_at: Timestamp,
}

/// A client that registered itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegisteredClient {
    /// The client's identifier.
    pub id: String,
    /// What it calls itself.
    pub name: String,
    /// Where its answers may go.
    pub redirect_uris: Vec<String>,
}

impl TokenKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Refresh => "refresh",
        }
    }

    const fn most(self) -> usize {
        match self {
            Self::Access => ACCESS_TOKENS_MAX,
            Self::Refresh => REFRESH_TOKENS_KEPT,
        }
    }
}

fn client(row: &Row<'_>) -> rusqlite::Result<RegisteredClient> {
    Ok(RegisteredClient {
        id: row.get("client_id")?,
        name: row.get("client_name")?,
        redirect_uris: json(row, "redirect_uris")?,
    })
}

impl ReadTx<'_> {
    /// The connection whose page has the secret of this hash in its address.
    pub(crate) fn connection_by_page(&self, hash: &SecretHash) -> Result<Option<Connection>> {
        let query = format!("SELECT {COLUMNS} FROM connection WHERE page_hash = ?1");
        self.row(&query, [hash.as_bytes()], from_row)
    }

    /// The connection whose authorization code has this hash, also when it was used.
    pub(crate) fn connection_by_grant(&self, hash: &SecretHash) -> Result<Option<Connection>> {
        let query = format!("SELECT {COLUMNS} FROM connection WHERE grant_hash = ?1");
        self.row(&query, [hash.as_bytes()], from_row)
    }

    /// How many clients wait for a decision.
    pub(crate) fn pending_connections(&self) -> Result<u32> {
        let query = "SELECT count(*) FROM connection WHERE ended_at IS NULL AND state = 'pending'";
        Ok(self.row(query, [], |row| row.only())?.unwrap_or_default())
    }

    /// The pending connection that asked first.
    pub(crate) fn oldest_pending_connection(&self) -> Result<Option<Connection>> {
        let query = format!(
            "SELECT {COLUMNS} FROM connection WHERE ended_at IS NULL AND state = 'pending' ORDER BY nth LIMIT 1"
        );
        self.row(&query, [], from_row)
    }

    /// The token of this hash, if its connection is open.
    pub(crate) fn connection_token(&self, hash: &SecretHash) -> Result<Option<Token>> {
        let query = "SELECT connection_id, kind, used, expires_at FROM connection_token WHERE token_hash = ?1";
        self.row(query, [hash.as_bytes()], |row| {
            Ok(Token {
                connection_id: row.get("connection_id")?,
                kind: word(row, "kind")?,
                used: row.get("used")?,
                expires_at: row.get("expires_at")?,
            })
        })
    }

    /// Whether a hash is that of an access token which opens `resource` at `steady`.
    pub(crate) fn opens(
        &self,
        hash: &SecretHash,
        resource: &str,
        steady: Timestamp,
    ) -> Result<bool> {
        let query = "SELECT 1 FROM connection_token JOIN connection USING (connection_id)
                     WHERE token_hash = ?1 AND kind = 'access' AND expires_at > ?2
                       AND state = 'connected' AND resource = ?3";
        Ok(self.row(query, (hash.as_bytes(), steady, resource), |row| row.only::<i64>())?.is_some())
    }

    /// A client that registered itself.
    pub(crate) fn registered_client(&self, id: &str) -> Result<Option<RegisteredClient>> {
        let query =
            "SELECT client_id, client_name, redirect_uris FROM oauth_client WHERE client_id = ?1";
        self.row(query, [id], client)
    }

    /// How many clients registered themselves.
    pub(crate) fn registered_clients(&self) -> Result<u32> {
        Ok(self.row("SELECT count(*) FROM oauth_client", [], |row| row.only())?.unwrap_or_default())
    }
}

impl WriteTx<'_> {
    /// Keeps the question of a client. `page`: the hash of the secret in the address of its page.
    pub(crate) fn insert_connection(
        &mut self,
        connection: &Connection,
        page: &SecretHash,
    ) -> Result<()> {
        self.execute(
            "INSERT INTO connection (connection_id, client_id, client_name, redirect_uri, resource, client_state, challenge,
                                     user_code, page_hash, state, created_at, due_at)
             VALUES (:id, :client, :name, :redirect, :resource, :client_state, :challenge, :code, :page, :state, :created, :due)",
            named_params! {
                ":id": connection.id,
                ":client": connection.client_id,
                ":name": connection.client_name,
                ":redirect": connection.redirect_uri,
                ":resource": connection.resource,
                ":client_state": connection.client_state,
                ":challenge": connection.challenge,
                ":code": connection.user_code,
                ":page": page.as_bytes(),
                ":state": connection.state.as_str(),
                ":created": connection.created_at,
                ":due": connection.due_at,
            },
        )?;
        self.tell_connection(connection)
    }

    /// Keeps the hash of the authorization code that a connection is answered with.
    pub(crate) fn set_connection_grant(
        &mut self,
        id: &ConnectionId,
        hash: &SecretHash,
    ) -> Result<()> {
        let query = "UPDATE connection SET grant_hash = ?2 WHERE connection_id = ?1";
        self.execute(query, (id, hash.as_bytes()))
    }

    /// Notes that the client took tokens now.
    pub(crate) fn note_renewal(&mut self, id: &ConnectionId) -> Result<()> {
        let now = self.now();
        self.execute("UPDATE connection SET renewed_at = ?2 WHERE connection_id = ?1", (id, now))
    }

    /// Keeps the hash of a token. The oldest of its kind beyond the most that a connection may have are forgotten, and
    /// all that expired.
    pub(crate) fn insert_connection_token(
        &mut self,
        hash: &SecretHash,
        id: &ConnectionId,
        kind: TokenKind,
        expires: Timestamp,
    ) -> Result<()> {
        let (now, steady) = (self.now(), self.steady());
        self.execute("DELETE FROM connection_token WHERE expires_at <= ?1", [steady])?;
        self.execute(
            "INSERT INTO connection_token (token_hash, connection_id, kind, used, created_at, expires_at)
             VALUES (?1, ?2, ?3, 0, ?4, ?5)",
            (hash.as_bytes(), id, kind.as_str(), now, expires),
        )?;
        let most = i64::try_from(kind.most()).unwrap_or(i64::MAX);
        self.execute(
            "DELETE FROM connection_token WHERE token_hash IN
                 (SELECT token_hash FROM connection_token WHERE connection_id = ?1 AND kind = ?2
                  ORDER BY expires_at DESC, created_at DESC, used LIMIT -1 OFFSET ?3)",
            (id, kind.as_str(), most),
        )
    }

    /// Notes that a refresh token was exchanged.
    pub(crate) fn use_connection_token(&mut self, hash: &SecretHash) -> Result<()> {
        let query = "UPDATE connection_token SET used = 1 WHERE token_hash = ?1";
        self.execute(query, [hash.as_bytes()])
    }

    /// Forgets one token.
    pub(crate) fn drop_connection_token(&mut self, hash: &SecretHash) -> Result<()> {
        self.execute("DELETE FROM connection_token WHERE token_hash = ?1", [hash.as_bytes()])
    }

    /// Keeps a client that registered itself.
    pub(crate) fn insert_registered_client(&mut self, client: &RegisteredClient) -> Result<()> {
        let now = self.now();
        self.execute(
            "INSERT INTO oauth_client (client_id, client_name, redirect_uris, created_at) VALUES (?1, ?2, ?3, ?4)",
            (&client.id, &client.name, Json(&client.redirect_uris), now),
        )
    }

    /// Forgets registrations older than `age` of which nothing is open.
    pub(crate) fn forget_unused_clients(&mut self, age: Duration) -> Result<()> {
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(self.now().as_millis().saturating_sub(age));
        self.execute(
            "DELETE FROM oauth_client WHERE created_at < ?1
               AND NOT EXISTS (SELECT 1 FROM connection
                               WHERE connection.client_id = oauth_client.client_id AND ended_at IS NULL)",
            [before],
        )
    }

    /// Forgets the oldest registration of which nothing is open.
    pub(crate) fn forget_oldest_unused_client(&mut self) -> Result<()> {
        self.execute(
            "DELETE FROM oauth_client WHERE client_id =
                 (SELECT client_id FROM oauth_client
                  WHERE NOT EXISTS (SELECT 1 FROM connection
                                    WHERE connection.client_id = oauth_client.client_id AND ended_at IS NULL)
                  ORDER BY created_at, client_id LIMIT 1)",
            [],
        )
    }
}

//! What a remote client gets for the person's word: a code once, tokens for the code, new tokens for old ones.
//!
//! Something that counts once and comes twice was stolen, or stolen from: it ends the whole connection.

use std::time::Duration;

use crate::domain::connection::{ConnectionInput, ConnectionState};
use crate::error::Result;
use crate::ids::ConnectionId;
use crate::limits::{
    ACCESS_TOKEN_LIFE, CONNECTION_PENDING_MAX, CONNECTIONS_PENDING_MAX, GRANT_LIFE,
    REFRESH_TOKEN_LIFE, REGISTERED_CLIENTS_MAX, REGISTRATION_UNUSED_MAX,
};
use crate::secret::{Secret, SecretHash};
use crate::store::{Connection, RegisteredClient, Timer, TokenKind, WriteTx};

/// Consonants without those that are taken for others (RFC 8628, 6.1): no words, 34 bits in eight.
const LETTERS: [char; 20] = [
    'B', 'C', 'D', 'F', 'G', 'H', 'J', 'K', 'L', 'M', 'N', 'P', 'Q', 'R', 'S', 'T', 'V', 'W', 'X',
    'Z',
];

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct Question {
    /// The client's identifier.
    pub client_id: String,
    /// What it calls itself.
    pub client_name: String,
    /// Where its answer goes.
    pub redirect_uri: String,
    /// What it is for.
    pub resource: String,
    /// What it gets back with its answer.
    pub client_state: Option<String>,
    /// The S256 challenge.
    pub challenge: String,
}

/// The tokens that a client gets.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub access: Secret,
    pub refresh: Secret,
}

/// What becomes of something that is exchanged for tokens. A refusal that changes something is no error: an error
/// would undo the change.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// It holds.
    Tokens(Tokens),
    /// It is not known, has expired, or is another client's.
    Refused(&'static str),
    /// It was used before; the connection is ended.
    Reused,
}

impl WriteTx<'_> {
    /// Keeps the question of a client until the person decides. Answers it with the secret of its page.
    pub fn ask_for_connection(&mut self, question: Question) -> Result<Secret> {
        while self.pending_connections()? >= CONNECTIONS_PENDING_MAX {
            let Some(oldest) = self.oldest_pending_connection()? else { break };
            let why = "too many clients asked after it";
            self.step_connection(oldest, ConnectionInput::Expire, Some(why))?;
        }
        let page = self.env().mint_secret("cortex_page_");
        let due = self.steady().after(CONNECTION_PENDING_MAX);
        let connection = Connection {
            id: ConnectionId::new(self.env().mint()),
            client_id: question.client_id,
            client_name: question.client_name,
            redirect_uri: question.redirect_uri,
            resource: question.resource,
            client_state: question.client_state,
            challenge: question.challenge,
            user_code: self.mint_user_code()?,
            granted: false,
            state: ConnectionState::Pending,
            reason: None,
            created_at: self.now(),
            decided_at: None,
            renewed_at: None,
            ended_at: None,
            due_at: Some(due),
        };
        self.insert_connection(&connection, &page.hash())?;
        self.set_timer(&Timer::ConnectionDue(connection.id), due)?;
        Ok(page)
    }

    /// A code that no connection has which is kept.
    fn mint_user_code(&self) -> Result<String> {
        loop {
            let mut code = String::new();
            for nth in 0..8 {
                if nth == 4 {
                    code.push('-');
                }
                let at = usize::try_from(self.env().roll(20)).unwrap_or_default();
                code.extend(LETTERS.get(at));
            }
            if !self.connections()?.iter().any(|other| other.user_code == code) {
                return Ok(code);
            }
        }
    }

    /// Mints the authorization code of a connection that the person has allowed: once. None: there is nothing to give.
    pub(crate) fn give_code(&mut self, page: &SecretHash) -> Result<Option<Secret>> {
        let connection = self.connection_by_page(page)?;
        let is_due = |it: &Connection| it.state == ConnectionState::Allowed && !it.granted;
        let Some(connection) = connection.filter(is_due) else { return Ok(None) };
        let code = self.env().mint_secret("cortex_code_");
        self.set_connection_grant(&connection.id, &code.hash())?;
        self.extend(&connection.id, GRANT_LIFE)?;
        Ok(Some(code))
    }

    /// Exchanges an authorization code. `fits`: whether what came with it is what was asked with.
    pub(crate) fn exchange_code(
        &mut self,
        code: &SecretHash,
        fits: impl FnOnce(&Connection) -> Result<(), &'static str>,
    ) -> Result<Exchange> {
        let unknown = Exchange::Refused("the code is not known, or not any more");
        let Some(connection) = self.connection_by_grant(code)? else { return Ok(unknown) };
        match connection.state {
            ConnectionState::Allowed => {}
            ConnectionState::Connected => {
                self.revoke_connection(&connection.id, "its authorization code was used twice")?;
                return Ok(Exchange::Reused);
            }
            ConnectionState::Pending
            | ConnectionState::Denied
            | ConnectionState::Expired
            | ConnectionState::Revoked => return Ok(unknown),
        }
        if connection.due_at.is_none_or(|due| due <= self.steady()) {
            return Ok(unknown);
        }
        if let Err(why) = fits(&connection) {
            return Ok(Exchange::Refused(why));
        }
        let connection = self.step_connection(connection, ConnectionInput::Connect, None)?;
        Ok(Exchange::Tokens(self.mint_tokens(&connection.id)?))
    }

    /// Exchanges a refresh token for new tokens.
    pub(crate) fn exchange_refresh_token(
        &mut self,
        token: &SecretHash,
        client: &str,
        resource: &str,
    ) -> Result<Exchange> {
        let unknown = Exchange::Refused("the refresh token is not known, or not any more");
        let steady = self.steady();
        let known = self.connection_token(token)?;
        let known = known.filter(|known| known.kind == TokenKind::Refresh);
        let Some(known) = known.filter(|known| known.expires_at > steady) else {
            return Ok(unknown);
        };
        let connection = self.connection(&known.connection_id)?;
        if connection.client_id != client || connection.resource != resource {
            return Ok(Exchange::Refused("the refresh token is another client's"));
        }
        if known.used {
            self.revoke_connection(&connection.id, "a refresh token was used twice")?;
            return Ok(Exchange::Reused);
        }
        self.use_connection_token(token)?;
        Ok(Exchange::Tokens(self.mint_tokens(&connection.id)?))
    }

    /// Takes a token back from its client. A refresh token ends the connection. False: it is another client's.
    pub(crate) fn take_token_back(&mut self, token: &SecretHash, client: &str) -> Result<bool> {
        let Some(known) = self.connection_token(token)? else { return Ok(true) };
        if self.connection(&known.connection_id)?.client_id != client {
            return Ok(false);
        }
        match known.kind {
            TokenKind::Access => self.drop_connection_token(token)?,
            TokenKind::Refresh => {
                self.revoke_connection(&known.connection_id, "the client ended it")?;
            }
        }
        Ok(true)
    }

    /// Keeps a client that registers itself. False: there is no room, because all that are registered are connected.
    pub(crate) fn register_client(&mut self, client: &RegisteredClient) -> Result<bool> {
        self.forget_unused_clients(REGISTRATION_UNUSED_MAX)?;
        if self.registered_clients()? >= REGISTERED_CLIENTS_MAX {
            self.forget_oldest_unused_client()?;
        }
        if self.registered_clients()? >= REGISTERED_CLIENTS_MAX {
            return Ok(false);
        }
        self.insert_registered_client(client)?;
        Ok(true)
    }

    fn mint_tokens(&mut self, id: &ConnectionId) -> Result<Tokens> {
        let access = self.env().mint_secret("cortex_access_");
        let refresh = self.env().mint_secret("cortex_refresh_");
        let steady = self.steady();
        let lives = [
            (&access, TokenKind::Access, ACCESS_TOKEN_LIFE),
            (&refresh, TokenKind::Refresh, REFRESH_TOKEN_LIFE),
        ];
        for (token, kind, life) in lives {
            self.insert_connection_token(&token.hash(), id, kind, steady.after(life))?;
        }
        self.note_renewal(id)?;
        self.extend(id, REFRESH_TOKEN_LIFE)?;
        Ok(Tokens { access, refresh })
    }

    /// A connection is open for so long from now on.
    fn extend(&mut self, id: &ConnectionId, by: Duration) -> Result<()> {
        let due = self.steady().after(by);
        self.set_connection_due(id, due)?;
        self.set_timer(&Timer::ConnectionDue(id.clone()), due)
    }
}

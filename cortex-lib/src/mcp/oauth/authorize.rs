//! `/authorize`: a client's question, the page that waits for the person, and the way back with the answer.

use hyper::StatusCode;
use url::Url;

use super::answer::{Denial, page as page_answer, redirect};
use super::client::Client;
use super::document::Documents;
use super::page::Asking;
use super::params::Params;
use super::public_url::is_loopback;
use super::{Public, SCOPE, WAIT_PATH, page};
use crate::domain::connection::ConnectionState;
use crate::limits::{OAUTH_STATE_BYTES_MAX, OAUTH_URI_BYTES_MAX};
use crate::mcp::refusal::Answer;
use crate::progress::Question;
use crate::secret::Secret;
use crate::store::{Connection, RegisteredClient};

/// The S256 challenge: 256 bits in base64url without padding.
const CHALLENGE_LETTERS: usize = 43;

impl Public {
    /// Takes a client's question in. Until its client and its address are known to be good, only a page tells what is
    /// wrong (RFC 6749, 4.1.2.1).
    pub(super) async fn authorize(&self, query: &str) -> Answer {
        if !self.has_turn() {
            let text = "Too many clients ask just now. Try again in a minute.";
            return page_answer(
                StatusCode::TOO_MANY_REQUESTS,
                page::told("Too many requests", text),
            );
        }
        let (params, client, redirect_uri) = match self.asker(query).await {
            Ok(asker) => asker,
            Err(denial) => return refusal_page(&denial),
        };
        let state = params.get("state").filter(|state| state.len() <= OAUTH_STATE_BYTES_MAX);
        match self.ask(&params, client, redirect_uri.clone()).await {
            Ok(secret) => redirect(&format!("{WAIT_PATH}?page={}", secret.expose())),
            Err(denial) => self.send_back(&redirect_uri, state, &denial),
        }
    }

    /// Who asks, and where its answer goes.
    async fn asker(&self, query: &str) -> Result<(Params, Client, String), Denial> {
        let params = Params::parse(query.as_bytes())?;
        let client = self.client(params.need("client_id")?).await?;
        let redirect_uri = match (params.get("redirect_uri"), client.redirect_uris.as_slice()) {
            (Some(uri), _) if client.may_answer_to(uri) => uri.to_owned(),
            (Some(_), _) => {
                return Err(Denial::request("the redirect_uri is not one of the client's"));
            }
            (None, [only]) => only.clone(),
            (None, _) => return Err(Denial::request("redirect_uri is missing")),
        };
        Ok((params, client, redirect_uri))
    }

    async fn client(&self, id: &str) -> Result<Client, Denial> {
        if id.len() > OAUTH_URI_BYTES_MAX {
            return Err(Denial::new("invalid_client", "the client_id is too long"));
        }
        if Documents::is_address(id) {
            if let Some(client) = self.documents.known(id) {
                return Ok(client);
            }
            return self.documents.fetch(id).await.map_err(|why| {
                Denial::new(
                    "invalid_client",
                    format!("the client's document cannot be used: {why}"),
                )
            });
        }
        let known = self.registered(id)?;
        Ok(Client { id: known.id, name: known.name, redirect_uris: known.redirect_uris })
    }

    /// A client that registered itself. Clients understand the refusal: they register again.
    pub(super) fn registered(&self, id: &str) -> Result<RegisteredClient, Denial> {
        let known = self.core.store().read(|tx| tx.registered_client(id))?;
        known.ok_or_else(|| {
            let why = "the client is not registered here, or not any more; it must register again";
            Denial::new("invalid_client", why)
        })
    }

    async fn ask(
        &self,
        params: &Params,
        client: Client,
        redirect_uri: String,
    ) -> Result<Secret, Denial> {
        match params.need("response_type")? {
            "code" => {}
            other => {
                let why = format!("response_type {other} is not code");
                return Err(Denial::new("unsupported_response_type", why));
            }
        }
        let state = params.get("state");
        if state.is_some_and(|state| state.len() > OAUTH_STATE_BYTES_MAX) {
            return Err(Denial::request("state is too long"));
        }
        let challenge = params.need("code_challenge")?;
        if params.get("code_challenge_method") != Some("S256") {
            return Err(Denial::request("code_challenge_method must be S256"));
        }
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if challenge.len() != CHALLENGE_LETTERS || !challenge.bytes().all(is_letter) {
            return Err(Denial::request("code_challenge is not a S256 challenge"));
        }
        self.check_resource(params)?;
        check_scope(params)?;
        let question = Question {
            client_id: client.id,
            client_name: client.name,
            redirect_uri,
            resource: self.url.resource(),
            client_state: state.map(str::to_owned),
            challenge: challenge.to_owned(),
        };
        self.core.check_ready()?;
        Ok(self.core.store().write(move |tx| tx.ask_for_connection(question)).await?)
    }

    /// There is one resource. Clients of the first revisions do not name it; who names another one is refused (RFC 8707).
    pub(super) fn check_resource(&self, params: &Params) -> Result<(), Denial> {
        match params.get("resource") {
            Some(named) if !self.url.is_resource(named) => {
                let why = format!("tokens are only for {}", self.url.resource());
                Err(Denial::new("invalid_target", why))
            }
            _ => Ok(()),
        }
    }

    /// The page that waits. It gives the authorization code out once, when the person has allowed the client.
    pub(super) async fn wait(&self, query: &str) -> Result<Answer, Denial> {
        let gone = || {
            let text = "This page is not known, or not any more. Begin again from your client.";
            page_answer(StatusCode::NOT_FOUND, page::told("Nothing waits here", text))
        };
        let params = Params::parse(query.as_bytes())?;
        let Some(secret) = params.get("page") else { return Ok(gone()) };
        let hash = Secret::new(secret).hash();
        let found = self.core.store().read(|tx| tx.connection_by_page(&hash))?;
        let Some(connection) = found else { return Ok(gone()) };
        Ok(match connection.state {
            ConnectionState::Pending => {
                page_answer(StatusCode::OK, page::waiting(&asking(&connection)))
            }
            ConnectionState::Allowed if !connection.granted => {
                match self.core.store().write(move |tx| tx.give_code(&hash)).await? {
                    Some(code) => redirect(&self.answer_to(&connection, &code)),
                    None => over(&connection),
                }
            }
            ConnectionState::Denied => {
                let denial = Denial::new("access_denied", "the person denied it");
                let state = connection.client_state.as_deref();
                // The person has just spoken: this is no way of a stranger's to send a browser somewhere.
                redirect(&self.error_to(&connection.redirect_uri, state, &denial))
            }
            ConnectionState::Allowed
            | ConnectionState::Connected
            | ConnectionState::Expired
            | ConnectionState::Revoked => over(&connection),
        })
    }

    fn answer_to(&self, connection: &Connection, code: &Secret) -> String {
        let state = connection.client_state.as_deref();
        self.to_client(&connection.redirect_uri, state, &[("code", code.expose())])
    }

    fn error_to(&self, redirect_uri: &str, state: Option<&str>, denial: &Denial) -> String {
        let said = [("error", denial.code), ("error_description", denial.description.as_str())];
        self.to_client(redirect_uri, state, &said)
    }

    /// The address of a client with what it is told, and by whom (RFC 9207).
    fn to_client(&self, redirect_uri: &str, state: Option<&str>, said: &[(&str, &str)]) -> String {
        let Ok(mut url) = Url::parse(redirect_uri) else { return String::new() };
        let mut query = url.query_pairs_mut();
        query.extend_pairs(said);
        if let Some(state) = state {
            query.append_pair("state", state);
        }
        query.append_pair("iss", &self.url.origin());
        drop(query);
        url.into()
    }

    /// Tells a client that asked wrongly. Anybody can register a client and send a person's browser here, so it is not
    /// sent on by itself to where that client says, except on this machine (RFC 9700, 4.11.2).
    fn send_back(&self, redirect_uri: &str, state: Option<&str>, denial: &Denial) -> Answer {
        let to = self.error_to(redirect_uri, state, denial);
        if Url::parse(redirect_uri).is_ok_and(|url| is_loopback(&url)) {
            return redirect(&to);
        }
        let text = format!("The client asked wrongly: {}.", denial.description);
        let html = page::way_back("Nothing was granted", &text, &host_of(redirect_uri), &to);
        page_answer(StatusCode::BAD_REQUEST, html)
    }
}

/// One scope is enough: a client may use the tools or not. What else it asks for is not given (RFC 6749, 3.3).
pub(super) fn check_scope(params: &Params) -> Result<(), Denial> {
    match params.get("scope") {
        Some(asked) if !asked.split(' ').any(|scope| scope == SCOPE) => {
            Err(Denial::new("invalid_scope", format!("the only scope is {SCOPE}")))
        }
        _ => Ok(()),
    }
}

/// What tells a person what is wrong with a client that nobody knows well enough to send an answer to.
pub(super) fn refusal_page(denial: &Denial) -> Answer {
    let status = match denial.code {
        "server_error" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    let text = format!("{} ({}).", denial.description, denial.code);
    page_answer(status, page::told("Nothing was granted", &text))
}

/// What a person reads about a client that waits.
fn asking(connection: &Connection) -> Asking<'_> {
    let id = connection.client_id.as_str();
    Asking {
        name: &connection.client_name,
        document_host: Documents::is_address(id).then(|| host_of(id)),
        answer_host: host_of(&connection.redirect_uri),
        answers_here: Url::parse(&connection.redirect_uri).is_ok_and(|url| is_loopback(&url)),
        code: &connection.user_code,
    }
}

fn over(connection: &Connection) -> Answer {
    let text = match connection.state {
        ConnectionState::Expired | ConnectionState::Revoked => {
            "It ended. Begin again from your client."
        }
        _ => "The client was answered. You may close this page.",
    };
    page_answer(StatusCode::OK, page::told("Nothing to decide", text))
}

fn host_of(uri: &str) -> String {
    let url = Url::parse(uri).ok();
    url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

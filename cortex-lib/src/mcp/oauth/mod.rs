//! OAuth 2.1 for clients that reach the endpoint by its public address. Without such an address nothing of it exists.
//!
//! An authorization server for one resource, this endpoint, and one owner, the person who runs Cortex: authorization code
//! with PKCE (S256 alone), refresh tokens that are exchanged once, revocation. Clients are public; they register
//! themselves (RFC 7591) or describe themselves in a document (CIMD). The person's word is given at the machine, by an
//! operator command that takes the code of the page in the browser. Pages grant nothing.
//!
//! The protocol is written here because no maintained server of it fits in: those that exist lack what MCP demands
//! (RFC 8414, 8707, 9207, 9728, registration, documents), or bring a web framework and a store of their own. What is
//! cryptography or parsing is not: SHA-256, constant time, base64, addresses, forms, JSON, HTTP and TLS are crates.

mod answer;
mod authorize;
mod client;
mod document;
mod fetch;
mod pace;
mod page;
mod params;
mod public_url;
mod register;
mod token;

use std::sync::Arc;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};

pub use self::public_url::PublicUrl;

use self::answer::{Denial, json as json_answer, only};
use self::document::Documents;
use self::fetch::Fetcher;
use self::pace::Pace;
use self::params::Params;
use super::guard::{METADATA_PATH, PATH};
use super::refusal::Answer;
use crate::engine::Core;
use crate::error::Result;
use crate::limits::{MCP_BODY_TIMEOUT, OAUTH_BODY_BYTES_MAX};
use crate::secret::SecretHash;

/// What a client may do: use the tools. There is nothing less and nothing more.
const SCOPE: &str = "mcp";

const SERVER_METADATA_PATH: &str = "/.well-known/oauth-authorization-server";
const AUTHORIZE_PATH: &str = "/authorize";
const WAIT_PATH: &str = "/authorize/wait";
const TOKEN_PATH: &str = "/token";
const REGISTER_PATH: &str = "/register";
const REVOKE_PATH: &str = "/revoke";
const PATHS: [&str; 6] =
    [SERVER_METADATA_PATH, AUTHORIZE_PATH, WAIT_PATH, TOKEN_PATH, REGISTER_PATH, REVOKE_PATH];

/// The endpoint as it is seen from elsewhere.
pub(super) struct Public {
    url: PublicUrl,
    core: Core,
    documents: Documents,
    pace: Pace,
}

impl Public {
    pub(super) fn new(url: PublicUrl, core: Core) -> Self {
        let documents = Documents::new(Arc::clone(core.env()), Fetcher::new());
        Self { url, core, documents, pace: Pace::default() }
    }

    /// Whether a Host header names the public address.
    pub(super) fn is_host(&self, host: &str) -> bool {
        self.url.is_host(host)
    }

    /// Whether pages from elsewhere may send requests by it. An address of this machine is there to try things out, and
    /// any page that a person looks at meanwhile reaches it.
    pub(super) fn takes_pages(&self) -> bool {
        !self.url.is_loopback()
    }

    /// Whether something is at a path besides the endpoint itself.
    pub(super) fn serves(path: &str) -> bool {
        PATHS.contains(&path)
    }

    /// What a caller without a credential is told: where the endpoint is described, and what to ask for (RFC 6750, 3).
    pub(super) fn challenge(&self) -> String {
        let metadata = self.url.at(&format!("{METADATA_PATH}{PATH}"));
        format!("Bearer resource_metadata=\"{metadata}\", scope=\"{SCOPE}\"")
    }

    /// What the endpoint is, for who comes by the public address (RFC 9728).
    pub(super) fn metadata(&self) -> Value {
        json!({
            "resource": self.url.resource(),
            "resource_name": "Cortex",
            "authorization_servers": [self.url.origin()],
            "bearer_methods_supported": ["header"],
            "scopes_supported": [SCOPE],
        })
    }

    /// Whether a credential is an access token for this endpoint that counts.
    pub(super) fn opens(&self, hash: &SecretHash) -> Result<bool> {
        let steady = self.core.store().steady();
        self.core.store().read(|tx| tx.opens(hash, &self.url.resource(), steady))
    }

    /// Answers a request to one of [its paths](Self::serves).
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or_default();
        let get = head.method == Method::GET;
        match head.uri.path() {
            SERVER_METADATA_PATH if get => json_answer(StatusCode::OK, &self.server_metadata()),
            AUTHORIZE_PATH if get => self.authorize(query).await,
            WAIT_PATH if get => match self.wait(query).await {
                Ok(answer) => answer,
                Err(denial) => authorize::refusal_page(&denial),
            },
            SERVER_METADATA_PATH | AUTHORIZE_PATH | WAIT_PATH => only("GET"),
            _ if head.method != Method::POST => only("POST"),
            path => {
                let answer = self.answer_program(path, &head.headers, body).await;
                answer.unwrap_or_else(|denial| denial.answer())
            }
        }
    }

    async fn answer_program(
        &self,
        path: &str,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Answer, Denial> {
        let wanted = match path {
            REGISTER_PATH => "application/json",
            _ => "application/x-www-form-urlencoded",
        };
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        if !essence.is_some_and(|essence| essence.eq_ignore_ascii_case(wanted)) {
            return Err(Denial::request(format!("the Content-Type is not {wanted}")));
        }
        let whole = Limited::new(body, OAUTH_BODY_BYTES_MAX).collect();
        let body = match tokio::time::timeout(MCP_BODY_TIMEOUT, whole).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => return Err(Denial::request("the body is broken off or too large")),
            Err(_) => return Err(Denial::request("the body did not come in time")),
        };
        match path {
            REGISTER_PATH => self.register(&body).await,
            REVOKE_PATH => self.revoke(&Params::parse(&body)?).await,
            _ => self.token(&Params::parse(&body)?).await,
        }
    }

    /// What the authorization server can (RFC 8414).
    fn server_metadata(&self) -> Value {
        json!({
            "issuer": self.url.origin(),
            "authorization_endpoint": self.url.at(AUTHORIZE_PATH),
            "token_endpoint": self.url.at(TOKEN_PATH),
            "registration_endpoint": self.url.at(REGISTER_PATH),
            "revocation_endpoint": self.url.at(REVOKE_PATH),
            "scopes_supported": [SCOPE],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
        })
    }

    /// Takes a turn of those that strangers have.
    fn has_turn(&self) -> bool {
        self.pace.take(self.core.env().monotonic())
    }
}

impl std::fmt::Debug for Public {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Public").field("url", &self.url).finish_non_exhaustive()
    }
}

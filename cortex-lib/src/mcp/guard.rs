//! Who is let in, and with what: every refusal of the endpoint, in the order in which it is found.
//!
//! What passes is one JSON-RPC message of a caller that is known; nothing else reaches the protocol.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Uri};
use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};

use super::Public;
use super::message::{self, Message};
use super::progress::TakesStream;
use super::refusal::Refusal;
use super::slots::Slot;
use super::user_token::Owner;
use crate::api::{Caller, SessionCaller, SessionKind};
use crate::domain::agent::Role;
use crate::engine::{Core, CoreState};
use crate::error::{Code, Error, Result};
use crate::ids::CorrelationId;
use crate::limits::{MCP_BODY_BYTES_MAX, MCP_BODY_TIMEOUT, MCP_HEADER_BYTES_MAX};
use crate::secret::{Secret, SecretHash};
use crate::store::Holder;

/// Where MCP is.
pub(super) const PATH: &str = "/mcp";
/// Where clients look for what the endpoint is (RFC 9728).
pub(super) const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";
/// The versions of the protocol that are spoken, newest first.
pub(super) static VERSIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::V_2026_07_28,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_03_26,
];

const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// A request that was let in.
#[derive(Debug)]
pub(super) enum Admitted {
    /// A message for the protocol; its caller is among the extensions.
    Message(Box<Parts>, Bytes),
    /// The question what the endpoint is, with its answer.
    Metadata(Value),
    /// A request about access, by the public address.
    Public(Arc<Public>, Box<Request<Incoming>>),
}

/// Lets requests in.
#[derive(Debug)]
pub(super) struct Guard {
    port: u16,
    core: Core,
    owner: Arc<Owner>,
    public: Option<Arc<Public>>,
}

impl Guard {
    pub(super) fn new(
        port: u16,
        core: Core,
        owner: Arc<Owner>,
        public: Option<Arc<Public>>,
    ) -> Self {
        Self { port, core, owner, public }
    }

    /// Lets a request in, or says why not.
    pub(super) async fn admit(
        &self,
        request: Request<Incoming>,
        slot: &Slot,
    ) -> Result<Admitted, Refusal> {
        let (mut head, body) = request.into_parts();
        // Some clients send more over a connection although they were told that it ends.
        let is_whole = body.is_end_stream();
        let visitor = self
            .check_head(&head, slot)
            .map_err(|refusal| if is_whole { refusal } else { refusal.closing() })?;
        let caller = match visitor {
            Visitor::Known(caller) => caller,
            Visitor::Curious(about) => return Ok(Admitted::Metadata(about)),
            Visitor::Remote(public) => {
                return Ok(Admitted::Public(public, Box::new(Request::from_parts(head, body))));
            }
        };
        let body = read(body).await.map_err(Refusal::closing)?;
        let message =
            message::read(&body).map_err(|problem| Refusal::new(Code::HttpBadRequest, problem))?;
        check_version(&head.headers, &message)?;
        // What a client accepts is not held against it: the answer is JSON, and every client reads that.
        if let Some(takes) = TakesStream::told_by(&head.headers) {
            head.extensions.insert(takes);
        }
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        head.headers.insert(ACCEPT, accept);
        head.extensions.insert(caller);
        Ok(Admitted::Message(Box::new(head), body))
    }

    fn check_head(&self, head: &Parts, slot: &Slot) -> Result<Visitor, Refusal> {
        check_size(&head.headers)?;
        let host = self.check_host(head)?;
        // Who serves the endpoint to others serves it to their pages too, at that address.
        if !self.public_at(host).is_some_and(|public| public.takes_pages()) {
            check_origin(&head.headers)?;
        }
        match head.uri.path() {
            PATH => {}
            path if path
                .strip_prefix(METADATA_PATH)
                .is_some_and(|of| of.is_empty() || of == PATH) =>
            {
                allow(head, &Method::GET)?;
                return Ok(Visitor::Curious(self.metadata(host)));
            }
            path if let Some(public) = self.public_at(host)
                && Public::serves(path) =>
            {
                return Ok(Visitor::Remote(Arc::clone(public)));
            }
            _ => return Err(Refusal::new(Code::HttpNotFound, "nothing is at this path")),
        }
        if self.core.state() == CoreState::Stopped {
            return Err(self.full(Error::new(Code::CoreStopped, "the core has stopped")));
        }
        let caller = self.identify(&head.headers, host)?;
        slot.recognise(&caller)?;
        allow(head, &Method::POST)?;
        check_content_type(&head.headers)?;
        check_length(&head.headers)?;
        Ok(Visitor::Known(caller))
    }

    /// The host must be the endpoint's own, to the letter: a page that has its own name point at this machine
    /// sends that name.
    fn check_host<'a>(&self, head: &'a Parts) -> Result<&'a str, Refusal> {
        let ours = |host: &str| {
            ["127.0.0.1", "localhost"].iter().any(|name| host == format!("{name}:{}", self.port))
                || self.public_at(host).is_some()
        };
        let forbidden = || {
            let mut message =
                format!("the Host header is neither 127.0.0.1:{0} nor localhost:{0}", self.port);
            if self.public.is_some() {
                message += " nor that of the public address";
            }
            Refusal::new(Code::HttpForbiddenHost, message)
        };
        if head.uri.authority().is_some_and(|authority| !ours(authority.as_str())) {
            return Err(forbidden());
        }
        only(&head.headers, &HOST).filter(|host| ours(host)).ok_or_else(forbidden)
    }

    /// The public address, for a request that came by it.
    fn public_at(&self, host: &str) -> Option<&Arc<Public>> {
        self.public.as_ref().filter(|public| public.is_host(host))
    }

    /// What the endpoint is (RFC 9728). At this machine it names no authorization server: clients that find one ignore
    /// the credential they were configured with.
    fn metadata(&self, host: &str) -> Value {
        if let Some(public) = self.public_at(host) {
            return public.metadata();
        }
        json!({
            "resource": format!("http://{host}{PATH}"),
            "resource_name": "Cortex",
            "bearer_methods_supported": ["header"],
        })
    }

    fn identify(&self, headers: &HeaderMap, host: &str) -> Result<Caller, Refusal> {
        let refuse = |code: Code, message: &str| {
            let challenge = match self.public_at(host) {
                Some(public) => public.challenge(),
                None => format!("Bearer resource_metadata=\"http://{host}{METADATA_PATH}{PATH}\""),
            };
            let challenge = if code == Code::AuthInvalid {
                challenge + ", error=\"invalid_token\""
            } else {
                challenge
            };
            let refusal = self.full(Error::new(code, message));
            match HeaderValue::try_from(challenge) {
                Ok(challenge) => refusal.with(WWW_AUTHENTICATE, challenge),
                Err(_) => refusal,
            }
        };
        if !headers.contains_key(AUTHORIZATION) {
            return Err(refuse(Code::AuthMissing, "the request has no credential"));
        }
        let Some(token) = only(headers, &AUTHORIZATION).and_then(bearer) else {
            return Err(refuse(Code::AuthInvalid, "the credential is not one Bearer token"));
        };
        match self.caller_of(&Secret::new(token).hash(), host) {
            Ok(Some(caller)) => Ok(caller),
            Ok(None) => Err(refuse(Code::AuthInvalid, "the credential is not known")),
            Err(error) => Err(self.full(error)),
        }
    }

    /// Whose credential it is. Sessions are looked up by hash: how long that takes tells nothing about the
    /// credential behind it.
    fn caller_of(&self, hash: &SecretHash, host: &str) -> Result<Option<Caller>> {
        if self.owner.is(hash) {
            return Ok(Some(Caller::User));
        }
        // What a remote client holds is for the public address alone.
        if let Some(public) = self.public_at(host)
            && public.opens(hash)?
        {
            return Ok(Some(Caller::User));
        }
        self.core.store().read(|tx| {
            let Some((session, holder)) = tx.session_by_token(hash)? else { return Ok(None) };
            let agent = match tx.agent(&session.agent_id) {
                Ok(agent) => agent,
                Err(error) if error.code() == Code::AgentNotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let kind = match (holder, agent.role) {
                (Holder::Hook, _) => SessionKind::Hook,
                (Holder::Session, Role::Orchestrator) => SessionKind::Orchestrator,
                (Holder::Session, Role::Worker) => SessionKind::Agent,
            };
            Ok(Some(Caller::Session(SessionCaller {
                kind,
                agent_id: agent.id,
                project_id: agent.project_id,
                session_id: session.id,
            })))
        })
    }

    /// A refusal with the whole error object, which is tied to the log.
    fn full(&self, error: Error) -> Refusal {
        error.correlated(|| CorrelationId::new(self.core.env().mint())).into()
    }
}

/// Who sent a request whose head holds.
#[derive(Debug)]
enum Visitor {
    Known(Caller),
    Curious(Value),
    Remote(Arc<Public>),
}

fn check_size(headers: &HeaderMap) -> Result<(), Refusal> {
    // A header line has a colon, a space and a line end beside name and value.
    let size: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if size <= MCP_HEADER_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the headers have {size} bytes; {MCP_HEADER_BYTES_MAX} are the most");
    Err(Refusal::new(Code::HttpHeadersTooLarge, message))
}

/// Browsers say which page sends. Only pages of this machine may.
fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    if !headers.contains_key(ORIGIN) || only(headers, &ORIGIN).is_some_and(is_local) {
        return Ok(());
    }
    Err(Refusal::new(Code::HttpForbiddenOrigin, "the Origin header names a page from elsewhere"))
}

fn is_local(origin: &str) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let web = matches!(origin.scheme_str(), Some("http" | "https"));
    let bare = origin.path() == "/" && origin.query().is_none();
    let named = origin.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    let here = matches!(origin.host(), Some("127.0.0.1" | "localhost" | "[::1]"));
    web && bare && named && here
}

fn allow(head: &Parts, method: &Method) -> Result<(), Refusal> {
    if head.method == *method {
        return Ok(());
    }
    let message = format!("{} is not taken here, only {method}", head.method);
    let refusal = Refusal::new(Code::HttpMethodNotAllowed, message);
    Err(match HeaderValue::from_str(method.as_str()) {
        Ok(method) => refusal.with(ALLOW, method),
        Err(_) => refusal,
    })
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let essence = only(headers, &CONTENT_TYPE).and_then(|value| value.split(';').next());
    if essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(Refusal::new(Code::HttpUnsupportedMediaType, "the Content-Type is not application/json"))
}

fn check_length(headers: &HeaderMap) -> Result<(), Refusal> {
    let length = only(headers, &CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    match length {
        None => Err(Refusal::new(Code::HttpLengthRequired, "the Content-Length is missing")),
        Some(length) if length > MCP_BODY_BYTES_MAX => {
            let message = format!("the body has {length} bytes; {MCP_BODY_BYTES_MAX} are the most");
            Err(Refusal::new(Code::HttpTooLarge, message))
        }
        Some(_) => Ok(()),
    }
}

fn check_version(headers: &HeaderMap, message: &Message<'_>) -> Result<(), Refusal> {
    let known = |wanted: &str| VERSIONS.iter().any(|version| version.as_str() == wanted);
    let wanted = only(headers, &VERSION_HEADER);
    if !headers.contains_key(VERSION_HEADER) || wanted.is_some_and(known) {
        return Ok(());
    }
    // Who says the version with each message understands the answer of the protocol, which lists what is spoken.
    if wanted.is_some() && message.meta().names_its_version() {
        return Ok(());
    }
    let known = VERSIONS.each_ref().map(ProtocolVersion::as_str).join(", ");
    let message = format!("the MCP-Protocol-Version is none of {known}");
    Err(Refusal::new(Code::HttpBadRequest, message))
}

/// Whether the header names a version that has no `initialize`: each message stands for itself.
pub(super) fn is_stateless(headers: &HeaderMap) -> bool {
    let wanted = only(headers, &VERSION_HEADER);
    let spoken = VERSIONS.iter().find(|version| wanted == Some(version.as_str()));
    spoken.is_some_and(|version| !version.has_initialize())
}

/// The value of a header that came exactly once and is text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn bearer(credential: &str) -> Option<&str> {
    let (scheme, token) = credential.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    let whole = Limited::new(body, MCP_BODY_BYTES_MAX).collect();
    match tokio::time::timeout(MCP_BODY_TIMEOUT, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) => {
            Err(Refusal::new(Code::HttpBadRequest, format!("the body broke off: {error}")))
        }
        Err(_) => {
            let message = format!("the body took more than {} s", MCP_BODY_TIMEOUT.as_secs());
            Err(Refusal::new(Code::HttpTimeout, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_machine_are_local() {
        let local = [
            "http://localhost",
            "http://127.0.0.1:3000",
            "https://localhost:8443",
            "http://[::1]:5",
        ];
        let foreign = [
            "null",
            "",
            "https://evil.example",
            "http://localhost.evil.example",
            "http://localhost@evil.example",
            "http://evil@localhost",
            "http://127.0.0.1.evil.example",
            "file://localhost",
            "http://localhost/page",
            "localhost",
        ];
        assert!(local.into_iter().all(is_local));
        for origin in foreign {
            assert!(!is_local(origin), "{origin}");
        }
    }

    #[test]
    fn a_bearer_token_is_all_that_counts() {
        assert_eq!(bearer("Bearer a"), Some("a"));
        assert_eq!(bearer("bearer  a "), Some("a"));
        for other in ["Bearer", "Bearer ", "Basic a", "a", ""] {
            assert_eq!(bearer(other), None, "{other}");
        }
    }
}

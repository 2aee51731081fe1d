//! The endpoint that a session is given: one tool of Cortex over MCP, and a page that nobody should read.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cortex_lib::port::McpAccess;
use cortex_lib::secret::Secret;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// The tool that is offered.
pub(super) const TOOL: &str = "list_tasks";
/// What it returns. The word is known from nowhere else.
pub(super) const RETURNS: &str = "No tasks yet, the word is «plover».";
/// The word.
pub(super) const WORD: &str = "plover";

/// An endpoint that lives as long as this.
pub(super) struct Endpoint {
    address: String,
    credential: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    _end: DropGuard,
}

/// What a request was.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// The method of the protocol; else the path.
    what: String,
    /// Whether it had the credential.
    is_ours: bool,
}

impl Endpoint {
    /// Listens. Only requests with this credential are served.
    pub(super) async fn start(credential: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?.to_string();
        let (end, seen) = (CancellationToken::new(), Arc::<Mutex<Vec<Seen>>>::default());
        let (ended, log, expected) =
            (end.clone(), Arc::clone(&seen), format!("Bearer {credential}"));
        let tasks = TaskTracker::new();
        drop(tasks.clone().spawn(async move {
            loop {
                let stream = tokio::select! {
                    () = ended.cancelled() => return,
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => stream,
                        Err(_) => continue,
                    },
                };
                let (ended, log, expected) = (ended.clone(), Arc::clone(&log), expected.clone());
                drop(tasks.spawn(async move {
                    let service = service_fn(|request| answer(request, &log, &expected));
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    tokio::select! {
                        () = ended.cancelled() => {}
                        // A client that goes away has what it wanted.
                        _ = connection => {}
                    }
                }));
            }
        }));
        Ok(Self { address, credential: credential.to_owned(), seen, _end: end.drop_guard() })
    }

    /// What a session is given to reach it.
    pub(super) fn access(&self) -> McpAccess {
        self.access_with(&self.credential)
    }

    /// The same with another credential.
    pub(super) fn access_with(&self, credential: &str) -> McpAccess {
        McpAccess {
            url: format!("http://{}/mcp", self.address),
            token: Secret::new(credential),
            hook_token: Secret::new("cortex_hook_1"),
        }
    }

    /// A page that says when it is read.
    pub(super) fn page(&self) -> String {
        format!("http://{}/page", self.address)
    }

    /// How often this was asked with the credential.
    pub(super) fn asked(&self, what: &str) -> usize {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|seen| seen.what == what && seen.is_ours).count()
    }

    /// How often the page was read.
    pub(super) fn read(&self) -> usize {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|seen| seen.what == "/page").count()
    }
}

async fn answer(
    request: Request<Incoming>,
    log: &Mutex<Vec<Seen>>,
    expected: &str,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let asked: Value =
        serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
    let path = head.uri.path();
    let what = asked.get("method").and_then(Value::as_str).unwrap_or(path).to_owned();
    let credential = head.headers.get("authorization").and_then(|value| value.to_str().ok());
    let is_ours = credential == Some(expected);
    let (status, body) = match (path, asked.get("id")) {
        ("/page", _) => (StatusCode::OK, json!("a page")),
        ("/mcp", _) if !is_ours => (StatusCode::UNAUTHORIZED, Value::Null),
        ("/mcp", _) if head.method == Method::GET => (StatusCode::METHOD_NOT_ALLOWED, Value::Null),
        ("/mcp", None) => (StatusCode::ACCEPTED, Value::Null),
        ("/mcp", Some(id)) => {
            (StatusCode::OK, json!({"jsonrpc": "2.0", "id": id, "result": result(&what, &asked)}))
        }
        _ => (StatusCode::NOT_FOUND, Value::Null),
    };
    log.lock().unwrap_or_else(PoisonError::into_inner).push(Seen { what, is_ours });
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    Ok(response)
}

fn result(method: &str, asked: &Value) -> Value {
    match method {
        "initialize" => json!({
            "protocolVersion": asked.pointer("/params/protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "cortex", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": TOOL,
            "description": "Lists the tasks.",
            "inputSchema": {"type": "object", "properties": {}},
        }]}),
        "tools/call" => json!({"content": [{"type": "text", "text": RETURNS}]}),
        _ => json!({}),
    }
}

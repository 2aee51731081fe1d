//! Takes connections, each with a slot and a deadline, and answers what comes over them.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::endpoint::Endpoint;
use super::guard::{Admitted, Guard, PATH};
use super::refusal::{Answer, Refusal, json_answer};
use crate::api::Catalogue;
use crate::engine::{Core, Supervisor};
use crate::error::Code;
use crate::ids::CorrelationId;
use crate::limits::{
    MCP_ACCEPT_PAUSE, MCP_BODY_BYTES_MAX, MCP_CONNECTIONS_MAX, MCP_HEAD_BUFFER_BYTES,
    MCP_HEAD_TIMEOUT, MCP_REFUSALS_MAX, MCP_STOP_GRACE,
};
use crate::secret::SecretHash;

/// The accept loop and what its connections share.
pub(super) struct Listener {
    desk: Arc<Desk>,
    slots: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    work: Supervisor,
}

/// Answers requests.
struct Desk {
    guard: Guard,
    protocol: StreamableHttpService<Endpoint, NeverSessionManager>,
}

impl Listener {
    pub(super) fn new(
        core: &Core,
        port: u16,
        user: watch::Receiver<SecretHash>,
        catalogue: Catalogue,
        work: &Supervisor,
    ) -> Self {
        let endpoint = Endpoint::new(core.clone(), catalogue, work.stopping());
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MCP_BODY_BYTES_MAX);
        let protocol = StreamableHttpService::new(
            move || Ok(endpoint.clone()),
            Arc::new(NeverSessionManager::default()),
            config,
        );
        Self {
            desk: Arc::new(Desk { guard: Guard::new(port, core.clone(), user), protocol }),
            slots: Arc::new(Semaphore::new(MCP_CONNECTIONS_MAX)),
            refusals: Arc::new(Semaphore::new(MCP_REFUSALS_MAX)),
            work: work.clone(),
        }
    }

    /// Takes connections until the endpoint stops.
    pub(super) async fn run(self, socket: TcpListener) {
        let stop = self.work.stopping();
        loop {
            let taken = tokio::select! { biased;
                () = stop.cancelled() => return,
                taken = socket.accept() => taken,
            };
            match taken {
                Ok((stream, _)) => self.receive(stream),
                Err(error) => {
                    tracing::warn!("a connection to the endpoint could not be taken: {error}");
                    // Out of sockets: others must close some first.
                    drop(tokio::time::timeout(MCP_ACCEPT_PAUSE, stop.cancelled()).await);
                }
            }
        }
    }

    fn receive(&self, stream: TcpStream) {
        let (desk, slot) = if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            (Some(Arc::clone(&self.desk)), slot)
        } else if let Ok(slot) = Arc::clone(&self.refusals).try_acquire_owned() {
            (None, slot)
        } else {
            return;
        };
        self.work.spawn(converse(desk, stream, slot, self.work.clone()));
    }
}

/// Answers what comes over one connection. Without a desk: that there are too many.
async fn converse(
    desk: Option<Arc<Desk>>,
    stream: TcpStream,
    _slot: OwnedSemaphorePermit,
    work: Supervisor,
) {
    // Answers are small and whole; waiting for more to send would only slow them down.
    drop(stream.set_nodelay(true));
    let service = service_fn(|request| {
        let desk = desk.clone();
        async move {
            Ok::<_, Infallible>(match desk {
                Some(desk) => desk.answer(request).await,
                None => too_many().answer(),
            })
        }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(MCP_HEAD_TIMEOUT)
        .max_buf_size(MCP_HEAD_BUFFER_BYTES);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    let stop = work.stopping();
    let ended = tokio::select! { biased;
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(MCP_STOP_GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection to the endpoint broke off: {error}");
    }
}

fn too_many() -> Refusal {
    let message = format!("{MCP_CONNECTIONS_MAX} connections are open, and that is the most");
    Refusal::new(Code::HttpTooManyConnections, message)
}

impl Desk {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        match self.guard.admit(request).await {
            Ok(Admitted::Message(request)) => {
                let answer = self.protocol.handle(*request).await;
                if is_ours(&answer) { answer } else { foreign(answer).await }
            }
            Ok(Admitted::Metadata { host }) => metadata(&host),
            Err(refusal) => {
                let error = refusal.error();
                let id = error.correlation_id().map(CorrelationId::as_str);
                tracing::debug!(correlation_id = id, code = %error.code(), "refused: {}", error.message());
                refusal.answer()
            }
        }
    }
}

/// What the endpoint is (RFC 9728). It names no authorization server: clients that find one ignore the
/// credential they were configured with.
fn metadata(host: &str) -> Answer {
    let body = json!({
        "resource": format!("http://{host}{PATH}"),
        "resource_name": "Cortex",
        "bearer_methods_supported": ["header"],
    });
    json_answer(StatusCode::OK, &body)
}

/// Whether an answer is in the form that is promised: JSON, or nothing for a notification.
fn is_ours(answer: &Answer) -> bool {
    let json =
        |value: &hyper::header::HeaderValue| value.as_bytes().starts_with(b"application/json");
    answer.status() == StatusCode::ACCEPTED || answer.headers().get(CONTENT_TYPE).is_some_and(json)
}

/// Puts a refusal of the protocol crate, a line of text, into the form of ours.
async fn foreign(answer: Answer) -> Answer {
    let code = if answer.status().is_server_error() { Code::Defect } else { Code::HttpBadRequest };
    let said = match answer.into_body().collect().await {
        Ok(said) => String::from_utf8_lossy(&said.to_bytes()).into_owned(),
        Err(never) => match never {},
    };
    Refusal::new(code, said).answer()
}

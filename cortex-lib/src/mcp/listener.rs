//! Takes connections, each with a slot and deadlines, and answers what comes over them.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_io_timeout::TimeoutWriter;
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::endpoint::Endpoint;
use super::guard::{Admitted, Guard};
use super::refusal::{self, Answer, Refusal, json_answer};
use super::slots::{Slot, Slots};
use crate::api::Catalogue;
use crate::engine::{Core, Supervisor};
use crate::error::Code;
use crate::ids::CorrelationId;
use crate::limits::{
    MCP_ACCEPT_PAUSE, MCP_BODY_BYTES_MAX, MCP_HEAD_BUFFER_BYTES, MCP_HEAD_TIMEOUT,
    MCP_IDLE_TIMEOUT, MCP_LINGER, MCP_LINGER_BYTES_MAX, MCP_STOP_GRACE, MCP_WRITE_TIMEOUT,
};

/// The accept loop and what its connections share.
pub(super) struct Listener {
    desk: Arc<Desk>,
    slots: Slots,
    work: Supervisor,
}

/// Answers requests.
struct Desk {
    guard: Guard,
    endpoint: Endpoint,
    protocol: StreamableHttpService<Endpoint, NeverSessionManager>,
}

impl Listener {
    pub(super) fn new(core: &Core, guard: Guard, catalogue: Catalogue, work: &Supervisor) -> Self {
        let endpoint = Endpoint::new(core.clone(), catalogue, work.stopping());
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            // The guard has compared the host to the letter, and knows the public one.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(MCP_BODY_BYTES_MAX);
        let shared = endpoint.clone();
        let protocol = StreamableHttpService::new(
            move || Ok(shared.clone()),
            Arc::new(NeverSessionManager::default()),
            config,
        );
        Self {
            desk: Arc::new(Desk { guard, endpoint, protocol }),
            slots: Slots::default(),
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
                Ok((stream, _)) => {
                    let slot = self.slots.arrive();
                    self.work.spawn(converse(
                        Arc::clone(&self.desk),
                        stream,
                        slot,
                        self.work.stopping(),
                    ));
                    // It gets to say who it is before the next ones come: they may be a flood that makes it leave.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tracing::warn!("a connection to the endpoint could not be taken: {error}");
                    // Out of sockets: others must close some first.
                    drop(tokio::time::timeout(MCP_ACCEPT_PAUSE, stop.cancelled()).await);
                }
            }
        }
    }
}

/// Holds one connection until it ends, or must make room.
async fn converse(desk: Arc<Desk>, mut stream: TcpStream, slot: Slot, stop: CancellationToken) {
    // Answers are small and whole; waiting for more to send would only slow them down.
    drop(stream.set_nodelay(true));
    let whole = async {
        if answer_all(&desk, &mut stream, &slot, &stop).await == Ended::SlowHead {
            drop(stream.write_all(refusal::slow_head().as_bytes()).await);
        }
        tokio::select! { biased;
            () = stop.cancelled() => {}
            () = linger(&mut stream) => {}
        }
    };
    tokio::select! { biased;
        () = slot.lost() => tracing::debug!("a connection to the endpoint made room for another"),
        () = whole => {}
    }
}

/// How a conversation ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// Nothing is left to say.
    Whole,
    /// A request began, and its head did not come in time.
    SlowHead,
}

/// Answers what comes over one connection.
async fn answer_all(
    desk: &Desk,
    stream: &mut TcpStream,
    slot: &Slot,
    stop: &CancellationToken,
) -> Ended {
    // When the last answer was given; none while one is looked for.
    let (lull, lulls) = watch::channel(Some(Instant::now()));
    let service = service_fn(async |request| {
        lull.send_replace(None);
        let answer = desk.answer(request, slot).await;
        lull.send_replace(Some(Instant::now()));
        Ok::<_, Infallible>(answer)
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(MCP_IDLE_TIMEOUT)
        .max_buf_size(MCP_HEAD_BUFFER_BYTES);
    let mut patient = pin!(TimeoutWriter::new(stream));
    patient.as_mut().set_timeout_pinned(Some(MCP_WRITE_TIMEOUT));
    let mut connection = server.serve_connection(TokioIo::new(patient), service);
    let mut talk = Pin::new(&mut connection);
    let ended = tokio::select! { biased;
        ended = talk.as_mut() => ended.map_err(|error| (error.is_timeout(), error.to_string())),
        () = overdue(slot, lulls) => Err((true, "nobody said who it is".to_owned())),
        () = stop.cancelled() => {
            talk.as_mut().graceful_shutdown();
            drop(tokio::time::timeout(MCP_STOP_GRACE, talk).await);
            Ok(())
        }
    };
    let Err((is_late, why)) = ended else { return Ended::Whole };
    tracing::debug!("a connection to the endpoint broke off: {why}");
    let began = is_late && !connection.into_parts().read_buf.is_empty();
    if began { Ended::SlowHead } else { Ended::Whole }
}

/// Ends when a stranger has asked nothing for too long.
async fn overdue(slot: &Slot, mut lulls: watch::Receiver<Option<Instant>>) {
    while !slot.is_known() {
        let since = *lulls.borrow_and_update();
        let asked = lulls.changed();
        let told = match since {
            None => asked.await,
            Some(since) => match tokio::time::timeout_at(since + MCP_HEAD_TIMEOUT, asked).await {
                Ok(told) => told,
                Err(_) => return,
            },
        };
        if told.is_err() {
            break;
        }
    }
    std::future::pending::<()>().await;
}

/// Reads what a sender still sends behind its last answer: who is cut off while it writes does not read that.
async fn linger(stream: &mut TcpStream) {
    drop(stream.shutdown().await);
    let mut rest = stream.take(MCP_LINGER_BYTES_MAX);
    // Who sends more, or slower, is cut off.
    let mut nowhere = tokio::io::sink();
    drop(tokio::time::timeout(MCP_LINGER, tokio::io::copy(&mut rest, &mut nowhere)).await);
}

impl Desk {
    async fn answer(&self, request: Request<Incoming>, slot: &Slot) -> Answer {
        match self.guard.admit(request, slot).await {
            Ok(Admitted::Message(head, body)) => self.answer_message(*head, body).await,
            Ok(Admitted::Metadata(about)) => json_answer(StatusCode::OK, &about),
            Ok(Admitted::Public(public, request)) => public.answer(*request).await,
            Err(refusal) => {
                let error = refusal.error();
                let id = error.correlation_id().map(CorrelationId::as_str);
                tracing::debug!(correlation_id = id, code = %error.code(), "refused: {}", error.message());
                refusal.answer()
            }
        }
    }

    async fn answer_message(&self, head: Parts, body: Bytes) -> Answer {
        if let Some(call) = Call::of(&head, &body, &self.endpoint) {
            return call.answer(&self.endpoint).await;
        }
        let answer = self.protocol.handle(Request::from_parts(head, Full::new(body))).await;
        if is_ours(&answer) { answer } else { foreign(answer).await }
    }
}

/// Whether an answer is in a form that is promised: JSON, a stream that tells of progress, or nothing for a
/// notification.
fn is_ours(answer: &Answer) -> bool {
    let promised = |value: &hyper::header::HeaderValue| {
        let forms: [&[u8]; 2] = [b"application/json", b"text/event-stream"];
        forms.iter().any(|form| value.as_bytes().starts_with(form))
    };
    answer.status() == StatusCode::ACCEPTED
        || answer.headers().get(CONTENT_TYPE).is_some_and(promised)
}

/// Puts a refusal of the protocol crate, a line of text, into the form of ours.
async fn foreign(answer: Answer) -> Answer {
    let code = if answer.status().is_server_error() { Code::Defect } else { Code::HttpBadRequest };
    let said = match answer.into_body().collect().await {
        Ok(said) => String::from_utf8_lossy(&said.to_bytes()).into_owned(),
        Err(never) => match never {},
    };
    let said = match said.strip_prefix("fail to deserialize request body ") {
        Some(why) => format!("the message cannot be read: {why}"),
        None => said,
    };
    Refusal::new(code, said).answer()
}

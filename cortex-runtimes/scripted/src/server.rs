//! The HTTP side that all scripted servers share: it listens, records, keeps the pace and the faults
//! of an answer, and refuses to be the way to any other host.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::HeaderValue;
use hyper::{Method, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::anthropic;
use crate::record::{Log, NeverCame, Other, Progress, Request};
use crate::script::{Answer, Counts, Fault, Pace, Script};

/// How long a test waits for a request. A CLI needs seconds to start on a machine with two busy
/// cores; a test that waits longer than this waits in vain.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running scripted server of some model API, and all it was sent.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

/// The model API that a server speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Api {
    /// Anthropic's Messages API.
    Anthropic,
}

/// One server-sent event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) data: String,
}

impl ScriptedServer {
    pub(crate) async fn start(api: Api, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            api,
            address,
            script,
            counts: Mutex::default(),
            log: watch::Sender::new(Log::default()),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { address, shared, accepting })
    }

    /// The base address that a CLI is given, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request for an answer so far, in the order they came.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.log.borrow().requests.clone()
    }

    /// Requests to this server for anything else, except the root.
    pub fn others(&self) -> Vec<Other> {
        self.shared.log.borrow().others.clone()
    }

    /// Requests to other hosts, which came here because this server is the proxy; all were refused.
    pub fn strangers(&self) -> Vec<Other> {
        self.shared.log.borrow().strangers.clone()
    }

    /// Waits until the requests so far hold what the test looks for, and returns that.
    ///
    /// Looks again whenever a request comes or its progress changes, for at most a minute.
    pub async fn wait_for<T>(
        &self,
        look: impl Fn(&[Request]) -> Option<T>,
    ) -> Result<T, NeverCame> {
        let mut log = self.shared.log.subscribe();
        let found = async {
            // The sender lives as long as this server, so the wait cannot fail.
            log.wait_for(|log| look(&log.requests).is_some())
                .await
                .ok()
                .and_then(|log| look(&log.requests))
        };
        let found = tokio::time::timeout(PATIENCE, found).await.ok().flatten();
        let came = || self.shared.log.borrow().lines();
        found.ok_or_else(|| NeverCame { seconds: PATIENCE.as_secs(), came: came() })
    }

    /// Opens a gate, now and for every later answer that waits for it.
    pub fn open(&self, gate: impl Into<String>) {
        self.shared.log.send_modify(|log| {
            log.gates.insert(gate.into());
        });
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

type Body = BoxBody<Bytes, io::Error>;

/// What every connection of a server needs.
#[derive(Debug)]
struct Shared {
    api: Api,
    address: SocketAddr,
    script: Script,
    /// A lock because connections run on any thread; never held over an await.
    counts: Mutex<Counts>,
    log: watch::Sender<Log>,
}

/// Owns the connections: dropping this future ends them all.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A refused or broken connection is the client's to notice.
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve(stream, Arc::clone(&shared)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: tokio::net::TcpStream, shared: Arc<Shared>) {
    let service = hyper::service::service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(&shared, request).await) }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Fails when a client leaves or the script cuts the stream; both are recorded elsewhere.
    connection.await.unwrap_or_default();
}

async fn respond(shared: &Arc<Shared>, request: hyper::Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    if let Some(target) = elsewhere(&head.method, &head.uri, shared.address) {
        let stranger = Other { method: head.method.to_string(), target };
        shared.log.send_modify(|log| log.strangers.push(stranger));
        return plain(StatusCode::FORBIDDEN, "this test has no network\n");
    }
    let path = head.uri.path();
    let Api::Anthropic = shared.api;
    if path == anthropic::PATH && head.method == Method::POST {
        // A client that leaves before its request is whole asked for nothing.
        let Ok(body) = body.collect().await else {
            return plain(StatusCode::BAD_REQUEST, "the request broke off\n");
        };
        let body = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        let mut request = anthropic::read(body);
        request.target = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        request.headers =
            head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        return answer(shared, request).await;
    }
    if path == "/" && (head.method == Method::GET || head.method == Method::HEAD) {
        return plain(StatusCode::OK, "");
    }
    let other = Other { method: head.method.to_string(), target: path.to_owned() };
    shared.log.send_modify(|log| log.others.push(other));
    let message = format!("no {path} in this script");
    whole(StatusCode::NOT_FOUND, &anthropic::error("not_found_error", &message, 0), 0)
}

/// The address of another host, when the request is meant for one.
fn elsewhere(method: &Method, uri: &Uri, own: SocketAddr) -> Option<String> {
    let host = uri.authority()?.as_str();
    (method == Method::CONNECT || host != own.to_string()).then(|| uri.to_string())
}

async fn answer(shared: &Arc<Shared>, request: Request) -> Response<Body> {
    let chosen = {
        let mut counts = shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        shared.script.answer(&request, &mut counts)
    };
    let chosen = chosen.unwrap_or_else(|| no_rule(&request));
    let mut number = 0;
    shared.log.send_modify(|log| {
        number = log.requests.len();
        log.requests.push(request.clone());
    });
    let mut mark = Mark { shared: Arc::clone(shared), number, progress: Progress::Abandoned };
    pause(chosen.pace.before_ms).await;
    match &chosen.fault {
        Some(Fault::Status { code, message, retry_after }) => {
            mark.progress = Progress::Answered;
            return refuse(*code, message, *retry_after, number);
        }
        Some(Fault::NotAMessage) => {
            mark.progress = Progress::Answered;
            return whole(StatusCode::OK, &json!({"hello": "world"}), number);
        }
        Some(Fault::Silence { gate }) => mark.hold(gate).await,
        Some(Fault::Hang { gate, .. }) if !request.stream => mark.hold(gate).await,
        Some(
            Fault::Hang { .. } | Fault::Error { .. } | Fault::Cut { .. } | Fault::Garbage { .. },
        )
        | None => {}
    }
    let steps = if request.stream {
        steps(&request, &chosen, number)
    } else {
        one_piece(&request, &chosen, number)
    };
    streamed(steps, chosen.pace, mark, request.stream)
}

/// The answer to a request that the script has no rule for.
fn no_rule(request: &Request) -> Answer {
    let message = format!("no rule of the script fits; last user text: {:?}", request.last_user);
    Answer::default().with(Fault::Status { code: 400, message, retry_after: None })
}

/// Writes down how an exchange ended, whichever way it does.
struct Mark {
    shared: Arc<Shared>,
    number: usize,
    progress: Progress,
}

impl Mark {
    /// Waits for a gate, and shows that it does.
    async fn hold(&self, gate: &str) {
        self.show(Progress::Held);
        // The sender lives as long as this, so the wait cannot fail.
        drop(self.shared.log.subscribe().wait_for(|log| log.gates.contains(gate)).await);
        self.show(Progress::Open);
    }

    fn show(&self, progress: Progress) {
        self.shared.log.send_modify(|log| {
            if let Some(request) = log.requests.get_mut(self.number) {
                request.progress = progress;
            }
        });
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.show(self.progress);
    }
}

/// What is done next to the body of an answer.
enum Step {
    Send(Bytes),
    Gate(String),
    Cut,
}

/// A stream of events with its fault in place.
fn steps(request: &Request, answer: &Answer, number: usize) -> Vec<Step> {
    let events = anthropic::events(request, answer, number);
    let mut steps: Vec<Step> = events.iter().map(|event| sse(&event.kind, &event.data)).collect();
    match &answer.fault {
        Some(Fault::Hang { after, gate }) => {
            steps.insert((*after).min(steps.len()), Step::Gate(gate.clone()));
        }
        Some(Fault::Cut { after }) => {
            steps.truncate(*after);
            steps.push(Step::Cut);
        }
        Some(Fault::Error { after, kind, message }) => {
            steps.truncate(*after);
            steps.push(sse("error", &anthropic::error(kind, message, number).to_string()));
        }
        Some(Fault::Garbage { after }) => {
            steps.truncate(*after);
            steps.push(sse("content_block_delta", "{not json"));
        }
        Some(Fault::Status { .. } | Fault::Silence { .. } | Fault::NotAMessage) | None => {}
    }
    steps
}

/// An answer that is not a stream; it breaks or is garbage as a whole.
fn one_piece(request: &Request, answer: &Answer, number: usize) -> Vec<Step> {
    match &answer.fault {
        Some(Fault::Cut { .. }) => vec![Step::Send(Bytes::from_static(b"{")), Step::Cut],
        Some(Fault::Garbage { .. }) => vec![Step::Send(Bytes::from_static(b"{not json"))],
        Some(Fault::Error { kind, message, .. }) => {
            vec![Step::Send(anthropic::error(kind, message, number).to_string().into())]
        }
        _ => vec![Step::Send(anthropic::message(request, answer, number).to_string().into())],
    }
}

fn sse(kind: &str, data: &str) -> Step {
    Step::Send(format!("event: {kind}\ndata: {data}\n\n").into())
}

fn streamed(steps: Vec<Step>, pace: Pace, mark: Mark, is_stream: bool) -> Response<Body> {
    let id = anthropic::request_id(mark.number);
    // One event at a time: a client that does not read holds the writer, as a real server's would.
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(write(steps, pace, mark, sender));
    let frames = stream::unfold(receiver, |mut receiver| async move {
        let next: io::Result<Frame<Bytes>> = receiver.recv().await?;
        if next.is_err() {
            // Lets the connection send what it holds before it breaks.
            tokio::task::yield_now().await;
        }
        Some((next, receiver))
    });
    let kind = if is_stream { "text/event-stream; charset=utf-8" } else { "application/json" };
    response(StatusCode::OK, kind, &id, StreamBody::new(frames).boxed())
}

async fn write(
    steps: Vec<Step>,
    pace: Pace,
    mut mark: Mark,
    sender: mpsc::Sender<io::Result<Frame<Bytes>>>,
) {
    for step in steps {
        let frame = match step {
            Step::Send(bytes) => {
                pause(pace.per_event_ms).await;
                Ok(Frame::data(bytes))
            }
            Step::Gate(gate) => {
                tokio::select! {
                    () = mark.hold(&gate) => continue,
                    () = sender.closed() => return,
                }
            }
            Step::Cut => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
        };
        if sender.send(frame).await.is_err() {
            return;
        }
    }
    mark.progress = Progress::Answered;
}

async fn pause(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

fn refuse(code: u16, message: &str, retry_after: Option<u64>, number: usize) -> Response<Body> {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = anthropic::error(anthropic::kind_of(code), message, number);
    let mut response = whole(status, &body, number);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert("retry-after", HeaderValue::from(seconds));
    }
    response
}

fn whole(status: StatusCode, body: &Value, number: usize) -> Response<Body> {
    let id = anthropic::request_id(number);
    response(status, "application/json", &id, full(body.to_string()))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    response(status, "text/plain", "", full(text))
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

fn response(status: StatusCode, kind: &'static str, id: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static(kind));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert("request-id", id);
    }
    response
}

//! How an answer goes out: at its pace, with its fault, and with a note of how it ended.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::HeaderValue;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::api::{Api, request_id};
use crate::record::{Log, Progress, Request};
use crate::script::{Answer, Fault, Pace};

pub(crate) type Body = BoxBody<Bytes, io::Error>;

/// Sends the answer to a request that is recorded under `mark`.
pub(crate) async fn reply(
    api: Api,
    request: &Request,
    answer: &Answer,
    mut mark: Mark,
) -> Response<Body> {
    pause(answer.pace.before_ms).await;
    let number = mark.number;
    match &answer.fault {
        Some(Fault::Status { code, message, retry_after }) => {
            mark.progress = Progress::Answered;
            return refuse(api, *code, message, *retry_after, number);
        }
        Some(Fault::UsedUp { message, quota }) => {
            mark.progress = Progress::Answered;
            let body = api.used_up(quota, message, number);
            let mut response = whole(StatusCode::TOO_MANY_REQUESTS, &body, number);
            add(&mut response, api.quota_headers(quota));
            return response;
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
    let mut response = if request.stream {
        let steps = steps(api, request, answer, number);
        streamed(steps, answer.pace, mark, "text/event-stream; charset=utf-8")
    } else {
        streamed(one_piece(api, request, answer, number), answer.pace, mark, "application/json")
    };
    if let Some(quota) = &answer.quota {
        add(&mut response, api.quota_headers(quota));
    }
    response
}

fn add(response: &mut Response<Body>, headers: Vec<(&'static str, String)>) {
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
}

/// A whole answer with a JSON body.
pub(crate) fn whole(status: StatusCode, body: &Value, number: usize) -> Response<Body> {
    response(status, "application/json", &request_id(number), full(body.to_string()))
}

/// A whole answer with a text.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    response(status, "text/plain", "", full(text))
}

/// Writes down how an exchange ended, whichever way it does.
pub(crate) struct Mark {
    log: watch::Sender<Log>,
    number: usize,
    progress: Progress,
}

impl Mark {
    /// Records a request; it counts as abandoned until its answer is out.
    pub(crate) fn new(log: watch::Sender<Log>, request: Request) -> Self {
        let mut number = 0;
        log.send_modify(|log| {
            number = log.requests.len();
            log.requests.push(request);
        });
        Self { log, number, progress: Progress::Abandoned }
    }

    /// Waits for a gate, and shows that it does.
    async fn hold(&self, gate: &str) {
        self.show(Progress::Held);
        // The sender lives as long as this, so the wait cannot fail.
        drop(self.log.subscribe().wait_for(|log| log.gates.contains(gate)).await);
        self.show(Progress::Open);
    }

    fn show(&self, progress: Progress) {
        self.log.send_modify(|log| {
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
fn steps(api: Api, request: &Request, answer: &Answer, number: usize) -> Vec<Step> {
    let events = api.events(request, answer, number);
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
            let broken = api.broken(kind, message, number);
            steps.push(sse(&broken.kind, &broken.data));
        }
        Some(Fault::Garbage { after }) => {
            steps.truncate(*after);
            steps.push(sse("garbage", "{not json"));
        }
        Some(
            Fault::Status { .. }
            | Fault::UsedUp { .. }
            | Fault::Silence { .. }
            | Fault::NotAMessage,
        )
        | None => {}
    }
    steps
}

/// An answer that is not a stream; it breaks or is garbage as a whole.
fn one_piece(api: Api, request: &Request, answer: &Answer, number: usize) -> Vec<Step> {
    let send = |body: Value| Step::Send(body.to_string().into());
    match &answer.fault {
        Some(Fault::Cut { .. }) => vec![Step::Send(Bytes::from_static(b"{")), Step::Cut],
        Some(Fault::Garbage { .. }) => vec![Step::Send(Bytes::from_static(b"{not json"))],
        Some(Fault::Error { kind, message, .. }) => vec![send(api.error(kind, message, number))],
        _ => vec![send(api.message(request, answer, number))],
    }
}

fn sse(kind: &str, data: &str) -> Step {
    let name = if kind.is_empty() { String::new() } else { format!("event: {kind}\n") };
    Step::Send(format!("{name}data: {data}\n\n").into())
}

fn streamed(steps: Vec<Step>, pace: Pace, mark: Mark, kind: &'static str) -> Response<Body> {
    let id = request_id(mark.number);
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

fn refuse(
    api: Api,
    code: u16,
    message: &str,
    retry_after: Option<u64>,
    number: usize,
) -> Response<Body> {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = whole(status, &api.error(api.kind_of(code), message, number), number);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert("retry-after", HeaderValue::from(seconds));
    }
    response
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

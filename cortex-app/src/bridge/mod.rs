//! MCP over standard input and output, for clients that start their servers as programs.
//!
//! A line is a message, and each one becomes a request to the endpoint of a core: what that endpoint promises, and whom it
//! lets in, holds here too.

mod message;
pub(crate) mod stdio;
mod upstream;

use std::collections::HashMap;
use std::sync::Arc;

use cortex_lib::error::{Code, Error, Result};
use cortex_lib::limits::MCP_BODY_BYTES_MAX;
use cortex_lib::process::Lines;
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Response, StatusCode};
use sse_stream::SseStream;
use tokio::io::AsyncRead;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use message::{Message, Told};
pub(crate) use upstream::Upstream;

/// Messages that are on their way at once. The endpoint allows a session a few connections more.
const UNDERWAY_MAX: usize = 12;
/// Messages that are read ahead; behind them the client has to wait.
const READ_MAX: usize = 256;

/// Carries each line of `input` to the endpoint, and what comes back to `said`, until `input` ends and all is answered,
/// or nobody listens any more.
///
/// # Errors
///
/// `core.defect` when the input cannot be read.
pub(crate) async fn carry(
    input: impl AsyncRead + Unpin,
    said: mpsc::Sender<String>,
    upstream: &Arc<Upstream>,
) -> Result<()> {
    let upstream = Arc::clone(upstream);
    let bridge = Bridge { upstream, said, underway: Arc::new(Semaphore::new(UNDERWAY_MAX)) };
    let room = Arc::new(Semaphore::new(READ_MAX));
    let mut lines = Lines::with_max(input, MCP_BODY_BYTES_MAX);
    let mut calls = JoinSet::new();
    let mut waiting: HashMap<String, AbortHandle> = HashMap::new();
    loop {
        let line = tokio::select! { biased;
            () = bridge.said.closed() => break,
            line = lines.next_line() => line.map_err(|error| {
                Error::new(Code::Defect, format!("the standard input cannot be read: {error}"))
            })?,
        };
        let Some(line) = line else { break };
        if line.cut {
            bridge.say(message::too_long(MCP_BODY_BYTES_MAX)).await;
            continue;
        }
        if line.text.trim().is_empty() {
            continue;
        }
        let message = match Message::read(line.text) {
            Ok(message) => message,
            Err(error) => {
                bridge.say(message::no_json(&error)).await;
                continue;
            }
        };
        if let Some(id) = &message.gives_up {
            // A connection that is closed says it: reading ends, and a change goes on.
            if let Some(call) = waiting.remove(id) {
                call.abort();
            }
            continue;
        }
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { break };
        let id = message.id.as_ref().map(|id| id.get().to_owned());
        let bridge = bridge.clone();
        let call = calls.spawn(async move {
            bridge.pass(message).await;
            drop(place);
        });
        waiting.retain(|_, call| !call.is_finished());
        waiting.extend(id.map(|id| (id, call)));
        while calls.try_join_next().is_some() {}
    }
    if bridge.said.is_closed() {
        return Ok(());
    }
    while calls.join_next().await.is_some() {}
    Ok(())
}

#[derive(Clone, Debug)]
struct Bridge {
    upstream: Arc<Upstream>,
    said: mpsc::Sender<String>,
    underway: Arc<Semaphore>,
}

impl Bridge {
    async fn say(&self, line: String) {
        // Nobody may listen any more; then reading ends, too.
        drop(self.said.send(line).await);
    }

    /// Sends one message, and says what is answered.
    async fn pass(&self, message: Message) {
        let Ok(_turn) = self.underway.acquire().await else { return };
        let answered = match self.upstream.send(&message).await {
            Ok(answer) => self.answer(answer, &message).await,
            Err(error) => Err(error),
        };
        let Err(error) = answered else { return };
        if message.is_notification() {
            tracing::warn!(code = %error.code(), "a notification did not get through: {}", error.message());
        } else {
            self.say(message::failed(message.id.as_deref(), &error)).await;
        }
    }

    async fn answer(&self, answer: Response<Incoming>, message: &Message) -> Result<()> {
        let status = answer.status();
        let form = answer.headers().get(CONTENT_TYPE);
        if form.is_some_and(|form| form.as_bytes().starts_with(b"text/event-stream")) {
            return self.tell_all(answer.into_body()).await;
        }
        let body = answer.into_body().collect().await.map_err(|error| broke_off(&error))?;
        if status == StatusCode::ACCEPTED {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        if Told::of(&said) != Told::Refusal {
            if message.is_initialize()
                && let Some(version) = message::settled_version(&said)
            {
                self.upstream.settle(version).await;
            }
            self.say(message::one_line(said)).await;
        } else if message.is_notification() {
            tracing::warn!("a notification was refused: {said}");
        } else {
            let is_our_fault = matches!(status.as_u16(), 400 | 413);
            self.say(message::refused(message.id.as_deref(), is_our_fault, &said)).await;
        }
        Ok(())
    }

    /// Says what comes as a stream: how it goes, and at last the answer.
    async fn tell_all(&self, body: Incoming) -> Result<()> {
        let mut events = SseStream::new(body);
        let mut is_answered = false;
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| broke_off(&error))?;
            let Some(data) = event.data.filter(|data| !data.is_empty()) else { continue };
            is_answered |= Told::of(&data) == Told::Answer;
            self.say(message::one_line(data)).await;
        }
        if is_answered { Ok(()) } else { Err(broke_off(&"the stream ended")) }
    }
}

fn broke_off(why: &dyn std::fmt::Display) -> Error {
    let message = format!("the answer broke off; what was asked may have been done: {why}");
    Error::new(Code::CoreStopped, message)
}

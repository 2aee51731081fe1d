//! The side of the core: listens, and runs what is asked as the user.

use std::io;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use interprocess::local_socket::tokio::{Stream, prelude::*};
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::address::{self, Bound};
use super::wire::{Answer, Ask, Attach, Body, Bytes, Request, Resize, Typed, refusal};
use crate::Cortex;
use crate::error::{Code, Error, Result};
use crate::limits::{
    LINE_BYTES_MAX, LOCAL_ANSWERS_MAX, LOCAL_CONNECTIONS_MAX, LOCAL_DRAIN, LOCAL_LOOK_EVERY,
    LOCAL_REQUEST_BYTES_MAX, LOCAL_REQUESTS_MAX, TERMINAL_PIECE_BYTES_MAX,
};
use crate::port::Attached;
use crate::process::{Line, Lines};

/// The local socket of a core. It ends with the core, or earlier by [`stop`](Self::stop).
#[derive(Debug)]
#[must_use = "the socket is served until the core ends; keep this to end it earlier"]
pub struct LocalServer {
    ending: CancellationToken,
    work: TaskTracker,
}

impl LocalServer {
    /// Takes the socket away and ends all connections. Calls that run get a moment to be answered.
    pub async fn stop(self) {
        self.ending.cancel();
        self.work.close();
        self.work.wait().await;
    }
}

/// Lets other processes of the same user reach `cortex`.
///
/// # Errors
///
/// `core.local_socket_failed`.
pub fn serve(cortex: &Cortex) -> Result<LocalServer> {
    let unique = cortex.core().env().mint();
    let bound = address::listen(cortex.data_dir(), &unique).map_err(|error| {
        let dir = cortex.data_dir().display();
        Error::new(Code::LocalSocketFailed, format!("no local socket for {dir}: {error}"))
    })?;
    let server = LocalServer {
        ending: cortex.core().supervisor().stopping().child_token(),
        work: TaskTracker::new(),
    };
    let door = Reception {
        cortex: cortex.clone(),
        ending: server.ending.clone(),
        work: server.work.clone(),
    };
    cortex.core().supervisor().spawn(server.work.track_future(door.open(bound)));
    Ok(server)
}

/// Takes connections in.
#[derive(Clone)]
struct Reception {
    cortex: Cortex,
    ending: CancellationToken,
    work: TaskTracker,
}

impl Reception {
    async fn open(self, bound: Bound) {
        let room = Arc::new(Semaphore::new(LOCAL_CONNECTIONS_MAX));
        loop {
            let accept = async {
                let place = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
                Ok::<_, io::Error>((bound.listener.accept().await?, place))
            };
            let accepted = tokio::select! { biased;
                () = self.ending.cancelled() => return,
                accepted = accept => accepted,
            };
            match accepted
                .and_then(|(stream, place)| Ok((address::check_peer(&stream)?, stream, place)))
            {
                Ok(((), stream, place)) => {
                    let (reception, work) = (self.clone(), self.work.clone());
                    self.cortex.core().supervisor().spawn(work.track_future(async move {
                        reception.converse(&stream).await;
                        drop(place);
                    }));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection to the local socket was not taken");
                    // Out of descriptors, the next try fails at once, too: let others work first.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// One connection, to its end.
    async fn converse(&self, stream: &Stream) {
        let (answers, ready) = mpsc::channel(LOCAL_ANSWERS_MAX);
        let mut write = std::pin::pin!(write(stream, ready));
        let read = self.read(stream, answers);
        tokio::select! { biased;
            // The other side is gone: nobody waits for what still runs.
            () = &mut write => return,
            () = read => {}
        }
        // A reader that does not read must not keep the core from ending.
        tokio::select! {
            () = &mut write => {}
            () = after(&self.ending) => {}
        }
    }

    /// Takes requests until there are no more, and works on them side by side.
    async fn read(&self, stream: &Stream, answers: mpsc::Sender<Answer>) {
        let mut lines = Lines::with_max(stream, LOCAL_REQUEST_BYTES_MAX);
        let mut running: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        let over = self.ending.child_token();
        loop {
            tokio::select! { biased;
                () = self.ending.cancelled() => break,
                Some(()) = running.next() => {}
                line = lines.next_line(), if running.len() < LOCAL_REQUESTS_MAX => match line {
                    Ok(Some(line)) => {
                        let requester = Requester { answers: answers.clone(), over: over.clone() };
                        running.push(Box::pin(requester.serve(&self.cortex, line)));
                    }
                    Ok(None) | Err(_) => break,
                },
            }
        }
        over.cancel();
        tokio::select! { biased;
            () = async { while running.next().await.is_some() {} } => {}
            // As above: a planner would spend its turn for nobody.
            () = hung_up(stream) => {}
            () = after(&self.ending) => {}
        }
    }
}

/// Waits until the other side is gone altogether. One that has only said all that it had to say reads its answers
/// still; the system tells the two apart when something is written, even if it is nothing.
async fn hung_up(stream: &Stream) {
    let mut stream = stream;
    let mut ticks = tokio::time::interval(LOCAL_LOOK_EVERY);
    loop {
        ticks.tick().await;
        if stream.write(&[]).await.is_err() {
            return;
        }
    }
}

/// Waits until the end has begun and its grace is over.
async fn after(ending: &CancellationToken) {
    ending.cancelled().await;
    #[expect(
        clippy::disallowed_methods,
        reason = "bounds the end of this process, not work of the core"
    )]
    tokio::time::sleep(LOCAL_DRAIN).await;
}

/// Where the answers to one request go.
struct Requester {
    answers: mpsc::Sender<Answer>,
    /// No more requests come, so streams end.
    over: CancellationToken,
}

impl Requester {
    async fn serve(self, cortex: &Cortex, line: Line) {
        let (id, ask) = match read_request(&line) {
            Ok(request) => (Some(request.id), request.ask()),
            Err(error) => (None, Err(error)),
        };
        match ask {
            Ok(Ask::Call { name, args }) => {
                let body = match cortex.as_user().call_operator_json(&name, args).await {
                    Ok(value) => Body::Ok(value),
                    Err(error) => Body::Error(error.to_wire()),
                };
                self.say(id, body).await;
            }
            Ok(Ask::Events { after }) => self.tell_events(id, cortex, after).await,
            Ok(Ask::Output) => self.tell_output(id, cortex).await,
            Ok(Ask::Attach(attach)) => self.tell_terminal(id, cortex, attach).await,
            Ok(Ask::Type(Typed { agent_id, bytes })) => {
                let written = match cortex.terminal(&agent_id) {
                    Ok(terminal) => terminal.write(bytes.0).await,
                    Err(error) => Err(error),
                };
                self.done(id, written).await;
            }
            Ok(Ask::Resize(Resize { agent_id, size })) => {
                let resized = cortex.terminal(&agent_id).and_then(|terminal| terminal.resize(size));
                self.done(id, resized).await;
            }
            Err(error) => {
                self.say(id, Body::Error(error.to_wire())).await;
            }
        }
    }

    async fn tell_events(&self, id: Option<u64>, cortex: &Cortex, after: Option<u64>) {
        let mut feed = cortex.events(after);
        let mut goes_on = self.say(id, Body::Ok(Map::new().into())).await;
        while goes_on {
            let next = tokio::select! { biased;
                () = self.over.cancelled() => Ok(None),
                next = feed.next() => next,
            };
            goes_on = match next {
                Ok(Some(event)) => self.say(id, Body::Event(Arc::unwrap_or_clone(event))).await,
                Ok(None) => self.end(id).await,
                Err(error) => {
                    self.say(id, Body::Error(error.to_wire())).await;
                    false
                }
            };
        }
    }

    async fn tell_output(&self, id: Option<u64>, cortex: &Cortex) {
        let mut feed = cortex.output();
        let mut goes_on = self.say(id, Body::Ok(Map::new().into())).await;
        while goes_on {
            let next = tokio::select! { biased;
                () = self.over.cancelled() => None,
                next = feed.next() => next,
            };
            goes_on = match next {
                Some(output) => self.say(id, Body::Output(output)).await,
                None => self.end(id).await,
            };
        }
    }

    /// What a terminal shows, then what it prints. One who reads too slowly is let go by the terminal, and told that
    /// the stream is over.
    async fn tell_terminal(&self, id: Option<u64>, cortex: &Cortex, attach: Attach) {
        let terminal = cortex.terminal(&attach.agent_id).and_then(|terminal| {
            attach.size.map_or(Ok(()), |size| terminal.resize(size)).map(|()| terminal)
        });
        let Attached { size, screen, mut output } = match terminal {
            Ok(terminal) => terminal.attach(),
            Err(error) => {
                self.say(id, Body::Error(error.to_wire())).await;
                return;
            }
        };
        let mut goes_on = self.say(id, Body::Ok(json!({ "size": size }))).await;
        let mut next = Some(screen);
        while let Some(bytes) = next.filter(|_| goes_on) {
            for piece in bytes.chunks(TERMINAL_PIECE_BYTES_MAX) {
                goes_on = goes_on && self.say(id, Body::Printed(Bytes(piece.to_vec()))).await;
            }
            next = tokio::select! { biased;
                () = self.over.cancelled() => None,
                next = output.recv() => next,
            };
        }
        self.end(id).await;
    }

    /// The answer to what has no result.
    async fn done(&self, id: Option<u64>, done: Result<()>) {
        let body = match done {
            Ok(()) => Body::Ok(Map::new().into()),
            Err(error) => Body::Error(error.to_wire()),
        };
        self.say(id, body).await;
    }

    /// The last answer of a stream. Nothing goes on after it.
    async fn end(&self, id: Option<u64>) -> bool {
        self.say(id, Body::End(true)).await;
        false
    }

    /// False: nobody listens any more.
    async fn say(&self, id: Option<u64>, body: Body) -> bool {
        self.answers.send(Answer { id, body }).await.is_ok()
    }
}

fn read_request(line: &Line) -> Result<Request> {
    if line.cut {
        return Err(refusal(format!("is longer than {LOCAL_REQUEST_BYTES_MAX} bytes")));
    }
    serde_json::from_str(&line.text).map_err(|error| refusal(error.to_string()))
}

/// Writes answers until there are no more, or nobody reads them.
async fn write(stream: &Stream, mut answers: mpsc::Receiver<Answer>) {
    let mut stream = stream;
    while let Some(answer) = answers.recv().await {
        let line = match encode(&answer) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(%error, "an answer could not be written");
                return;
            }
        };
        if stream.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// One answer as a line. One that no client would read becomes an error.
fn encode(answer: &Answer) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(answer)?;
    if line.len() > LINE_BYTES_MAX {
        let message = format!("the answer has {} bytes, more than {LINE_BYTES_MAX}", line.len());
        let error: Value =
            Error::new(Code::LocalSocketFailed, message).remedy("Ask for less at once.").to_wire();
        line = serde_json::to_vec(&Answer { id: answer.id, body: Body::Error(error) })?;
    }
    line.push(b'\n');
    Ok(line)
}

//! The HTTP side that all scripted servers share: it listens, records, keeps the pace and the faults
//! of an answer, and refuses to be the way to any other host.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::api::Api;
use crate::choose::Counts;
use crate::record::{Log, NeverCame, Other, Request};
use crate::reply::{Body, Mark, plain, reply, whole};
use crate::script::{Answer, Fault, Script};

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

impl ScriptedServer {
    /// Starts a server of this API on a port of 127.0.0.1; 0: any free one.
    pub async fn listen(api: Api, script: Script, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
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

    pub(crate) async fn start(api: Api, script: Script) -> io::Result<Self> {
        Self::listen(api, script, 0).await
    }

    /// The request for an answer of this number, counted from zero; waits until it comes.
    pub async fn request(&self, number: usize) -> Request {
        let mut log = self.shared.log.subscribe();
        // The sender lives as long as this server, so the wait cannot fail.
        let log = log.wait_for(|log| log.requests.len() > number).await;
        log.ok().and_then(|log| log.requests.get(number).cloned()).unwrap_or_default()
    }

    /// The request of this number among [`others`](Self::others); waits until it comes.
    pub async fn other(&self, number: usize) -> Other {
        self.refused(number, |log| &log.others).await
    }

    /// The request of this number among [`strangers`](Self::strangers); waits until it comes.
    pub async fn stranger(&self, number: usize) -> Other {
        self.refused(number, |log| &log.strangers).await
    }

    async fn refused(&self, number: usize, list: impl Fn(&Log) -> &Vec<Other>) -> Other {
        let mut log = self.shared.log.subscribe();
        let log = log.wait_for(|log| list(log).len() > number).await;
        log.ok().and_then(|log| list(&log).get(number).cloned()).unwrap_or_default()
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

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = hyper::service::service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(&shared, request).await) }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Fails when a client leaves or the script cuts the stream; both are recorded elsewhere.
    connection.await.unwrap_or_default();
}

async fn respond(shared: &Shared, request: hyper::Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    if let Some(target) = elsewhere(&head.method, &head.uri, shared.address) {
        let stranger = Other { method: head.method.to_string(), target };
        shared.log.send_modify(|log| log.strangers.push(stranger));
        return plain(StatusCode::FORBIDDEN, "this test has no network\n");
    }
    let path = head.uri.path();
    if shared.api.asks(&head.method, path) {
        // A client that leaves before its request is whole asked for nothing.
        let Ok(body) = body.collect().await else {
            return plain(StatusCode::BAD_REQUEST, "the request broke off\n");
        };
        let body = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        return answer(shared, read(shared.api, &head, body)).await;
    }
    if path == "/" && (head.method == Method::GET || head.method == Method::HEAD) {
        return plain(StatusCode::OK, "");
    }
    let other = Other { method: head.method.to_string(), target: path.to_owned() };
    shared.log.send_modify(|log| log.others.push(other));
    let message = format!("{path} is not scripted");
    whole(StatusCode::NOT_FOUND, &shared.api.error("not_found_error", &message, 0), 0)
}

/// The address of another host, when the request is meant for one.
fn elsewhere(method: &Method, uri: &Uri, own: SocketAddr) -> Option<String> {
    let host = uri.authority()?.as_str();
    (method == Method::CONNECT || host != own.to_string()).then(|| uri.to_string())
}

fn read(api: Api, head: &Parts, body: Value) -> Request {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut request = api.read(body);
    request.target = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    request.headers =
        head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    request.conversation = request.conversation.or_else(|| api.conversation(&request.headers));
    request
}

async fn answer(shared: &Shared, mut request: Request) -> Response<Body> {
    let (by, chosen) = {
        let mut counts = shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        shared.script.choose(&request, &mut counts)
    };
    request.answered_by = by;
    let chosen = chosen.unwrap_or_else(|| no_rule(&request));
    let mark = Mark::new(shared.log.clone(), request.clone());
    reply(shared.api, &request, &chosen, mark).await
}

/// The answer to a request that the script has no rule for.
fn no_rule(request: &Request) -> Answer {
    let message = format!("no rule of the script fits; last user text: {:?}", request.last_user);
    Answer::default().with(Fault::Status { code: 400, message, retry_after: None })
}

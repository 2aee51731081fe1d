//! What strangers can do to an endpoint, and what they cannot: take it from those who are known.

use std::io;
use std::time::Duration;

use cortex_lib::limits::{
    MCP_BODY_TIMEOUT, MCP_CONNECTIONS_MAX, MCP_HEAD_TIMEOUT, MCP_IDLE_TIMEOUT, MCP_STRANGERS_MAX,
    MCP_WRITE_TIMEOUT,
};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::http::Connection;
use crate::{PING, Served, http};

/// Longer than any answer takes on a busy machine, shorter than what a client waits for.
const SOON: Duration = Duration::from_secs(30);

/// Both ends of all connections are files of this process; many systems begin with 256.
fn raise_limit_of_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = Some(4096.max(current.unwrap_or(u64::MAX)).min(maximum.unwrap_or(u64::MAX)));
        setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum }).unwrap();
    }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port())).await.unwrap()
    }

    /// A connection over which a good credential was shown, and that stays open.
    async fn known(&self) -> Connection {
        let mut known = Connection::open(self.port()).await;
        assert_eq!(known.ask(&self.post(PING).without("Connection")).await.unwrap().status, 200);
        known
    }

    async fn is_answered(&self) -> bool {
        timeout(SOON, self.send(self.post(PING))).await.unwrap().status == 200
    }
}

/// S-026
#[tokio::test]
async fn connections_that_strangers_hold_keep_nobody_out() {
    let served = Served::open().await;
    let mut held = Vec::new();
    for _ in 0..MCP_STRANGERS_MAX * 3 {
        held.push(served.connect().await);
        held.last_mut().unwrap().write_all(b"POST /mcp HTTP/1.1\r\n").await.unwrap();
    }
    assert!(served.is_answered().await);
    // The oldest made room; nobody told it anything.
    let closed = timeout(SOON, held[0].read(&mut [0])).await.unwrap();
    assert_eq!(closed.unwrap_or(0), 0);
}

/// S-026
#[tokio::test]
async fn strangers_never_end_the_connection_of_somebody_who_is_known() {
    let served = Served::open().await;
    let mut known = served.known().await;
    let mut held = Vec::new();
    for _ in 0..MCP_STRANGERS_MAX * 3 {
        held.push(served.connect().await);
    }
    assert_eq!(known.ask(&served.post(PING)).await.unwrap().status, 200);
    drop(held);
}

/// S-026
#[tokio::test]
async fn more_known_connections_than_slots_are_told_so() {
    let served = Served::open().await;
    let mut held = Vec::new();
    for _ in 0..MCP_CONNECTIONS_MAX {
        held.push(served.known().await);
    }
    let answer = served.send(served.post(PING).without("Connection")).await;
    assert_eq!((answer.status, answer.header("connection")), (503, Some("close")));
    let message = "64 connections are open, and that is the most";
    let error = json!({ "code": "http.too_many_connections", "message": message });
    assert_eq!(answer.json(), json!({ "error": error }));
    // That is for those who are known alone: who is not learns nothing of it.
    assert_eq!(served.send(served.post(PING).without("Authorization")).await.status, 401);
    drop(held);
    // The slots come back as the closed connections are noticed.
    while served.send(served.post(PING)).await.status != 200 {}
}

/// What one of many strangers does with a connection.
#[derive(Clone, Copy)]
enum Nuisance {
    SaysNothing,
    StopsInTheHead,
    StopsInTheBody,
    AsksWithoutEnd,
    SendsWithoutEnd,
    HalfCloses,
    LeavesAtOnce,
}

const NUISANCES: [Nuisance; 7] = [
    Nuisance::SaysNothing,
    Nuisance::StopsInTheHead,
    Nuisance::StopsInTheBody,
    Nuisance::AsksWithoutEnd,
    Nuisance::SendsWithoutEnd,
    Nuisance::HalfCloses,
    Nuisance::LeavesAtOnce,
];

impl Nuisance {
    /// Makes a nuisance of itself until the endpoint has enough of it.
    async fn play(self, port: u16) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return };
        let head = format!("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
        let begun = match self {
            Self::SaysNothing | Self::HalfCloses | Self::LeavesAtOnce => String::new(),
            Self::StopsInTheHead => head,
            Self::StopsInTheBody => format!(
                "{head}Authorization: Bearer x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{{"
            ),
            Self::AsksWithoutEnd => format!("{head}Content-Length: 0\r\n\r\n").repeat(64),
            Self::SendsWithoutEnd => head + &"X: y\r\n".repeat(4096),
        };
        // It may be cut off at any time: that is what it is for.
        let mut open = stream.write_all(begun.as_bytes()).await.is_ok();
        match self {
            Self::LeavesAtOnce => return,
            Self::HalfCloses => open &= stream.shutdown().await.is_ok(),
            Self::AsksWithoutEnd | Self::SendsWithoutEnd => {
                while open {
                    open = stream.write_all(begun.as_bytes()).await.is_ok();
                }
            }
            Self::SaysNothing | Self::StopsInTheHead | Self::StopsInTheBody => {}
        }
        let mut rest = Vec::new();
        while open && matches!(stream.read_buf(&mut rest).await, Ok(1..)) {}
        assert!(!rest.windows(12).any(|some| some == b"HTTP/1.1 200"));
    }
}

/// S-026
#[tokio::test]
async fn a_thousand_strangers_at_once_keep_nobody_who_is_known_waiting() {
    let served = Served::open().await;
    raise_limit_of_files();
    let port = served.port();
    let mut known = served.known().await;
    let ping = served.post(PING).without("Connection");
    let mut strangers = JoinSet::new();
    for nuisance in NUISANCES.into_iter().cycle().take(1_000) {
        strangers.spawn(nuisance.play(port));
    }
    // Those who are done begin again, as long as there is somebody to keep away.
    for round in 0..10 {
        let asked = timeout(SOON, known.ask(&ping)).await.unwrap();
        assert_eq!(asked.unwrap().status, 200, "round {round}");
        assert!(served.is_answered().await, "round {round}");
        while let Some(ended) = strangers.try_join_next() {
            ended.unwrap();
            strangers.spawn(NUISANCES[round % NUISANCES.len()].play(port));
        }
    }
}

/// S-026
#[tokio::test]
async fn what_strangers_send_is_kept_of_as_many_as_may_wait() {
    let served = Served::open().await;
    raise_limit_of_files();
    // Each sends as much of a head without an end as is read: 60 MiB together.
    let endless = format!("POST /mcp HTTP/1.1\r\nX: {}", "x".repeat(60_000));
    let mut held = Vec::new();
    for _ in 0..1_000 {
        held.push(served.connect().await);
        // It may have to make room while it writes.
        drop(held.last_mut().unwrap().write_all(endless.as_bytes()).await);
    }
    assert!(served.is_answered().await);
    let is_open = |stream: &&TcpStream| {
        let read = stream.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    };
    let all_closed = async {
        while held.iter().filter(is_open).count() > MCP_STRANGERS_MAX {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, all_closed).await.unwrap();
}

/// S-023
#[tokio::test]
async fn one_refusal_is_all_that_a_stranger_gets_over_one_connection() {
    let served = Served::open().await;
    let request = served.post(PING).without("Authorization").without("Connection").bytes();
    let mut stream = served.connect().await;
    stream.write_all(&request.repeat(1_000)).await.unwrap();
    let answer = http::read(stream).await;
    assert_eq!((answer.status, answer.header("connection")), (401, Some("close")));
    assert_eq!(answer.json()["error"]["code"], "auth.missing");
}

/// A byte each second, until the endpoint has enough of it: what it says, and after how long.
async fn drip(mut stream: TcpStream) -> (http::Answer, Duration) {
    // From here on the clock stands still, unless it is moved.
    tokio::time::pause();
    let began = Instant::now();
    let mut said = Vec::new();
    loop {
        match timeout(Duration::from_secs(1), stream.read_buf(&mut said)).await {
            Ok(Ok(1..)) => {}
            Ok(_) => break,
            // It may be told to stop while it writes.
            Err(_) => drop(stream.write_all(b"x").await),
        }
    }
    (http::Answer::parse(&said), began.elapsed())
}

/// S-023
#[tokio::test]
async fn a_head_that_comes_slowly_is_given_up_as_a_whole() {
    let served = Served::open().await;
    let mut stream = served.connect().await;
    stream.write_all(b"POST /mcp HTTP/1.1\r\nX: ").await.unwrap();
    let (answer, took) = drip(stream).await;
    assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
    let error = json!({ "code": "http.timeout", "message": "the head took more than 10 s" });
    assert_eq!(answer.json(), json!({ "error": error }));
    assert!(took < MCP_HEAD_TIMEOUT * 2, "{took:?}");
}

/// S-023
#[tokio::test]
async fn a_body_that_comes_slowly_is_given_up_as_a_whole() {
    let served = Served::open().await;
    let mut stream = served.connect().await;
    let request = served.post("").with("Content-Length", "1000").without("Connection");
    stream.write_all(&request.bytes()).await.unwrap();
    let (answer, took) = drip(stream).await;
    assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
    let error = json!({ "code": "http.timeout", "message": "the body took more than 10 s" });
    assert_eq!(answer.json(), json!({ "error": error }));
    assert!(took < MCP_BODY_TIMEOUT * 2, "{took:?}");
}

/// S-023
#[tokio::test]
async fn a_connection_without_a_request_is_closed_without_a_word() {
    let served = Served::open().await;
    let mut known = served.known().await;
    let mut fresh = served.connect().await;
    let begun = Instant::now();
    tokio::time::pause();
    assert_eq!(fresh.read(&mut [0]).await.unwrap(), 0);
    assert!(begun.elapsed() < MCP_HEAD_TIMEOUT * 2, "{:?}", begun.elapsed());
    // Who is known keeps a connection for the next call, but not for ever.
    let ping = served.post(PING).without("Connection");
    assert_eq!(known.ask(&ping).await.unwrap().status, 200);
    assert_eq!(known.rest().await, b"");
    assert!(begun.elapsed() >= MCP_IDLE_TIMEOUT, "{:?}", begun.elapsed());
}

/// S-026
#[tokio::test]
async fn a_client_that_does_not_read_its_answers_is_given_up() {
    let served = Served::open().await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let asks = served.post(list).without("Connection").bytes();
    let mut stream = served.connect().await;
    tokio::time::pause();
    // At some point nothing fits between the two any more: then both wait, and one of them not for ever.
    let asking = async { while stream.write_all(&asks).await.is_ok() {} };
    assert_eq!(timeout(MCP_WRITE_TIMEOUT * 2, asking).await, Ok(()));
}

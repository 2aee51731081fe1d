//! The life of an endpoint: its port, its credential, its end.

use cortex_lib::Cortex;
use cortex_lib::error::Code;
use cortex_lib::mcp::{self, McpOptions, UserToken};
use cortex_lib::secret::Secret;
use cortex_lib::settings::McpSettings;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::{Connection, Request};
use crate::{PING, Served, http};

/// S-004.
#[tokio::test]
async fn a_taken_port_is_named() {
    let served = Served::open().await;
    let options = McpOptions { port: served.port(), token: served.token.clone() };
    let error = mcp::serve(&served.cortex, options).await.unwrap_err();
    assert_eq!(error.code(), Code::McpPortInUse);
    assert!(error.message().contains(&served.port().to_string()));
    assert_eq!(error.detail("port"), Some(&json!(served.port())));
}

#[tokio::test]
async fn the_port_is_free_again_after_a_stop() {
    let served = Served::open().await;
    let port = served.port();
    let options = McpOptions { port, token: served.token.clone() };
    served.server.stop().await;
    let again = mcp::serve(&served.cortex, options).await.unwrap();
    assert_eq!(again.url(), format!("http://127.0.0.1:{port}/mcp"));
}

#[tokio::test]
async fn another_token_ends_the_old_one_at_once() {
    let served = Served::open().await;
    let fresh = Secret::new("cortex_user_1");
    served.server.set_user_token(&fresh);
    assert_eq!(served.send(served.post(PING)).await.status, 401);
    let renewed = Request::post(served.port(), fresh.expose(), PING);
    assert_eq!(served.send(renewed).await.status, 200);
}

/// Whoever rotates it, and also on a connection that has shown the old one before.
#[tokio::test]
async fn what_replaces_the_file_of_the_token_ends_the_old_one_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let cortex = Cortex::builder(dir.path().join("data")).open().await.unwrap();
    let server = mcp::bind(0).await.unwrap().serve_owner(&cortex).unwrap();
    let (port, file) = (server.port(), UserToken::of(cortex.data_dir()));
    let ask =
        |token: &Secret| Request::post(port, token.expose(), PING).with("Connection", "keep-alive");
    let mut old = file.load().unwrap().unwrap();
    let mut connection = Connection::open(port).await;
    for _ in 0..3 {
        assert_eq!(connection.ask(&ask(&old)).await.unwrap().status, 200);
        let new = file.rotate(&**cortex.core().env()).unwrap();
        assert_eq!(connection.ask(&ask(&old)).await.unwrap().status, 401);
        connection = Connection::open(port).await;
        assert_eq!(connection.ask(&ask(&new)).await.unwrap().status, 200);
        old = new;
    }
    fs_err::write(file.path(), "something else").unwrap();
    assert_eq!(connection.ask(&ask(&old)).await.unwrap().status, 200, "a broken file ends nothing");
    fs_err::remove_file(file.path()).unwrap();
    assert_eq!(connection.ask(&ask(&old)).await.unwrap().status, 200, "nor does one that is gone");
}

/// S-026, S-028.
#[tokio::test]
async fn a_stopped_core_is_told_before_the_credential_is_asked_for() {
    let served = Served::open().await;
    served.cortex.shutdown().await.unwrap();
    let answer = served.send(served.post(PING).without("Authorization")).await;
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_str()),
        (503, Some("core.stopped"))
    );
    assert_eq!(answer.json()["error"]["kind"], "state_conflict");
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let served = Served::open().await;
    let mut stream = TcpStream::connect(("127.0.0.1", served.port())).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        served.port(),
        served.token.expose(),
        PING.len(),
    );
    for _ in 0..2 {
        stream.write_all(format!("{head}\r\n{PING}").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(br#""result":{}}"#) {
            answer.push(stream.read_u8().await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    }
    stream.write_all(format!("{head}Connection: close\r\n\r\n{PING}").as_bytes()).await.unwrap();
    assert_eq!(http::read(stream).await.status, 200);
}

/// Clients ask for a stream at first, and some send their next request over the connection on which that was refused.
#[tokio::test]
async fn a_refused_stream_costs_no_connection() {
    let served = Served::open().await;
    let mut connection = Connection::open(served.port()).await;
    let stream =
        served.post("").line("GET", "/mcp").without("Content-Length").without("Connection");
    let refused = connection.ask(&stream).await.unwrap();
    assert_eq!((refused.status, refused.header("connection")), (405, None));
    let ping = served.post(PING).without("Connection");
    assert_eq!(connection.ask(&ping).await.unwrap().status, 200);
}

/// S-007.
#[test]
fn the_endpoint_is_on_unless_it_is_switched_off() {
    let default: McpSettings = serde_json::from_str("{}").unwrap();
    assert_eq!(default, McpSettings { enabled: true, port: 47_821 });
    assert!(serde_json::from_str::<McpSettings>(r#"{"ports": 1}"#).is_err());
}

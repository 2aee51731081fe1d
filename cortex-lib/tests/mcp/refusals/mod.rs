//! What does not reach a tool: raw requests, each with the whole answer that it gets.

mod bodies;
mod credentials;
mod framing;
mod order;
mod places;

use serde_json::json;

use crate::Served;
use crate::http::{Connection, Request};

/// A claim, what is sent, and all that comes back before the connection ends.
type Row = (&'static str, Vec<u8>, String);

/// A row about one request. It is the only one of its connection, so each answer says that it is the last.
fn row(claim: &'static str, request: &Request, answer: impl Into<String>) -> Row {
    (claim, request.bytes(), answer.into())
}

/// An answer with a body of JSON. `headers` stand behind the content type.
fn answered(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

const CLOSES: &str = "connection: close\r\n";

/// A refusal that is only about HTTP.
fn refused(status: &str, code: &str, message: &str) -> String {
    answered(status, CLOSES, &json!({ "error": { "code": code, "message": message } }).to_string())
}

/// The answer to a ping.
fn pong() -> String {
    answered("200 OK", CLOSES, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
}

/// What hyper answers to what is no HTTP: it has no request that we could be asked about.
fn bare(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{CLOSES}content-length: 0\r\n\r\n")
}

/// What came back, without what is different each time: the date, and the ids by which errors are found in the log.
fn lasting(answers: &[u8]) -> String {
    let text = String::from_utf8_lossy(answers);
    let lines = text.split_inclusive('\n').filter(|line| !line.starts_with("date: "));
    let text: String = lines.collect();
    let mut parts = text.split("\"correlation_id\":\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        let (_, rest) = part.split_at(ID.len());
        format!("{out}\"correlation_id\":\"{ID}{rest}")
    })
}

const ID: &str = "00000000-0000-0000-0000-000000000000";

/// Sends each request over a connection of its own, and compares all that comes back.
async fn check(served: &Served, rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for (claim, bytes, want) in rows {
        let mut connection = Connection::open(served.port()).await;
        connection.write(&bytes).await.unwrap();
        let got = lasting(&connection.rest().await);
        if got != want {
            wrong.push(format!("{claim}\n got: {got:?}\nwant: {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// S-009, S-013, S-023, S-024, S-025, S-027.
#[tokio::test]
async fn only_requests_to_the_endpoint_from_this_machine_are_taken() {
    let served = Served::open().await;
    check(&served, places::hosts(&served)).await;
    check(&served, places::origins(&served)).await;
    check(&served, places::paths(&served)).await;
}

/// S-013, S-020, S-021, S-022, S-023, S-028.
#[tokio::test]
async fn only_who_has_the_credential_is_heard() {
    let served = Served::open().await;
    check(&served, credentials::tokens(&served)).await;
    check(&served, credentials::methods(&served)).await;
}

/// S-012, S-023.
#[tokio::test]
async fn only_one_way_to_say_where_a_request_ends_is_taken() {
    let served = Served::open().await;
    check(&served, framing::lengths(&served)).await;
    check(&served, framing::heads(&served)).await;
    check(&served, framing::expectations(&served)).await;
}

/// S-011, S-015, S-017, S-018, S-023.
#[tokio::test]
async fn only_one_whole_message_is_taken() {
    let served = Served::open().await;
    check(&served, bodies::types(&served)).await;
    check(&served, bodies::no_json(&served)).await;
    check(&served, bodies::no_message(&served)).await;
    check(&served, bodies::messages(&served)).await;
    check(&served, bodies::versions(&served)).await;
}

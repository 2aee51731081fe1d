//! Requests with two faults: which one is told.

use serde_json::json;

use super::{CLOSES, ID, answered, lasting};
use crate::http::{Connection, Request};
use crate::{PING, Served};

/// Something that is wrong with a request.
type Fault = fn(Request) -> Request;

/// The faults in the order in which they are told, each with the code that tells it.
const FAULTS: [(&str, Fault); 11] = [
    ("http.headers_too_large", |request| request.with("X-Long", "x".repeat(17_000))),
    ("http.forbidden_host", |request| request.with("Host", "evil.example")),
    ("http.forbidden_origin", |request| request.with("Origin", "https://evil.example")),
    ("http.not_found", |request| request.line("POST", "/elsewhere")),
    ("auth.invalid", |request| request.with("Authorization", "Bearer x")),
    ("http.method_not_allowed", |request| request.line("PUT", "/mcp")),
    ("http.unsupported_media_type", |request| request.with("Content-Type", "text/plain")),
    ("http.length_required", |request| request.without("Content-Length")),
    ("http.too_large", |request| request.with("Content-Length", "2000000")),
    ("http.bad_request", |request| request.body("[]")),
    ("http.bad_request", |request| request.with("MCP-Protocol-Version", "x")),
];
/// So many faults are told before anybody asks whether the core still runs.
const BEFORE_STOPPED: usize = 4;

async fn code(served: &Served, request: Request) -> String {
    served.send(request).await.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
}

/// S-023, S-026.
#[tokio::test]
async fn of_two_faults_the_first_in_the_order_is_told() {
    let served = Served::open().await;
    for (at, (first, fault)) in FAULTS.iter().enumerate() {
        assert_eq!(code(&served, fault(served.post(PING))).await, *first);
        for (second, later) in &FAULTS[at + 1..] {
            let both = fault(later(served.post(PING)));
            assert_eq!(code(&served, both).await, *first, "and {second}");
        }
    }
    served.cortex.shutdown().await.unwrap();
    for (at, (first, fault)) in FAULTS.iter().enumerate() {
        let told = if at < BEFORE_STOPPED { first } else { "core.stopped" };
        assert_eq!(code(&served, fault(served.post(PING))).await, told, "{first}");
    }
}

/// S-026, S-028.
#[tokio::test]
async fn a_core_that_has_stopped_is_told_to_everybody() {
    let served = Served::open().await;
    served.cortex.shutdown().await.unwrap();
    let error = json!({ "error": {
        "kind": "state_conflict",
        "code": "core.stopped",
        "message": "the core has stopped",
        "remediation": "Start Cortex again.",
        "correlation_id": ID,
    }});
    for request in [served.post(PING), served.post(PING).without("Authorization")] {
        let mut connection = Connection::open(served.port()).await;
        connection.write(&request.bytes()).await.unwrap();
        let told = lasting(&connection.rest().await);
        assert_eq!(told, answered("503 Service Unavailable", CLOSES, &error.to_string()));
    }
}

//! What does not reach a tool, with its status and code.

use cortex_lib::error::Code;
use serde_json::Value;

use crate::http::Request;
use crate::{PING, Served};

/// What is sent, the status and the code that it is answered with.
type Row = (&'static str, Request, u16, Option<Code>);

fn places(served: &Served) -> Vec<Row> {
    let port = served.port();
    let ping = served.post(PING);
    let hosted = |host: &str| ping.clone().with("Host", host);
    let from = |origin: &str| ping.clone().with("Origin", origin);
    let host = Some(Code::HttpForbiddenHost);
    let origin = Some(Code::HttpForbiddenOrigin);
    vec![
        ("a good request", ping.clone(), 200, None),
        ("by name", hosted(&format!("localhost:{port}")), 200, None),
        ("another host", hosted("evil.example"), 403, host),
        ("another host on our port", hosted(&format!("evil.example:{port}")), 403, host),
        ("another port", hosted("127.0.0.1:1"), 403, host),
        ("no port", hosted("127.0.0.1"), 403, host),
        ("no host", ping.clone().without("Host"), 403, host),
        ("two hosts", ping.clone().and("Host", "evil.example"), 403, host),
        (
            "another host in the target",
            ping.clone().line("POST", "http://evil.example/mcp"),
            403,
            host,
        ),
        ("a page from elsewhere", from("https://evil.example"), 403, origin),
        ("a page without origin", from("null"), 403, origin),
        ("a local page", from("http://localhost:3000"), 200, None),
        ("two origins", from("http://localhost").and("Origin", "null"), 403, origin),
        ("another path", ping.clone().line("POST", "/"), 404, Some(Code::HttpNotFound)),
        ("a path below", ping.clone().line("POST", "/mcp/x"), 404, Some(Code::HttpNotFound)),
        (
            "another well-known",
            Request::new("GET", "/.well-known/oauth-authorization-server", port),
            404,
            Some(Code::HttpNotFound),
        ),
        (
            "long headers",
            ping.with("X-Long", "x".repeat(17_000)),
            431,
            Some(Code::HttpHeadersTooLarge),
        ),
    ]
}

fn credentials(served: &Served) -> Vec<Row> {
    let ping = served.post(PING);
    let with = |credential: String| ping.clone().with("Authorization", credential);
    let token = served.token.expose();
    let (beginning, _) = token.split_at(20);
    let get = |method: &str| served.post("").line(method, "/mcp").without("Content-Length");
    let missing = Some(Code::AuthMissing);
    let invalid = Some(Code::AuthInvalid);
    let method = Some(Code::HttpMethodNotAllowed);
    vec![
        ("no credential", ping.clone().without("Authorization"), 401, missing),
        ("another token", with("Bearer cortex_user_00".into()), 401, invalid),
        ("the beginning of the token", with(format!("Bearer {beginning}")), 401, invalid),
        ("another scheme", with(format!("Basic {token}")), 401, invalid),
        ("an empty credential", with("Bearer ".into()), 401, invalid),
        ("two credentials", ping.clone().and("Authorization", "Bearer x"), 401, invalid),
        ("the scheme in small letters", with(format!("bearer {token}")), 200, None),
        ("GET without a credential", get("GET").without("Authorization"), 401, missing),
        ("GET", get("GET"), 405, method),
        ("DELETE", get("DELETE"), 405, method),
        ("PUT", get("PUT"), 405, method),
        ("OPTIONS", get("OPTIONS"), 405, method),
    ]
}

fn bodies(served: &Served) -> Vec<Row> {
    let ping = served.post(PING);
    let bad = Some(Code::HttpBadRequest);
    let typed = |content: &str| ping.clone().with("Content-Type", content);
    let version = |version: &str| ping.clone().with("MCP-Protocol-Version", version);
    let sent = |body: &str| served.post(body);
    let chunked = ping.clone().without("Content-Length").with("Transfer-Encoding", "chunked");
    let full =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","x":"{}"}}"#, "x".repeat(1_048_529));
    assert_eq!(full.len(), 1024 * 1024);
    let media = Some(Code::HttpUnsupportedMediaType);
    vec![
        ("text", typed("text/plain"), 415, media),
        ("no content type", ping.clone().without("Content-Type"), 415, media),
        ("JSON with a charset", typed("application/json; charset=utf-8"), 200, None),
        ("no length", ping.clone().without("Content-Length"), 411, Some(Code::HttpLengthRequired)),
        ("chunks", chunked, 411, Some(Code::HttpLengthRequired)),
        ("as long as may be", sent(&full), 200, None),
        ("one byte too long", sent(&format!("{full} ")), 413, Some(Code::HttpTooLarge)),
        ("much too long", sent(&full.repeat(4)), 413, Some(Code::HttpTooLarge)),
        ("no JSON", sent("{"), 400, bad),
        ("nothing", sent(""), 400, bad),
        ("no object", sent("7"), 400, bad),
        ("a batch", sent(&format!("[{PING}]")), 400, bad),
        ("an empty batch", sent("[]"), 400, bad),
        ("another JSON-RPC", sent(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#), 400, bad),
        ("no method", sent(r#"{"jsonrpc":"2.0","id":1}"#), 400, bad),
        ("null as id", sent(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), 400, bad),
        (
            "a list of parameters",
            sent(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#),
            400,
            bad,
        ),
        ("an answer", sent(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), 400, bad),
        ("an old version", version("2024-11-05"), 400, bad),
        ("a new version", version("2031-01-01"), 400, bad),
        ("a known version", version("2025-03-26"), 200, None),
        ("any Accept", ping.clone().with("Accept", "text/html"), 200, None),
        (
            "a notification",
            sent(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            202,
            None,
        ),
    ]
}

async fn check(served: &Served, rows: Vec<Row>) {
    for (claim, request, status, code) in rows {
        let answer = served.send(request).await;
        assert_eq!(answer.status, status, "{claim}: {}", String::from_utf8_lossy(&answer.body));
        let error = &answer.json()["error"];
        assert_eq!(error["code"].as_str(), code.map(Code::as_str), "{claim}");
        if let Some(code) = code {
            assert_eq!(answer.header("content-type"), Some("application/json"), "{claim}");
            assert!(error["message"].is_string(), "{claim}");
            // Only what is not about HTTP alone has the whole error object.
            let whole = !code.as_str().starts_with("http.");
            assert_eq!(error["correlation_id"].is_string(), whole, "{claim}");
            assert_eq!(error["remediation"].is_string(), whole, "{claim}");
        }
    }
}

/// S-009, S-013, S-024, S-025.
#[tokio::test]
async fn only_requests_to_the_endpoint_from_this_machine_are_taken() {
    let served = Served::open().await;
    check(&served, places(&served)).await;
}

/// S-020.
#[tokio::test]
async fn only_who_has_the_credential_is_heard() {
    let served = Served::open().await;
    check(&served, credentials(&served)).await;
}

/// S-011, S-012, S-017, S-018.
#[tokio::test]
async fn only_one_whole_message_is_taken() {
    let served = Served::open().await;
    check(&served, bodies(&served)).await;
}

/// S-021, S-022, S-027, S-028.
#[tokio::test]
async fn a_missing_credential_is_challenged_and_a_wrong_one_named() {
    let served = Served::open().await;
    let port = served.port();
    let metadata = format!(
        "resource_metadata=\"http://127.0.0.1:{port}/.well-known/oauth-protected-resource/mcp\""
    );
    let answer = served.send(served.post(PING).without("Authorization")).await;
    assert_eq!(answer.header("www-authenticate"), Some(&*format!("Bearer {metadata}")));
    let answer = served.send(served.post(PING).with("Authorization", "Bearer x")).await;
    let named = format!("Bearer {metadata}, error=\"invalid_token\"");
    assert_eq!(answer.header("www-authenticate"), Some(&*named));
}

#[tokio::test]
async fn what_the_endpoint_is_may_be_asked_without_a_credential() {
    let served = Served::open().await;
    let port = served.port();
    for path in
        ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
    {
        let answer = served.send(Request::new("GET", path, port)).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["resource"], served.server.url());
        assert_eq!(answer.json()["authorization_servers"], Value::Null);
        let answer = served.send(Request::new("POST", path, port)).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET")));
    }
}

/// S-013.
#[tokio::test]
async fn the_allowed_method_is_named() {
    let served = Served::open().await;
    let answer = served.send(served.post("").line("GET", "/mcp")).await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
}

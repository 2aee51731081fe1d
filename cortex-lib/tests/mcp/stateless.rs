//! The version without `initialize`: each message says of which version it is, in its headers as well.

use cortex_lib::api::TOOLS;
use serde_json::{Value, json};

use crate::Served;
use crate::http::{Answer, Request};

const NEWEST: &str = "2026-07-28";

/// A message as a client of the newest version sends it.
fn message(served: &Served, version: &str, method: &str, params: Value) -> Request {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let name = params["name"].as_str().map(ToOwned::to_owned);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = served
        .post(body.to_string())
        .with("MCP-Protocol-Version", version)
        .with("Mcp-Method", method);
    match name {
        Some(name) => request.with("Mcp-Name", name),
        None => request,
    }
}

async fn ask(served: &Served, method: &str, params: Value) -> Answer {
    served.send(message(served, NEWEST, method, params)).await
}

fn result(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()["result"].take()
}

#[tokio::test]
async fn a_client_finds_out_what_is_spoken() {
    let served = Served::open().await;
    let found = result(&ask(&served, "server/discover", json!({})).await);
    let versions = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]);
    let server = json!({ "name": "cortex", "version": env!("CARGO_PKG_VERSION") });
    let expected = json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": { "tools": {} },
        "ttlMs": 300_000,
        "cacheScope": "private",
        "_meta": { "io.modelcontextprotocol/serverInfo": server },
    });
    assert_eq!(found, expected);
}

#[tokio::test]
async fn the_list_says_how_long_it_holds_and_for_whom() {
    let served = Served::open().await;
    let list = result(&ask(&served, "tools/list", json!({})).await);
    assert_eq!(list["tools"].as_array().unwrap().len(), TOOLS.len());
    assert_eq!(
        (&list["resultType"], &list["ttlMs"], &list["cacheScope"]),
        (&json!("complete"), &json!(300_000), &json!("private"))
    );
    let before = served.ask("tools/list", json!({})).await["result"].take();
    assert_eq!(before, json!({ "tools": list["tools"] }));
}

#[tokio::test]
async fn results_and_failures_are_complete() {
    let served = Served::open().await;
    for (params, failed) in [
        (json!({ "name": "list_projects", "arguments": {} }), false),
        (json!({ "name": "list_projects" }), false),
        (json!({ "name": "list_projects", "arguments": [] }), true),
        (json!({ "name": "get_agent_status", "arguments": { "agent_id": "nobody" } }), true),
    ] {
        let told = result(&ask(&served, "tools/call", params.clone()).await);
        assert_eq!(told["resultType"], "complete", "{params}");
        assert_eq!(told["isError"], failed, "{params}");
        let before = served.ask("tools/call", params.clone()).await["result"].take();
        assert_eq!(before["resultType"], Value::Null, "{params}");
        assert_eq!(before["isError"], failed, "{params}");
        // The versions take different ways to a tool, and both tell the same.
        assert_eq!(what_is_told(told), what_is_told(before), "{params}");
    }
}

/// A result without what differs between two calls or two versions.
fn what_is_told(mut result: Value) -> [Value; 2] {
    let text = result["content"][0]["text"].as_str().map(serde_json::from_str);
    let mut told = [text.unwrap().unwrap(), result["structuredContent"].take()];
    for told in &mut told {
        if let Some(error) = told["error"].as_object_mut() {
            assert!(error.remove("correlation_id").is_some());
        }
    }
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1));
    told
}

/// S-019.
#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let served = Served::open().await;
    for (method, params, status, code) in [
        ("tools/call", json!({ "name": "dance", "arguments": {} }), 200, -32602),
        ("dance", json!({}), 404, -32601),
        // What the version has no more, and what it has and Cortex does not offer.
        ("ping", json!({}), 404, -32601),
        ("initialize", json!({}), 404, -32601),
        ("logging/setLevel", json!({ "level": "info" }), 404, -32601),
        ("resources/list", json!({}), 404, -32601),
        ("subscriptions/listen", json!({ "notifications": {} }), 404, -32601),
    ] {
        let answer = ask(&served, method, params.clone()).await;
        let told = answer.json();
        let found = (answer.status, &told["error"]["code"], &told["id"]);
        assert_eq!(found, (status, &json!(code), &json!(1)), "{method} {params}: {told}");
    }
}

/// Headers are for those between client and endpoint, and must not say anything else than the message.
#[tokio::test]
async fn headers_must_agree_with_the_message() {
    let served = Served::open().await;
    let call = json!({ "name": "list_projects", "arguments": {} });
    let good = message(&served, NEWEST, "tools/call", call);
    assert_eq!(served.send(good.clone()).await.status, 200);
    for wrong in [
        good.clone().without("Mcp-Method"),
        good.clone().with("Mcp-Method", "tools/list"),
        good.clone().and("Mcp-Method", "tools/call"),
        good.clone().without("Mcp-Name"),
        good.clone().with("Mcp-Name", "list_agents"),
        good.clone().without("MCP-Protocol-Version"),
        good.clone().with("MCP-Protocol-Version", "2025-11-25"),
    ] {
        let answer = served.send(wrong.clone()).await;
        let told = answer.json();
        assert_eq!(answer.status, 400, "{wrong:?}: {told}");
        assert_eq!((&told["error"]["code"], &told["id"]), (&json!(-32020), &json!(1)), "{wrong:?}");
    }
}

/// S-015.
#[tokio::test]
async fn an_unknown_version_is_answered_with_those_that_are_spoken() {
    let served = Served::open().await;
    for unknown in ["2031-01-01", "2024-11-05", "tomorrow"] {
        let answer = served.send(message(&served, unknown, "tools/list", json!({}))).await;
        let error = answer.json()["error"].take();
        assert_eq!((answer.status, &error["code"]), (400, &json!(-32022)), "{unknown}: {error}");
        assert_eq!(error["data"]["requested"], unknown);
        assert_eq!(error["data"]["supported"].as_array().unwrap().len(), 4);
    }
    // Who says it only in the header is of a version that has no such answer.
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let answer = served.send(served.post(list).with("MCP-Protocol-Version", "2031-01-01")).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!("http.bad_request")));
}

#[tokio::test]
async fn a_message_says_who_sends_it() {
    let served = Served::open().await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    let bare =
        served.post(list).with("MCP-Protocol-Version", NEWEST).with("Mcp-Method", "tools/list");
    let answer = served.send(bare).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32602)));
}

//! The clients of the SDKs.

use std::process::Command;

use cortex_lib::api::TOOLS;
use serde_json::{Value, json};

use crate::programs::{Node, python};
use crate::{Served, command};

const PYTHON: &str = include_str!("sdk.py");
const NODE: &str = include_str!("sdk.mjs");

/// What a client says about the endpoint of a fresh core.
async fn talk(client: Command) -> Value {
    let served = Served::open().await;
    let said = served.talk([client]).await.remove(0);
    served.close().await;
    said
}

/// What all clients must find.
fn expected(version: &str) -> Value {
    json!({
        "version": version,
        "server": "cortex",
        "tools": TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>(),
        "good": { "projects": 1 },
        "bad": [true, "agent.not_found"],
        "unknown": -32602,
        "cancelled": true,
        "after": { "projects": 1 },
    })
}

async fn node(sdk: &str) {
    let Some(node) = Node::find() else { return };
    let mut client = command(&node.program);
    client.args(["--input-type=module", "--eval", NODE, sdk]).current_dir(&node.folder);
    assert_eq!(talk(client).await, expected("2025-11-25"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_typescript_client_lists_calls_and_cancels() {
    node("@modelcontextprotocol/sdk").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_typescript_client_lists_calls_and_cancels() {
    node("@modelcontextprotocol/client").await;
}

async fn python_client(mode: &str, version: &str) {
    let Some(python) = python() else { return };
    let mut client = command(python);
    client.args(["-c", PYTHON, mode]);
    assert_eq!(talk(client).await, expected(version));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_lists_calls_and_cancels_as_it_likes_best() {
    python_client("auto", "2026-07-28").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_lists_calls_and_cancels_after_initialize() {
    python_client("legacy", "2025-11-25").await;
}

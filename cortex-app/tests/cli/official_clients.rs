//! `cortex mcp` with the official clients.
#![cfg(unix)]

use std::process::Command;

use cortex_lib::api::TOOLS;
use serde_json::{Value, json};

use crate::command;
use crate::home::{Home, run};
use crate::programs::{Node, python};

const PYTHON: &str = include_str!("../../../cortex-lib/tests/official/sdk.py");
const NODE: &str = include_str!("../../../cortex-lib/tests/official/sdk.mjs");

/// Lets a client list the tools, call some and give up on one. It finds the same as by HTTP.
fn talks(mut client: Command, version: Option<&str>) {
    let home = Home::new();
    let _serving = home.serve();
    home.team();
    home.cortex(&["agent", "start", "ada"]).good();
    let agents = home.cortex(&["agent", "list", "--json"]).good().json();
    client.env("AGENT_ID", agents["agents"][0]["agent_id"].as_str().unwrap());
    client.env("BRIDGE", env!("CARGO_BIN_EXE_cortex"));
    client.env("CORTEX_DATA_DIR", home.data_dir());
    let said = run(&mut client).good();
    let expected = json!({
        "version": version,
        "server": "cortex",
        "tools": TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>(),
        "good": { "projects": 1 },
        "bad": [true, "agent.not_found"],
        "unknown": -32602,
        "cancelled": true,
        "after": { "projects": 1 },
    });
    assert_eq!(serde_json::from_str::<Value>(&said.out).unwrap(), expected, "{said:?}");
}

fn node(sdk: &str) {
    let Some(node) = Node::find() else { return };
    let mut client = command(&node.program);
    client.args(["--input-type=module", "--eval", NODE, sdk]).current_dir(&node.folder);
    talks(client, None);
}

#[test]
fn the_first_typescript_client_speaks_with_the_bridge() {
    node("@modelcontextprotocol/sdk");
}

#[test]
fn the_second_typescript_client_speaks_with_the_bridge() {
    node("@modelcontextprotocol/client");
}

fn python_client(mode: &str, version: &str) {
    let Some(python) = python() else { return };
    let mut client = command(python);
    client.args(["-c", PYTHON, mode]);
    talks(client, Some(version));
}

#[test]
fn the_python_client_speaks_with_the_bridge_as_it_likes_best() {
    python_client("auto", "2026-07-28");
}

#[test]
fn the_python_client_speaks_with_the_bridge_after_initialize() {
    python_client("legacy", "2025-11-25");
}

/// It reads what `cortex mcp config` installed, and its lint finds nothing.
#[test]
fn the_inspector_speaks_with_the_bridge() {
    let Some(node) = Node::find() else { return };
    let home = Home::new();
    home.cortex(&["mcp", "config", "--client", "inspector", "--embedded", "--install", "-y"])
        .good();
    let mut inspector = command(&node.program);
    inspector.arg(node.file("@modelcontextprotocol/inspector/clients/launcher/build/index.js"));
    inspector.args(["--cli", "--server", "cortex", "--method", "tools/list", "--strict"]);
    inspector.env("HOME", home.path()).env_remove("MCP_CATALOG_PATH");
    let listed = run(&mut inspector).good();
    let tools = &listed.json()["tools"];
    assert_eq!(tools.as_array().unwrap().len(), TOOLS.len());
    // Where it would keep secrets is its own affair.
    let about_tools = |line: &&str| !line.is_empty() && !line.starts_with("[mcp-inspector]");
    assert_eq!(listed.err.lines().find(about_tools), None);
}

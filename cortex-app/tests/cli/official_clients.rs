//! `cortex mcp` with the official clients.
#![cfg(unix)]

use std::process::Command;

use cortex_lib::api::TOOLS;
use serde_json::Value;

use crate::command;
use crate::home::{Home, run};
use crate::programs::Node;
use crate::sdk::{expected, python, typescript};

/// Lets a client talk with the bridge. It finds the same as by HTTP.
fn talks(client: Option<Command>, version: Option<&str>) {
    let Some(mut client) = client else { return };
    let home = Home::new();
    let _serving = home.serve();
    home.team();
    home.cortex(&["agent", "start", "ada"]).good();
    let agents = home.cortex(&["agent", "list", "--json"]).good().json();
    client.env("AGENT_ID", agents["agents"][0]["agent_id"].as_str().unwrap());
    client.env("BRIDGE", env!("CARGO_BIN_EXE_cortex"));
    client.env("CORTEX_DATA_DIR", home.data_dir());
    let said = run(&mut client).good();
    assert_eq!(serde_json::from_str::<Value>(&said.out).unwrap(), expected(version), "{said:?}");
}

#[test]
fn the_first_typescript_client_speaks_with_the_bridge() {
    talks(typescript("@modelcontextprotocol/sdk"), None);
}

#[test]
fn the_second_typescript_client_speaks_with_the_bridge() {
    talks(typescript("@modelcontextprotocol/client"), None);
}

#[test]
fn the_python_client_speaks_with_the_bridge_as_it_likes_best() {
    talks(python("auto"), Some("2026-07-28"));
}

#[test]
fn the_python_client_speaks_with_the_bridge_after_initialize() {
    talks(python("legacy"), Some("2025-11-25"));
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

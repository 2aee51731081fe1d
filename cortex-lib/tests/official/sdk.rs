//! The clients of the SDKs: what each is told to do, and what all must find.

use std::process::Command;

use cortex_lib::api::TOOLS;
use serde_json::{Value, json};

use crate::command;
use crate::programs::{Node, python as find_python};

const PYTHON: &str = include_str!("sdk.py");
const NODE: &str = include_str!("sdk.mjs");

/// The client of a TypeScript package.
pub fn typescript(package: &str) -> Option<Command> {
    let node = Node::find()?;
    let mut client = command(&node.program);
    client.args(["--input-type=module", "--eval", NODE, package]).current_dir(&node.folder);
    Some(client)
}

/// The Python client, which begins in a way of its own.
pub fn python(mode: &str) -> Option<Command> {
    let mut client = command(find_python()?);
    client.args(["-c", PYTHON, mode]);
    Some(client)
}

/// What a client says about a core with one project. Where its transport does not tell it the version, it says `None`.
pub fn expected(version: Option<&str>) -> Value {
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

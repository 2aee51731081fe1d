//! The suites that judge servers.

use std::process::{Command, Output};

use serde_json::Value;

use crate::bearer::Bearer;
use crate::programs::Node;
use crate::{Served, command};

pub const CONFORMANCE: &str = "@modelcontextprotocol/conformance/dist/index.js";
const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";

fn ran(mut program: Command) -> Output {
    tokio::task::block_in_place(|| program.output()).unwrap()
}

/// Everything that a revision requires; `expected` names the scenarios that may fail, and why.
async fn conforms(revision: &str, expected: &str) {
    let Some(node) = Node::find() else { return };
    let served = Served::open().await;
    let door = Bearer::before(served.server.port(), &served.token).await;
    let dir = tempfile::tempdir().unwrap();
    let baseline = dir.path().join("expected.yaml");
    fs_err::write(&baseline, expected).unwrap();
    let mut suite = command(&node.program);
    suite.arg(node.file(CONFORMANCE)).args(["server", "--url", &door.url()]);
    suite.args(["--requirements", revision, "--expected-failures"]).arg(&baseline);
    suite.current_dir(dir.path());
    let ran = ran(suite);
    served.close().await;
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_conforms_to_the_revision_of_november_2025() {
    conforms("2025-11-25", include_str!("expected-2025-11-25.yaml")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_conforms_to_the_revision_of_july_2026() {
    conforms("2026-07-28", include_str!("expected-2026-07-28.yaml")).await;
}

async fn inspect(arguments: &[&str]) -> Option<Output> {
    let node = Node::find()?;
    let served = Served::open().await;
    let mut inspector = command(&node.program);
    inspector.arg(node.file(INSPECTOR)).args([
        "--cli",
        &served.server.url(),
        "--transport",
        "http",
    ]);
    let credential = format!("Authorization: Bearer {}", served.token.expose());
    inspector.args(["--header", &credential]).args(arguments);
    let ran = ran(inspector);
    served.close().await;
    Some(ran)
}

/// Its lint reads the schemas as clients and model providers do.
#[tokio::test(flavor = "multi_thread")]
async fn inspector_finds_nothing_in_the_tools() {
    let Some(ran) = inspect(&["--method", "tools/list", "--strict"]).await else { return };
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.is_empty(), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn inspector_tells_a_failure_by_its_exit_code() {
    let call =
        ["--method", "tools/call", "--tool-name", "get_agent_status", "--tool-arg", "agent_id=x"];
    let Some(ran) = inspect(&call).await else { return };
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(answer.pointer("/structuredContent/error/code").unwrap(), "agent.not_found");
    assert!(!ran.status.success());
}

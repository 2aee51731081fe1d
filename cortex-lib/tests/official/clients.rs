//! The clients of the SDKs, over HTTP.

use std::process::Command;

use crate::Served;
use crate::sdk::{expected, python, typescript};

/// Lets a client talk with the endpoint of a fresh core.
async fn talks(client: Option<Command>, version: &str) {
    let Some(client) = client else { return };
    let served = Served::open().await;
    let said = served.talk([client]).await.remove(0);
    served.close().await;
    assert_eq!(said, expected(Some(version)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_typescript_client_lists_calls_and_cancels() {
    talks(typescript("@modelcontextprotocol/sdk"), "2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_typescript_client_lists_calls_and_cancels() {
    talks(typescript("@modelcontextprotocol/client"), "2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_lists_calls_and_cancels_as_it_likes_best() {
    talks(python("auto"), "2026-07-28").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_lists_calls_and_cancels_after_initialize() {
    talks(python("legacy"), "2025-11-25").await;
}

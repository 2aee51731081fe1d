//! Programs that speak as the CLI does, for what the pinned one does not do, or not when a test wants it.

use serde_json::{Value, json};

/// A program that starts as the CLI does, under these settings, and then does something else. It takes no notice of signals.
/// The requests of the driver that come then are `cortex-4` and so on.
pub(crate) fn starts(settings: &str, then: &[String]) -> String {
    let settings = format!(r#"{{"effective":{settings}}}"#);
    let start = ["{}", &settings, r#"{"version":"0"}"#].into_iter().zip(1..);
    let start =
        start.map(|(response, number)| format!("read -r line; {}", answers(number, response)));
    let mut program = vec!["#!/bin/sh".to_owned(), "trap '' INT TERM".to_owned()];
    program.extend(start);
    program.extend_from_slice(then);
    program.join("\n")
}

/// Answers a request of the driver.
pub(crate) fn answers(number: u8, response: &str) -> String {
    format!(
        r#"echo '{{"type":"control_response","response":{{"subtype":"success","request_id":"cortex-{number}","response":{response}}}}}'"#
    )
}

/// Says this.
pub(crate) fn says(line: &Value) -> String {
    format!("echo '{line}'")
}

/// Says that it works, or that it does not.
pub(crate) fn state(state: &str) -> String {
    says(&json!({"type": "system", "subtype": "session_state_changed", "state": state}))
}

/// Says that the turn has ended with this.
pub(crate) fn result(text: &str) -> String {
    let usage = json!({"output_tokens": 1});
    says(
        &json!({"type": "result", "subtype": "success", "is_error": false, "result": text, "terminal_reason": "completed", "usage": usage}),
    )
}

/// An MCP server with one tool. It leaves a trace where it runs: once its tools are known, and when one is called.
pub(crate) const SERVER: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"own","version":"1"}}}';;
    *'"method":"tools/list"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[{"name":"hi","description":"greets","inputSchema":{"type":"object","properties":{}}}]}}'; touch listed;;
    *'"method":"tools/call"'*) touch ran; echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[{"type":"text","text":"hi there"}]}}';;
    *'"method":"server/discover"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"no such method"}}';;
  esac
done"#;

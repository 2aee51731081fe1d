//! What the CLI is told, one line each.

use serde_json::{Value, json};

/// A message that starts a turn. `uuid` comes back in its echo.
pub(in crate::claude_code) fn user(text: &str, uuid: &str) -> String {
    let message = json!({"role": "user", "content": text});
    line(&json!({
        "type": "user", "message": message, "parent_tool_use_id": null, "session_id": "", "uuid": uuid,
    }))
}

/// A control request; `request` holds its `subtype`.
pub(in crate::claude_code) fn request(request_id: &str, request: &Value) -> String {
    line(&json!({"type": "control_request", "request_id": request_id, "request": request}))
}

/// The answer to a request of the CLI.
pub(in crate::claude_code) fn answer(request_id: &str, answer: &Value) -> String {
    let response = json!({"subtype": "success", "request_id": request_id, "response": answer});
    line(&json!({"type": "control_response", "response": response}))
}

/// The tool may not run, and the turn ends; the agent reads `message`.
pub(in crate::claude_code) fn deny(request_id: &str, message: &str) -> String {
    answer(request_id, &json!({"behavior": "deny", "message": message, "interrupt": true}))
}

/// The answer to a request that this driver does not know.
pub(in crate::claude_code) fn unsupported(request_id: &str) -> String {
    let error = "this host does not support that request";
    let response = json!({"subtype": "error", "request_id": request_id, "error": error});
    line(&json!({"type": "control_response", "response": response}))
}

fn line(message: &Value) -> String {
    format!("{message}\n")
}

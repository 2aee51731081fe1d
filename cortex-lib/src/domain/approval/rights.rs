//! Requests for rights: what an allowance of them grants goes on after the use.

use serde_json::Value;

/// What the CLIs call a request for rights: to be granted more, to leave the folder or the sandbox, an MCP server
/// that wants something.
const RIGHTS: &[&str] = &[
    "request_permissions",
    "external_directory",
    "SandboxNetworkAccess",
    "Elicitation",
    "mcp_elicitation",
];
/// Fields that ask for rights beside the use: files below a folder, the network, to run outside of the sandbox.
const BESIDE: &[&str] = &[
    "grantRoot",
    "additionalPermissions",
    "networkApprovalContext",
    "leavesSandbox",
    "dangerouslyDisableSandbox",
];

/// Whether `tool` is no tool but a right.
pub(super) fn is_right(tool: &str) -> bool {
    RIGHTS.contains(&tool)
}

/// Whether a request is for rights, or for some beside the use.
pub(super) fn asks_for_rights(tool: &str, input: &Value) -> bool {
    let is_wanted = |field: &Value| !matches!(field, Value::Null | Value::Bool(false));
    is_right(tool) || BESIDE.iter().any(|name| input.get(*name).is_some_and(is_wanted))
}

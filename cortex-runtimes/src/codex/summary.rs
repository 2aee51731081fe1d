//! Tools in one line: what a person reads before they allow one, and while it runs.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

pub(super) use crate::line::one_line;

/// Longest summary. A command longer than this is read in full from the request's input.
const SUMMARY_CHARS_MAX: usize = 300;

/// The names that the tools of the CLI have for rules and people. The protocol has none.
pub(super) const SHELL: &str = "shell";
/// A change of files.
pub(super) const PATCH: &str = "apply_patch";
/// More rights for what follows.
pub(super) const PERMISSIONS: &str = "request_permissions";
/// A question to the user.
pub(super) const QUESTION: &str = "request_user_input";
/// Something that an MCP server wants of the user.
pub(super) const ELICITATION: &str = "mcp_elicitation";

/// A tool of an MCP server.
pub(super) fn mcp_tool(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

/// `tool: what`, on one line.
pub(super) fn summary(tool: &str, what: &str) -> String {
    let line = if what.trim().is_empty() { tool.to_owned() } else { format!("{tool}: {what}") };
    one_line(&line, SUMMARY_CHARS_MAX)
}

/// What an item of a turn does, when it is the use of a tool.
pub(super) fn item(kind: &str, fields: &serde_json::Map<String, Value>) -> Option<String> {
    let field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(match kind {
        "commandExecution" => summary(SHELL, &command(field("command"))),
        "fileChange" => summary(PATCH, &paths(fields.get("changes"))),
        "mcpToolCall" => {
            let arguments = fields.get("arguments").filter(|given| !is_empty(given));
            let what = arguments.map(Value::to_string).unwrap_or_default();
            summary(&mcp_tool(field("server"), field("tool")), &what)
        }
        "dynamicToolCall" => summary(field("tool"), ""),
        "webSearch" => summary("web_search", field("query")),
        "imageView" => summary("view_image", field("path")),
        "collabAgentToolCall" | "subAgentActivity" => summary("sub-agent", field("prompt")),
        _ => return None,
    })
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// The files that a change touches.
pub(super) fn paths(changes: Option<&Value>) -> String {
    let changes = changes.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let paths: Vec<&str> =
        changes.iter().filter_map(|change| change.get("path")?.as_str()).collect();
    paths.join(", ")
}

/// A command without the shell around it: every one is shown as `/bin/bash -lc '…'`. One that is put together in another way
/// is shown as it is.
pub(super) fn command(shown: &str) -> String {
    let words = shell_words::split(shown).unwrap_or_default();
    match words.as_slice() {
        [shell, flag, script] if flag == "-lc" && is_shell(shell) => script.clone(),
        _ => shown.to_owned(),
    }
}

fn is_shell(program: &str) -> bool {
    let name = Path::new(program).file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| ["bash", "zsh", "sh"].contains(&name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_shown_without_the_shell_around_it() {
        for (shown, want) in [
            ("/bin/bash -lc ls", "ls"),
            ("/bin/bash -lc 'touch a; echo hi'", "touch a; echo hi"),
            ("/bin/bash -lc \"echo 'a'\"", "echo 'a'"),
            ("/bin/bash -lc 'a", "/bin/bash -lc 'a"),
            ("/bin/bash -lc 'a' b", "/bin/bash -lc 'a' b"),
            ("python3 -lc x", "python3 -lc x"),
            ("ls -l", "ls -l"),
        ] {
            assert_eq!(command(shown), want);
        }
    }

    #[test]
    fn a_tool_says_what_it_does_in_one_line() {
        let line = |kind: &str, fields: Value| item(kind, fields.as_object().unwrap());
        let shell = json!({"command": "/bin/bash -lc 'a\nb'"});
        assert_eq!(line("commandExecution", shell).as_deref(), Some("shell: a⏎b"));
        let change = json!({"changes": [{"path": "/p/a"}, {"path": "/p/b"}]});
        assert_eq!(line("fileChange", change).as_deref(), Some("apply_patch: /p/a, /p/b"));
        let call = json!({"server": "x", "tool": "y", "arguments": {}});
        assert_eq!(line("mcpToolCall", call).as_deref(), Some("mcp__x__y"));
        assert_eq!(line("reasoning", json!({})), None);
        assert_eq!(summary("shell", &"x".repeat(999)).chars().count(), 301);
    }
}

//! Tools in one line: what a person reads before they allow one.

use serde_json::Value;

pub(super) use crate::line::one_line;

/// Longest summary. A command longer than this is read in full from the request's input.
pub(super) const SUMMARY_CHARS_MAX: usize = 300;

/// What `tool` would do with `input`, in one line.
pub(super) fn summary(tool: &str, input: &Value) -> String {
    let field =
        |name: &str| input.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let what = match tool {
        "Bash" | "PowerShell" | "Monitor" => field("command"),
        "Read" | "Write" | "Edit" | "MultiEdit" => field("file_path"),
        "NotebookEdit" => field("notebook_path"),
        "Grep" | "Glob" => field("pattern"),
        "WebFetch" => field("url"),
        "WebSearch" => field("query"),
        "Agent" | "Task" => field("description"),
        "Skill" => field("skill"),
        "ExitPlanMode" => field("plan"),
        _ => None,
    };
    let line = match what {
        Some(what) => format!("{tool}: {what}"),
        None if input.as_object().is_none_or(serde_json::Map::is_empty) => tool.to_owned(),
        None => format!("{tool}: {input}"),
    };
    one_line(&line, SUMMARY_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_says_what_it_would_do_in_one_line() {
        assert_eq!(summary("Bash", &json!({"command": "cd x\nrm y"})), "Bash: cd x⏎rm y");
        assert_eq!(summary("Write", &json!({"file_path": "/p/a", "content": "c"})), "Write: /p/a");
        assert_eq!(summary("mcp__x__y", &json!({"a": 1})), r#"mcp__x__y: {"a":1}"#);
        assert_eq!(summary("ExitPlanMode", &json!({})), "ExitPlanMode");
        assert_eq!(summary("Bash", &json!({"command": "x".repeat(999)})).chars().count(), 301);
    }
}

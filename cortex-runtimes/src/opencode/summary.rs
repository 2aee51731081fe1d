//! Tools in one line: what a person reads before they allow one.

use serde_json::Value;

use crate::line::one_line;

/// Longest summary. A command longer than this is read in full from the request's input.
const SUMMARY_CHARS_MAX: usize = 300;

/// What `tool` would do with `input`, in one line.
pub(super) fn summary(tool: &str, input: &Value) -> String {
    let field =
        |name: &str| input.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let asked = || input.pointer("/questions/0/question").and_then(Value::as_str);
    let what = match tool {
        "question" => asked(),
        "bash" => field("command"),
        "read" | "write" | "edit" => field("filePath").or_else(|| field("filepath")),
        "glob" | "grep" => field("pattern"),
        "list" => field("path"),
        "webfetch" => field("url"),
        "websearch" => field("query"),
        "task" => field("description"),
        "skill" => field("name"),
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
        assert_eq!(summary("bash", &json!({"command": "cd x\nrm y"})), "bash: cd x⏎rm y");
        assert_eq!(summary("write", &json!({"filePath": "/p/a", "content": "c"})), "write: /p/a");
        assert_eq!(summary("mine_x", &json!({"a": 1})), r#"mine_x: {"a":1}"#);
        assert_eq!(summary("todoread", &json!({})), "todoread");
    }
}

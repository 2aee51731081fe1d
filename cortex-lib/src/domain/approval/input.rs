//! The arguments of a tool: which of them say what it does, and how much of them is kept.

use serde_json::{Map, Value};

use crate::domain::text::head_and_tail;

/// Tools of the CLIs themselves, and the field of each that says what it does. An MCP server names its fields as it
/// likes: beside a `command` there may be another field that is what really counts.
const SUBJECTS: &[(&str, &str)] = &[
    ("Bash", "command"),
    ("PowerShell", "command"),
    ("Monitor", "command"),
    ("Read", "file_path"),
    ("Write", "file_path"),
    ("Edit", "file_path"),
    ("MultiEdit", "file_path"),
    ("NotebookEdit", "notebook_path"),
    ("Grep", "path"),
    ("WebFetch", "url"),
    ("Skill", "skill"),
    ("shell", "command"),
    ("bash", "command"),
    ("read", "filePath"),
    ("write", "filePath"),
    ("edit", "filePath"),
    ("grep", "path"),
    ("list", "path"),
    ("webfetch", "url"),
    ("skill", "name"),
];

/// A text that says what a tool would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A command.
    Command(String),
    /// A path, an address, or anything else.
    Other(String),
}

/// What `tool` would do with `input`: the field of a known tool, else every text.
pub(super) fn subject(tool: &str, input: &Value) -> Vec<Subject> {
    let known = SUBJECTS.iter().find(|(name, _)| *name == tool).map(|(_, field)| *field);
    if let Some((name, field)) = known.and_then(|name| Some((name, input.get(name)?))) {
        return subject_of(name, field);
    }
    let Some(fields) = input.as_object() else { return subject_of("", input) };
    fields.iter().flat_map(|(name, field)| subject_of(name, field)).collect()
}

fn subject_of(name: &str, field: &Value) -> Vec<Subject> {
    let is_command = matches!(name, "command" | "cmd");
    match command(field).filter(|_| is_command) {
        Some(command) => vec![Subject::Command(command)],
        None => values(field).into_iter().map(Subject::Other).collect(),
    }
}

/// A command: a text, or an argument vector as it would be typed.
pub(super) fn command(field: &Value) -> Option<String> {
    match field {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => {
            let words = words.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
            Some(words.join(" "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Whether `text` has a way up in it: `..` as a part of a path, not as a range of commits.
pub(super) fn leads_up(text: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "._-".contains(c);
    let mut found = text.match_indices("..");
    found.any(|(at, dots)| {
        let (before, rest) = text.split_at(at);
        let after = rest.strip_prefix(dots).unwrap_or_default();
        !before.ends_with(|c| goes_on(c) || "~^}".contains(c)) && !after.starts_with(goes_on)
    })
}

/// Whether any text in `input` is one that `found` looks for. Names of fields do not count.
fn any_value(input: &Value, found: &mut impl FnMut(&str) -> bool) -> bool {
    match input {
        Value::String(text) => found(text),
        Value::Array(items) => items.iter().any(|item| any_value(item, found)),
        Value::Object(fields) => fields.values().any(|field| any_value(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether any text in `input` is one that `found` looks for, or the name of a field: some tools take a map from paths
/// to changes. An argument vector counts as a whole, too.
pub(super) fn any_text(input: &Value, found: &mut impl FnMut(&str) -> bool) -> bool {
    match input {
        Value::String(text) => found(text),
        Value::Array(items) => {
            let words = items.iter().map(Value::as_str).collect::<Option<Vec<_>>>();
            words.is_some_and(|words| found(&words.join(" ")))
                || items.iter().any(|item| any_text(item, found))
        }
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| found(name) || any_text(field, found))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn values(input: &Value) -> Vec<String> {
    let mut all = Vec::new();
    any_value(input, &mut |text| {
        all.push(text.to_owned());
        false
    });
    all
}

/// Arguments as they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// What is kept of them.
    pub input: Value,
    /// Whether something is missing.
    pub truncated: bool,
}

/// At most `max` bytes of JSON of `input`: long texts lose their middle first; what still does not fit is one text.
pub fn bounded(input: Value, max: usize) -> Bounded {
    let size = |value: &Value| value.to_string().len();
    if size(&input) <= max {
        return Bounded { input, truncated: false };
    }
    let shorter = shorten(input, max / 8);
    if size(&shorter) <= max {
        return Bounded { input: shorter, truncated: true };
    }
    // Quotes and escapes of a text in a text take room again, at most as much as it has.
    let text = head_and_tail(&shorter.to_string(), max / 4).text;
    Bounded { input: Value::String(text), truncated: true }
}

fn shorten(value: Value, max: usize) -> Value {
    match value {
        Value::String(text) => Value::String(head_and_tail(&text, max).text),
        Value::Array(items) => items.into_iter().map(|item| shorten(item, max)).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, field)| (name, shorten(field, max)))
                .collect::<Map<_, _>>(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tool_does_is_told_from_what_describes_it() {
        let command = |text: &str| Subject::Command(text.to_owned());
        let other = |text: &str| Subject::Other(text.to_owned());
        let table = [
            ("Bash", json!({ "command": "ls", "description": "lists" }), vec![command("ls")]),
            (
                "shell",
                json!({ "command": ["git", "push", "-f"], "cwd": "/p" }),
                vec![command("git push -f")],
            ),
            ("Write", json!({ "file_path": "/p/a", "content": "x" }), vec![other("/p/a")]),
            ("write", json!({ "filePath": "/p/a", "content": "x" }), vec![other("/p/a")]),
            // What is not there hides nothing.
            ("Grep", json!({ "pattern": "x", "glob": "*.rs" }), vec![other("*.rs"), other("x")]),
            // Of a tool of an MCP server no field is known.
            (
                "mcp__db__query",
                json!({ "command": "SELECT 1", "query": "DROP TABLE x" }),
                vec![command("SELECT 1"), other("DROP TABLE x")],
            ),
            (
                "mcp__x__move",
                json!({ "path": "a", "to": { "b": ["c"] }, "n": 1 }),
                vec![other("a"), other("c")],
            ),
            ("mcp__x__y", json!({ "paths": ["a", "b"] }), vec![other("a"), other("b")]),
            ("mcp__x__y", json!("text"), vec![other("text")]),
            ("mcp__x__y", json!(null), vec![]),
        ];
        for (tool, input, texts) in table {
            assert_eq!(subject(tool, &input), texts, "{tool} {input}");
        }
    }

    #[test]
    fn a_way_up_is_told_from_a_range_of_commits() {
        for up in
            ["..", "../a", "a/../b", "a/..", "a\\..\\b", "cd ..", "cat '../a'", "x --dir=..;ls"]
        {
            assert!(leads_up(up), "{up}");
        }
        let git = ["git diff HEAD~1..HEAD", "git log main...", "git log HEAD^..", "git log ..main"];
        for down in ["a/b", "a..b", "...", "..a", "a../b"].into_iter().chain(git) {
            assert!(!leads_up(down), "{down}");
        }
    }

    #[test]
    fn long_texts_lose_their_middle() {
        let long = json!({ "file_path": "/p/a", "content": "x".repeat(100_000) });
        let kept = bounded(long, 16_384);
        assert!(kept.truncated && kept.input["file_path"] == "/p/a");
        assert!(kept.input["content"].as_str().is_some_and(|text| text.contains("left out")));
        let many: Value = (0..10_000).map(|at| json!({ "at": at })).collect();
        let kept = bounded(many, 16_384);
        assert!(kept.truncated && kept.input.is_string());
    }

    proptest! {
        #[test]
        fn what_is_kept_fits(texts in prop::collection::vec("[\\PC\"\\\\\n]{0,200}", 0..40), max in 400_usize..4_000) {
            let input = json!(texts);
            let fits = input.to_string().len() <= max;
            let kept = bounded(input.clone(), max);
            prop_assert!(kept.input.to_string().len() <= max);
            prop_assert_eq!(kept.truncated, !fits);
            prop_assert!(!fits || kept.input == input);
        }
    }
}

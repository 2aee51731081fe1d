//! The arguments of a tool: which of them say what it does, and how much of them is kept.

use serde_json::{Map, Value};

use crate::domain::text::head_and_tail;

/// Fields that say what a tool does, by the names that the CLIs and common MCP servers give them.
const SUBJECTS: &[&str] = &[
    "command",
    "cmd",
    "file_path",
    "filePath",
    "notebook_path",
    "path",
    "paths",
    "url",
    "uri",
    "skill",
];

/// The texts that say what a tool would do with `input`: its known fields, or without one every text. An argument
/// vector is one text, as it would be typed.
pub(super) fn subject(input: &Value) -> Vec<String> {
    let mut fields = SUBJECTS.iter().filter_map(|name| Some((*name, input.get(*name)?))).peekable();
    if fields.peek().is_none() {
        return values(input);
    }
    let texts = fields.map(|(name, field)| match (name, field) {
        ("command" | "cmd", Value::Array(words)) => {
            let words = words.iter().map(|word| word.as_str().unwrap_or_default());
            vec![words.collect::<Vec<_>>().join(" ")]
        }
        (_, field) => values(field),
    });
    texts.flatten().collect()
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
        let table = [
            (json!({ "command": "ls", "description": "lists" }), vec!["ls"]),
            (json!({ "command": ["git", "push", "-f"], "cwd": "/p" }), vec!["git push -f"]),
            (json!({ "file_path": "/p/a", "content": "x" }), vec!["/p/a"]),
            (json!({ "a": "x", "b": { "c": ["y"] } }), vec!["x", "y"]),
            (json!({ "paths": ["a", "b"] }), vec!["a", "b"]),
            (json!("text"), vec!["text"]),
            (json!(null), vec![]),
        ];
        for (input, texts) in table {
            assert_eq!(subject(&input), texts, "{input}");
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

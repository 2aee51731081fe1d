//! The page of the script language in `docs/`: what the types say of themselves, between words that stand in files.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::Script;

/// A script with a bit of everything, which the page explains.
pub const EXAMPLE: &str = include_str!("../examples/notes.json");

/// What the language is for, and how the server is used.
const INTRODUCTION: &str = include_str!("reference.md");

/// The types in the order of the page.
const TYPES: [&str; 11] = [
    "Script", "Rule", "When", "Times", "Take", "Answer", "Block", "Usage", "Pace", "Quota", "Fault",
];

/// `docs/scripted-models.md`.
pub fn page() -> String {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Script>();
    let root = schema.to_value();
    let mut page = INTRODUCTION.replace("{{example}}", EXAMPLE.trim_end());
    for name in TYPES {
        let schema = root.pointer(&format!("/$defs/{name}")).unwrap_or(&root);
        // Writing into a String cannot fail.
        let _infallible = write!(page, "\n### {name}\n\n{}\n", text(schema));
        match schema.get("properties").and_then(Value::as_object) {
            Some(fields) => page.push_str(&fields_table(fields, &required(schema))),
            None => page.push_str(&choices(schema)),
        }
    }
    page
}

/// The fields of an object, one in each row.
fn fields_table(fields: &Map<String, Value>, required: &[&str]) -> String {
    let mut table = "\n| field | type | what it says |\n| --- | --- | --- |\n".to_owned();
    for (name, field) in fields {
        let needed = if required.contains(&name.as_str()) { " Required." } else { "" };
        let _infallible =
            writeln!(table, "| `{name}` | {} | {}{needed} |", kind(field), text(field));
    }
    table
}

/// The variants of an enum, each as it is written.
fn choices(schema: &Value) -> String {
    let mut list = "\n".to_owned();
    for one in schema.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        let word = one.get("const").and_then(Value::as_str);
        if let Some(word) = word {
            let _infallible = writeln!(list, "- `\"{word}\"`: {}", text(one));
        }
        for (name, inner) in one.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let _infallible =
                writeln!(list, "- `{{\"{name}\": …}}` ({}): {}", kind(inner), text(one));
            let fields = inner.get("properties").and_then(Value::as_object);
            for (name, field) in fields.into_iter().flatten() {
                let (kind, text) = (kind(field), text(field));
                let _infallible = writeln!(list, "  - `{name}` ({kind}): {text}");
            }
        }
    }
    list
}

fn required(schema: &Value) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

/// What a schema is of, for a person.
fn kind(schema: &Value) -> String {
    let variants = ["anyOf", "allOf"].into_iter().find_map(|key| schema.get(key)?.as_array());
    let named = variants.into_iter().flatten().chain([schema]).find_map(|one| {
        one.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next())
    });
    if let Some(name) = named {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    let types = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one.as_str()],
        _ => Vec::new(),
    };
    match types.iter().find(|one| **one != "null") {
        Some(&"array") => {
            format!("list of {}", kind(schema.get("items").unwrap_or(&Value::Null)))
        }
        Some(&"integer") => "number".to_owned(),
        Some(one) => (*one).to_owned(),
        None => "any JSON".to_owned(),
    }
}

fn text(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_language_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scripted-models.md");
        if std::env::var_os("UPDATE").is_some() {
            fs_err::write(path, page()).unwrap();
        }
        let stored = fs_err::read_to_string(path).unwrap_or_default();
        assert!(
            stored.replace("\r\n", "\n") == page(),
            "docs/scripted-models.md is stale: run `UPDATE=1 cargo test -p cortex-scripted --lib reference`"
        );
    }

    #[test]
    fn the_page_tells_of_every_type() {
        let schema = schemars::schema_for!(Script).to_value();
        let defined = schema["$defs"].as_object().unwrap().keys();
        let untold: Vec<_> = defined.filter(|name| !TYPES.contains(&name.as_str())).collect();
        assert_eq!(untold, Vec::<&String>::new());
    }

    #[test]
    fn the_example_is_a_script() {
        let script: Script = serde_json::from_str(EXAMPLE).unwrap();
        assert_eq!(script.rules.len(), 4);
    }
}

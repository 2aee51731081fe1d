//! What the list of tools says about an answer: its outline.
//!
//! Clients check answers against it and models read the answers themselves, so it says no more than a check needs:
//! no words, and of what is deep inside only that it is an object. The reference tells everything. An outline admits all
//! that its schema admits, also with fields that a later Cortex adds.

use serde_json::{Map, Value};

/// Objects inside one another that are shown: the answer, and the record that it is about or the records it lists.
const DEPTH: usize = 2;

/// The outline of an answer's schema.
pub(super) fn of(schema: &Value) -> Map<String, Value> {
    let whole = schema.as_object().into_iter().flatten();
    whole.filter_map(|(key, value)| keep(key, value, DEPTH)).collect()
}

/// A part of a schema, with `depth` objects left to show.
fn part(schema: &Value, depth: usize) -> Value {
    let Some(object) = schema.as_object() else { return schema.clone() };
    let is_object = object.get("type").is_some_and(|name| name == "object");
    let deeper = match (is_object, depth.checked_sub(1)) {
        (false, _) => depth,
        (true, Some(deeper)) => deeper,
        (true, None) => return serde_json::json!({ "type": "object" }),
    };
    let kept: Map<_, _> =
        object.iter().filter_map(|(key, value)| keep(key, value, deeper)).collect();
    match kept.get("anyOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([one]) if kept.len() == 1 => one.clone(),
        _ => kept.into(),
    }
}

fn keep(key: &str, value: &Value, depth: usize) -> Option<(String, Value)> {
    let kept = match (key, value) {
        ("type" | "enum" | "const", value) => value.clone(),
        // By what an answer has, it is told from an error. All fields of a record are in nearly every one.
        ("required", value) if depth > 0 => value.clone(),
        ("properties", Value::Object(fields)) => {
            fields.iter().map(|(name, field)| (name.clone(), part(field, depth))).collect()
        }
        ("items", items) => part(items, depth),
        // Forms that differ only deep inside look alike here, so that more than one may fit.
        ("anyOf" | "oneOf", Value::Array(forms)) => {
            let mut shown = Vec::new();
            for form in forms.iter().map(|form| part(form, depth)) {
                if !shown.contains(&form) {
                    shown.push(form);
                }
            }
            return Some(("anyOf".to_owned(), shown.into()));
        }
        // Words, and what only closes an object.
        _ => return None,
    };
    Some((key.to_owned(), kept))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_deep_inside_is_an_object() {
        let words = |schema: Value| {
            let mut schema = schema;
            schema["description"] = "Words.".into();
            schema["additionalProperties"] = false.into();
            schema
        };
        let by_kind = |kind: &str| {
            words(json!({ "type": "object", "properties": { "kind": { "const": kind } } }))
        };
        let record = words(json!({
            "type": "object",
            "properties": {
                "description": { "type": "string", "description": "A field of this name." },
                "state": { "oneOf": [by_kind("a"), by_kind("b"), { "type": "null" }] },
                "cause": { "oneOf": [by_kind("a"), by_kind("b")] },
                "marks": { "type": "array", "items": { "enum": ["x", "y"], "type": "string" } },
            },
            "required": ["state"],
        }));
        let answer = words(json!({
            "type": "object",
            "properties": { "records": { "type": "array", "items": record } },
            "required": ["records"],
        }));
        let shown = json!({
            "type": "object",
            "properties": {
                "description": { "type": "string" },
                "state": { "anyOf": [{ "type": "object" }, { "type": "null" }] },
                "cause": { "type": "object" },
                "marks": { "type": "array", "items": { "enum": ["x", "y"], "type": "string" } },
            },
        });
        let expected = json!({
            "type": "object",
            "anyOf": [{
                "type": "object",
                "properties": { "records": { "type": "array", "items": shown } },
                "required": ["records"],
            }],
        });
        let whole = json!({ "type": "object", "anyOf": [answer] });
        assert_eq!(Value::from(of(&whole)), expected);
    }
}

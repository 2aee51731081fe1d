//! Values that a published schema admits.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any value that `schema` admits, as far as it uses what our schemas use. Texts and lists stay short.
pub fn admitted(schema: &Value) -> BoxedStrategy<Value> {
    for key in ["oneOf", "anyOf"] {
        if let Some(forms) = schema.get(key).and_then(Value::as_array) {
            return proptest::strategy::Union::new(forms.iter().map(admitted)).boxed();
        }
    }
    if let Some(value) = schema.get("const") {
        return Just(value.clone()).boxed();
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return proptest::sample::select(choices.clone()).boxed();
    }
    match schema.get("type") {
        Some(Value::String(name)) => of_type(name, schema),
        _ => prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!({ "a": [] }))].boxed(),
    }
}

fn of_type(name: &str, schema: &Value) -> BoxedStrategy<Value> {
    let int = |key: &str| schema.get(key).and_then(Value::as_i64);
    let size =
        |key: &str| schema.get(key).and_then(Value::as_u64).map(|n| usize::try_from(n).unwrap());
    match name {
        "null" => Just(Value::Null).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" => {
            let (low, high) = (int("minimum").unwrap(), int("maximum").unwrap());
            let edges = prop_oneof![Just(low), Just(high), low..=high];
            // 3.0 is an integer to JSON Schema.
            (edges, any::<bool>())
                .prop_map(|(n, float)| match i32::try_from(n) {
                    Ok(small) if float => json!(f64::from(small)),
                    _ => json!(n),
                })
                .boxed()
        }
        "number" => {
            let low = schema.get("minimum").and_then(Value::as_f64).unwrap_or(-1e9);
            let high = schema.get("maximum").and_then(Value::as_f64).unwrap_or(1e9);
            (low..=high).prop_map(Value::from).boxed()
        }
        "string" => {
            let low = size("minLength").unwrap_or(0);
            let high = size("maxLength").unwrap_or(usize::MAX).min(low + 12);
            let any_text = format!("[ -~]{{{low},{high}}}");
            let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or(&any_text);
            let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
            proptest::string::string_regex(pattern).unwrap().prop_map(Value::from).boxed()
        }
        "array" => {
            let low = size("minItems").unwrap_or(0);
            let high = size("maxItems").unwrap_or(usize::MAX).min(low + 3);
            vec(admitted(schema.get("items").unwrap_or(&Value::Null)), low..=high)
                .prop_map(Value::from)
                .boxed()
        }
        "object" => object(schema),
        // A type that this does not know: the law fails on it, and says where.
        other => Just(json!({ "no generator for": other })).boxed(),
    }
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        return btree_map("[a-z.]{0,4}", admitted(values), 0..3)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
            .boxed();
    }
    let required = schema.get("required").and_then(Value::as_array);
    let properties = schema.get("properties").and_then(Value::as_object);
    let fields: Vec<_> = properties
        .into_iter()
        .flatten()
        .map(|(name, field)| {
            let needed = required.is_some_and(|names| names.iter().any(|one| one == name));
            let value = admitted(field);
            let value = if needed {
                value.prop_map(Some).boxed()
            } else {
                proptest::option::of(value).boxed()
            };
            let name = name.clone();
            value.prop_map(move |value| value.map(|value| (name.clone(), value)))
        })
        .collect();
    fields
        .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect::<Map<_, _>>()))
        .boxed()
}

/// `schema` without its bounds: what it then admits is of the right types and may still be refused.
pub fn unbounded(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => {
            let kept = object.iter().filter(|(key, value)| {
                let bound = ["minLength", "maxLength", "pattern", "minItems", "maxItems"];
                !bound.contains(&key.as_str()) || value.is_object()
            });
            Value::Object(kept.map(|(key, value)| (key.clone(), unbounded(value))).collect())
        }
        Value::Array(items) => items.iter().map(unbounded).collect(),
        other => other.clone(),
    }
}

//! JSON Schemas of commands: what models and other clients read.
//!
//! Every object is closed and every reference is inlined. What the published schema admits, serde
//! accepts: integers carry the bounds of their Rust type instead of a `format`, and a value that may be left
//! out is not also `null`.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// The largest integer that every JSON library carries exactly: 2^53 - 1 (RFC 8259, section 6).
const INTEGER_MAX: i64 = 9_007_199_254_740_991;

/// The three faces of a command's arguments.
#[derive(Debug)]
pub(super) struct ArgumentsSchema {
    /// The doc comment of the struct.
    pub(super) description: String,
    /// What clients see.
    pub(super) published: Value,
    /// The same with our own extensions (`x-…`): what arguments are checked against.
    pub(super) annotated: Value,
}

/// Describes the arguments `T`.
pub(super) fn arguments<T: JsonSchema>() -> ArgumentsSchema {
    let mut annotated = generate::<T>(SchemaSettings::draft2020_12(), Side::Input);
    let description = annotated.remove("description");
    annotated.ensure_object().entry("properties").or_insert_with(|| Map::new().into());
    let mut published = annotated.clone();
    Publish.transform(&mut published);
    ArgumentsSchema {
        description: description.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
        published: published.to_value(),
        annotated: annotated.to_value(),
    }
}

/// Describes an answer: `T`, or an error. Some clients check the structured content of failures too.
pub(super) fn output<T: JsonSchema>() -> Value {
    let mut output = generate::<T>(SchemaSettings::draft2020_12().for_serialize(), Side::Output);
    Publish.transform(&mut output);
    json!({ "type": "object", "anyOf": [output, failure()] })
}

/// What a failed call answers. The error is open: it names the things it is about, each by its own key.
fn failure() -> Value {
    json!({
        "type": "object",
        "properties": { "error": {
            "type": "object",
            "description": "Why it failed: kind, code, message, remediation, correlation_id, and the ids it is about",
            "required": ["kind", "code", "message", "remediation"],
        }},
        "required": ["error"],
        "additionalProperties": false,
    })
}

fn generate<T: JsonSchema>(mut settings: SchemaSettings, side: Side) -> Schema {
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.with_transform(Tidy(side)).into_generator().into_root_schema_for::<T>()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Input,
    Output,
}

/// Says things in the one way that all clients understand.
#[derive(Clone, Debug)]
struct Tidy(Side);

impl Transform for Tidy {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = unwrap_lines(text);
        }
        join_choices(object);
        match self.0 {
            Side::Input => {
                if object.get("x-nullable") != Some(&Value::Bool(true)) {
                    drop_null(object);
                }
                bound_integer(object);
                if object.get("default") == Some(&Value::Null) {
                    object.remove("default");
                }
            }
            Side::Output => object.retain(|key, _| !BOUNDS.contains(&key.as_str())),
        }
        object.remove("format");
        object.remove("title");
        close(object);
        split_types(object);
    }
}

/// What an answer leaves out: who reads one needs its shape, and every client carries this text in its context.
const BOUNDS: [&str; 11] = [
    "default",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "uniqueItems",
    "x-max-bytes",
    "x-meanings",
];

/// Doc comments are wrapped at a column; readers of a description are not.
fn unwrap_lines(text: &str) -> String {
    let mut out = String::new();
    let mut paragraph = true;
    for line in text.lines().map(str::trim) {
        let item = line.starts_with("- ");
        if line.is_empty() {
            paragraph = true;
            continue;
        }
        if !out.is_empty() {
            out.push_str(if paragraph {
                "\n\n"
            } else if item {
                "\n"
            } else {
                " "
            });
        }
        out.push_str(line);
        paragraph = false;
    }
    out
}

/// An enum with documented variants comes as `oneOf` of constants: `enum` says the same in less. What
/// the values mean is kept aside, for [`Publish`].
fn join_choices(object: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = object.get("oneOf") else { return };
    let mut values = Vec::new();
    let mut meanings = Vec::new();
    for branch in branches {
        let Some(branch) = branch.as_object() else { return };
        let before = values.len();
        match (branch.get("const"), branch.get("enum")) {
            (Some(value @ Value::String(_)), None) => values.push(value.clone()),
            (None, Some(Value::Array(more))) if more.iter().all(Value::is_string) => {
                values.extend(more.iter().cloned());
            }
            _ => return,
        }
        let meaning = branch.get("description").and_then(Value::as_str);
        let value = values.get(before).and_then(Value::as_str);
        if let (Some(meaning), Some(value)) = (meaning, value) {
            meanings.push(format!("`{value}`: {meaning}"));
        }
    }
    object.remove("oneOf");
    object.insert("type".into(), "string".into());
    object.insert("enum".into(), values.into());
    if !meanings.is_empty() {
        object.insert("x-meanings".into(), meanings.join(" ").into());
    }
}

/// Leaving a value out says the same as `null`, so only one of the two is offered.
fn drop_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            object.insert("type".into(), one);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    let Some(Value::Array(branches)) = object.get_mut("anyOf") else { return };
    branches.retain(|branch| branch.get("type").is_none_or(|name| name != "null"));
    if let [Value::Object(one)] = branches.as_slice() {
        let one = one.clone();
        object.remove("anyOf");
        for (key, value) in one {
            object.entry(key).or_insert(value);
        }
    }
}

/// A list of types becomes a form for each: what speaks to models often knows schemas of one type only.
fn split_types(object: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = object.get("type") else { return };
    let types = types.clone();
    let about_all = |key: &str| ["description", "default"].contains(&key) || key.starts_with("x-");
    let (all, mut whole): (Map<_, _>, Map<_, _>) =
        std::mem::take(object).into_iter().partition(|(key, _)| about_all(key));
    *object = all;
    if let Some(Value::Array(choices)) = whole.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    let form = |name: Value| {
        let mut form = if name == "null" { Map::new() } else { whole.clone() };
        form.insert("type".into(), name);
        Value::Object(form)
    };
    object.insert("anyOf".into(), types.into_iter().map(form).collect());
}

/// Turns the `format` of an integer into bounds: clients do not know Rust's formats, serde holds to them.
/// Integers of 8 and 16 bits come with theirs.
fn bound_integer(object: &mut Map<String, Value>) {
    let (low, high) = match object.get("format").and_then(Value::as_str) {
        Some("int32") => (i32::MIN.into(), i32::MAX.into()),
        Some("uint32") => (0, u32::MAX.into()),
        Some("uint" | "uint64") => (0, INTEGER_MAX),
        Some("int" | "int64") => (-INTEGER_MAX, INTEGER_MAX),
        _ => return,
    };
    if object.get("minimum").and_then(Value::as_i64).is_none_or(|given| given < low) {
        object.insert("minimum".into(), low.into());
    }
    if object.get("maximum").and_then(Value::as_i64).is_none_or(|given| given > high) {
        object.insert("maximum".into(), high.into());
    }
}

const COMPOSITES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Closes an object to properties it does not name.
fn close(object: &mut Map<String, Value>) {
    let open = !object.contains_key("additionalProperties");
    let is_object = object.contains_key("properties")
        || object.get("type").is_some_and(|name| name == "object") && open;
    if !is_object {
        return;
    }
    if !COMPOSITES.iter().any(|key| object.contains_key(*key)) {
        if open {
            object.insert("additionalProperties".into(), false.into());
        }
        return;
    }
    // The branches add properties to the same object: only the whole knows all of them.
    reopen(object);
    object.insert("unevaluatedProperties".into(), false.into());
}

/// Lets the object around this one decide about unknown properties.
fn reopen(object: &mut Map<String, Value>) {
    for key in ["additionalProperties", "unevaluatedProperties"] {
        if object.get(key) == Some(&Value::Bool(false)) {
            object.remove(key);
        }
    }
    for key in COMPOSITES {
        let branches = object.get_mut(key).and_then(Value::as_array_mut);
        branches.into_iter().flatten().filter_map(Value::as_object_mut).for_each(reopen);
    }
}

/// Leaves out our own extensions and says in the standard's words what it has words for.
#[derive(Clone, Debug)]
struct Publish;

impl Transform for Publish {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if let Some(bytes) = object.remove("x-max-bytes") {
            // No text has more characters than bytes, so this refuses nothing that the bound admits.
            describe(object, &format!("At most {bytes} bytes of UTF-8."));
            object.insert("maxLength".into(), bytes);
        }
        if let Some(Value::String(meanings)) = object.remove("x-meanings") {
            describe(object, &meanings);
        }
        object.retain(|key, _| !key.starts_with("x-"));
    }
}

/// Adds a sentence to a description.
fn describe(object: &mut Map<String, Value>, sentence: &str) {
    let description = match object.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text} {sentence}"),
        None => sentence.to_owned(),
    };
    object.insert("description".into(), description.into());
}

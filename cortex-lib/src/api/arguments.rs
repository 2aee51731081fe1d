//! Checks arguments: all problems at once, each with its path and in our own words.
//!
//! The schema is asked first, because it knows every problem; serde second, for what only types know.

use std::fmt::Write as _;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{JsonType, ValidationError, Validator};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::schema;
use crate::error::{Code, Error, Problem, Result};

/// The arguments of one command, ready to check.
#[derive(Debug)]
pub(super) struct Arguments {
    schema: Value,
    validator: Validator,
    one_of: Vec<Vec<String>>,
    some_of: Vec<Vec<String>>,
}

impl Arguments {
    /// Compiles `schema`. Fails with the reason when it is no schema.
    pub(super) fn new(schema: Value) -> Result<Self, String> {
        let validator =
            jsonschema::draft202012::options().build(&schema).map_err(|e| e.to_string())?;
        let groups = |key: &str| match schema.get(key) {
            None => Ok(Vec::new()),
            Some(groups) => serde_json::from_value(groups.clone())
                .map_err(|error| format!("`{key}` is no list of lists of names: {error}")),
        };
        Ok(Self { one_of: groups("x-one-of")?, some_of: groups("x-some-of")?, validator, schema })
    }

    /// Checks `args` and writes them in the one way that serde reads.
    pub(super) fn check(&self, args: Value) -> Result<Value> {
        let mut args = if args.is_null() { Value::Object(Map::new()) } else { args };
        let mut problems = Vec::new();
        if args.is_object() {
            settle(&mut args, &[&self.schema], "", &mut problems);
            problems.extend(self.validator.iter_errors(&args).flat_map(|error| explain(&error)));
            problems.extend(self.choices(&args));
        } else {
            let message = format!("the arguments must be an object, are {}", a_type(&args));
            problems.push(Problem::new("", message));
        }
        if problems.is_empty() { Ok(args) } else { Err(refusal(problems)) }
    }

    /// What only types know: rules between fields, texts with a grammar of their own.
    pub(super) fn parse<C: DeserializeOwned>(args: Value) -> Result<C> {
        serde_path_to_error::deserialize(args).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." { String::new() } else { path };
            refusal(vec![Problem::new(path, error.into_inner().to_string())])
        })
    }

    fn choices(&self, args: &Value) -> Vec<Problem> {
        let given = |group: &[String]| {
            group.iter().filter(|name| args.get(name.as_str()).is_some()).count()
        };
        let one = self.one_of.iter().filter_map(|group| match given(group) {
            0 => Some(Problem::new("", missing_choice(group))),
            1 => None,
            _ => Some(Problem::new("", too_many_choices(group))),
        });
        let some = self.some_of.iter().filter(|group| given(group) == 0);
        one.chain(
            some.map(|group| Problem::new("", format!("give at least one of {}", quoted(group)))),
        )
        .collect()
    }
}

/// Reads `value` as a `T` by the rules of arguments: what `T` does not name is refused, `null` is absent, and all
/// problems are told at once.
///
/// # Errors
///
/// `validation.invalid_arguments`, naming every wrong field.
pub fn read<T: JsonSchema + DeserializeOwned>(value: Value) -> Result<T> {
    let arguments = Arguments::new(schema::arguments::<T>().annotated).map_err(|reason| {
        Error::new(Code::Defect, format!("the schema of a document does not hold: {reason}"))
    })?;
    Arguments::parse(arguments.check(value)?)
}

/// The JSON schema by which [`read`] reads a `T`.
pub fn schema_of<T: JsonSchema>() -> Value {
    schema::arguments::<T>().published
}

/// The one of `choices` that is given; for `TryFrom` of a wire struct whose choice is a type in Rust.
///
/// # Errors
///
/// Says which names to choose from when none or several are given.
pub fn one_of<T, const N: usize>(choices: [(&str, Option<T>); N]) -> Result<T, String> {
    let names = choices.each_ref().map(|(name, _)| *name);
    let mut given = choices.into_iter().filter_map(|(_, value)| value);
    match (given.next(), given.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(missing_choice(&names)),
        (Some(_), Some(_)) => Err(too_many_choices(&names)),
    }
}

/// Reads a field whose `null` clears: absent is `None`, `null` is `Some(None)`.
///
/// ```text
/// #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
/// #[schemars(with = "Option<String>", extend("x-nullable" = true))]
/// #[expect(clippy::option_option, reason = "absent, null and a value are three things")]
/// pub model: Option<Option<String>>,
/// ```
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn missing_choice(names: &[impl AsRef<str>]) -> String {
    format!("give exactly one of {}; none is given", quoted(names))
}

fn too_many_choices(names: &[impl AsRef<str>]) -> String {
    format!("give exactly one of {}; several are given", quoted(names))
}

fn quoted(names: &[impl AsRef<str>]) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

fn refusal(problems: Vec<Problem>) -> Error {
    Error::invalid(Code::InvalidArguments, problems)
}

/// Brings a value into the form that serde reads, along the schemas it has to meet: drops `null` where
/// it means absent, writes 3.0 as 3 where an integer is asked for. Counts bytes on the way.
fn settle(value: &mut Value, schemas: &[&Value], path: &str, problems: &mut Vec<Problem>) {
    let mut branches = Vec::new();
    for schema in schemas {
        flatten(schema, &mut branches);
    }
    match value {
        Value::Object(fields) => settle_object(fields, &branches, path, problems),
        Value::Array(items) => {
            let schemas: Vec<_> = branches.iter().filter_map(|b| b.get("items")).collect();
            for (index, item) in items.iter_mut().enumerate() {
                settle(item, &schemas, &format!("{path}[{index}]"), problems);
            }
        }
        Value::String(text) => {
            let bound = branches.iter().filter_map(|b| b.get("x-max-bytes")?.as_u64()).min();
            if let Some(bound) = bound.filter(|bound| text.len() as u64 > *bound) {
                let message = format!("must have at most {bound} bytes, has {}", text.len());
                problems.push(Problem::new(path, message));
            }
        }
        Value::Number(number) => {
            let asks = |name: &str| branches.iter().any(|branch| has_type(branch, name));
            if let Some(integer) = number.as_f64().filter(|_| number.is_f64()).and_then(integral)
                && asks("integer")
                && !asks("number")
            {
                *number = integer.into();
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn settle_object(
    fields: &mut Map<String, Value>,
    branches: &[&Value],
    path: &str,
    problems: &mut Vec<Problem>,
) {
    fields.retain(|name, value| {
        let declared: Vec<_> =
            branches.iter().filter_map(|b| b.get("properties")?.get(name)).collect();
        let required = branches.iter().any(|branch| {
            let names = branch.get("required").and_then(Value::as_array);
            names.is_some_and(|names| names.iter().any(|required| required == name))
        });
        if value.is_null() && !declared.is_empty() {
            return required || declared.iter().any(|schema| admits_null(schema));
        }
        let mut schemas = declared;
        if schemas.is_empty() {
            schemas.extend(branches.iter().filter_map(|b| b.get("additionalProperties")));
        }
        settle(value, &schemas, &join(path, name), problems);
        true
    });
}

/// `schema` and what it is composed of.
fn flatten<'a>(schema: &'a Value, out: &mut Vec<&'a Value>) {
    out.push(schema);
    for key in ["allOf", "anyOf", "oneOf"] {
        let branches = schema.get(key).and_then(Value::as_array);
        branches.into_iter().flatten().for_each(|branch| flatten(branch, out));
    }
}

fn has_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|one| one == name),
        Some(one) => one == name,
        None => false,
    }
}

fn admits_null(schema: &Value) -> bool {
    let mut branches = Vec::new();
    flatten(schema, &mut branches);
    let says_nothing = |branch: &Value| {
        branch.as_object().is_none_or(|object| {
            !["type", "enum", "const", "allOf", "anyOf", "oneOf"]
                .iter()
                .any(|key| object.contains_key(*key))
        })
    };
    branches.iter().any(|branch| has_type(branch, "null") || says_nothing(branch))
}

/// The integer that a float is, where floats are exact.
fn integral(float: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (float.fract() == 0.0 && float.abs() < EXACT).then(|| format!("{float:.0}").parse().ok())?
}

/// One error of the validator in our words.
fn explain(error: &ValidationError<'_>) -> Vec<Problem> {
    let path = dotted(error.instance_path());
    let named = |names: &[String], message: &str| {
        names.iter().map(|name| Problem::new(join(&path, name), message)).collect()
    };
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            named(unexpected, "is not a known property")
        }
        ValidationErrorKind::Required { property: Value::String(name) } => {
            named(std::slice::from_ref(name), "is missing")
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            explain_branches(&path, context)
        }
        kind => vec![Problem::new(path, sentence(kind, error.instance()))],
    }
}

/// What is wrong with a single value.
fn sentence(kind: &ValidationErrorKind, value: &Value) -> String {
    let chars = value.as_str().map_or(0, |text| text.chars().count());
    let items = value.as_array().map_or(0, Vec::len);
    match kind {
        ValidationErrorKind::Type { kind } => {
            format!("must be {}, is {}", wanted(kind), a_type(value))
        }
        ValidationErrorKind::MinLength { limit: 1 }
        | ValidationErrorKind::MinItems { limit: 1 } => "must not be empty".to_owned(),
        ValidationErrorKind::MinLength { limit } => {
            format!("must have at least {limit} characters, has {chars}")
        }
        ValidationErrorKind::MaxLength { limit } => {
            format!("must have at most {limit} characters, has {chars}")
        }
        ValidationErrorKind::MinItems { limit } => {
            format!("must have at least {limit} items, has {items}")
        }
        ValidationErrorKind::MaxItems { limit } => {
            format!("must have at most {limit} items, has {items}")
        }
        ValidationErrorKind::Minimum { limit } => format!("must be at least {limit}, is {value}"),
        ValidationErrorKind::Maximum { limit } => format!("must be at most {limit}, is {value}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => {
            format!("must be more than {limit}, is {value}")
        }
        ValidationErrorKind::ExclusiveMaximum { limit } => {
            format!("must be less than {limit}, is {value}")
        }
        ValidationErrorKind::Enum { options } => {
            let choices: Vec<_> = options.as_array().into_iter().flatten().map(literal).collect();
            format!("must be one of {}", quoted(&choices))
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!("must be `{}`", literal(expected_value))
        }
        ValidationErrorKind::Pattern { pattern } => format!("must match `{pattern}`"),
        ValidationErrorKind::UniqueItems => "must not name anything twice".to_owned(),
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            "must have one of the allowed forms, has several".to_owned()
        }
        other => format!("breaks the rule `{}` of the schema", other.keyword()),
    }
}

/// A value with several forms: tells what is wrong with the form that was meant, or how to say which.
fn explain_branches(path: &str, branches: &[Vec<ValidationError<'static>>]) -> Vec<Problem> {
    let is_tag = |error: &ValidationError<'_>| {
        matches!(
            error.kind(),
            ValidationErrorKind::Constant { .. }
                | ValidationErrorKind::Enum { .. }
                | ValidationErrorKind::Type { .. }
        )
    };
    let meant = branches.iter().filter(|errors| !errors.iter().any(is_tag));
    if let Some(errors) = meant.min_by_key(|errors| errors.len()) {
        return errors.iter().flat_map(explain).collect();
    }
    // A tag that no form has: name the tags, once.
    let tags = branches.iter().flatten().filter_map(|error| match error.kind() {
        ValidationErrorKind::Constant { expected_value } => {
            Some((dotted(error.instance_path()), literal(expected_value)))
        }
        _ => None,
    });
    let (paths, mut values): (Vec<_>, Vec<_>) = tags.unzip();
    values.dedup();
    if let Some(first) = paths.first().filter(|first| paths.iter().all(|path| path == *first)) {
        return vec![Problem::new(first.as_str(), format!("must be one of {}", quoted(&values)))];
    }
    // One form, but of the wrong type inside: the shortest list of errors is the nearest form.
    match branches.iter().min_by_key(|errors| errors.len()) {
        Some(nearest) if !nearest.is_empty() => nearest.iter().flat_map(explain).collect(),
        _ => vec![Problem::new(path, "has none of the allowed forms")],
    }
}

fn literal(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn wanted(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => article(*one).to_owned(),
        TypeKind::Multiple(several) => several.iter().map(article).collect::<Vec<_>>().join(" or "),
    }
}

fn article(name: JsonType) -> &'static str {
    match name {
        JsonType::Array => "an array",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    }
}

fn a_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// `/tasks/0/key` as people write it: `tasks[0].key`.
fn dotted(location: &Location) -> String {
    location.iter().fold(String::new(), |mut path, segment| match segment {
        LocationSegment::Property(name) => join(&path, &name),
        LocationSegment::Index(index) => {
            // Writing into a String cannot fail.
            let _infallible = write!(path, "[{index}]");
            path
        }
    })
}

/// The path of a property. What is no plain name is quoted, and cut: the caller made it up.
fn join(path: &str, name: &str) -> String {
    const NAME_MAX: usize = 64;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(plain) || name.len() > NAME_MAX {
        let cut: String = name.chars().take(NAME_MAX).collect();
        return format!("{path}[{}]", Value::from(cut));
    }
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

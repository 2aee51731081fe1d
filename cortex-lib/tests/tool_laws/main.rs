//! Laws of the command tables. They hold for the real ones and are tried on fake ones that break them.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod broken;
mod doors;
mod fake;
mod generate;

use std::collections::BTreeSet;
use std::path::Path;

use cortex_lib::api::{Access, Caller, Catalogue, CommandDef, Effect, ToolDef, reference};
use cortex_lib::error::Code;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

/// Longest description. Some clients cut what is longer.
const DESCRIPTION_MAX: usize = 1024;

/// Every law that `catalogue` breaks.
fn breaches(catalogue: Catalogue) -> Vec<String> {
    let mut out = Vec::new();
    let mut names = BTreeSet::new();
    for command in catalogue.iter() {
        let mut say = |what: String| out.push(format!("{}: {what}", command.name));
        if !names.insert(command.name) {
            say("the name is taken".into());
        }
        let snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !command.name.chars().all(snake) || command.name.len() > 64 {
            say("the name is not short and snake_case".into());
        }
        text(command.description(), "the description", &mut say);
        errors(command, &mut say);
        access(command, &mut say);
        input(command, &mut say);
        output(command, &mut say);
    }
    for command in catalogue.operator {
        if command.access != Access::USER {
            out.push(format!("{}: an operator command is for the user only", command.name));
        }
    }
    out
}

/// Longest description of a tool: a model has all of them before it all the time.
const GUIDANCE_MAX: usize = 600;

/// What the description of a tool does not tell a model: when to use it, what it costs and what comes next.
fn guidance(tools: &[ToolDef]) -> Vec<String> {
    let mut out = Vec::new();
    for tool in tools {
        let mut say = |what: &str| out.push(format!("{}: {what}", tool.name));
        let told = tool.description();
        if told.chars().count() > GUIDANCE_MAX {
            say("the description is too long");
        }
        let Some((when, then)) = told.split_once(" Cost: ") else {
            say("nothing says what it costs");
            continue;
        };
        if when.is_empty() {
            say("nothing says when to use it");
        }
        let Some((cost, next)) = then.split_once(" Next: ") else {
            say("nothing says what comes next");
            continue;
        };
        if cost.starts_with("reads only") != (tool.effect == Effect::Reads) {
            say("what it costs is not what it does");
        }
        // Names of events have a dot.
        let named = next.split('`').skip(1).step_by(2).filter(|name| !name.contains('.'));
        for name in named.filter(|name| tools.iter().all(|tool| tool.name != *name)) {
            say(&format!("`{name}` comes next and is no tool"));
        }
    }
    out
}

fn text(text: &str, what: &str, say: &mut dyn FnMut(String)) {
    if text.trim().is_empty() {
        say(format!("{what} is empty"));
    }
    if text.chars().count() > DESCRIPTION_MAX {
        say(format!("{what} is longer than {DESCRIPTION_MAX} characters"));
    }
    if text.contains("[`") || text.contains("](") {
        say(format!("{what} has a link that only rustdoc follows"));
    }
}

fn errors(command: &CommandDef, say: &mut dyn FnMut(String)) {
    let mut seen = BTreeSet::new();
    for code in command.errors {
        if !Code::ALL.contains(code) {
            say(format!("{code} is no code"));
        }
        if !seen.insert(code) || CommandDef::COMMON_ERRORS.contains(code) {
            say(format!("{code} is declared twice"));
        }
    }
}

fn access(command: &CommandDef, say: &mut dyn FnMut(String)) {
    if !command.access.admits(&Caller::User) {
        say("the user may not use it".into());
    }
    if command.access.hook && command.effect != Effect::Reads {
        say("a hook may change something".into());
    }
}

fn input(command: &CommandDef, say: &mut dyn FnMut(String)) {
    let schema = command.input_schema();
    if schema["type"] != "object" || !schema["properties"].is_object() {
        say("the arguments are no object".into());
    }
    for key in ["oneOf", "anyOf", "allOf", "enum", "not"] {
        if schema.get(key).is_some() {
            say(format!("model APIs refuse {key} at the root of the arguments"));
        }
    }
    walk(schema, "arguments", false, say);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let admits_null = admits_null(field);
        let said = field["description"].as_str().is_some_and(|text| text.contains("`null`"));
        if admits_null && !said {
            say(format!("{name}: nothing says what `null` means"));
        }
    }
}

fn admits_null(field: &Value) -> bool {
    field["anyOf"].as_array().is_some_and(|forms| forms.contains(&json!({ "type": "null" })))
}

fn output(command: &CommandDef, say: &mut dyn FnMut(String)) {
    let schema = command.output_schema();
    let [answer, failure] = schema["anyOf"].as_array().unwrap().as_slice() else {
        return say("the result is not an answer or an error".into());
    };
    if schema["type"] != "object" || answer["type"] != "object" {
        say("the result is no object".into());
    }
    if failure["required"] != json!(["error"]) {
        say("the result does not admit an error".into());
    }
    walk(answer, "result", false, say);
}

/// What holds at every level of a schema. `inside`: an object around this one decides about unknown properties.
fn walk(schema: &Value, at: &str, inside: bool, say: &mut dyn FnMut(String)) {
    let Some(object) = schema.as_object() else { return };
    for key in object.keys() {
        if ["$ref", "$defs", "title", "format"].contains(&key.as_str()) || key.starts_with("x-") {
            say(format!("{at}: {key} is not understood by all clients"));
        }
    }
    if object.get("type").is_some_and(|name| !name.is_string()) {
        say(format!("{at}: has a list of types, which not all clients understand"));
    }
    let whole = object.get("unevaluatedProperties") == Some(&json!(false));
    // What an answer tells by kind is open, and says so.
    let may_be_open = at.starts_with("result.");
    let more = object.get("additionalProperties");
    let closed = whole || more.is_some_and(|more| *more != true || may_be_open);
    if object.get("type") == Some(&json!("object")) && !closed && !inside {
        say(format!("{at}: is open to unknown properties"));
    }
    for (name, field) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let at = format!("{at}.{name}");
        // The tag of a form says itself what it means.
        if field.get("const").is_none() {
            text(
                field["description"].as_str().unwrap_or_default(),
                &format!("{at}: the description"),
                say,
            );
        }
        walk(field, &at, false, say);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = object.get(key) {
            walk(below, &format!("{at}.{key}"), false, say);
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        for form in object.get(key).and_then(Value::as_array).into_iter().flatten() {
            walk(form, at, whole || inside, say);
        }
    }
}

/// What the published schema admits, serde accepts, and reading what a command writes changes nothing.
/// Only a choice between fields is refused afterwards: no schema that model APIs take can say it.
fn admitted_is_accepted(command: &'static CommandDef) {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let accepted = std::cell::Cell::new(0);
    let outcome = runner.run(&generate::admitted(command.input_schema()), |args| {
        match command.check(args.clone()) {
            Ok(written) => {
                accepted.set(accepted.get() + 1);
                assert_eq!(command.check(written.clone()).unwrap(), written);
                invents_no_null(command, &args, &written);
            }
            Err(error) => {
                let choice = |p: &cortex_lib::error::Problem| {
                    p.path.is_empty() && p.message.starts_with("give ")
                };
                assert!(error.problems().iter().all(choice), "{}: {args}: {error}", command.name);
            }
        }
        Ok(())
    });
    assert!(outcome.is_ok(), "{}: {}", command.name, outcome.unwrap_err());
    assert!(accepted.get() > 0, "{}: nothing was accepted", command.name);
}

/// A field that was left out must not come back as a `null` that means something.
fn invents_no_null(command: &CommandDef, args: &Value, written: &Value) {
    for (name, field) in command.input_schema()["properties"].as_object().unwrap() {
        if admits_null(field) && args.get(name).is_none() {
            assert_eq!(
                written.get(name),
                None,
                "{}.{name} is written though left out",
                command.name
            );
        }
    }
}

/// S-032, S-097.
#[test]
fn the_tables_keep_the_laws() {
    assert_eq!(breaches(Catalogue::CORTEX), [""; 0]);
    assert_eq!(breaches(fake::CATALOGUE), [""; 0]);
}

#[test]
fn each_tool_says_when_to_use_it_what_it_costs_and_what_comes_next() {
    assert_eq!(guidance(Catalogue::CORTEX.tools), [""; 0]);
    let expected = [
        "Sloppy: nothing says what it costs",
        "forked: what it costs is not what it does",
        "forked: `dance` comes next and is no tool",
    ];
    assert_eq!(guidance(broken::CATALOGUE.tools), expected);
}

#[test]
fn what_a_schema_admits_is_accepted() {
    Catalogue::CORTEX.iter().chain(fake::CATALOGUE.iter()).for_each(admitted_is_accepted);
}

#[test]
fn each_command_has_a_file_of_its_name() {
    let api = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/api"));
    let tools = Catalogue::CORTEX.tools.iter().map(|tool| ("tool", tool.name));
    let operator = Catalogue::CORTEX.operator.iter().map(|command| ("operator", command.name));
    for (folder, name) in tools.chain(operator) {
        let file = api.join(folder).join(format!("{name}.rs"));
        assert!(file.is_file(), "{} is missing", file.display());
    }
}

#[test]
fn each_broken_law_is_found() {
    let breaches = breaches(broken::CATALOGUE);
    for breach in [
        "Sloppy: the name is taken",
        "Sloppy: the name is not short and snake_case",
        "Sloppy: the description is empty",
        "Sloppy: core.defect is declared twice",
        "Sloppy: task.not_found is declared twice",
        "Sloppy: a hook may change something",
        "Sloppy: arguments: is open to unknown properties",
        "Sloppy: arguments.undescribed: the description is empty",
        "Sloppy: arguments.linked: the description has a link that only rustdoc follows",
        "Sloppy: the result is no object",
        "Sloppy: an operator command is for the user only",
        "forked: the arguments are no object",
        "forked: model APIs refuse anyOf at the root of the arguments",
        "forgetful: model: nothing says what `null` means",
        "forgetful: an operator command is for the user only",
    ] {
        assert!(breaches.iter().any(|found| found == breach), "{breach}: {breaches:#?}");
    }
}

#[test]
#[should_panic(expected = "liberal")]
fn a_schema_that_admits_more_than_serde_is_found() {
    admitted_is_accepted(&broken::LIBERAL);
}

#[test]
#[should_panic(expected = "forgetful.model is written though left out")]
fn a_null_that_nobody_wrote_is_found() {
    admitted_is_accepted(&broken::FORGETFUL);
}

#[test]
fn the_reference_tells_everything_about_a_command() {
    insta::assert_snapshot!("reference", reference::tools(&fake::TOOLS));
}

#[test]
fn the_published_schemas_stay_as_they_are() {
    let schemas: Vec<_> = fake::CATALOGUE
        .iter()
        .map(|command| json!([command.name, command.input_schema(), command.output_schema()]))
        .collect();
    insta::assert_snapshot!("schemas", serde_json::to_string_pretty(&schemas).unwrap());
}

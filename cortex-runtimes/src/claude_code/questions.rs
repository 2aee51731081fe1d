//! What waits for an answer: a tool that asks for leave, or questions to the person, each answered in its own form.
//!
//! The agent asks by its tool `AskUserQuestion`, an MCP server by an elicitation: fields to fill in, or a page to open.
//! Leaving the plan mode (`ExitPlanMode`) is no question but asks for leave like any tool: it is allowed, or denied with
//! what is wrong about the plan.

use std::collections::BTreeMap;

use cortex_lib::port::{Choice, Question, ToolAnswer};
use serde_json::{Map, Number, Value, json};

use super::wire::{self, Elicitation};

/// The tool by which an agent asks its user.
const ASK_USER: &str = "AskUserQuestion";
/// What an elicitation is called among tools.
pub(super) const ELICITATION: &str = "Elicitation";
/// What the agent reads when nobody answered its questions.
const NOBODY: &str = "Nobody answered. Go on without, or say what you need to know.";
const YES: &str = "yes";
const NO: &str = "no";
const DONE: &str = "done";

/// A request of the CLI that waits for its answer.
#[derive(Debug)]
pub(super) enum Waiting {
    /// May this tool run with this input?
    Tool(Value),
    /// Questions of the agent. They are answered by their text.
    AskUser { input: Value, questions: Vec<Question> },
    /// Fields that an MCP server wants to have filled in. Without any it asks for leave.
    Fields(Vec<Field>),
    /// A page that an MCP server wants to have opened.
    Page(Question),
}

/// A field of a form.
#[derive(Debug)]
pub(super) struct Field {
    question: Question,
    kind: Kind,
    /// What a choice stands for, by its label.
    values: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Number,
    Truth,
    List,
}

impl Waiting {
    /// What a tool that asks waits for.
    pub(super) fn tool(name: &str, input: Value) -> Self {
        match asked(name, &input) {
            Some(questions) => Self::AskUser { input, questions },
            None => Self::Tool(input),
        }
    }

    /// What an MCP server waits for.
    pub(super) fn elicitation(asked: &Elicitation) -> Self {
        if let Some(url) = &asked.url {
            let choices = vec![Choice { label: DONE.to_owned(), description: None }];
            let text = format!("{}\n{url}", asked.message);
            let id = DONE.to_owned();
            return Self::Page(Question { id, text, choices, multiple: false, free_text: false });
        }
        Self::Fields(fields(asked))
    }

    /// What a person is asked. Nothing when the agent asks for leave.
    pub(super) fn questions(&self) -> Vec<Question> {
        match self {
            Self::Tool(_) => Vec::new(),
            Self::AskUser { questions, .. } => questions.clone(),
            Self::Fields(fields) => fields.iter().map(|field| field.question.clone()).collect(),
            Self::Page(question) => vec![question.clone()],
        }
    }

    /// `answer` as the CLI wants it.
    pub(super) fn answered(&self, answer: &ToolAnswer) -> Value {
        match (self, answer) {
            // The CLI wants the arguments back.
            (Self::Tool(input), ToolAnswer::Allow) => allow(input),
            (Self::AskUser { input, questions }, ToolAnswer::Answers(answers)) => {
                let mut input = input.clone();
                if let Some(fields) = input.as_object_mut() {
                    fields.insert("answers".to_owned(), by_text(questions, answers));
                }
                allow(&input)
            }
            (Self::Tool(_) | Self::AskUser { .. }, ToolAnswer::Deny { reason }) => deny(reason),
            (Self::Tool(_), ToolAnswer::Answers(_)) | (Self::AskUser { .. }, ToolAnswer::Allow) => {
                deny(NOBODY)
            }
            (Self::Fields(fields), ToolAnswer::Answers(answers)) => {
                json!({"action": "accept", "content": filled_in(fields, answers)})
            }
            (Self::Fields(fields), ToolAnswer::Allow) if fields.is_empty() => {
                json!({"action": "accept", "content": {}})
            }
            (Self::Page(_), ToolAnswer::Answers(_)) => json!({"action": "accept"}),
            (Self::Fields(_) | Self::Page(_), ToolAnswer::Deny { .. }) => {
                json!({"action": "decline"})
            }
            (Self::Fields(_) | Self::Page(_), ToolAnswer::Allow) => json!({"action": "cancel"}),
        }
    }

    /// The line that turns it down at once, because its turn is being ended.
    pub(super) fn refused(&self, request_id: &str) -> String {
        match self {
            Self::Tool(_) | Self::AskUser { .. } => {
                wire::deny(request_id, "The turn is being ended.")
            }
            Self::Fields(_) | Self::Page(_) => {
                wire::answer(request_id, &json!({"action": "cancel"}))
            }
        }
    }
}

fn allow(input: &Value) -> Value {
    json!({"behavior": "allow", "updatedInput": input})
}

fn deny(message: &str) -> Value {
    json!({"behavior": "deny", "message": message, "interrupt": false})
}

/// The questions in the input of the tool that asks. `None`: it is another tool, or its input has another shape.
fn asked(tool: &str, input: &Value) -> Option<Vec<Question>> {
    if tool != ASK_USER {
        return None;
    }
    let all = input.get("questions")?.as_array().filter(|all| !all.is_empty())?;
    let questions = all.iter().zip(1..).map(|(question, number)| {
        let options = question.get("options").and_then(Value::as_array);
        Some(Question {
            id: number.to_string(),
            text: text(question, "question")?,
            choices: options.into_iter().flatten().filter_map(option).collect(),
            multiple: question.get("multiSelect").and_then(Value::as_bool).unwrap_or(false),
            // The CLI offers "other" with every question.
            free_text: true,
        })
    });
    questions.collect()
}

fn option(option: &Value) -> Option<Choice> {
    Some(Choice { label: text(option, "label")?, description: text(option, "description") })
}

fn text(of: &Value, name: &str) -> Option<String> {
    of.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// The answers by the text of their question, several in one with commas, as the CLI itself gives them.
fn by_text(questions: &[Question], answers: &BTreeMap<String, Vec<String>>) -> Value {
    let all = questions.iter().filter_map(|question| {
        let given = answers.get(&question.id).filter(|given| !given.is_empty())?;
        Some((question.text.clone(), Value::from(given.join(", "))))
    });
    Value::Object(all.collect())
}

/// The fields of a form, in the order in which the server named them.
fn fields(asked: &Elicitation) -> Vec<Field> {
    let Some(properties) = asked.requested_schema.get("properties").and_then(Value::as_object)
    else {
        return Vec::new();
    };
    let ordered = asked.property_order.clone().unwrap_or_default();
    let rest = properties.keys().filter(|name| !ordered.contains(*name));
    let names = ordered.iter().chain(rest);
    names
        .filter_map(|name| Some((name, properties.get(name)?)))
        .enumerate()
        .map(|(at, (name, schema))| field(name, schema, (at == 0).then_some(&asked.message)))
        .collect()
}

/// One field. What the server says is told with the first.
fn field(name: &str, schema: &Value, message: Option<&String>) -> Field {
    let kind = match schema.get("type").and_then(Value::as_str) {
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Truth,
        Some("array") => Kind::List,
        _ => Kind::Text,
    };
    let offered = match kind {
        Kind::List => choices(schema.get("items").unwrap_or(&Value::Null)),
        Kind::Truth => [YES, NO].map(|word| (word.to_owned(), Value::from(word == YES))).into(),
        Kind::Text | Kind::Integer | Kind::Number => choices(schema),
    };
    let title = text(schema, "title").unwrap_or_else(|| name.to_owned());
    let label = match text(schema, "description") {
        Some(description) => format!("{title}: {description}"),
        None => title,
    };
    let told = message.map(|message| format!("{message}\n{label}"));
    let choice = |(label, _): &(String, Value)| Choice { label: label.clone(), description: None };
    let question = Question {
        id: name.to_owned(),
        text: told.unwrap_or(label),
        choices: offered.iter().map(choice).collect(),
        multiple: kind == Kind::List,
        free_text: offered.is_empty(),
    };
    Field { question, kind, values: offered.into_iter().collect() }
}

/// What a field may be, with the words for it.
fn choices(schema: &Value) -> Vec<(String, Value)> {
    let list = |name: &str| schema.get(name).and_then(Value::as_array);
    if let Some(titled) = list("oneOf").or_else(|| list("anyOf")) {
        let of = |one: &Value| {
            let value = one.get("const")?.clone();
            Some((text(one, "title").or_else(|| value.as_str().map(str::to_owned))?, value))
        };
        return titled.iter().filter_map(of).collect();
    }
    let values = list("enum").into_iter().flatten();
    let names = list("enumNames").map(Vec::as_slice).unwrap_or_default();
    values
        .enumerate()
        .filter_map(|(at, value)| {
            let name = names.get(at).and_then(Value::as_str).or_else(|| value.as_str())?;
            Some((name.to_owned(), value.clone()))
        })
        .collect()
}

/// The form with its answers. A field without one stays away.
fn filled_in(fields: &[Field], answers: &BTreeMap<String, Vec<String>>) -> Value {
    let mut content = Map::new();
    for field in fields {
        let given = answers.get(&field.question.id).map(Vec::as_slice).unwrap_or_default();
        let Some(first) = given.first() else { continue };
        let value = match field.kind {
            Kind::List => given.iter().map(|given| field.value(given)).collect(),
            Kind::Text | Kind::Integer | Kind::Number | Kind::Truth => field.value(first),
        };
        content.insert(field.question.id.clone(), value);
    }
    Value::Object(content)
}

impl Field {
    /// One answer as a value of the field. What fits no number goes as it is: the server says what is wrong about it.
    fn value(&self, given: &str) -> Value {
        if let Some(value) = self.values.get(given) {
            return value.clone();
        }
        let number = match self.kind {
            Kind::Integer => given.trim().parse::<i64>().ok().map(Number::from),
            Kind::Number => given.trim().parse::<f64>().ok().and_then(Number::from_f64),
            Kind::Text | Kind::Truth | Kind::List => None,
        };
        number.map_or_else(|| Value::from(given), Value::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(all: &[(&str, &[&str])]) -> ToolAnswer {
        let all = all.iter().map(|(id, given)| {
            ((*id).to_owned(), given.iter().map(|given| (*given).to_owned()).collect())
        });
        ToolAnswer::Answers(all.collect())
    }

    #[test]
    fn questions_that_nobody_answered_are_denied() {
        let input = json!({"questions": [{"question": "Which?", "options": [{"label": "A"}]}]});
        let waiting = Waiting::tool("AskUserQuestion", input);
        assert_eq!(waiting.questions().len(), 1);
        for answer in
            [ToolAnswer::Allow, ToolAnswer::Deny { reason: "Nobody answered. Go on.".to_owned() }]
        {
            let said = waiting.answered(&answer);
            assert_eq!(said["behavior"], "deny");
            assert!(said["message"].as_str().unwrap().starts_with("Nobody answered."));
        }
    }

    #[test]
    fn a_question_of_an_odd_shape_asks_for_leave_like_a_tool() {
        for input in [json!({}), json!({"questions": []}), json!({"questions": [{"x": 1}]})] {
            let waiting = Waiting::tool("AskUserQuestion", input.clone());
            assert!(waiting.questions().is_empty());
            let said = waiting.answered(&ToolAnswer::Allow);
            assert_eq!(said, json!({"behavior": "allow", "updatedInput": input}));
        }
    }

    #[test]
    fn a_form_is_filled_in_by_the_kinds_of_its_fields() {
        let schema = json!({"properties": {
            "a": {"type": "string", "oneOf": [{"const": "x", "title": "The X"}]},
            "b": {"type": "array", "items": {"enum": ["p", "q"]}},
            "c": {"type": "number"},
            "d": {"type": "string", "enum": [1, "z"], "enumNames": ["one"]},
            "e": {"type": "integer"},
            "f": {"type": "boolean"},
            "g": {"type": "string"},
        }});
        let asked = Elicitation {
            message: "Fill in.".to_owned(),
            requested_schema: schema,
            property_order: Some(vec!["g".to_owned(), "nobody".to_owned()]),
            ..Elicitation::default()
        };
        let waiting = Waiting::elicitation(&asked);
        let questions = waiting.questions();
        assert_eq!(questions[0].text, "Fill in.\ng");
        let free: Vec<_> =
            questions.iter().filter(|one| one.free_text).map(|one| &one.id).collect();
        assert_eq!(free, ["g", "c", "e"]);
        let said = waiting.answered(&answers(&[
            ("a", &["The X"]),
            ("b", &["q", "p"]),
            ("c", &["1.5"]),
            ("d", &["one"]),
            ("e", &["many"]),
            ("f", &["no"]),
            ("g", &[]),
        ]));
        let content = json!({"a": "x", "b": ["q", "p"], "c": 1.5, "d": 1, "e": "many", "f": false});
        assert_eq!(said, json!({"action": "accept", "content": content}));
    }

    #[test]
    fn a_form_without_fields_is_a_yes_or_a_no() {
        for schema in [json!({"type": "object", "properties": {}}), Value::Null] {
            let asked = Elicitation { requested_schema: schema, ..Elicitation::default() };
            let waiting = Waiting::elicitation(&asked);
            assert!(waiting.questions().is_empty());
            let yes = json!({"action": "accept", "content": {}});
            assert_eq!(waiting.answered(&ToolAnswer::Allow), yes);
            let no = ToolAnswer::Deny { reason: "no".to_owned() };
            assert_eq!(waiting.answered(&no), json!({"action": "decline"}));
        }
    }

    #[test]
    fn a_page_is_opened_or_not() {
        let url = Some("https://example.com/x".to_owned());
        let waiting = Waiting::elicitation(&Elicitation { url, ..Elicitation::default() });
        assert!(waiting.questions()[0].text.contains("https://example.com/x"));
        assert_eq!(waiting.answered(&answers(&[("done", &["done"])])), json!({"action": "accept"}));
        let no = ToolAnswer::Deny { reason: "no".to_owned() };
        assert_eq!(waiting.answered(&no), json!({"action": "decline"}));
    }
}

//! What the CLI asks, and how it is answered: each sort of request has a form of its own. Pure.

use std::collections::BTreeMap;

use cortex_lib::ids::TurnId;
use cortex_lib::port::{Choice, Question, ToolAnswer, ToolRequest};
use serde_json::{Map, Value, json};

use super::summary::{
    ELICITATION, PATCH, PERMISSIONS, QUESTION, SHELL, command, mcp_tool, one_line, paths, summary,
};
use super::wire::{reply, text};

/// The field that says so where an allowance lets something out of the sandbox.
const LEAVES_SANDBOX: &str = "leavesSandbox";
/// Longest reason that is shown beside a command.
const REASON_CHARS_MAX: usize = 120;

/// A request of the CLI that waits for an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    id: Value,
    form: Form,
}

/// The form of the answer.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// A command, or a change of files.
    Decision,
    /// More rights: these are asked for.
    Permissions(Value),
    /// Something that an MCP server wants, a call of its tool among it.
    Elicitation,
    /// Questions to the user.
    Questions,
}

/// What is known besides the request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known<'a> {
    /// What the item does that it is about, when that is a change of files.
    pub(super) changes: Option<&'a Value>,
    /// The MCP server with the tools of Cortex, when the session has them.
    pub(super) own: Option<&'a str>,
}

/// Reads a request of the CLI. `None`: it asks for something that is not known, or that nobody here can give.
pub(super) fn read(
    id: &Value,
    method: &str,
    params: &Value,
    known: Known<'_>,
    turn_id: Option<TurnId>,
) -> Option<(Asked, ToolRequest)> {
    let (form, about) = match method {
        "item/commandExecution/requestApproval" => (Form::Decision, shell(params)),
        "item/fileChange/requestApproval" => (Form::Decision, patch(params, known.changes)),
        "item/permissions/requestApproval" => {
            let wanted = params.get("permissions").cloned().unwrap_or_default();
            let about = About::new(PERMISSIONS, &wanted.to_string());
            (Form::Permissions(wanted), about)
        }
        "item/tool/requestUserInput" => (Form::Questions, questions(params)),
        "mcpServer/elicitation/request" => (Form::Elicitation, elicitation(params, known.own)?),
        _ => return None,
    };
    let request = ToolRequest {
        request_id: name(id),
        turn_id,
        tool: about.tool,
        summary: about.summary,
        input: about.input.unwrap_or_else(|| input(params)),
        questions: about.questions,
        of_cortex: about.of_cortex,
    };
    Some((Asked { id: id.clone(), form }, request))
}

/// The name of a request, as a text.
pub(super) fn name(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

impl Asked {
    /// The line that answers it.
    pub(super) fn answer(&self, answer: &ToolAnswer) -> String {
        let allowed = matches!(answer, ToolAnswer::Allow);
        let result = match &self.form {
            // `cancel` would end the turn as well, and the other decisions would write a rule of the CLI's own.
            Form::Decision => json!({"decision": if allowed { "accept" } else { "decline" }}),
            Form::Permissions(wanted) => {
                let granted = if allowed { wanted.clone() } else { json!({}) };
                json!({"permissions": granted, "scope": "turn"})
            }
            Form::Elicitation => {
                json!({"action": if allowed { "accept" } else { "decline" }, "content": {}})
            }
            Form::Questions => match answer {
                ToolAnswer::Answers(given) => json!({"answers": answers(given)}),
                ToolAnswer::Allow | ToolAnswer::Deny { .. } => json!({"answers": {}}),
            },
        };
        reply(&self.id, &result)
    }
}

fn answers(given: &BTreeMap<String, Vec<String>>) -> Map<String, Value> {
    let one = |(id, answers): (&String, &Vec<String>)| (id.clone(), json!({"answers": answers}));
    given.iter().map(one).collect()
}

/// What a request is about, for a person.
#[derive(Default)]
struct About {
    tool: String,
    summary: String,
    /// Its arguments, when they are not just those of the request.
    input: Option<Value>,
    questions: Vec<Question>,
    of_cortex: Option<String>,
}

impl About {
    fn new(tool: &str, what: &str) -> Self {
        Self { tool: tool.to_owned(), summary: summary(tool, what), ..Self::default() }
    }
}

fn shell(params: &Value) -> About {
    if let Some(context) = params.get("networkApprovalContext").filter(|it| it.is_object()) {
        let host = text(context, "/host").unwrap_or_else(|| context.to_string());
        return About::new(SHELL, &format!("(reach {host})"));
    }
    let command = command(&text(params, "/command").unwrap_or_default());
    // Rules are written for what runs, not for the shell that the CLI wraps around it.
    let mut fields = input(params);
    if let Some(shown) = fields.get_mut("command") {
        *shown = Value::String(command.clone());
    }
    mark(&mut fields, params);
    let what = match text(params, "/reason").filter(|reason| !reason.trim().is_empty()) {
        Some(reason) => {
            format!("{command} (may leave the sandbox: {})", one_line(&reason, REASON_CHARS_MAX))
        }
        None => command,
    };
    About { input: Some(fields), ..About::new(SHELL, &what) }
}

/// What is to leave the sandbox comes with the agent's reason, also an empty one, and rules go by the mark. Without a reason
/// nothing tells it from what stays inside (0.171).
fn mark(fields: &mut Value, params: &Value) {
    if params.get("reason").is_some_and(|reason| !reason.is_null())
        && let Some(fields) = fields.as_object_mut()
    {
        fields.insert(LEAVES_SANDBOX.to_owned(), Value::Bool(true));
    }
}

/// The request names only its item, which was told before.
fn patch(params: &Value, changes: Option<&Value>) -> About {
    let mut fields = input(params);
    if let (Some(fields), Some(changes)) = (fields.as_object_mut(), changes) {
        fields.insert("changes".to_owned(), changes.clone());
    }
    mark(&mut fields, params);
    let what = match text(params, "/grantRoot") {
        Some(root) => format!("{} (and all below {root})", paths(changes)),
        None => paths(changes),
    };
    About { input: Some(fields), ..About::new(PATCH, &what) }
}

fn questions(params: &Value) -> About {
    let all = params.get("questions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let questions: Vec<Question> = all.iter().map(question).collect();
    let what = questions.first().map(|first| first.text.clone()).unwrap_or_default();
    About { questions, ..About::new(QUESTION, &what) }
}

fn question(asked: &Value) -> Question {
    let options = asked.get("options").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let choice = |option: &Value| {
        let label = text(option, "/label")?;
        Some(Choice {
            label,
            description: text(option, "/description").filter(|it| !it.is_empty()),
        })
    };
    let choices: Vec<Choice> = options.iter().filter_map(choice).collect();
    let other = asked.get("isOther").and_then(Value::as_bool).unwrap_or_default();
    Question {
        id: text(asked, "/id").unwrap_or_default(),
        text: text(asked, "/question").unwrap_or_default(),
        free_text: other || choices.is_empty(),
        choices,
        multiple: false,
    }
}

/// A call of an MCP server's tool, or something else that a server wants. `None`: more than a yes or no is wanted.
fn elicitation(params: &Value, own: Option<&str>) -> Option<About> {
    let server = text(params, "/serverName").unwrap_or_default();
    let message = text(params, "/message").unwrap_or_default();
    if let Some(tool) = text(params, "/_meta/tool_name") {
        let given = params.pointer("/_meta/tool_params").cloned().unwrap_or_default();
        let shown = if given.is_null() { String::new() } else { given.to_string() };
        let of_cortex = (own == Some(server.as_str())).then(|| tool.clone());
        let about = About::new(&mcp_tool(&server, &tool), &shown);
        return Some(About { input: Some(given), of_cortex, ..about });
    }
    let wanted = params.pointer("/requestedSchema/properties").and_then(Value::as_object);
    let is_plain =
        text(params, "/mode").as_deref() == Some("form") && wanted.is_none_or(Map::is_empty);
    is_plain.then(|| About::new(ELICITATION, &format!("{server}: {message}")))
}

/// What of a request is worth reading for a person or a rule.
fn input(params: &Value) -> Value {
    const HIDDEN: [&str; 7] = [
        "threadId",
        "turnId",
        "itemId",
        "startedAtMs",
        "availableDecisions",
        "proposedExecpolicyAmendment",
        "environmentId",
    ];
    let fields = params.as_object().cloned().unwrap_or_default();
    let shown =
        |(name, value): &(String, Value)| !HIDDEN.contains(&name.as_str()) && !value.is_null();
    Value::Object(fields.into_iter().filter(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, params: &Value) -> (Asked, ToolRequest) {
        read(&json!(4), method, params, Known { own: Some("cortex"), changes: None }, None).unwrap()
    }

    #[test]
    fn a_command_says_when_it_may_leave_the_sandbox() {
        let params = json!({"threadId": "t", "command": "/bin/bash -lc 'rm x'", "reason": "need it", "cwd": "/p"});
        let (asked, request) = asked("item/commandExecution/requestApproval", &params);
        assert_eq!((request.tool.as_str(), request.request_id.as_str()), ("shell", "4"));
        assert_eq!(request.summary, "shell: rm x (may leave the sandbox: need it)");
        assert_eq!(request.input.get("threadId"), None);
        assert_eq!(request.input.get("command"), Some(&json!("rm x")));
        assert_eq!(request.input.get("leavesSandbox"), Some(&json!(true)));
        assert_eq!(
            asked.answer(&ToolAnswer::Allow),
            "{\"id\":4,\"result\":{\"decision\":\"accept\"}}\n"
        );
        let no = ToolAnswer::Deny { reason: "no".to_owned() };
        assert!(asked.answer(&no).contains("decline"));
    }

    #[test]
    fn what_may_leave_the_sandbox_is_marked_for_rules() {
        let marked = |method: &str, params: &Value| {
            asked(&format!("item/{method}/requestApproval"), params)
                .1
                .input
                .get("leavesSandbox")
                .is_some()
        };
        for reason in [json!("command failed; retry without sandbox?"), json!("")] {
            let given = json!({"command": "ls", "reason": reason});
            assert!(marked("commandExecution", &given) && marked("fileChange", &given), "{given}");
        }
        for plain in [json!({"command": "ls"}), json!({"command": "ls", "reason": null})] {
            assert!(
                !marked("commandExecution", &plain) && !marked("fileChange", &plain),
                "{plain}"
            );
        }
    }

    #[test]
    fn rights_are_granted_as_they_were_asked_for_and_for_the_turn_only() {
        let params = json!({"permissions": {"network": {"enabled": true}}, "reason": "x"});
        let (asked, request) = asked("item/permissions/requestApproval", &params);
        assert_eq!(request.tool, "request_permissions");
        let granted = asked.answer(&ToolAnswer::Allow);
        assert!(
            granted.contains(r#""network":{"enabled":true}"#) && granted.contains("turn"),
            "{granted}"
        );
        let refused = asked.answer(&ToolAnswer::Deny { reason: String::new() });
        assert!(refused.contains(r#""permissions":{}"#), "{refused}");
    }

    #[test]
    fn a_tool_of_cortex_is_known_and_one_of_another_server_is_not() {
        let call = |server: &str| {
            let params = json!({"serverName": server, "mode": "form", "message": "Allow?",
                "_meta": {"tool_name": "post_message", "tool_params": {"a": 1}}});
            asked("mcpServer/elicitation/request", &params).1
        };
        let own = call("cortex");
        assert_eq!(own.of_cortex.as_deref(), Some("post_message"));
        assert_eq!((own.tool.as_str(), own.input), ("mcp__cortex__post_message", json!({"a": 1})));
        assert_eq!(call("other").of_cortex, None);
    }

    #[test]
    fn what_wants_more_than_a_yes_is_not_taken() {
        let form = json!({"serverName": "x", "mode": "form", "message": "Who?",
            "requestedSchema": {"properties": {"name": {"type": "string"}}}});
        let url =
            json!({"serverName": "x", "mode": "url", "message": "Go there", "url": "http://x"});
        for params in [form, url] {
            assert_eq!(
                read(&json!(1), "mcpServer/elicitation/request", &params, Known::default(), None),
                None
            );
        }
        assert_eq!(
            read(
                &json!(1),
                "account/chatgptAuthTokens/refresh",
                &json!({}),
                Known::default(),
                None
            ),
            None
        );
    }

    #[test]
    fn questions_are_answered_by_their_ids() {
        let params = json!({"questions": [{"id": "q", "header": "h", "question": "Which?", "isOther": true,
            "options": [{"label": "A", "description": ""}]}]});
        let (asked, request) = asked("item/tool/requestUserInput", &params);
        let [question] = request.questions.as_slice() else { panic!("{request:?}") };
        assert_eq!((question.text.as_str(), question.free_text), ("Which?", true));
        assert_eq!(question.choices, [Choice { label: "A".to_owned(), description: None }]);
        let given = BTreeMap::from([("q".to_owned(), vec!["A".to_owned()])]);
        let answer = asked.answer(&ToolAnswer::Answers(given));
        assert!(answer.contains(r#""answers":{"q":{"answers":["A"]}}"#), "{answer}");
    }
}

//! The `OpenAI` Responses API: how a request is read, and an answer written as a stream of events or in one
//! piece.

use std::io;
use std::ops::Deref;

use serde_json::{Value, json};

use crate::api::{Api, Event};
use crate::record::{Request, Text, ToolResult};
use crate::script::{Answer, Block, Quota, Script, Usage};
use crate::server::ScriptedServer;

/// A scripted server that speaks the `OpenAI` Responses API.
///
/// It answers `POST /v1/responses` by its script and `GET` or `HEAD /` with 200; everything else is 404 and
/// recorded. A tool in a namespace is known as `namespace__tool`, here and in scripts. Dropping it stops it and breaks its
/// open connections.
#[derive(Debug)]
pub struct ScriptedResponses(ScriptedServer);

impl ScriptedResponses {
    /// Starts a server on a free port of 127.0.0.1.
    pub async fn start(script: Script) -> io::Result<Self> {
        ScriptedServer::start(Api::Responses, script).await.map(Self)
    }
}

impl Deref for ScriptedResponses {
    type Target = ScriptedServer;

    fn deref(&self) -> &ScriptedServer {
        &self.0
    }
}

/// The path that asks for an answer.
pub(crate) const PATH: &str = "/v1/responses";

/// Reads the body of a request; what is not there stays empty.
pub(crate) fn read(body: Value) -> Request {
    let whole = [json!({"role": "user", "content": body.get("input")})];
    let items = match body.get("input") {
        Some(Value::String(_)) => &whole[..],
        input => list(input),
    };
    let newest = items.iter().rposition(is_of_the_model);
    let mut request = Request {
        conversation: body.get("prompt_cache_key").and_then(Value::as_str).map(str::to_owned),
        model: word(&body, "model"),
        stream: body.get("stream").and_then(Value::as_bool).unwrap_or_default(),
        system: system(&body, items),
        tools: tools(&body).into_iter().map(|tool| tool.name).collect(),
        ..Request::default()
    };
    for (place, item) in items.iter().enumerate() {
        let is_new = newest.is_none_or(|newest| place > newest);
        if word(item, "type").ends_with("_call_output") {
            let text = texts_of(item.get("output")).join("\n");
            request.texts.push(Text { role: "tool".to_owned(), text: text.clone() });
            if is_new {
                let call = word(item, "call_id");
                // This API does not tell a result from an error; the text does.
                request.tool_results.push(ToolResult { call, text, is_error: false });
            }
            continue;
        }
        let role = word(item, "role");
        for text in texts_of(item.get("content")) {
            if is_new && role == "user" && !is_a_note(&text) {
                request.last_user.clone_from(&text);
            }
            request.texts.push(Text { role: role.clone(), text });
        }
    }
    request.body = body;
    request
}

/// The answer as the events of a stream.
pub(crate) fn events(request: &Request, answer: &Answer, number: usize) -> Vec<Event> {
    let begun = json!({"id": response_id(number), "object": "response", "status": "in_progress"});
    let mut events = vec![event("response.created", json!({"response": begun}))];
    for (index, block) in answer.blocks.iter().enumerate() {
        let done = item(request, block, number, index);
        let mut open = done.clone();
        if let Some(fields) = open.as_object_mut() {
            fields.insert("status".to_owned(), json!("in_progress"));
            for (name, empty) in
                [("content", json!([])), ("summary", json!([])), ("arguments", json!(""))]
            {
                fields.entry(name).and_modify(|value| *value = empty);
            }
        }
        let about = |fields: Value| with(json!({"output_index": index}), fields);
        events.push(event("response.output_item.added", about(json!({"item": open}))));
        let id = word(&done, "id");
        let (kind, text) = match block {
            Block::Text(text) => ("response.output_text.delta", text.as_str()),
            Block::Thinking(text) => ("response.reasoning_summary_text.delta", text.as_str()),
            Block::Tool { .. } => ("", ""),
        };
        if matches!(block, Block::Thinking(_)) {
            let part = json!({"type": "summary_text", "text": ""});
            let fields = json!({"item_id": id, "summary_index": 0, "part": part});
            events.push(event("response.reasoning_summary_part.added", about(fields)));
        }
        events.extend(pieces(text).into_iter().map(|delta| {
            let place = json!({"item_id": id, "content_index": 0, "summary_index": 0});
            event(kind, about(with(place, json!({"delta": delta}))))
        }));
        events.push(event("response.output_item.done", about(json!({"item": done}))));
    }
    let whole = message(request, answer, number);
    events.push(event("response.completed", json!({"response": whole})));
    events
}

/// The answer in one piece.
pub(crate) fn message(request: &Request, answer: &Answer, number: usize) -> Value {
    let blocks = answer.blocks.iter().enumerate();
    let output: Vec<Value> =
        blocks.map(|(index, block)| item(request, block, number, index)).collect();
    json!({
        "id": response_id(number),
        "object": "response",
        "status": answer.stop_reason.as_deref().unwrap_or("completed"),
        "model": request.model,
        "output": output,
        "usage": usage(answer.usage),
    })
}

/// An error as a body.
pub(crate) fn error(kind: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
}

/// An error in the middle of a stream.
pub(crate) fn broken(kind: &str, message: &str, number: usize) -> Event {
    let error = json!({"code": kind, "message": message});
    let response = json!({"id": response_id(number), "object": "response", "status": "failed", "error": error});
    event("response.failed", json!({"response": response}))
}

/// The body that says that the quota of an account is used up.
pub(crate) fn used_up(quota: &Quota, message: &str) -> Value {
    json!({"error": {
        "type": "usage_limit_reached",
        "message": message,
        "plan_type": "plus",
        "resets_at": quota.resets_at,
    }})
}

/// The headers that tell how much of a quota is used.
pub(crate) fn quota_headers(quota: &Quota) -> Vec<(&'static str, String)> {
    vec![
        ("x-codex-primary-used-percent", quota.used_percent.to_string()),
        ("x-codex-primary-window-minutes", quota.window_minutes.to_string()),
        ("x-codex-primary-reset-at", quota.resets_at.to_string()),
    ]
}

/// The API's name of the error that goes with an HTTP status.
pub(crate) fn kind_of(status: u16) -> &'static str {
    match status {
        401 => "invalid_api_key",
        403 => "permission_denied",
        404 => "not_found",
        429 => "rate_limit_exceeded",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

/// An answer comes in at most about so many pieces, however long it is.
const PIECES: usize = 64;
/// A piece is at least so long, about what the real API sends.
const PIECE_CHARS: usize = 16;

fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let size = (chars.len() / PIECES).max(PIECE_CHARS);
    chars.chunks(size).map(|piece| piece.iter().collect()).collect()
}

fn event(kind: &str, fields: Value) -> Event {
    Event { kind: kind.to_owned(), data: with(json!({"type": kind}), fields).to_string() }
}

fn with(mut value: Value, more: Value) -> Value {
    if let (Some(fields), Value::Object(more)) = (value.as_object_mut(), more) {
        fields.extend(more);
    }
    value
}

fn response_id(number: usize) -> String {
    format!("resp_scripted{number}")
}

/// One block as the finished item of an answer.
fn item(request: &Request, block: &Block, number: usize, index: usize) -> Value {
    let id = |kind: &str| format!("{kind}_scripted{number}_{index}");
    match block {
        Block::Text(text) => json!({
            "type": "message",
            "id": id("msg"),
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Block::Thinking(text) => json!({
            "type": "reasoning",
            "id": id("rs"),
            "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": "c2NyaXB0ZWQ=",
        }),
        Block::Tool { name, input } => {
            let call = json!({"id": id("fc"), "call_id": id("call"), "status": "completed"});
            with(call, called(&offered(request, name), input))
        }
    }
}

/// The call of a tool, in the form that its kind asks for.
fn called(tool: &Offered, input: &Value) -> Value {
    let text = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
    match tool.kind.as_str() {
        "local_shell" => json!({"type": "local_shell_call", "action": input}),
        "custom" => json!({"type": "custom_tool_call", "name": tool.plain, "input": text}),
        _ => {
            let call = json!({"type": "function_call", "name": tool.plain, "arguments": text});
            match &tool.namespace {
                Some(namespace) => with(call, json!({"namespace": namespace})),
                None => call,
            }
        }
    }
}

/// A tool that a request offers.
#[derive(Debug, Clone)]
struct Offered {
    /// Its name in scripts.
    name: String,
    namespace: Option<String>,
    plain: String,
    kind: String,
}

fn tools(body: &Value) -> Vec<Offered> {
    let named = |namespace: Option<String>, tool: &Value| {
        let kind = word(tool, "type");
        let plain = Some(word(tool, "name")).filter(|name| !name.is_empty());
        let plain = plain.unwrap_or_else(|| kind.clone());
        let name = match &namespace {
            Some(namespace) => format!("{namespace}__{plain}"),
            None => plain.clone(),
        };
        Offered { name, namespace, plain, kind }
    };
    // The newest models are told their tools in the conversation.
    let told =
        list(body.get("input")).iter().filter(|item| word(item, "type") == "additional_tools");
    let told = told.flat_map(|item| list(item.get("tools")));
    let all = list(body.get("tools")).iter().chain(told);
    all.flat_map(|tool| {
        if word(tool, "type") != "namespace" {
            return vec![named(None, tool)];
        }
        let inner = list(tool.get("tools")).iter();
        inner.map(|inner| named(Some(word(tool, "name")), inner)).collect()
    })
    .collect()
}

/// The tool of this name. One that is not offered is called all the same: a text goes to a tool of free
/// form, and the last two underscores part it from its namespace.
fn offered(request: &Request, name: &str) -> Offered {
    let known = tools(&request.body).into_iter().find(|tool| tool.name == name);
    known.unwrap_or_else(|| {
        let (namespace, plain) = match name.rsplit_once("__") {
            Some((namespace, plain)) => (Some(namespace.to_owned()), plain),
            None => (None, name),
        };
        let kind = if plain == "apply_patch" || plain == "exec" { "custom" } else { "function" };
        Offered { name: name.to_owned(), namespace, plain: plain.to_owned(), kind: kind.to_owned() }
    })
}

fn usage(usage: Usage) -> Value {
    let input =
        usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
    let output = usage.output_tokens + usage.reasoning_tokens;
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": usage.cache_read_input_tokens},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": input + output,
    })
}

/// The instructions, and what a developer says in the conversation.
fn system(body: &Value, items: &[Value]) -> String {
    let said = items.iter().filter(|item| word(item, "role") == "developer");
    let said = said.flat_map(|item| texts_of(item.get("content")));
    let own = Some(word(body, "instructions")).filter(|text| !text.is_empty());
    own.into_iter().chain(said).collect::<Vec<_>>().join("\n")
}

fn is_of_the_model(item: &Value) -> bool {
    let kind = word(item, "type");
    word(item, "role") == "assistant" || kind.ends_with("_call") || kind == "reasoning"
}

/// What a CLI puts in the user's mouth: where it works, what a repository asks for.
fn is_a_note(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('<') || text.starts_with("# AGENTS.md") || text.is_empty()
}

fn texts_of(content: Option<&Value>) -> Vec<String> {
    match content {
        Some(Value::String(text)) => vec![text.clone()],
        other => {
            let texts = list(other).iter().filter_map(|part| part.get("text")?.as_str());
            texts.map(str::to_owned).collect()
        }
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn word(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Request {
        read(json!({
            "model": "m", "stream": true, "prompt_cache_key": "c",
            "tools": [
                {"type": "function", "name": "exec_command"},
                {"type": "custom", "name": "apply_patch"},
                {"type": "namespace", "name": "mcp__x", "tools": [{"type": "function", "name": "look"}]},
                {"type": "web_search"},
            ],
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "old"}]},
                {"type": "function_call", "call_id": "t", "name": "exec_command", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "t", "output": "no way"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "new"}]},
            ],
        }))
    }

    #[test]
    fn only_what_came_since_the_model_spoke_is_new() {
        let request = asked();
        assert_eq!(request.last_user, "new");
        assert_eq!(request.conversation.as_deref(), Some("c"));
        let result =
            ToolResult { call: "t".to_owned(), text: "no way".to_owned(), is_error: false };
        assert_eq!(request.tool_results, [result]);
        assert_eq!(request.system, "be");
        assert_eq!(request.tools, ["exec_command", "apply_patch", "mcp__x__look", "web_search"]);
    }

    #[test]
    fn a_tool_is_called_in_the_form_that_it_was_offered_in() {
        let answer = Answer::tool("exec_command", json!({"cmd": "ls"}))
            .and_tool("apply_patch", json!("*** Begin Patch"))
            .and_tool("mcp__x__look", json!({}))
            .and_tool("mcp__y__other", json!({}));
        let message = message(&asked(), &answer, 1);
        let call = |at: usize| message["output"][at].clone();
        assert_eq!(call(0)["arguments"], json!(r#"{"cmd":"ls"}"#));
        assert_eq!(
            (call(1)["type"].clone(), call(1)["input"].clone()),
            (json!("custom_tool_call"), json!("*** Begin Patch"))
        );
        assert_eq!(
            (call(2)["namespace"].clone(), call(2)["name"].clone()),
            (json!("mcp__x"), json!("look"))
        );
        assert_eq!(
            (call(3)["namespace"].clone(), call(3)["name"].clone()),
            (json!("mcp__y"), json!("other"))
        );
    }
}

//! The Anthropic Messages API: how a request is read, and an answer written as a stream of events or
//! in one piece.

use std::io;
use std::ops::Deref;

use serde_json::{Value, json};

use crate::api::{Api, Event, request_id};
use crate::record::{Request, Text, ToolResult};
use crate::script::{Answer, Block, Quota, Script, Usage};
use crate::server::ScriptedServer;

/// A scripted server that speaks the Anthropic Messages API.
///
/// It answers `POST /v1/messages` by its script and `GET` or `HEAD /` with 200; everything else is
/// 404 and recorded. Dropping it stops it and breaks its open connections.
#[derive(Debug)]
pub struct ScriptedAnthropic(ScriptedServer);

impl ScriptedAnthropic {
    /// Starts a server on a free port of 127.0.0.1.
    pub async fn start(script: Script) -> io::Result<Self> {
        ScriptedServer::start(Api::Anthropic, script).await.map(Self)
    }
}

impl Deref for ScriptedAnthropic {
    type Target = ScriptedServer;

    fn deref(&self) -> &ScriptedServer {
        &self.0
    }
}

/// The path that asks for an answer.
pub(crate) const PATH: &str = "/v1/messages";

/// Reads the body of a request; what is not there stays empty.
pub(crate) fn read(body: Value) -> Request {
    let messages = list(body.get("messages"));
    let newest = messages.iter().rposition(|message| role(message) == "assistant");
    let mut request = Request {
        conversation: conversation(&body),
        model: word(&body, "model"),
        stream: body.get("stream").and_then(Value::as_bool).unwrap_or_default(),
        system: texts_of(body.get("system")).join("\n"),
        tools: list(body.get("tools")).iter().map(|tool| word(tool, "name")).collect(),
        ..Request::default()
    };
    for (place, message) in messages.iter().enumerate() {
        let is_new = newest.is_none_or(|newest| place > newest);
        for result in
            list(message.get("content")).iter().filter(|b| word(b, "type") == "tool_result")
        {
            let text = texts_of(result.get("content")).join("\n");
            request.texts.push(Text { role: "tool".to_owned(), text: text.clone() });
            if is_new {
                let is_error = result.get("is_error").and_then(Value::as_bool).unwrap_or_default();
                let call = word(result, "tool_use_id");
                request.tool_results.push(ToolResult { call, text, is_error });
            }
        }
        for text in texts_of(message.get("content")) {
            // An interrupted message and the next one come as two texts of one message: the last
            // is what the model is to answer.
            let said = without_reminders(&text);
            if is_new && role(message) == "user" && !said.is_empty() {
                request.last_user = said;
            }
            request.texts.push(Text { role: role(message).to_owned(), text });
        }
    }
    request.body = body;
    request
}

/// The answer as the events of a stream.
pub(crate) fn events(request: &Request, answer: &Answer, number: usize) -> Vec<Event> {
    let mut start = message(request, answer, number);
    if let Some(fields) = start.as_object_mut() {
        fields.insert("content".to_owned(), json!([]));
        fields.insert("stop_reason".to_owned(), Value::Null);
        fields.insert("usage".to_owned(), usage(Usage { output_tokens: 1, ..answer.usage }));
    }
    let mut events = vec![event("message_start", json!({"message": start}))];
    for (index, block) in answer.blocks.iter().enumerate() {
        let mut empty = content(block, number, index);
        let deltas = match block {
            Block::Text(text) => {
                clear(&mut empty, &["text"]);
                pieces(text, |text| json!({"type": "text_delta", "text": text}))
            }
            Block::Thinking(text) => {
                clear(&mut empty, &["thinking", "signature"]);
                let mut all = pieces(text, |t| json!({"type": "thinking_delta", "thinking": t}));
                all.push(json!({"type": "signature_delta", "signature": SIGNATURE}));
                all
            }
            Block::Tool { input, .. } => {
                if let Some(fields) = empty.as_object_mut() {
                    fields.insert("input".to_owned(), json!({}));
                }
                let part = |json: &str| json!({"type": "input_json_delta", "partial_json": json});
                pieces(&input.to_string(), part)
            }
        };
        events.push(event("content_block_start", json!({"index": index, "content_block": empty})));
        events.extend(
            deltas
                .into_iter()
                .map(|delta| event("content_block_delta", json!({"index": index, "delta": delta}))),
        );
        events.push(event("content_block_stop", json!({"index": index})));
    }
    let delta = json!({"stop_reason": stop_reason(answer), "stop_sequence": null});
    let figures = usage(answer.usage);
    events.push(event("message_delta", json!({"delta": delta, "usage": figures})));
    events.push(event("message_stop", json!({})));
    events
}

/// The answer in one piece.
pub(crate) fn message(request: &Request, answer: &Answer, number: usize) -> Value {
    let blocks = answer.blocks.iter().enumerate();
    let content: Vec<Value> = blocks.map(|(index, block)| content(block, number, index)).collect();
    json!({
        "id": format!("msg_scripted{number}"),
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": stop_reason(answer),
        "stop_sequence": null,
        "usage": usage(answer.usage),
    })
}

/// An error, as a body or as the data of an error event.
pub(crate) fn error(kind: &str, message: &str, number: usize) -> Value {
    let request_id = request_id(number);
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id})
}

/// The headers that tell how much of a quota is used.
pub(crate) fn quota_headers(quota: &Quota) -> Vec<(&'static str, String)> {
    let status = if quota.used_percent < 100 { "allowed" } else { "rejected" };
    vec![
        ("anthropic-ratelimit-unified-status", status.to_owned()),
        ("anthropic-ratelimit-unified-reset", quota.resets_at.to_string()),
        ("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned()),
    ]
}

/// The API's name of the error that goes with an HTTP status.
pub(crate) fn kind_of(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

/// Stands for the signature that the real API gives to thinking.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// An answer comes in at most about so many pieces, however long it is.
const PIECES: usize = 64;
/// A piece is at least so long, about what the real API sends.
const PIECE_CHARS: usize = 16;

pub(crate) fn pieces(text: &str, delta: impl Fn(&str) -> Value) -> Vec<Value> {
    let chars: Vec<char> = text.chars().collect();
    let size = (chars.len() / PIECES).max(PIECE_CHARS);
    chars.chunks(size).map(|piece| delta(&piece.iter().collect::<String>())).collect()
}

fn event(kind: &str, fields: Value) -> Event {
    let mut data = json!({"type": kind});
    if let (Some(data), Value::Object(fields)) = (data.as_object_mut(), fields) {
        data.extend(fields);
    }
    Event { kind: kind.to_owned(), data: data.to_string() }
}

fn content(block: &Block, number: usize, index: usize) -> Value {
    match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Thinking(text) => {
            json!({"type": "thinking", "thinking": text, "signature": SIGNATURE})
        }
        Block::Tool { name, input } => json!({
            "type": "tool_use",
            "id": format!("toolu_scripted{number}_{index}"),
            "name": name,
            "input": input,
        }),
    }
}

fn clear(block: &mut Value, names: &[&str]) {
    if let Some(fields) = block.as_object_mut() {
        for name in names {
            fields.insert((*name).to_owned(), json!(""));
        }
    }
}

fn stop_reason(answer: &Answer) -> &str {
    let calls = answer.blocks.iter().any(|block| matches!(block, Block::Tool { .. }));
    answer.stop_reason.as_deref().unwrap_or(if calls { "tool_use" } else { "end_turn" })
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    })
}

/// Claude Code names its session in `metadata.user_id`, as JSON in a string.
fn conversation(body: &Value) -> Option<String> {
    let user = body.get("metadata")?.get("user_id")?.as_str()?;
    let fields: Value = serde_json::from_str(user).ok()?;
    fields.get("session_id")?.as_str().map(str::to_owned)
}

const REMINDER: (&str, &str) = ("<system-reminder>", "</system-reminder>");

pub(crate) fn without_reminders(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(REMINDER.0) {
        kept.push_str(before);
        rest = after.split_once(REMINDER.1).map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept.trim().to_owned()
}

pub(crate) fn texts_of(content: Option<&Value>) -> Vec<String> {
    match content {
        Some(Value::String(text)) => vec![text.clone()],
        other => list(other)
            .iter()
            .filter(|block| word(block, "type") == "text")
            .map(|block| word(block, "text"))
            .collect(),
    }
}

pub(crate) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn word(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_since_the_model_spoke_is_new() {
        let request = read(json!({
            "model": "m", "system": [{"type": "text", "text": "be"}], "tools": [{"name": "Bash"}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "<system-reminder>no</system-reminder>"},
                    {"type": "text", "text": "old"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
                {"role": "system", "content": "note"},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "no way"},
                    {"type": "text", "text": "interrupted"},
                    {"type": "text", "text": "a<system-reminder>x</system-reminder>b"}]},
            ],
            "metadata": {"user_id": "{\"session_id\":\"s\"}"},
        }));
        assert_eq!(request.last_user, "ab");
        let result = ToolResult { call: "t".to_owned(), text: "no way".to_owned(), is_error: true };
        assert_eq!(request.tool_results, [result]);
        assert_eq!(request.conversation.as_deref(), Some("s"));
        assert_eq!(
            (request.system.as_str(), request.tools.as_slice()),
            ("be", &["Bash".to_owned()][..])
        );
        assert_eq!(
            request.texts.iter().map(|text| text.role.as_str()).collect::<Vec<_>>(),
            ["user", "user", "system", "tool", "user", "user"]
        );
    }

    #[test]
    fn the_pieces_of_a_stream_make_the_whole_again() {
        let text = "ä long text that takes more than one piece";
        let input = json!({"command": "echo with some more characters than fit in one"});
        let answer = Answer::thinking("hm").and_text(text).and_tool("Bash", input.clone());
        let all: Vec<Value> = events(&Request::default(), &answer, 1)
            .iter()
            .map(|event| serde_json::from_str(&event.data).unwrap())
            .collect();
        let joined = |kind: &str, field: &str| -> String {
            let deltas = all.iter().filter_map(|data| data.get("delta"));
            deltas.filter(|delta| delta["type"] == kind).map(|delta| word(delta, field)).collect()
        };
        assert_eq!(joined("thinking_delta", "thinking"), "hm");
        assert_eq!(joined("text_delta", "text"), text);
        assert_eq!(joined("input_json_delta", "partial_json"), input.to_string());
        let kinds: Vec<&Value> = all.iter().map(|data| &data["type"]).collect();
        assert_eq!(
            (kinds[0], kinds[kinds.len() - 1]),
            (&json!("message_start"), &json!("message_stop"))
        );
        assert_eq!(all[all.len() - 2]["delta"]["stop_reason"], "tool_use");
    }
}

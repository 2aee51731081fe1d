//! The chat completions API that most providers speak besides their own: how a request is read, and
//! an answer written as a stream of chunks or in one piece.

use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;

use serde_json::{Value, json};

use crate::anthropic::{list, pieces, role, texts_of, without_reminders, word};
use crate::api::{Api, Event};
use crate::record::{Request, Text, ToolResult};
use crate::script::{Answer, Block, Script, Usage};
use crate::server::ScriptedServer;

/// A scripted server that speaks the chat completions API.
///
/// It answers `POST /v1/chat/completions` by its script and `GET` or `HEAD /` with 200; everything else is 404 and
/// recorded. Dropping it stops it and breaks its open connections.
#[derive(Debug)]
pub struct ScriptedChat(ScriptedServer);

impl ScriptedChat {
    /// Starts a server on a free port of 127.0.0.1.
    pub async fn start(script: Script) -> io::Result<Self> {
        ScriptedServer::start(Api::ChatCompletions, script).await.map(Self)
    }
}

impl Deref for ScriptedChat {
    type Target = ScriptedServer;

    fn deref(&self) -> &ScriptedServer {
        &self.0
    }
}

/// The path that asks for an answer.
pub(crate) const PATH: &str = "/v1/chat/completions";

/// The header in which OpenCode names its session; the API itself knows no conversations.
const CONVERSATION: &str = "x-session-id";

/// Reads the body of a request; what is not there stays empty.
pub(crate) fn read(body: Value) -> Request {
    let messages = list(body.get("messages"));
    let newest = messages.iter().rposition(|message| role(message) == "assistant");
    let mut request = Request {
        model: word(&body, "model"),
        stream: body.get("stream").and_then(Value::as_bool).unwrap_or_default(),
        tools: list(body.get("tools"))
            .iter()
            .filter_map(|tool| Some(word(tool.get("function")?, "name")))
            .collect(),
        ..Request::default()
    };
    let mut system = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let is_new = newest.is_none_or(|newest| place > newest);
        let texts = texts_of(message.get("content"));
        match role(message) {
            "system" | "developer" => system.extend(texts),
            "tool" => {
                let text = texts.join("\n");
                request.texts.push(Text { role: "tool".to_owned(), text: text.clone() });
                if is_new {
                    // The API has no mark for an error: the text says it.
                    let call = word(message, "tool_call_id");
                    request.tool_results.push(ToolResult { call, text, is_error: false });
                }
            }
            role => {
                for text in texts {
                    let said = without_reminders(&text);
                    if is_new && role == "user" && !said.is_empty() {
                        request.last_user = said;
                    }
                    request.texts.push(Text { role: role.to_owned(), text });
                }
            }
        }
    }
    request.system = system.join("\n");
    request.body = body;
    request
}

/// The conversation that a request belongs to, as its headers name it.
pub(crate) fn conversation(headers: &BTreeMap<String, String>) -> Option<String> {
    headers.get(CONVERSATION).cloned()
}

/// The answer as the chunks of a stream.
pub(crate) fn events(request: &Request, answer: &Answer, number: usize) -> Vec<Event> {
    let chunk = |choices: Value, usage: Value| {
        json!({
            "id": id(number),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": request.model,
            "choices": choices,
            "usage": usage,
        })
    };
    let delta = |delta: Value| {
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null)
    };
    let mut chunks = vec![delta(json!({"role": "assistant", "content": ""}))];
    let mut calls = 0;
    for block in &answer.blocks {
        match block {
            Block::Text(text) => {
                chunks.extend(pieces(text, |text| delta(json!({"content": text}))));
            }
            Block::Thinking(text) => {
                chunks.extend(pieces(text, |text| delta(json!({"reasoning_content": text}))));
            }
            Block::Tool { name, input } => {
                let index = calls;
                calls += 1;
                let function = json!({"name": name, "arguments": ""});
                let call = json!({"index": index, "id": call_id(number, index), "type": "function", "function": function});
                chunks.push(delta(json!({"tool_calls": [call]})));
                chunks.extend(pieces(&input.to_string(), |part| {
                    let call = json!({"index": index, "function": {"arguments": part}});
                    delta(json!({"tool_calls": [call]}))
                }));
            }
        }
    }
    let end = json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(answer)}]);
    chunks.push(chunk(end, Value::Null));
    let wants_usage = request.body.pointer("/stream_options/include_usage");
    if wants_usage.and_then(Value::as_bool).unwrap_or_default() {
        chunks.push(chunk(json!([]), usage(answer.usage)));
    }
    let data = chunks.iter().map(ToString::to_string).chain(["[DONE]".to_owned()]);
    data.map(|data| Event { kind: String::new(), data }).collect()
}

/// The answer in one piece.
pub(crate) fn message(request: &Request, answer: &Answer, number: usize) -> Value {
    let said = |of: fn(&Block) -> Option<&String>| -> String {
        answer.blocks.iter().filter_map(of).map(String::as_str).collect()
    };
    let calls: Vec<Value> = answer
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Tool { name, input } => Some((name, input)),
            Block::Text(_) | Block::Thinking(_) => None,
        })
        .enumerate()
        .map(|(index, (name, input))| {
            let function = json!({"name": name, "arguments": input.to_string()});
            json!({"id": call_id(number, index), "type": "function", "function": function})
        })
        .collect();
    let text = said(|block| if let Block::Text(text) = block { Some(text) } else { None });
    let thought = said(|block| if let Block::Thinking(text) = block { Some(text) } else { None });
    let mut message = json!({"role": "assistant", "content": text});
    if let Some(fields) = message.as_object_mut() {
        if !thought.is_empty() {
            fields.insert("reasoning_content".to_owned(), thought.into());
        }
        if !calls.is_empty() {
            fields.insert("tool_calls".to_owned(), calls.into());
        }
    }
    json!({
        "id": id(number),
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(answer)}],
        "usage": usage(answer.usage),
    })
}

/// An error, as a body or as the data of a chunk.
pub(crate) fn error(kind: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}

/// The API's name of the error that goes with an HTTP status.
pub(crate) fn kind_of(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

fn id(number: usize) -> String {
    format!("chatcmpl-scripted{number}")
}

fn call_id(number: usize, index: usize) -> String {
    format!("call_scripted{number}_{index}")
}

/// The reason to stop in the words of this API, also where a script names it in those of another.
fn finish_reason(answer: &Answer) -> &str {
    let calls = answer.blocks.iter().any(|block| matches!(block, Block::Tool { .. }));
    match answer.stop_reason.as_deref() {
        None if calls => "tool_calls",
        Some("tool_use") => "tool_calls",
        None | Some("end_turn") => "stop",
        Some("max_tokens") => "length",
        Some(reason) => reason,
    }
}

/// The figures of this API hold each other: what was cached is part of what was read, and thinking of what was written.
fn usage(usage: Usage) -> Value {
    let read =
        usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
    let written = usage.output_tokens + usage.reasoning_tokens;
    json!({
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_since_the_model_spoke_is_new() {
        let request = read(json!({
            "model": "m", "stream": true, "tools": [{"type": "function", "function": {"name": "bash"}}],
            "messages": [
                {"role": "system", "content": "be"},
                {"role": "user", "content": "old"},
                {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]},
                {"role": "tool", "tool_call_id": "c", "content": "no way"},
                {"role": "user", "content": [{"type": "text", "text": "a<system-reminder>x</system-reminder>b"}]},
            ],
        }));
        assert_eq!((request.system.as_str(), request.last_user.as_str()), ("be", "ab"));
        let result =
            ToolResult { call: "c".to_owned(), text: "no way".to_owned(), is_error: false };
        assert_eq!(request.tool_results, [result]);
        assert_eq!(request.tools, ["bash"]);
    }

    #[test]
    fn the_chunks_of_a_stream_make_the_whole_again() {
        let text = "ä long text that takes more than one piece";
        let input = json!({"command": "echo with some more characters than fit in one"});
        let answer = Answer::thinking("hm").and_text(text).and_tool("bash", input.clone());
        let mut chunks = events(&Request::default(), &answer, 1);
        assert_eq!(chunks.pop().map(|last| last.data).as_deref(), Some("[DONE]"));
        let chunks: Vec<Value> =
            chunks.iter().map(|event| serde_json::from_str(&event.data).unwrap()).collect();
        let joined = |path: &str| -> String {
            chunks.iter().filter_map(|chunk| chunk.pointer(path)?.as_str()).collect()
        };
        assert_eq!(joined("/choices/0/delta/reasoning_content"), "hm");
        assert_eq!(joined("/choices/0/delta/content"), text);
        assert_eq!(joined("/choices/0/delta/tool_calls/0/function/arguments"), input.to_string());
        assert_eq!(joined("/choices/0/finish_reason"), "tool_calls");
        let whole = message(&Request::default(), &answer, 1);
        assert_eq!(whole.pointer("/choices/0/message/content"), Some(&text.into()));
        assert_eq!(
            whole.pointer("/choices/0/message/tool_calls/0/function/name"),
            Some(&"bash".into())
        );
    }

    #[test]
    fn a_reason_to_stop_is_said_in_the_words_of_the_api() {
        let reason = |answer: Answer| finish_reason(&answer).to_owned();
        assert_eq!(reason(Answer::text("x")), "stop");
        assert_eq!(reason(Answer::text("x").stop_reason("max_tokens")), "length");
        assert_eq!(reason(Answer::text("x").stop_reason("content_filter")), "content_filter");
    }
}

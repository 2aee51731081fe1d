//! What Claude Code says and hears on its standard streams: one JSON object per line.
//!
//! Reading is tolerant. The CLI adds types, subtypes and fields with every version; what is not known
//! here is [`FromCli::Unknown`], and a field of another shape than expected counts as absent. A line is read twice:
//! first its head, then, if anybody cares about the type, the fields that are needed. So a large tool
//! result costs no more than a look over it.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// One line of standard output.
#[derive(Debug)]
pub(super) enum FromCli {
    /// A turn begins; a snapshot of the session.
    Init(Init),
    /// Whether the CLI works.
    State(State),
    /// A request to the model failed and will be repeated.
    Retry(ApiRetry),
    /// Work in the background began, changed or ended.
    Task(BackgroundTask),
    /// All work in the background, by its names.
    Tasks(Vec<String>),
    /// The CLI took up a message of ours.
    TakenUp {
        /// The name we gave it.
        uuid: String,
    },
    /// Something else that shows life.
    Sign(Sign),
    /// One content block of the agent.
    Assistant(Assistant),
    /// What goes to the agent: tool results, notes of the CLI, echoes of our messages.
    User(User),
    /// The end of a turn.
    Result(Box<TurnResult>),
    /// A piece of the model's stream.
    Stream(StreamLine),
    /// The CLI asks something.
    Request(ControlRequest),
    /// The CLI answers something.
    Response(ControlAnswer),
    /// A request of the CLI no longer waits.
    Cancel {
        /// Which.
        request_id: String,
    },
    /// The account's rate limit changed.
    RateLimit(RateLimitInfo),
    /// A type, subtype or shape that is not known here.
    Unknown {
        /// Its type and subtype, for the log.
        what: String,
    },
    /// Not an object of the protocol at all.
    Noise,
}

/// Signs of life that differ in what they mean for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// A request goes to the model.
    Requesting,
    /// Anything else.
    Other,
}

/// `system/init`.
#[derive(Debug, Deserialize)]
pub(super) struct Init {
    #[serde(default)]
    pub(super) session_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) tools: Option<Vec<String>>,
}

/// `system/session_state_changed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// A turn runs.
    Running,
    /// A tool request waits.
    RequiresAction,
    /// Nothing runs and nothing is queued.
    Idle,
    /// A state of a newer version.
    #[serde(other)]
    Other,
}

/// `system/api_retry`.
#[derive(Debug, Deserialize)]
pub(super) struct ApiRetry {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) attempt: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) retry_delay_ms: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error_status: Option<u16>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<String>,
}

/// `system/task_started`, `task_updated` and `task_notification`.
#[derive(Debug, Deserialize)]
pub(super) struct BackgroundTask {
    #[serde(default)]
    pub(super) task_id: String,
    /// In `task_notification`: it is over.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<String>,
    /// In `task_updated`.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) patch: Option<TaskPatch>,
}

/// What changed about a background task.
#[derive(Debug, Deserialize)]
pub(super) struct TaskPatch {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<String>,
}

impl BackgroundTask {
    /// Whether it still runs after this message.
    pub(super) fn runs(&self) -> bool {
        let patched = self.patch.as_ref().and_then(|patch| patch.status.as_deref());
        let status = self.status.as_deref().or(patched);
        !matches!(status, Some("completed" | "failed" | "killed" | "stopped"))
    }
}

/// `assistant`: the CLI prints one line for each content block.
#[derive(Debug, Deserialize)]
pub(super) struct Assistant {
    pub(super) message: AssistantMessage,
    /// The sort of an API error, when the CLI wrote this text itself.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<String>,
    /// The tool call of the sub-agent that speaks.
    #[serde(default)]
    pub(super) parent_tool_use_id: Option<String>,
}

/// The message inside.
#[derive(Debug, Deserialize)]
pub(super) struct AssistantMessage {
    #[serde(default)]
    pub(super) id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) content: Vec<Block>,
}

/// A content block.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    /// What the agent says.
    Text {
        #[serde(default)]
        text: String,
    },
    /// What it thinks.
    Thinking {
        #[serde(default)]
        thinking: String,
    },
    /// A tool it uses.
    ToolUse {
        #[serde(default)]
        name: String,
        #[serde(default)]
        input: Value,
    },
    /// Anything else.
    #[serde(other)]
    Other,
}

/// `user`. What is inside is for the agent, not for us.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct User {
    #[serde(default)]
    pub(super) uuid: Option<String>,
    /// The echo of a message of ours, at the moment the CLI took it up.
    #[serde(default)]
    pub(super) is_replay: bool,
}

/// `result`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct TurnResult {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) is_error: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) api_error_status: Option<u16>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) result: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) errors: Option<Vec<String>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) subtype: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) terminal_reason: Option<String>,
    /// Of the whole process so far, not of this turn.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) total_cost_usd: Option<f64>,
    /// Of this turn.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Tokens>,
    /// Absent: a message of ours.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) origin: Option<Origin>,
}

/// The tokens of a turn.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Tokens {
    #[serde(rename = "input_tokens", default, deserialize_with = "lenient")]
    pub(super) input: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens", default, deserialize_with = "lenient")]
    pub(super) cache_creation: Option<u64>,
    #[serde(rename = "cache_read_input_tokens", default, deserialize_with = "lenient")]
    pub(super) cache_read: Option<u64>,
    #[serde(rename = "output_tokens", default, deserialize_with = "lenient")]
    pub(super) output: Option<u64>,
}

/// What made the CLI start a turn.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Origin {
    #[serde(default)]
    pub(super) kind: String,
}

/// `stream_event`.
#[derive(Debug, Deserialize)]
pub(super) struct StreamLine {
    pub(super) event: StreamEvent,
    #[serde(default)]
    pub(super) parent_tool_use_id: Option<String>,
}

/// An event of the model's stream.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StreamEvent {
    /// A message begins.
    MessageStart {
        /// Only its name is needed.
        message: StreamMessage,
    },
    /// A piece of a block.
    ContentBlockDelta {
        #[serde(default)]
        delta: Delta,
    },
    /// A block is complete.
    ContentBlockStop {},
    /// The message is about to end.
    MessageDelta {
        #[serde(default)]
        delta: MessageDelta,
    },
    /// Anything else.
    #[serde(other)]
    Other,
}

/// The message that begins.
#[derive(Debug, Deserialize)]
pub(super) struct StreamMessage {
    #[serde(default)]
    pub(super) id: String,
}

/// A piece of a block: text or thinking.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) thinking: Option<String>,
}

/// How a message ends.
#[derive(Debug, Default, Deserialize)]
pub(super) struct MessageDelta {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) stop_reason: Option<String>,
}

/// `control_request`.
#[derive(Debug, Deserialize)]
pub(super) struct ControlRequest {
    #[serde(default)]
    pub(super) request_id: String,
    pub(super) request: Asked,
}

/// What the CLI asks.
#[derive(Debug, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum Asked {
    /// May this tool run?
    CanUseTool {
        #[serde(default)]
        tool_name: String,
        #[serde(default)]
        input: Value,
    },
    /// Something that this driver does not offer.
    #[serde(other)]
    Other,
}

/// `control_response`.
#[derive(Debug, Deserialize)]
pub(super) struct ControlAnswer {
    pub(super) response: Answer,
}

/// An answer to a control request of ours.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    pub(super) subtype: String,
    #[serde(default)]
    pub(super) request_id: String,
    #[serde(default)]
    pub(super) response: Value,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<String>,
}

/// `rate_limit_event`: known from the published types of the CLI, not seen on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RateLimitInfo {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<String>,
    /// Seconds since the epoch.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) resets_at: Option<f64>,
}

/// The answer to `initialize`, as far as it is needed.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Initialized {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) account: Option<Account>,
}

/// Whose credentials the CLI has.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Account {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) token_source: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) api_key_source: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) api_provider: Option<String>,
}

impl Account {
    /// Whether it says that there are no credentials. Other providers have their own, which only a turn proves.
    pub(super) fn is_nobody(&self) -> bool {
        let none = |source: &Option<String>| source.as_deref().is_none_or(|text| text == "none");
        none(&self.token_source)
            && none(&self.api_key_source)
            && self.api_provider.as_deref() == Some("firstParty")
    }
}

/// The answer to `mcp_status`. It holds the credential in clear: it is never logged.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct McpStatus {
    #[serde(default)]
    pub(super) mcp_servers: Vec<McpServer>,
}

/// One server of it.
#[derive(Deserialize)]
pub(super) struct McpServer {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) status: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<String>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    subtype: Option<Cow<'a, str>>,
}

/// Reads a line of standard output.
pub(super) fn read(line: &str) -> FromCli {
    let Ok(head) = serde_json::from_str::<Head<'_>>(line) else {
        return match serde_json::from_str::<IgnoredAny>(line) {
            Ok(_) => FromCli::Unknown { what: "an object without a type".to_owned() },
            Err(_) => FromCli::Noise,
        };
    };
    let subtype = head.subtype.as_deref().unwrap_or_default();
    let read = match (head.kind.as_ref(), subtype) {
        ("system", "init") => parse(line).map(FromCli::Init),
        ("system", "session_state_changed") => {
            parse::<StateLine>(line).map(|line| FromCli::State(line.state))
        }
        ("system", "api_retry") => parse(line).map(FromCli::Retry),
        ("system", "task_started" | "task_updated" | "task_notification") => {
            parse(line).map(FromCli::Task)
        }
        ("system", "background_tasks_changed") => parse::<TasksLine>(line)
            .map(|line| FromCli::Tasks(line.tasks.into_iter().map(|task| task.task_id).collect())),
        ("command_lifecycle", _) => {
            parse::<LifecycleLine>(line).map(|line| match line.state.as_str() {
                "started" => FromCli::TakenUp { uuid: line.command_uuid },
                _ => FromCli::Sign(Sign::Other),
            })
        }
        ("system", "status") => parse::<StatusLine>(line).map(|line| {
            let requesting = line.status.as_deref() == Some("requesting");
            FromCli::Sign(if requesting { Sign::Requesting } else { Sign::Other })
        }),
        ("system" | "tool_progress" | "tool_use_summary" | "auth_status" | "keep_alive", _) => {
            Some(FromCli::Sign(Sign::Other))
        }
        ("assistant", _) => parse(line).map(FromCli::Assistant),
        ("user", _) => parse(line).map(FromCli::User),
        ("result", _) => Some(FromCli::Result(parse(line).unwrap_or_default())),
        ("stream_event", _) => parse(line).map(FromCli::Stream),
        ("control_request", _) => parse(line).map(FromCli::Request),
        ("control_response", _) => parse(line).map(FromCli::Response),
        ("control_cancel_request", _) => {
            parse::<CancelLine>(line).map(|line| FromCli::Cancel { request_id: line.request_id })
        }
        ("rate_limit_event", _) => {
            parse::<RateLimitLine>(line).map(|line| FromCli::RateLimit(line.rate_limit_info))
        }
        _ => None,
    };
    read.unwrap_or_else(|| FromCli::Unknown { what: format!("{}/{subtype}", head.kind) })
}

#[derive(Deserialize)]
struct StateLine {
    state: State,
}

#[derive(Deserialize)]
struct StatusLine {
    #[serde(default, deserialize_with = "lenient")]
    status: Option<String>,
}

#[derive(Deserialize)]
struct TasksLine {
    tasks: Vec<BackgroundTask>,
}

/// Where a message of ours stands: queued, started, completed. Versions before 2.1.3xx only echo it.
#[derive(Deserialize)]
struct LifecycleLine {
    command_uuid: String,
    state: String,
}

#[derive(Deserialize)]
struct CancelLine {
    request_id: String,
}

#[derive(Deserialize)]
struct RateLimitLine {
    rate_limit_info: RateLimitInfo,
}

fn parse<T: DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line).ok()
}

/// A field of another shape counts as absent: one renamed detail must not cost the whole message.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

/// A message that starts a turn. `uuid` comes back in its echo.
pub(super) fn user(text: &str, uuid: &str) -> String {
    let message = json!({"role": "user", "content": text});
    line(&json!({
        "type": "user", "message": message, "parent_tool_use_id": null, "session_id": "", "uuid": uuid,
    }))
}

/// A control request; `request` holds its `subtype`.
pub(super) fn request(request_id: &str, request: &Value) -> String {
    line(&json!({"type": "control_request", "request_id": request_id, "request": request}))
}

/// The tool may run with the arguments it asked for. The CLI refuses an answer without them.
pub(super) fn allow(request_id: &str, input: &Value) -> String {
    success(request_id, &json!({"behavior": "allow", "updatedInput": input}))
}

/// The tool may not run; the agent reads `message`. With `interrupt` the turn ends as well.
pub(super) fn deny(request_id: &str, message: &str, interrupt: bool) -> String {
    let answer = json!({"behavior": "deny", "message": message, "interrupt": interrupt});
    success(request_id, &answer)
}

/// The answer to a request that this driver does not know.
pub(super) fn unsupported(request_id: &str) -> String {
    let error = "this host does not support that request";
    let response = json!({"subtype": "error", "request_id": request_id, "error": error});
    line(&json!({"type": "control_response", "response": response}))
}

fn success(request_id: &str, answer: &Value) -> String {
    let response = json!({"subtype": "success", "request_id": request_id, "response": answer});
    line(&json!({"type": "control_response", "response": response}))
}

fn line(message: &Value) -> String {
    format!("{message}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_tolerated() {
        for (line, what) in [
            (r#"{"type":"novelty","x":1}"#, "novelty/"),
            (r#"{"type":"assistant","message":7}"#, "assistant/"),
            (r#"{"no":"type"}"#, "an object without a type"),
        ] {
            let FromCli::Unknown { what: found } = read(line) else { panic!("{line}") };
            assert_eq!(found, what);
        }
        assert!(matches!(read("Warning: hello"), FromCli::Noise));
        assert!(matches!(
            read(r#"{"type":"system","subtype":"novelty"}"#),
            FromCli::Sign(Sign::Other)
        ));
    }

    #[test]
    fn a_result_of_an_odd_shape_still_ends_the_turn() {
        let FromCli::Result(result) = read(
            r#"{"type":"result","is_error":"yes","result":5,"usage":{"input_tokens":1.5,"output_tokens":2}}"#,
        ) else {
            panic!("a result")
        };
        assert_eq!((result.is_error, result.result.as_deref()), (None, None));
        assert_eq!(result.usage.unwrap().output, Some(2));
    }

    #[test]
    fn text_with_line_ends_stays_on_one_line() {
        let line = user("one\ntwo\u{2028}three", "u1");
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.ends_with('\n'));
    }

    #[test]
    fn an_account_without_a_source_is_nobody() {
        let nobody =
            |account: Value| serde_json::from_value::<Account>(account).unwrap().is_nobody();
        assert!(nobody(json!({"tokenSource": "none", "apiProvider": "firstParty"})));
        assert!(!nobody(
            json!({"tokenSource": "none", "apiKeySource": "ANTHROPIC_API_KEY", "apiProvider": "firstParty"})
        ));
        assert!(!nobody(
            json!({"tokenSource": "CLAUDE_CODE_OAUTH_TOKEN", "apiProvider": "firstParty"})
        ));
        assert!(!nobody(json!({"apiProvider": "bedrock"})));
        assert!(!nobody(json!({})));
    }
}

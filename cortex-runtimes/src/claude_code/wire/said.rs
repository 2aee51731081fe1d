//! What the CLI says, field by field, as far as it is needed.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// `system/init`.
#[derive(Debug, Deserialize)]
pub(in crate::claude_code) struct Init {
    #[serde(default)]
    pub(in crate::claude_code) session_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) tools: Option<Vec<String>>,
    /// What the CLI asks before it does.
    #[serde(rename = "permissionMode", default, deserialize_with = "lenient")]
    pub(in crate::claude_code) permission_mode: Option<String>,
}

/// `system/session_state_changed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::claude_code) enum State {
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
pub(in crate::claude_code) struct ApiRetry {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) attempt: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) retry_delay_ms: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) error_status: Option<u16>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) error: Option<String>,
}

/// `system/task_started`, `task_updated` and `task_notification`.
#[derive(Debug, Deserialize)]
pub(in crate::claude_code) struct BackgroundTask {
    #[serde(default)]
    pub(in crate::claude_code) task_id: String,
    /// In `task_notification`: it is over.
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) status: Option<String>,
    /// In `task_updated`.
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) patch: Option<TaskPatch>,
}

/// What changed about a background task.
#[derive(Debug, Deserialize)]
pub(in crate::claude_code) struct TaskPatch {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) status: Option<String>,
}

impl BackgroundTask {
    /// Whether it still runs after this message.
    pub(in crate::claude_code) fn runs(&self) -> bool {
        let patched = self.patch.as_ref().and_then(|patch| patch.status.as_deref());
        let status = self.status.as_deref().or(patched);
        !matches!(status, Some("completed" | "failed" | "killed" | "stopped"))
    }
}

/// `assistant`: the CLI prints one line for each content block.
#[derive(Debug, Deserialize)]
pub(in crate::claude_code) struct Assistant {
    pub(in crate::claude_code) message: AssistantMessage,
    /// The sort of an API error, when the CLI wrote this text itself.
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) error: Option<String>,
    /// The tool call of the sub-agent that speaks.
    #[serde(default)]
    pub(in crate::claude_code) parent_tool_use_id: Option<String>,
}

/// The message inside.
#[derive(Debug, Deserialize)]
pub(in crate::claude_code) struct AssistantMessage {
    #[serde(default)]
    pub(in crate::claude_code) id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) model: Option<String>,
    #[serde(default)]
    pub(in crate::claude_code) content: Vec<Block>,
}

/// A content block.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in crate::claude_code) enum Block {
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
pub(in crate::claude_code) struct User {
    #[serde(default)]
    pub(in crate::claude_code) uuid: Option<String>,
    /// The echo of a message of ours, at the moment the CLI took it up.
    #[serde(default)]
    pub(in crate::claude_code) is_replay: bool,
}

/// `result`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(in crate::claude_code) struct TurnResult {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) is_error: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) api_error_status: Option<u16>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) result: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) errors: Option<Vec<String>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) subtype: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) terminal_reason: Option<String>,
    /// Of the whole conversation so far, not of this turn.
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) total_cost_usd: Option<f64>,
    /// Of this turn.
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) usage: Option<Tokens>,
    /// Absent: a message of ours.
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) origin: Option<Origin>,
}

/// The tokens of a turn.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(in crate::claude_code) struct Tokens {
    #[serde(rename = "input_tokens", default, deserialize_with = "lenient")]
    pub(in crate::claude_code) input: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens", default, deserialize_with = "lenient")]
    pub(in crate::claude_code) cache_creation: Option<u64>,
    #[serde(rename = "cache_read_input_tokens", default, deserialize_with = "lenient")]
    pub(in crate::claude_code) cache_read: Option<u64>,
    #[serde(rename = "output_tokens", default, deserialize_with = "lenient")]
    pub(in crate::claude_code) output: Option<u64>,
}

/// What made the CLI start a turn.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::claude_code) struct Origin {
    #[serde(default)]
    pub(in crate::claude_code) kind: String,
}

/// `stream_event`.
#[derive(Debug, Deserialize)]
pub(in crate::claude_code) struct StreamLine {
    pub(in crate::claude_code) event: StreamEvent,
    #[serde(default)]
    pub(in crate::claude_code) parent_tool_use_id: Option<String>,
}

/// An event of the model's stream. One flat object for all kinds: a line comes for every few words, and by its tag it would
/// be read twice.
#[derive(Debug, Deserialize)]
pub(in crate::claude_code) struct StreamEvent {
    #[serde(rename = "type")]
    pub(in crate::claude_code) kind: StreamKind,
    /// In `message_start`.
    #[serde(default)]
    pub(in crate::claude_code) message: StreamMessage,
    /// In `content_block_delta` and `message_delta`.
    #[serde(default)]
    pub(in crate::claude_code) delta: Delta,
}

/// What an event of the stream tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::claude_code) enum StreamKind {
    /// A message begins.
    MessageStart,
    /// A piece of a block.
    ContentBlockDelta,
    /// A block is complete.
    ContentBlockStop,
    /// The message is about to end.
    MessageDelta,
    /// Anything else.
    #[serde(other)]
    Other,
}

/// The message that begins.
#[derive(Debug, Default, Deserialize)]
pub(in crate::claude_code) struct StreamMessage {
    #[serde(default)]
    pub(in crate::claude_code) id: String,
}

/// A piece of a block, text or thinking, or how a message ends.
#[derive(Debug, Default, Deserialize)]
pub(in crate::claude_code) struct Delta {
    #[serde(default)]
    pub(in crate::claude_code) text: Option<String>,
    #[serde(default)]
    pub(in crate::claude_code) thinking: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) stop_reason: Option<String>,
}

/// `control_request`.
#[derive(Debug, Deserialize)]
pub(in crate::claude_code) struct ControlRequest {
    #[serde(default)]
    pub(in crate::claude_code) request_id: String,
    pub(in crate::claude_code) request: Asked,
}

/// What the CLI asks.
#[derive(Debug, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(in crate::claude_code) enum Asked {
    /// May this tool run?
    CanUseTool {
        #[serde(default)]
        tool_name: String,
        #[serde(default)]
        input: Value,
    },
    /// An MCP server asks the person something.
    Elicitation(Elicitation),
    /// Something that this driver does not offer.
    #[serde(other)]
    Other,
}

/// `elicitation`: what an MCP server wants to know from the person.
#[derive(Debug, Default, Deserialize)]
pub(in crate::claude_code) struct Elicitation {
    #[serde(default)]
    pub(in crate::claude_code) mcp_server_name: String,
    #[serde(default)]
    pub(in crate::claude_code) message: String,
    /// A page to open, instead of fields to fill in.
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) url: Option<String>,
    /// The fields: an object of strings, numbers, booleans and lists of choices.
    #[serde(default)]
    pub(in crate::claude_code) requested_schema: Value,
    /// Their order.
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) property_order: Option<Vec<String>>,
}

impl Elicitation {
    /// What is asked, as the arguments of a tool.
    pub(in crate::claude_code) fn input(&self) -> Value {
        json!({
            "server": self.mcp_server_name,
            "message": self.message,
            "url": self.url,
            "requested_schema": self.requested_schema,
        })
    }
}

/// `control_response`.
#[derive(Debug, Deserialize)]
pub(in crate::claude_code) struct ControlAnswer {
    pub(in crate::claude_code) response: Answer,
}

/// An answer to a control request of ours.
#[derive(Debug, Deserialize)]
pub(in crate::claude_code) struct Answer {
    #[serde(default)]
    pub(in crate::claude_code) subtype: String,
    #[serde(default)]
    pub(in crate::claude_code) request_id: String,
    #[serde(default)]
    pub(in crate::claude_code) response: Value,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) error: Option<String>,
}

/// `rate_limit_event`: only accounts with a subscription have it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::claude_code) struct RateLimitInfo {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) status: Option<String>,
    /// Seconds since the epoch.
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) resets_at: Option<f64>,
}

/// The answer to `initialize`, as far as it is needed.
#[derive(Debug, Default, Deserialize)]
pub(in crate::claude_code) struct Initialized {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) account: Option<Account>,
}

/// Whose credentials the CLI has.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::claude_code) struct Account {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) token_source: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) api_key_source: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) api_provider: Option<String>,
}

impl Account {
    /// Whether it says that there are no credentials. Other providers have their own, which only a turn proves.
    pub(in crate::claude_code) fn is_nobody(&self) -> bool {
        let none = |source: &Option<String>| source.as_deref().is_none_or(|text| text == "none");
        none(&self.token_source)
            && none(&self.api_key_source)
            && self.api_provider.as_deref() == Some("firstParty")
    }
}

/// The answer to `mcp_status`. It holds the credential in clear: it is never logged.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::claude_code) struct McpStatus {
    #[serde(default)]
    pub(in crate::claude_code) mcp_servers: Vec<McpServer>,
}

/// One server of it.
#[derive(Deserialize)]
pub(in crate::claude_code) struct McpServer {
    #[serde(default)]
    pub(in crate::claude_code) name: String,
    #[serde(default)]
    pub(in crate::claude_code) status: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::claude_code) error: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    config: Option<McpConfig>,
}

impl McpServer {
    /// Whether it is told to be somewhere else than at `url`, or to be a program.
    pub(in crate::claude_code) fn is_elsewhere(&self, url: &str) -> bool {
        self.config.as_ref().is_some_and(|config| config.url.as_deref() != Some(url))
    }
}

/// Where it is.
#[derive(Deserialize)]
struct McpConfig {
    #[serde(default, deserialize_with = "lenient")]
    url: Option<String>,
}

/// A field of another shape counts as absent: one renamed detail must not cost the whole message.
pub(super) fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

//! What OpenCode's server says, as far as it is used. What is not known is passed over and counted.

use serde::Deserialize;
use serde_json::Value;

/// An event with the session that it is about, if it is about one.
#[derive(Debug, PartialEq)]
pub(super) struct Told {
    pub(super) session: Option<String>,
    pub(super) event: Event,
}

/// What happened.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// A session was made; `parent`: below which one.
    Created { parent: Option<String> },
    /// What it does.
    Status(Status),
    /// It has nothing to do any more. Also said when it had nothing to do before.
    Idle,
    /// Something failed.
    Failed(Failure),
    /// A message is new or has changed.
    Message(Message),
    /// A part of a message is new or has changed.
    Part(Part),
    /// More of a part.
    Delta(Delta),
    /// The agent asks for leave.
    Asked(Permission),
    /// The agent asks its user.
    Questioned(Questions),
    /// A request no longer waits.
    Settled { request: String },
    /// Something that means nothing here, such as a change of a title.
    Beside,
    /// Not known.
    Unknown { kind: String },
}

#[derive(Debug, Deserialize)]
struct Envelope {
    payload: Payload,
}

#[derive(Debug, Deserialize)]
struct Payload {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    properties: Value,
}

/// Events that are known and mean nothing to a turn.
const BESIDE: [&str; 30] = [
    "server.connected",
    "server.heartbeat",
    "server.instance.disposed",
    "global.disposed",
    "session.updated",
    "session.deleted",
    "session.diff",
    "session.compacted",
    "message.removed",
    "message.part.removed",
    "todo.updated",
    "file.edited",
    "file.watcher.updated",
    "vcs.branch.updated",
    "lsp.updated",
    "lsp.client.diagnostics",
    "mcp.tools.changed",
    "mcp.status.changed",
    "project.updated",
    "command.executed",
    "plugin.added",
    "plugin.updated",
    "catalog.updated",
    "reference.updated",
    "models.updated",
    "integration.updated",
    "installation.updated",
    "installation.update-available",
    "ide.installed",
    "sync",
];

/// Reads the data of an event. `None`: it is no such thing.
pub(super) fn read(data: &str) -> Option<Told> {
    let Payload { kind, properties } = serde_json::from_str::<Envelope>(data).ok()?.payload;
    let text = |path: &str| properties.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let session =
        ["/sessionID", "/info/sessionID", "/part/sessionID", "/info/id"].into_iter().find_map(text);
    let session = session.filter(|id| id.starts_with("ses"));
    let event = match kind.as_str() {
        "session.created" => Some(Event::Created { parent: text("/info/parentID") }),
        "session.status" => field(&properties, "status").map(Event::Status),
        "session.idle" => Some(Event::Idle),
        "session.error" => Some(Event::Failed(field(&properties, "error").unwrap_or_default())),
        "message.updated" => field(&properties, "info").map(Event::Message),
        "message.part.updated" => field(&properties, "part").map(Event::Part),
        "message.part.delta" => serde_json::from_value(properties).ok().map(Event::Delta),
        "permission.asked" => serde_json::from_value(properties).ok().map(Event::Asked),
        "question.asked" => serde_json::from_value(properties).ok().map(Event::Questioned),
        "permission.replied" | "question.replied" | "question.rejected" => {
            text("/requestID").map(|request| Event::Settled { request })
        }
        kind if BESIDE.contains(&kind) => Some(Event::Beside),
        _ => None,
    };
    Some(Told { session, event: event.unwrap_or(Event::Unknown { kind }) })
}

fn field<T: serde::de::DeserializeOwned>(properties: &Value, name: &str) -> Option<T> {
    serde_json::from_value(properties.get(name)?.clone()).ok()
}

/// What a session does.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Status {
    Idle,
    Busy,
    /// It waits before it asks the model again.
    Retry(Retry),
    #[serde(other)]
    Other,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Retry {
    #[serde(default)]
    pub(super) attempt: u32,
    #[serde(default)]
    pub(super) message: String,
    /// When it asks again, in milliseconds since the epoch.
    #[serde(default)]
    pub(super) next: i64,
}

/// An error, by its name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Failure {
    pub(super) name: String,
    pub(super) data: FailureData,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct FailureData {
    pub(super) message: String,
    #[serde(rename = "statusCode")]
    pub(super) status: Option<u16>,
    #[serde(rename = "isRetryable")]
    pub(super) retryable: Option<bool>,
    #[serde(rename = "responseHeaders")]
    pub(super) headers: Option<std::collections::BTreeMap<String, Value>>,
}

/// A message of the user or the model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) role: String,
    #[serde(rename = "parentID")]
    pub(super) parent: Option<String>,
    pub(super) finish: Option<String>,
    pub(super) error: Option<Failure>,
    /// `true` in a message of the model that sums the conversation up; one of a user has something else here.
    pub(super) summary: Option<Value>,
    pub(super) time: Times,
    pub(super) cost: Option<f64>,
    pub(super) tokens: Option<Tokens>,
}

impl Message {
    /// Whether it sums up a conversation that grew too long for the model. It answers nobody.
    pub(super) fn sums_up(&self) -> bool {
        self.summary == Some(Value::Bool(true))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Times {
    pub(super) completed: Option<f64>,
}

/// Figures of one message. `input` is without what was cached, `output` without thinking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) reasoning: u64,
    pub(super) cache: CacheTokens,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct CacheTokens {
    pub(super) read: u64,
    pub(super) write: u64,
}

/// A part of a message.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    pub(super) id: String,
    #[serde(rename = "messageID")]
    pub(super) message: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) time: Option<Value>,
    pub(super) tool: Option<String>,
    #[serde(rename = "callID")]
    pub(super) call: Option<String>,
    pub(super) state: Option<ToolState>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ToolState {
    pub(super) status: String,
    pub(super) input: Value,
}

/// More of a part.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Delta {
    #[serde(rename = "messageID")]
    pub(super) message: String,
    #[serde(rename = "partID")]
    pub(super) part: String,
    pub(super) field: String,
    #[serde(rename = "delta")]
    pub(super) text: String,
}

/// A request for leave.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Permission {
    pub(super) id: String,
    #[serde(rename = "sessionID")]
    pub(super) session: String,
    #[serde(rename = "permission")]
    pub(super) what: String,
    #[serde(default)]
    pub(super) patterns: Vec<String>,
    #[serde(default)]
    pub(super) metadata: Value,
    #[serde(default)]
    pub(super) tool: Option<ToolName>,
}

/// The call that a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ToolName {
    #[serde(rename = "callID", default)]
    pub(super) call: String,
}

/// Questions to the user.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Questions {
    pub(super) id: String,
    #[serde(rename = "sessionID")]
    pub(super) session: String,
    #[serde(default, rename = "questions")]
    pub(super) all: Vec<Question>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Question {
    #[serde(rename = "question")]
    pub(super) text: String,
    #[serde(default)]
    pub(super) options: Vec<QuestionOption>,
    #[serde(default)]
    pub(super) multiple: Option<bool>,
    /// Other words than the options. Allowed unless it is said otherwise.
    #[serde(default)]
    pub(super) custom: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct QuestionOption {
    pub(super) label: String,
    #[serde(default)]
    pub(super) description: Option<String>,
}

/// A message with its parts, as it is read again.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Whole {
    pub(super) info: Message,
    pub(super) parts: Vec<Part>,
}

/// A session below another one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Child {
    pub(super) id: String,
}

/// What a look at a session finds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Look {
    /// It works on something.
    pub(super) busy: bool,
    /// The sessions below it that work.
    pub(super) children: Vec<String>,
    pub(super) messages: Vec<Whole>,
    /// What waits for an answer, of any session in the folder.
    pub(super) permissions: Vec<Permission>,
    pub(super) questions: Vec<Questions>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_passed_over_with_its_name() {
        let told =
            read(r#"{"payload":{"type":"x.y","properties":{"sessionID":"ses_1"}}}"#).unwrap();
        assert_eq!(told.session.as_deref(), Some("ses_1"));
        assert_eq!(told.event, Event::Unknown { kind: "x.y".to_owned() });
        assert_eq!(read("{not json"), None);
        assert_eq!(read("{}"), None);
    }

    #[test]
    fn a_known_event_of_another_shape_is_not_known() {
        let told =
            read(r#"{"payload":{"type":"session.status","properties":{"status":7}}}"#).unwrap();
        assert_eq!(told.event, Event::Unknown { kind: "session.status".to_owned() });
    }
}

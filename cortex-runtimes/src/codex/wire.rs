//! What `codex app-server` says and hears on its standard streams: one JSON object per line, JSON-RPC 2.0 without its
//! version member.
//!
//! Reading is tolerant. The CLI adds methods and fields with every version: what is not known stays a
//! [`Value`], and a field of another shape than expected counts as absent. Its own requests count their ids from 0,
//! as ours do, so a line is told by its members and never by its id.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// One line of standard output.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FromCli {
    /// The answer to a request of ours.
    Answer {
        /// Which.
        id: u64,
        /// What it says.
        answer: Answer,
    },
    /// The CLI asks something and waits.
    Request {
        /// Its name of the request: a number or a text.
        id: Value,
        /// What it asks.
        method: String,
        /// About what.
        params: Value,
    },
    /// Something happened.
    Note {
        /// What.
        method: String,
        /// To what.
        params: Value,
    },
    /// Not an object of the protocol at all.
    Noise,
}

/// What the CLI answers.
pub(super) type Answer = Result<Value, Refusal>;

/// The error that the CLI answers with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    /// Its sort, which says little: nearly all have the same.
    #[serde(deserialize_with = "field")]
    pub(super) code: i64,
    /// What is wrong.
    #[serde(deserialize_with = "field")]
    pub(super) message: String,
}

#[derive(Deserialize)]
struct Line {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    result: Option<Value>,
    error: Option<Value>,
}

/// Reads a line of standard output.
pub(super) fn read(line: &str) -> FromCli {
    let Ok(line) = serde_json::from_str::<Line>(line) else { return FromCli::Noise };
    match (line.method, line.id) {
        (Some(method), Some(id)) => FromCli::Request { id, method, params: line.params },
        (Some(method), None) => FromCli::Note { method, params: line.params },
        (None, Some(id)) => {
            let Some(id) = id.as_u64() else { return FromCli::Noise };
            let answer = match line.error {
                Some(error) => Err(shape(error)),
                None => Ok(line.result.unwrap_or_default()),
            };
            FromCli::Answer { id, answer }
        }
        (None, None) => FromCli::Noise,
    }
}

/// `value` as a known shape; what does not fit is the default.
pub(super) fn shape<T: DeserializeOwned + Default>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

/// A field of a known shape: one that does not fit is absent, and those beside it count.
fn field<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    value: D,
) -> Result<T, D::Error> {
    Value::deserialize(value).map(shape)
}

/// As [`field`], for each of a list.
fn fields<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    value: D,
) -> Result<Vec<T>, D::Error> {
    let values: Vec<Value> = field(value)?;
    Ok(values.into_iter().map(shape).collect())
}

/// The text at a path such as `/turn/id`.
pub(super) fn text(value: &Value, path: &str) -> Option<String> {
    value.pointer(path).and_then(Value::as_str).map(str::to_owned)
}

/// The values of a list; none when there is no list of this name.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The CLI has let go of a thread.
pub(super) const THREAD_CLOSED: &str = "thread/closed";

/// The thread that something is about.
pub(super) fn thread(params: &Value) -> Option<&str> {
    let id = params.get("threadId").or_else(|| params.pointer("/thread/id"))?;
    id.as_str()
}

/// The line of a request.
pub(super) fn request(id: u64, method: &str, params: &Value) -> String {
    line(&json!({"id": id, "method": method, "params": params}))
}

/// The line that tells something.
pub(super) fn note(method: &str) -> String {
    line(&json!({"method": method}))
}

/// The line that answers a request of the CLI.
pub(super) fn reply(id: &Value, result: &Value) -> String {
    line(&json!({"id": id, "result": result}))
}

/// The line that refuses a request of the CLI. It takes that for a no, whatever it asked.
pub(super) fn refuse(id: &Value, method: &str) -> String {
    let message = format!("{method} is not supported");
    line(&json!({"id": id, "error": {"code": METHOD_NOT_FOUND, "message": message}}))
}

/// JSON-RPC's code for a method that is not known.
const METHOD_NOT_FOUND: i64 = -32601;

fn line(value: &Value) -> String {
    format!("{value}\n")
}

/// `turn/started` and `turn/completed`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Turn {
    #[serde(deserialize_with = "field")]
    pub(super) id: String,
    #[serde(deserialize_with = "field")]
    pub(super) status: String,
    #[serde(deserialize_with = "field")]
    pub(super) error: Option<TurnError>,
    #[serde(deserialize_with = "fields")]
    pub(super) items: Vec<Item>,
}

/// Why a turn failed, or a request to the model did.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TurnError {
    #[serde(deserialize_with = "field")]
    pub(super) message: String,
    #[serde(deserialize_with = "field")]
    pub(super) codex_error_info: Value,
    #[serde(deserialize_with = "field")]
    pub(super) additional_details: Option<String>,
}

/// Something in a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    #[serde(deserialize_with = "field")]
    pub(super) id: String,
    #[serde(rename = "type", deserialize_with = "field")]
    pub(super) kind: String,
    /// Of an `agentMessage`.
    #[serde(deserialize_with = "field")]
    pub(super) text: String,
    /// Everything else.
    #[serde(flatten)]
    pub(super) rest: serde_json::Map<String, Value>,
}

/// The tokens of a thread since it began, or of one request.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct Tokens {
    /// With those from the cache.
    #[serde(rename = "inputTokens", deserialize_with = "field")]
    pub(super) input: u64,
    #[serde(rename = "cachedInputTokens", deserialize_with = "field")]
    pub(super) cached: u64,
    #[serde(rename = "outputTokens", deserialize_with = "field")]
    pub(super) output: u64,
}

/// `thread/tokenUsage/updated`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenUsage {
    #[serde(deserialize_with = "field")]
    pub(super) total: Tokens,
    #[serde(deserialize_with = "field")]
    pub(super) last: Tokens,
}

/// `account/rateLimits/updated`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct RateLimits {
    #[serde(deserialize_with = "field")]
    pub(super) primary: Option<Window>,
    #[serde(deserialize_with = "field")]
    pub(super) secondary: Option<Window>,
}

/// One window that an account's use is counted in.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Window {
    #[serde(deserialize_with = "field")]
    pub(super) used_percent: f64,
    #[serde(deserialize_with = "field")]
    pub(super) resets_at: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_by_its_members_and_not_by_its_id() {
        let asked = read(r#"{"id":1,"method":"item/tool/call","params":{"threadId":"t"}}"#);
        let FromCli::Request { id, params, .. } = asked else { panic!("{asked:?}") };
        assert_eq!((id, thread(&params)), (json!(1), Some("t")));
        let answered = read(r#"{"id":1,"result":{}}"#);
        assert_eq!(answered, FromCli::Answer { id: 1, answer: Ok(json!({})) });
        let refused = read(r#"{"id":2,"error":{"code":-32600,"message":"no"}}"#);
        let refusal = Refusal { code: -32600, message: "no".to_owned() };
        assert_eq!(refused, FromCli::Answer { id: 2, answer: Err(refusal) });
    }

    #[test]
    fn what_is_not_the_protocol_is_noise() {
        for line in ["", "hello", "[]", "{}", r#"{"id":"x","result":1}"#, "{\"method\":7}"] {
            assert_eq!(read(line), FromCli::Noise, "{line}");
        }
    }

    #[test]
    fn a_field_of_another_shape_counts_as_absent() {
        let turn: Turn = shape(json!({"id": 7, "status": "completed", "items": "none"}));
        assert_eq!(
            (turn.id.as_str(), turn.status.as_str(), turn.items.len()),
            ("", "completed", 0)
        );
        let items = json!([7, {"type": "x", "text": null}, {"type": "agentMessage", "text": "hi"}]);
        let turn: Turn = shape(json!({"id": "n", "items": items, "error": {"message": 1}}));
        let said: Vec<_> = turn.items.iter().map(|item| item.text.as_str()).collect();
        assert_eq!((turn.id.as_str(), said), ("n", vec!["", "", "hi"]));
        let limits: RateLimits = shape(json!({"primary": {"usedPercent": "x", "resetsAt": 7}}));
        assert_eq!(limits.primary, Some(Window { used_percent: 0.0, resets_at: Some(7) }));
        assert_eq!(shape::<TokenUsage>(json!({"total": {"inputTokens": 3}})).total.input, 3);
    }
}

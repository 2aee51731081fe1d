//! Messages, as far as their way through the bridge depends on what they are.

use std::borrow::Cow;

use bytes::Bytes;
use cortex_lib::error::Error;
use hyper::header::HeaderValue;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// JSON-RPC: the line is no JSON.
const PARSE_ERROR: i32 = -32_700;
/// JSON-RPC: the message is none.
const INVALID_REQUEST: i32 = -32_600;
/// JSON-RPC: the server failed, by no fault of the message.
const SERVER_ERROR: i32 = -32_000;

/// A line of a client.
#[derive(Debug)]
pub(super) struct Message {
    /// The line as it came.
    pub(super) line: Bytes,
    /// By what the client tells its answer from others, as JSON.
    pub(super) id: Option<Box<RawValue>>,
    /// What is asked.
    pub(super) method: Option<String>,
    /// The tool that is called.
    pub(super) tool: Option<String>,
    /// The version of the protocol, when the message says which one it is of.
    pub(super) version: Option<String>,
    /// The id of the message that its sender gives up.
    pub(super) gives_up: Option<String>,
}

#[derive(Default, Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
}

impl Message {
    /// Reads a line. What is JSON goes on, whatever is wrong with it: the endpoint says that best.
    pub(super) fn read(line: String) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<IgnoredAny>(&line)?;
        let Envelope { id, method, params } = part(&line);
        let Params { name, request_id, meta } =
            params.map(|raw| part(raw.get())).unwrap_or_default();
        let Meta { version } = meta.map(|raw| part(raw.get())).unwrap_or_default();
        let is = |wanted: &str| method.as_deref() == Some(wanted);
        let gives_up = request_id.filter(|_| is("notifications/cancelled"));
        Ok(Self {
            id: id.map(ToOwned::to_owned),
            tool: name.filter(|_| is("tools/call")).map(Cow::into_owned),
            version: version.map(Cow::into_owned),
            gives_up: gives_up.map(|id| id.get().to_owned()),
            method: method.map(Cow::into_owned),
            line: Bytes::from(line),
        })
    }

    /// Whether nobody waits for an answer.
    pub(super) fn is_notification(&self) -> bool {
        self.method.is_some() && self.id.is_none()
    }

    /// Whether its answer says which version of the protocol is spoken from then on.
    pub(super) fn is_initialize(&self) -> bool {
        self.method.as_deref() == Some("initialize")
    }
}

/// What of a text is understood; the default when it is something else.
fn part<'a, T: Default + Deserialize<'a>>(text: &'a str) -> T {
    serde_json::from_str(text).unwrap_or_default()
}

/// The version of the protocol on which an answer to `initialize` settles.
pub(super) fn settled_version(answer: &str) -> Option<HeaderValue> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Settled<'a> {
        #[serde(borrow)]
        protocol_version: Cow<'a, str>,
    }

    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: Settled<'a>,
    }

    let answer: Answer<'_> = serde_json::from_str(answer).ok()?;
    HeaderValue::from_str(&answer.result.protocol_version).ok()
}

/// What a text of the endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The answer to what was asked.
    Answer,
    /// A message beside it.
    Notice,
    /// No message: the endpoint let nothing in.
    Refusal,
}

impl Told {
    /// Looks at a text.
    pub(super) fn of(text: &str) -> Self {
        #[derive(Default, Deserialize)]
        struct Keys {
            #[serde(default)]
            jsonrpc: Option<IgnoredAny>,
            #[serde(default)]
            method: Option<IgnoredAny>,
        }

        match part(text) {
            Keys { jsonrpc: None, .. } => Self::Refusal,
            Keys { method: None, .. } => Self::Answer,
            Keys { .. } => Self::Notice,
        }
    }
}

/// A message of the endpoint as one line. JSON has line ends only where a space is as good.
pub(super) fn one_line(message: String) -> String {
    if message.contains(['\n', '\r']) { message.replace(['\n', '\r'], " ") } else { message }
}

/// The answer to a line that is no JSON.
pub(super) fn no_json(why: &serde_json::Error) -> String {
    answer(None, PARSE_ERROR, &format!("the line is no JSON: {why}"), None)
}

/// The answer to a line that is longer than a message may be.
pub(super) fn too_long(most: usize) -> String {
    answer(None, INVALID_REQUEST, &format!("the line is longer than {most} bytes"), None)
}

/// The answer to a message that did not get through.
pub(super) fn failed(id: Option<&RawValue>, error: &Error) -> String {
    let said = format!("{error}. {}", error.remediation());
    answer(id, SERVER_ERROR, &said, Some(error.to_wire()))
}

/// The answer to a message that the endpoint did not let in: it said this, in the form of HTTP.
pub(super) fn refused(id: Option<&RawValue>, is_our_fault: bool, said: &str) -> String {
    let error: Value = serde_json::from_str(said).unwrap_or_default();
    let error = error.get("error").cloned().unwrap_or_default();
    let message = error.get("message").and_then(Value::as_str).unwrap_or(said).to_owned();
    let code = if is_our_fault { INVALID_REQUEST } else { SERVER_ERROR };
    answer(id, code, &message, Some(error))
}

fn answer(id: Option<&RawValue>, code: i32, message: &str, data: Option<Value>) -> String {
    let mut error = json!({ "code": code, "message": message });
    if let (Some(error), Some(data)) = (error.as_object_mut(), data) {
        error.insert("data".into(), data);
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Message {
        Message::read(line.to_owned()).unwrap()
    }

    #[test]
    fn a_line_tells_what_its_way_depends_on() {
        let call = read(
            r#"{"jsonrpc":"2.0","id":"a\u0062","method":"tools/call","params":{"name":"list_tasks",
               "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        );
        assert_eq!(call.id.as_deref().map(RawValue::get), Some(r#""a\u0062""#));
        assert_eq!(call.tool.as_deref(), Some("list_tasks"));
        assert_eq!(call.version.as_deref(), Some("2026-07-28"));
        assert!(!call.is_notification());

        let told = read(r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#);
        assert!(told.is_notification());
        assert_eq!(told.gives_up.as_deref(), Some("7"));
        assert!(read(r#"{"id":1,"method":"initialize","params":{}}"#).is_initialize());
    }

    #[test]
    fn what_is_json_goes_on_and_nothing_else_does() {
        for odd in ["[]", "7", r#"{"id":1,"id":2}"#, r#"{"method":7}"#, r#"{"params":[]}"#] {
            let message = read(odd);
            assert!(!message.is_notification(), "{odd}");
            assert_eq!(message.line, odd.as_bytes());
        }
        for broken in ["{", "ping", "{} {}", ""] {
            assert!(Message::read(broken.to_owned()).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_refusal_keeps_the_id_and_what_was_said() {
        let id = RawValue::from_string("7".to_owned()).unwrap();
        let said = r#"{"error":{"code":"http.too_large","message":"too much"}}"#;
        let refused = refused(Some(&id), true, said);
        let refused: Value = serde_json::from_str(&refused).unwrap();
        assert_eq!(
            refused,
            json!({ "jsonrpc": "2.0", "id": 7, "error": {
                "code": -32_600, "message": "too much",
                "data": { "code": "http.too_large", "message": "too much" },
            }})
        );
    }
}

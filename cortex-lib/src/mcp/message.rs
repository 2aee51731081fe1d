//! Whether a body is one JSON-RPC 2.0 message of a client.
//!
//! The protocol crate answers what it cannot read with a bare 415. Here the sender learns what is wrong.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A message, as far as all messages are alike.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// What is asked.
    pub(super) method: Cow<'a, str>,
    /// By what the answer is told from others; a notification has none.
    pub(super) id: Option<&'a RawValue>,
    /// An object.
    pub(super) params: Option<&'a RawValue>,
}

/// What a message says about itself.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

impl Message<'_> {
    /// What it says about itself, if that can be read.
    pub(super) fn meta(&self) -> Meta<'_> {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default, rename = "_meta")]
            meta: Option<Meta<'a>>,
        }

        let params = self.params.and_then(|params| serde_json::from_str(params.get()).ok());
        params.and_then(|params: Params<'_>| params.meta).unwrap_or_default()
    }
}

impl Meta<'_> {
    /// Whether it says which version of the protocol it is of, as all have done since 2026-07-28.
    pub(super) fn names_its_version(&self) -> bool {
        self.version.and_then(text).is_some()
    }

    /// Whether its sender wants to hear how it goes.
    pub(super) fn asks_for_progress(&self) -> bool {
        self.progress_token.is_some()
    }
}

/// What may be in a message. A key whose value is null is there.
#[derive(Deserialize)]
struct Keys<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "present")]
    result: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    error: Option<IgnoredAny>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Reads a message. The error says what is wrong with its shape.
pub(super) fn read(body: &[u8]) -> Result<Message<'_>, String> {
    let keys: Keys<'_> = match body.trim_ascii_start() {
        [b'{', ..] => serde_json::from_slice(body).map_err(|error| no_json(&error))?,
        [b'[', ..] => return Err("batches are not taken: send one message".into()),
        _ => {
            serde_json::from_slice::<IgnoredAny>(body).map_err(|error| no_json(&error))?;
            return Err("the body is not a JSON object".into());
        }
    };
    if keys.jsonrpc.and_then(text).as_deref() != Some("2.0") {
        return Err("`jsonrpc` is not \"2.0\"".into());
    }
    let Some(method) = keys.method else {
        return Err(match (keys.result, keys.error) {
            (None, None) => "`method` is missing".into(),
            _ => "the message is an answer, and nothing was asked".into(),
        });
    };
    let Some(method) = text(method) else { return Err("`method` is not a text".into()) };
    // A request has an id; a notification has none, and null is none of both.
    let is_id = |id: &RawValue| text(id).is_some() || id.get().parse::<i64>().is_ok();
    if !keys.id.is_none_or(is_id) {
        return Err("`id` is neither a text nor an integer".into());
    }
    if !keys.params.is_none_or(|params| params.get().starts_with('{')) {
        return Err("`params` is not an object".into());
    }
    Ok(Message { method, id: keys.id, params: keys.params })
}

fn no_json(error: &serde_json::Error) -> String {
    // What is JSON can still have a key twice.
    let what = if error.is_data() { "the message cannot be read" } else { "the body is no JSON" };
    format!("{what}: {error}")
}

fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    /// Borrows where it can.
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

    serde_json::from_str(value.get()).ok().map(|Text(text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_notifications_are_messages() {
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#" {"jsonrpc":"2.0","id":"a","method":"tools/list","params":{}} "#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        ] {
            assert!(read(body.as_bytes()).is_ok(), "{body}");
        }
    }

    #[test]
    fn a_message_may_name_its_version() {
        let of = |meta: &str| {
            let params = format!(r#"{{"_meta":{meta}}}"#);
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}"#);
            read(body.as_bytes()).unwrap().meta().names_its_version()
        };
        assert!(of(r#"{"io.modelcontextprotocol/protocolVersion":"2031-01-01"}"#));
        assert!(!of(r#"{"io.modelcontextprotocol/protocolVersion":1}"#));
        assert!(!of(r#"{"progressToken":"a"}"#));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (body, said) in [
            ("", "no JSON"),
            ("{", "no JSON"),
            ("\"ping\"", "not a JSON object"),
            ("[]", "batches"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "batches"),
            (r#"{"id":1,"method":"ping"}"#, "`jsonrpc`"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "`jsonrpc`"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "`method` is missing"),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "`method`"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "answer"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "`id`"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "`id`"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, "`params`"),
        ] {
            let problem = read(body.as_bytes()).unwrap_err();
            assert!(problem.contains(said), "{body}: {problem}");
        }
    }
}

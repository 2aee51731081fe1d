//! Whether a body is one JSON-RPC 2.0 message of a client.
//!
//! The protocol crate answers what it cannot read with a bare 415. Here the sender learns what is wrong.

use serde_json::{Map, Value};

/// Checks the shape. The error says what is wrong with it.
pub(super) fn check(body: &[u8]) -> Result<(), String> {
    let message = match serde_json::from_slice(body) {
        Ok(Value::Object(message)) => message,
        Ok(Value::Array(_)) => return Err("batches are not taken: send one message".into()),
        Ok(_) => return Err("the body is not a JSON object".into()),
        Err(error) => return Err(format!("the body is no JSON: {error}")),
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err("`jsonrpc` is not \"2.0\"".into());
    }
    match message.get("method") {
        Some(Value::String(_)) => {}
        Some(_) => return Err("`method` is not a text".into()),
        None => return Err(without_method(&message).into()),
    }
    // A request has an id; a notification has none, and null is none of both.
    if !message.get("id").is_none_or(|id| id.is_string() || id.is_i64()) {
        return Err("`id` is neither a text nor an integer".into());
    }
    if !message.get("params").is_none_or(Value::is_object) {
        return Err("`params` is not an object".into());
    }
    Ok(())
}

/// Whether a message says itself which version of the protocol it is of, as all have done since 2026-07-28.
pub(super) fn names_its_version(body: &[u8]) -> bool {
    const KEY: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
    serde_json::from_slice::<Value>(body)
        .is_ok_and(|message| message.pointer(KEY).is_some_and(Value::is_string))
}

fn without_method(message: &Map<String, Value>) -> &'static str {
    if message.contains_key("result") || message.contains_key("error") {
        "the message is an answer, and nothing was asked"
    } else {
        "`method` is missing"
    }
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
            assert_eq!(check(body.as_bytes()), Ok(()), "{body}");
        }
    }

    #[test]
    fn a_message_may_name_its_version() {
        let of = |meta: &str| {
            let params = format!(r#"{{"_meta":{meta}}}"#);
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}"#);
            names_its_version(body.as_bytes())
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
            let problem = check(body.as_bytes()).unwrap_err();
            assert!(problem.contains(said), "{body}: {problem}");
        }
    }
}

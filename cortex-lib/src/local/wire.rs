//! The lines of the local socket.

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::engine::Output;
use crate::error::{Code, Error, Problem, Result};
use crate::ids::AgentId;
use crate::port::TerminalSize;
use crate::store::Event;

/// A request as it is written: exactly one of `call`, `follow`, `output`, `attach`, `type` and `resize`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// The requester's own number; answers carry it.
    pub(super) id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    follow: Option<Follow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attach: Option<Attach>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    typed: Option<Typed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resize: Option<Resize>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attach {
    pub(super) agent_id: AgentId,
    /// The terminal gets this size first.
    #[serde(default)]
    pub(super) size: Option<TerminalSize>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Typed {
    pub(super) agent_id: AgentId,
    pub(super) bytes: Bytes,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resize {
    pub(super) agent_id: AgentId,
    pub(super) size: TerminalSize,
}

/// What a terminal reads or prints: not always text, so it is written in Base64.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Follow {
    #[serde(default)]
    after: Option<u64>,
}

/// What is asked.
#[derive(Debug)]
pub(super) enum Ask {
    /// Run a command.
    Call { name: String, args: Value },
    /// Tell the events behind `after`, then those that come.
    Events { after: Option<u64> },
    /// Tell what agents print from now on.
    Output,
    /// Tell what a terminal shows, and what it prints from then on.
    Attach(Attach),
    /// Type into a terminal.
    Type(Typed),
    /// Give a terminal another size.
    Resize(Resize),
}

impl Request {
    /// A request for `ask`.
    pub(super) fn new(id: u64, ask: Ask) -> Self {
        let request = Self { id, ..Self::default() };
        match ask {
            Ask::Call { name, args } => Self { call: Some(name), args: Some(args), ..request },
            Ask::Events { after } => Self { follow: Some(Follow { after }), ..request },
            Ask::Output => Self { output: Some(true), ..request },
            Ask::Attach(attach) => Self { attach: Some(attach), ..request },
            Ask::Type(typed) => Self { typed: Some(typed), ..request },
            Ask::Resize(resize) => Self { resize: Some(resize), ..request },
        }
    }

    /// What it asks.
    ///
    /// # Errors
    ///
    /// `validation.invalid_arguments`.
    pub(super) fn ask(self) -> Result<Ask> {
        let Self { id: _, call, mut args, follow, output, attach, typed, resize } = self;
        let call = call
            .map(|name| Ask::Call { name, args: args.take().unwrap_or_else(|| Map::new().into()) });
        let asks = [
            call,
            follow.map(|follow| Ask::Events { after: follow.after }),
            output.map(|_| Ask::Output),
            attach.map(Ask::Attach),
            typed.map(Ask::Type),
            resize.map(Ask::Resize),
        ];
        let mut asks = asks.into_iter().flatten();
        match (asks.next(), asks.next()) {
            // What no call has taken belongs to nothing.
            (Some(ask), None) if args.is_none() && output != Some(false) => Ok(ask),
            _ => Err(refusal(
                "must have exactly one of `call` (with `args`), `follow`, `output`, `attach`, `type` and `resize`",
            )),
        }
    }
}

/// A request that cannot be understood.
pub(super) fn refusal(why: impl Into<String>) -> Error {
    Error::invalid(Code::InvalidArguments, vec![Problem::new("request", why)])
}

/// One line of an answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The number of the request; absent when it could not be read.
    pub(super) id: Option<u64>,
    #[serde(flatten)]
    pub(super) body: Body,
}

/// What an answer says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Body {
    /// The call's result, or that a stream listens.
    Ok(Value),
    /// Why it failed.
    Error(Value),
    /// The next event.
    Event(Event),
    /// The next output.
    Output(Output),
    /// What a terminal prints next.
    Printed(Bytes),
    /// The stream is over.
    End(bool),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_asks_exactly_one_thing() {
        let ask = |json: Value| serde_json::from_value::<Request>(json).unwrap().ask();
        assert!(matches!(ask(json!({"id": 1, "call": "x"})), Ok(Ask::Call { .. })));
        assert!(matches!(ask(json!({"id": 1, "follow": {}})), Ok(Ask::Events { after: None })));
        assert!(matches!(ask(json!({"id": 1, "output": true})), Ok(Ask::Output)));
        assert!(matches!(ask(json!({"id": 1, "attach": {"agent_id": "a"}})), Ok(Ask::Attach(_))));
        let typed = json!({"id": 1, "type": {"agent_id": "a", "bytes": "G1tB"}});
        assert!(matches!(ask(typed), Ok(Ask::Type(typed)) if typed.bytes.0 == b"\x1b[A"));
        let size = json!({"rows": 24, "columns": 80});
        let resize = json!({"id": 1, "resize": {"agent_id": "a", "size": size}});
        assert!(matches!(ask(resize), Ok(Ask::Resize(_))));
        for wrong in [
            json!({"id": 1}),
            json!({"id": 1, "args": {}}),
            json!({"id": 1, "output": false}),
            json!({"id": 1, "call": "x", "output": true}),
            json!({"id": 1, "follow": {}, "args": {}}),
            json!({"id": 1, "attach": {"agent_id": "a"}, "type": {"agent_id": "a", "bytes": ""}}),
        ] {
            assert_eq!(ask(wrong).unwrap_err().code(), Code::InvalidArguments);
        }
    }

    #[test]
    fn an_answer_has_its_body_beside_its_number() {
        let answer = Answer { id: Some(7), body: Body::End(true) };
        assert_eq!(serde_json::to_value(&answer).unwrap(), json!({"id": 7, "end": true}));
        let answer: Answer = serde_json::from_value(json!({"id": 7, "ok": {"a": 1}})).unwrap();
        assert!(matches!(answer.body, Body::Ok(value) if value == json!({"a": 1})));
    }
}

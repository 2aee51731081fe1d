//! The lines of the local socket.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engine::Output;
use crate::error::{Code, Error, Problem, Result};
use crate::store::Event;

/// A request as it is written: exactly one of `call`, `follow` and `output`.
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
}

impl Request {
    /// A request for `ask`.
    pub(super) fn new(id: u64, ask: Ask) -> Self {
        let request = Self { id, ..Self::default() };
        match ask {
            Ask::Call { name, args } => Self { call: Some(name), args: Some(args), ..request },
            Ask::Events { after } => Self { follow: Some(Follow { after }), ..request },
            Ask::Output => Self { output: Some(true), ..request },
        }
    }

    /// What it asks.
    ///
    /// # Errors
    ///
    /// `validation.invalid_arguments`.
    pub(super) fn ask(self) -> Result<Ask> {
        match (self.call, self.args, self.follow, self.output) {
            (Some(name), args, None, None) => {
                Ok(Ask::Call { name, args: args.unwrap_or_else(|| Map::new().into()) })
            }
            (None, None, Some(follow), None) => Ok(Ask::Events { after: follow.after }),
            (None, None, None, Some(true)) => Ok(Ask::Output),
            _ => {
                Err(refusal("must have exactly one of `call` (with `args`), `follow` and `output`"))
            }
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
        for wrong in [
            json!({"id": 1}),
            json!({"id": 1, "args": {}}),
            json!({"id": 1, "output": false}),
            json!({"id": 1, "call": "x", "output": true}),
            json!({"id": 1, "follow": {}, "args": {}}),
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

//! What the server asks of a model API, and which module answers. A further API is a variant here
//! and a file beside `anthropic.rs`; scripts and records stay as they are.

use hyper::Method;
use serde_json::Value;

use crate::anthropic;
use crate::record::Request;
use crate::script::Answer;

/// The model API that a server speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Api {
    /// Anthropic's Messages API.
    Anthropic,
}

/// One server-sent event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) data: String,
}

impl Api {
    /// Whether a request asks for an answer of the model.
    pub(crate) fn asks(self, method: &Method, path: &str) -> bool {
        match self {
            Self::Anthropic => method == Method::POST && path == anthropic::PATH,
        }
    }

    /// Reads the body of a request; what is not there stays empty.
    pub(crate) fn read(self, body: Value) -> Request {
        match self {
            Self::Anthropic => anthropic::read(body),
        }
    }

    /// The answer as the events of a stream.
    pub(crate) fn events(self, request: &Request, answer: &Answer, number: usize) -> Vec<Event> {
        match self {
            Self::Anthropic => anthropic::events(request, answer, number),
        }
    }

    /// The answer in one piece.
    pub(crate) fn message(self, request: &Request, answer: &Answer, number: usize) -> Value {
        match self {
            Self::Anthropic => anthropic::message(request, answer, number),
        }
    }

    /// An error, as a body or as the data of an error event.
    pub(crate) fn error(self, kind: &str, message: &str, number: usize) -> Value {
        match self {
            Self::Anthropic => anthropic::error(kind, message, number),
        }
    }

    /// The API's name of the error that goes with an HTTP status.
    pub(crate) fn kind_of(self, status: u16) -> &'static str {
        match self {
            Self::Anthropic => anthropic::kind_of(status),
        }
    }
}

/// The name of a request in headers and errors.
pub(crate) fn request_id(number: usize) -> String {
    format!("req_scripted{number}")
}

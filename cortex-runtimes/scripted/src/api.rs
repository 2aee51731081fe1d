//! What the server asks of a model API, and which module answers. A further API is a variant here
//! and a file beside `anthropic.rs`; scripts and records stay as they are.

use std::collections::BTreeMap;

use hyper::Method;
use serde_json::Value;

use crate::anthropic;
use crate::chat;
use crate::record::Request;
use crate::responses;
use crate::script::{Answer, Quota};

/// The model API that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's Messages API.
    Anthropic,
    /// `OpenAI`'s Responses API.
    Responses,
    /// The chat completions API.
    ChatCompletions,
}

impl Api {
    /// Every API, in the order of its documentation.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::Responses, Self::ChatCompletions];

    /// Its name on a command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::ChatCompletions => "chat",
        }
    }

    /// The path of the requests that are answered by the script.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Anthropic => anthropic::PATH,
            Self::Responses => responses::PATH,
            Self::ChatCompletions => chat::PATH,
        }
    }
}

/// One server-sent event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Its name; empty where the API gives none.
    pub(crate) kind: String,
    pub(crate) data: String,
}

impl Api {
    /// Whether a request asks for an answer of the model.
    pub(crate) fn asks(self, method: &Method, path: &str) -> bool {
        method == Method::POST && path == self.path()
    }

    /// Reads the body of a request; what is not there stays empty.
    pub(crate) fn read(self, body: Value) -> Request {
        match self {
            Self::Anthropic => anthropic::read(body),
            Self::Responses => responses::read(body),
            Self::ChatCompletions => chat::read(body),
        }
    }

    /// The conversation that a request belongs to, where its headers name it.
    pub(crate) fn conversation(self, headers: &BTreeMap<String, String>) -> Option<String> {
        match self {
            Self::Anthropic | Self::Responses => None,
            Self::ChatCompletions => chat::conversation(headers),
        }
    }

    /// The answer as the events of a stream.
    pub(crate) fn events(self, request: &Request, answer: &Answer, number: usize) -> Vec<Event> {
        match self {
            Self::Anthropic => anthropic::events(request, answer, number),
            Self::Responses => responses::events(request, answer, number),
            Self::ChatCompletions => chat::events(request, answer, number),
        }
    }

    /// The answer in one piece.
    pub(crate) fn message(self, request: &Request, answer: &Answer, number: usize) -> Value {
        match self {
            Self::Anthropic => anthropic::message(request, answer, number),
            Self::Responses => responses::message(request, answer, number),
            Self::ChatCompletions => chat::message(request, answer, number),
        }
    }

    /// An error as a body.
    pub(crate) fn error(self, kind: &str, message: &str, number: usize) -> Value {
        match self {
            Self::Anthropic => anthropic::error(kind, message, number),
            Self::Responses => responses::error(kind, message),
            Self::ChatCompletions => chat::error(kind, message),
        }
    }

    /// An error in the middle of a stream.
    pub(crate) fn broken(self, kind: &str, message: &str, number: usize) -> Event {
        match self {
            Self::Anthropic | Self::ChatCompletions => {
                let data = self.error(kind, message, number).to_string();
                Event { kind: "error".to_owned(), data }
            }
            Self::Responses => responses::broken(kind, message, number),
        }
    }

    /// The body that says that a quota is used up.
    pub(crate) fn used_up(self, quota: &Quota, message: &str, number: usize) -> Value {
        match self {
            Self::Responses => responses::used_up(quota, message),
            Self::Anthropic | Self::ChatCompletions => {
                self.error(self.kind_of(429), message, number)
            }
        }
    }

    /// The headers that tell how much of a quota is used.
    pub(crate) fn quota_headers(self, quota: &Quota) -> Vec<(&'static str, String)> {
        match self {
            Self::Responses => responses::quota_headers(quota),
            Self::Anthropic => anthropic::quota_headers(quota),
            Self::ChatCompletions => Vec::new(),
        }
    }

    /// The API's name of the error that goes with an HTTP status.
    pub(crate) fn kind_of(self, status: u16) -> &'static str {
        match self {
            Self::Anthropic => anthropic::kind_of(status),
            Self::Responses => responses::kind_of(status),
            Self::ChatCompletions => chat::kind_of(status),
        }
    }
}

/// The name of a request in headers and errors.
pub(crate) fn request_id(number: usize) -> String {
    format!("req_scripted{number}")
}

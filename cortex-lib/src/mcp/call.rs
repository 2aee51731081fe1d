//! Calls of tools as most clients send them, answered straight from the catalogue.
//!
//! The protocol crate finds out what a message is by trying each kind, and answers it in tasks of its own. That
//! takes longer than most tools do, and a call needs none of it.

use std::borrow::Cow;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use rmcp::model::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::sync::CancellationToken;

use super::endpoint::{CALL, Endpoint, failure};
use super::guard::is_stateless;
use super::message;
use super::refusal::{Answer, Refusal};
use crate::api::Caller;
use crate::error::{Code, Error};

/// A call that nobody but the tool has a say in.
#[derive(Debug)]
pub(super) struct Call<'a> {
    caller: &'a Caller,
    id: &'a RawValue,
    name: Cow<'a, str>,
    args: Value,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    arguments: Value,
}

#[derive(Serialize)]
struct Reply<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    #[serde(flatten)]
    outcome: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<'a> {
    Result(Said<'a>),
    Error(Refused<'a>),
}

/// What a tool said, once for models and once for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Said<'a> {
    content: [Text<'a>; 1],
    structured_content: &'a RawValue,
    is_error: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct Refused<'a> {
    code: ErrorCode,
    message: &'a str,
}

impl<'a> Call<'a> {
    /// The call that a message is, if the protocol has no part in it: in the versions without `initialize` it
    /// has, and where progress is told.
    pub(super) fn of(head: &'a Parts, body: &'a [u8], endpoint: &Endpoint) -> Option<Self> {
        let message = message::read(body).ok().filter(|message| message.method == CALL)?;
        let meta = message.meta();
        let Params { name, arguments } = serde_json::from_str(message.params?.get()).ok()?;
        let told = meta.asks_for_progress() && endpoint.wait(&name).is_some();
        if is_stateless(&head.headers) || meta.names_its_version() || told {
            return None;
        }
        Some(Self { caller: head.extensions.get()?, id: message.id?, name, args: arguments })
    }

    /// Runs the tool. Who drops this gives up a call that only reads; a change goes on.
    pub(super) async fn answer(self, endpoint: &Endpoint) -> Answer {
        let Self { caller, id, name, args } = self;
        // Who goes away drops all of this.
        let gone = CancellationToken::new();
        match endpoint.run(caller.clone(), name.into_owned(), args, gone).await {
            Ok(said) => reply(id, said_by(&said, false)),
            Err(error) if error.code() == Code::ToolNotFound => {
                let refused = Refused { code: ErrorCode::INVALID_PARAMS, message: error.message() };
                reply(id, Outcome::Error(refused))
            }
            Err(error) => match to_raw_value(&failure(&error)) {
                Ok(said) => reply(id, said_by(&said, true)),
                Err(broken) => defect(&broken),
            },
        }
    }
}

fn said_by(said: &RawValue, is_error: bool) -> Outcome<'_> {
    let content = [Text { r#type: "text", text: said.get() }];
    Outcome::Result(Said { content, structured_content: said, is_error })
}

fn reply(id: &RawValue, outcome: Outcome<'_>) -> Answer {
    let body = match serde_json::to_vec(&Reply { jsonrpc: "2.0", id, outcome }) {
        Ok(body) => body,
        Err(broken) => return defect(&broken),
    };
    let mut answer = Response::new(Full::new(Bytes::from(body)).boxed());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn defect(broken: &serde_json::Error) -> Answer {
    let message = format!("an answer is no JSON: {broken}");
    Refusal::from(Error::new(Code::Defect, message)).answer()
}

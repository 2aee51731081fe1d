//! What the endpoint answers when a request does not reach a tool.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::error::{Code, Error};
use crate::limits::MCP_HEAD_TIMEOUT;

/// What every request is answered with.
pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A request that is not let in, and why.
#[derive(Debug)]
pub(super) struct Refusal {
    error: Error,
    header: Option<(HeaderName, HeaderValue)>,
    closes: bool,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { error, header: None, closes: false }
    }
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Error::new(code, message).into()
    }

    /// Adds what the status wants beside it: a challenge, the methods that are allowed.
    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some((name, value));
        self
    }

    /// Ends the connection: of a body that is not read, nobody knows what follows it.
    pub(super) fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    pub(super) fn error(&self) -> &Error {
        &self.error
    }

    /// The answer. What only concerns HTTP is short; everything else is the error that a tool would give.
    pub(super) fn answer(self) -> Answer {
        let code = self.error.code();
        let error = if code.as_str().starts_with("http.") {
            json!({ "code": code, "message": self.error.message() })
        } else {
            self.error.to_wire()
        };
        let mut answer = json_answer(status(code), &json!({ "error": error }));
        if let Some((name, value)) = self.header {
            answer.headers_mut().insert(name, value);
        }
        if self.closes {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}

/// The last words on a connection whose sender did not get as far as a request.
pub(super) fn slow_head() -> String {
    let message = format!("the head took more than {} s", MCP_HEAD_TIMEOUT.as_secs());
    let body = json!({ "error": { "code": Code::HttpTimeout, "message": message } }).to_string();
    let status = StatusCode::REQUEST_TIMEOUT;
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
    )
}

/// A JSON body under `status`.
pub(super) fn json_answer(status: StatusCode, body: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn status(code: Code) -> StatusCode {
    match code {
        Code::HttpBadRequest => StatusCode::BAD_REQUEST,
        Code::AuthMissing | Code::AuthInvalid => StatusCode::UNAUTHORIZED,
        Code::HttpForbiddenHost | Code::HttpForbiddenOrigin => StatusCode::FORBIDDEN,
        Code::HttpNotFound => StatusCode::NOT_FOUND,
        Code::HttpMethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::HttpTimeout => StatusCode::REQUEST_TIMEOUT,
        Code::HttpLengthRequired => StatusCode::LENGTH_REQUIRED,
        Code::HttpTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::HttpUnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::HttpHeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Code::Defect => StatusCode::INTERNAL_SERVER_ERROR,
        // Too many connections, a core that has stopped, a store that cannot tell who calls.
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

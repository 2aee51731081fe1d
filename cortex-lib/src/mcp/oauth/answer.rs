//! How OAuth answers: JSON for clients, pages for people, and the way back to a client. Nothing of it may be kept.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    PRAGMA, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::error::{Code, Error};
use crate::limits::OAUTH_DESCRIPTION_CHARS_MAX;
use crate::mcp::refusal::{Answer, json_answer};

/// Why a client does not get what it asks for, in the words of RFC 6749 (5.2, 4.1.2.1) and its kin.
#[derive(Debug)]
pub(super) struct Denial {
    /// The word.
    pub code: &'static str,
    /// What is wrong, for the developer of the client.
    pub description: String,
}

impl Denial {
    pub(super) fn new(code: &'static str, description: impl Into<String>) -> Self {
        Self { code, description: sayable(&description.into()) }
    }

    pub(super) fn request(description: impl Into<String>) -> Self {
        Self::new("invalid_request", description)
    }

    /// The answer to a program.
    pub(super) fn answer(&self) -> Answer {
        let status = match self.code {
            "temporarily_unavailable" => StatusCode::TOO_MANY_REQUESTS,
            "server_error" => StatusCode::SERVICE_UNAVAILABLE,
            "invalid_method" => StatusCode::METHOD_NOT_ALLOWED,
            _ => StatusCode::BAD_REQUEST,
        };
        let mut answer =
            json(status, &json!({ "error": self.code, "error_description": self.description }));
        if status == StatusCode::TOO_MANY_REQUESTS {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        answer
    }
}

/// What fails in Cortex is no client's business, and in the log.
impl From<Error> for Denial {
    fn from(error: Error) -> Self {
        if error.code() == Code::CoreStopped {
            return Self::new("server_error", "the core has stopped");
        }
        tracing::warn!(code = %error.code(), "OAuth: {}", error.message());
        Self::new("server_error", "Cortex failed; see its log")
    }
}

/// A description in the characters that it may have (RFC 6749, 5.2): what is wrong is often told with words of the sender.
fn sayable(text: &str) -> String {
    let said = |c: char| match c {
        '"' => '\'',
        ' '..='~' if c != '\\' => c,
        _ => '?',
    };
    text.chars().map(said).take(OAUTH_DESCRIPTION_CHARS_MAX).collect()
}

/// JSON that is not kept.
pub(super) fn json(status: StatusCode, body: &Value) -> Answer {
    private(json_answer(status, body))
}

/// An empty answer.
pub(super) fn nothing() -> Answer {
    private(Response::new(Full::new(Bytes::new()).boxed()))
}

/// A method that is not taken.
pub(super) fn only(method: &'static str) -> Answer {
    let mut answer = Denial::new("invalid_method", format!("only {method} is taken here")).answer();
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(method));
    answer
}

/// Sends the browser on.
pub(super) fn redirect(to: &str) -> Answer {
    let Ok(location) = HeaderValue::from_str(to) else {
        return Denial::new("server_error", "an address is no header").answer();
    };
    let mut answer = nothing();
    *answer.status_mut() = StatusCode::SEE_OTHER;
    answer.headers_mut().insert(LOCATION, location);
    answer
}

/// A page: it runs nothing, loads nothing, sends nothing and is shown in no frame.
pub(super) fn page(status: StatusCode, html: String) -> Answer {
    let mut answer = private(Response::new(Full::new(Bytes::from(html)).boxed()));
    *answer.status_mut() = status;
    let policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
    let headers: [(HeaderName, &'static str); 3] = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, policy),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn private(mut answer: Answer) -> Answer {
    let headers: [(HeaderName, &'static str); 4] = [
        (CACHE_CONTROL, "no-store"),
        (PRAGMA, "no-cache"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_the_characters_that_it_may_have() {
        let said = |text: &str| Denial::request(text).description;
        assert_eq!(said("a \"b\" \\ \u{e9}\r\n~"), "a 'b' ? ???~");
        assert_eq!(said(&"x".repeat(20_000)).len(), OAUTH_DESCRIPTION_CHARS_MAX);
    }
}

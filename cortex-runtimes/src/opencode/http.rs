//! The HTTP side of OpenCode's server: one request on one connection, and its stream of events. It is on this machine
//! and answers in milliseconds, so nothing is kept open or tried again.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cortex_lib::secret::Secret;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::sse::Events;

/// Longest answer: the messages of a turn with all that tools printed.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The user that the server expects beside its password.
const USER: &str = "opencode";

/// A way to ask the server.
#[derive(Clone, Debug)]
pub(super) struct Api {
    address: SocketAddr,
    authorization: Secret,
}

/// Why there is no answer that could be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server did not answer.
    Unreachable(String),
    /// It answered with an error.
    Status {
        /// The HTTP status.
        status: u16,
        /// What it says.
        message: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => f.write_str(why),
            Self::Status { status, message } => write!(f, "HTTP {status}: {message}"),
        }
    }
}

impl Api {
    pub(super) fn new(address: SocketAddr, password: &Secret) -> Self {
        let login = STANDARD.encode(format!("{USER}:{}", password.expose()));
        Self { address, authorization: Secret::new(format!("Basic {login}")) }
    }

    pub(super) async fn get(&self, path: &str, wait: Duration) -> Result<Value, Fault> {
        self.ask(Method::GET, path, None, wait).await
    }

    pub(super) async fn post(
        &self,
        path: &str,
        body: &Value,
        wait: Duration,
    ) -> Result<Value, Fault> {
        self.ask(Method::POST, path, Some(body), wait).await
    }

    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        wait: Duration,
    ) -> Result<Value, Fault> {
        let late = || Fault::Unreachable(format!("no answer within {} s", wait.as_secs()));
        let body = body.map(ToString::to_string).unwrap_or_default();
        timeout(wait, self.exchange(method, path, body)).await.map_err(|_| late())?
    }

    async fn exchange(&self, method: Method, path: &str, body: String) -> Result<Value, Fault> {
        let response = self.send(method, path, body).await?;
        let status = response.status();
        let json = response
            .headers()
            .get("content-type")
            .is_none_or(|kind| kind.as_bytes().starts_with(b"application/json"));
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Fault::Unreachable(error.to_string()))?.to_bytes();
        let value: Value = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body).unwrap_or_default()
        };
        if !status.is_success() {
            let said = ["/data/message", "/message", "/name"]
                .iter()
                .find_map(|path| value.pointer(path)?.as_str());
            let message = said.unwrap_or("no reason given").to_owned();
            return Err(Fault::Status { status: status.as_u16(), message });
        }
        // A path that it does not know shows its web page.
        if !json {
            let message = format!("{path} is not known to this version");
            return Err(Fault::Status { status: 404, message });
        }
        Ok(value)
    }

    /// The stream of everything that happens on the server.
    pub(super) async fn events(&self, wait: Duration) -> Result<Events, Fault> {
        let late = |_| Fault::Unreachable("its events do not come".to_owned());
        let asked = self.send(Method::GET, "/global/event", String::new());
        let response = timeout(wait, asked).await.map_err(late)??;
        if !response.status().is_success() {
            let status = response.status().as_u16();
            return Err(Fault::Status { status, message: "its events are refused".to_owned() });
        }
        Ok(Events::new(response.into_body()))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Response<Incoming>, Fault> {
        let broken = |error: &dyn fmt::Display| Fault::Unreachable(error.to_string());
        let socket = TcpStream::connect(self.address).await.map_err(|error| broken(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(|error| broken(&error))?;
        // Ends with the response, or with its sender when that is dropped.
        drop(TaskTracker::new().spawn(connection));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string())
            .header("authorization", self.authorization.expose())
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| broken(&error))?;
        sender.send_request(request).await.map_err(|error| broken(&error))
    }
}

/// `path` of the server for a folder.
pub(super) fn within(path: &str, folder: &std::path::Path) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    let mut text = format!("{path}{separator}directory=");
    for byte in folder.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let hex = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
            text.extend(['%', hex(byte >> 4), hex(byte & 0xf)]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_folder_is_written_so_that_nothing_of_it_is_read_as_something_else() {
        let folder = Path::new("/p/a b&c=ä%");
        assert_eq!(within("/agent", folder), "/agent?directory=/p/a%20b%26c%3d%c3%a4%25");
        assert_eq!(within("/x?limit=1", Path::new("/p")), "/x?limit=1&directory=/p");
    }

    #[test]
    fn the_password_is_not_shown() {
        let api = Api::new(([127, 0, 0, 1], 1).into(), &Secret::new("hush-hush"));
        let shown = format!("{api:?}");
        assert!(!shown.contains("Basic") && !shown.contains("hush"), "{shown}");
    }
}

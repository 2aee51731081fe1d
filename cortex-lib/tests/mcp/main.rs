//! The MCP endpoint, as clients meet it: raw requests over a socket.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]

#[path = "../core/access_table.rs"]
mod access_table;
mod attacks;
mod http;
mod matrix;
#[cfg(feature = "oauth")]
mod oauth;
mod protocol;
mod refusals;
mod serving;
mod sessions;
mod stateless;

use cortex_lib::Cortex;
use cortex_lib::mcp::{self, McpOptions, McpServer, UserToken};
use cortex_lib::secret::Secret;
use http::{Answer, Request};
use serde_json::{Value, json};

/// A core without runtimes and its endpoint.
struct Served {
    cortex: Cortex,
    server: McpServer,
    token: Secret,
    _dir: tempfile::TempDir,
}

impl Served {
    async fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cortex = Cortex::builder(dir.path().join("data")).open().await.unwrap();
        let place = UserToken::of(cortex.data_dir());
        let token = place.load_or_create(&**cortex.core().env()).unwrap();
        let options = McpOptions { port: 0, token: token.clone() };
        let server = mcp::serve(&cortex, options).await.unwrap();
        Self { cortex, server, token, _dir: dir }
    }

    fn port(&self) -> u16 {
        self.server.port()
    }

    /// A request that is let in, unless `body` is wrong.
    fn post(&self, body: impl Into<Vec<u8>>) -> Request {
        Request::post(self.port(), self.token.expose(), body)
    }

    async fn send(&self, request: Request) -> Answer {
        request.send(self.port()).await
    }

    /// The answer to one JSON-RPC request.
    async fn ask(&self, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = self.send(self.post(message.to_string())).await;
        let said = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 200, "{method}: {said}");
        answer.json()
    }

    /// The result of a tool call.
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let mut answer = self.ask("tools/call", params).await;
        assert_eq!(answer["error"], Value::Null, "{tool}");
        answer["result"].take()
    }
}

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

//! An MCP endpoint with one tool, as small as it can be: enough to see what the CLI asks and with which credential.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

/// The endpoint.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
}

/// What one request was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) credential: Option<String>,
}

impl Endpoint {
    /// Listens; only requests with this credential are served.
    pub(crate) async fn start(credential: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (seen, expected) = (Arc::<Mutex<Vec<Seen>>>::default(), format!("Bearer {credential}"));
        let log = Arc::clone(&seen);
        let connections = TaskTracker::new();
        drop(connections.clone().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(connections.spawn(serve(stream, expected.clone(), Arc::clone(&log))));
            }
        }));
        Self { url, seen }
    }

    pub(crate) fn seen(&self, method: &str) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|seen| seen.method == method).cloned().collect()
    }
}

async fn serve(stream: TcpStream, expected: String, log: Arc<Mutex<Vec<Seen>>>) {
    let mut stream = BufReader::new(stream);
    while let Some((get, credential, body)) = request(&mut stream).await {
        let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
        let method = asked.get("method").and_then(Value::as_str).unwrap_or("GET").to_owned();
        log.lock().unwrap().push(Seen { method: method.clone(), credential: credential.clone() });
        let answer = match (get, asked.get("id")) {
            _ if credential.as_deref() != Some(&expected) => ("401 Unauthorized", Value::Null),
            (true, _) => ("405 Method Not Allowed", Value::Null),
            (false, None) => ("202 Accepted", Value::Null),
            (false, Some(id)) => {
                ("200 OK", json!({"jsonrpc": "2.0", "id": id, "result": result(&method, &asked)}))
            }
        };
        let body = if answer.1.is_null() { String::new() } else { answer.1.to_string() };
        let head = format!(
            "HTTP/1.1 {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.0,
            body.len()
        );
        if stream.write_all((head + &body).as_bytes()).await.is_err() {
            return;
        }
    }
}

fn result(method: &str, asked: &Value) -> Value {
    match method {
        "initialize" => json!({
            "protocolVersion": asked.pointer("/params/protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "cortex", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "list_tasks",
            "description": "List the tasks.",
            "inputSchema": {"type": "object", "properties": {}},
        }]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "no tasks yet"}]}),
        _ => json!({}),
    }
}

/// Whether it is a GET, its credential and its body; nothing when the client went away.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<(bool, Option<String>, Vec<u8>)> {
    let (mut first, mut credential, mut length) = (String::new(), None, 0);
    if stream.read_line(&mut first).await.ok()? == 0 {
        return None;
    }
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => credential = Some(value.trim().to_owned()),
            "content-length" => length = value.trim().parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((first.starts_with("GET"), credential, body))
}

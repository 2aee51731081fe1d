//! The bare OpenCode: its server, one request for each turn, and the stream of what happens.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cortex_scripted::OPENCODE_MODEL;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;

use crate::bare::{Seat, Took};
use crate::place::Place;
use crate::seen::Seen;

/// The server, and a session of it.
#[derive(Debug)]
pub(crate) struct BareOpenCode {
    child: Child,
    api: Api,
    events: Events,
    session: String,
    folder: String,
}

#[derive(Clone, Debug)]
struct Api {
    address: String,
    authorization: String,
}

/// What happens on the server: a JSON object for each line that begins with `data:`.
#[derive(Debug)]
struct Events {
    body: Incoming,
    unread: Vec<u8>,
}

impl BareOpenCode {
    pub(crate) async fn start(seen: &Seen, place: &Place) -> Result<Self> {
        let mut child = seen.start(None)?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let address = loop {
            let line = lines.next_line().await?.context("the server has ended")?;
            if let Some((_, address)) = line.split_once("listening on http://") {
                break address.trim().to_owned();
            }
        };
        let login = format!("opencode:{}", seen.var("OPENCODE_SERVER_PASSWORD")?);
        let api = Api { address, authorization: format!("Basic {}", STANDARD.encode(login)) };
        let body = api.send(Method::GET, "/global/event", None).await?.into_body();
        let events = Events { body, unread: Vec::new() };
        let folder = format!("?directory={}", place.home.project().display());
        // The driver looks at the folder before its first turn, which makes that as quick as the others.
        api.ask(Method::GET, &format!("/agent{folder}"), None).await?;
        let ask = json!([{ "permission": "*", "pattern": "*", "action": "ask" }]);
        let made = json!({ "title": "turns", "permission": ask });
        let made = api.ask(Method::POST, &format!("/session{folder}"), Some(&made)).await?;
        let session = made["id"].as_str().context("the session has no name")?.to_owned();
        Ok(Self { child, api, events, session, folder })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }
}

#[async_trait]
impl Seat for BareOpenCode {
    async fn turn(&mut self, text: &str) -> Result<Took> {
        let began = Instant::now();
        let (provider, model) = OPENCODE_MODEL.split_once('/').unwrap_or_default();
        let body = json!({
            "agent": "build", "model": { "providerID": provider, "modelID": model },
            "parts": [{ "type": "text", "text": text }],
        });
        let Self { session, folder, .. } = self;
        let path = format!("/session/{session}/prompt_async{folder}");
        self.api.ask(Method::POST, &path, Some(&body)).await?;
        loop {
            let event = self.events.next().await?;
            let properties = &event["properties"];
            if properties["sessionID"] != *self.session {
                continue;
            }
            match event["type"].as_str() {
                Some("permission.asked") => {
                    let id = properties["id"].as_str().unwrap_or_default();
                    let path = format!("/permission/{id}/reply{}", self.folder);
                    self.api.ask(Method::POST, &path, Some(&json!({ "reply": "once" }))).await?;
                }
                Some("session.idle") => return Ok(Took::whole(began.elapsed())),
                _ => {}
            }
        }
    }
}

impl Events {
    async fn next(&mut self) -> Result<Value> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                if let Some(data) = line.strip_prefix(b"data:") {
                    let told: Value = serde_json::from_slice(data)?;
                    return Ok(told["payload"].clone());
                }
                continue;
            }
            let frame = self.body.frame().await.context("the server says no more")??;
            if let Ok(data) = frame.into_data() {
                self.unread.extend_from_slice(&data);
            }
        }
    }
}

impl Api {
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let response = self.send(method, path, body).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&bytes));
        Ok(serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>> {
        let stream = TcpStream::connect(&self.address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the response.
        tokio::spawn(connection);
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.address)
            .header("authorization", &self.authorization)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        Ok(sender.send_request(request).await?)
    }
}

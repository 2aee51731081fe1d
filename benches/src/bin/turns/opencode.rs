//! The bare OpenCode: its server, and one request for each turn.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cortex_scripted::OPENCODE_MODEL;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper::{Method, Request};
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
    path: String,
}

#[derive(Clone, Debug)]
struct Api {
    address: String,
    authorization: String,
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
        let folder = format!("?directory={}", place.home.project().display());
        // The driver looks at the folder before its first turn, which makes that as quick as the others.
        api.ask(Method::GET, &format!("/agent{folder}"), None).await?;
        let made = json!({ "title": "turns" });
        let made = api.ask(Method::POST, &format!("/session{folder}"), Some(&made)).await?;
        let id = made["id"].as_str().context("the session has no name")?;
        Ok(Self { child, path: format!("/session/{id}/message{folder}"), api })
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
        self.api.ask(Method::POST, &self.path, Some(&body)).await?;
        Ok(Took::whole(began.elapsed()))
    }
}

impl Api {
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let stream = TcpStream::connect(&self.address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.address)
            .header("authorization", &self.authorization)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        connection.abort();
        ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&bytes));
        Ok(serde_json::from_slice(&bytes)?)
    }
}

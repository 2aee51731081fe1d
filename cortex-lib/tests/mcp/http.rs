//! One request over one connection, written by hand: nothing corrects what a test sends.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A request as it goes over the wire.
#[derive(Clone, Debug)]
pub struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A request without anything but a Host.
    pub fn new(method: &str, target: &str, port: u16) -> Self {
        Self { line: format!("{method} {target} HTTP/1.1"), headers: Vec::new(), body: Vec::new() }
            .with("Host", format!("127.0.0.1:{port}"))
            .with("Connection", "close")
    }

    /// A message as a well-behaved client sends it.
    pub fn post(port: u16, token: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let length = body.len().to_string();
        Self { body, ..Self::new("POST", "/mcp", port) }
            .with("Authorization", format!("Bearer {token}"))
            .with("Content-Type", "application/json")
            .with("Content-Length", length)
    }

    /// Replaces the request line's method and target.
    pub fn line(mut self, method: &str, target: &str) -> Self {
        self.line = format!("{method} {target} HTTP/1.1");
        self
    }

    /// Another body, with its length.
    pub fn body(self, body: &str) -> Self {
        let body = body.as_bytes().to_vec();
        let length = body.len().to_string();
        Self { body, ..self.with("Content-Length", length) }
    }

    /// Name and value of each header.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Sends this body, and its length.
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        let length = self.body.len().to_string();
        self.with("Content-Length", length)
    }

    /// Sets a header.
    pub fn with(self, name: &str, value: impl Into<String>) -> Self {
        self.without(name).and(name, value)
    }

    /// Adds a header, even if it is there.
    pub fn and(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Leaves a header out.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// What goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let fields = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let head = format!("{}\r\n{}\r\n", self.line, fields.collect::<String>());
        [head.as_bytes(), &self.body].concat()
    }

    /// Sends it and reads the answer to its end.
    pub async fn send(&self, port: u16) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(&self.bytes()).await.unwrap();
        read(stream).await
    }
}

/// Reads an answer to its end.
pub async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    Answer::parse(&bytes)
}

/// A connection that carries requests one after the other.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub async fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        Self { stream, read: Vec::new() }
    }

    /// Sends bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Sends a request and reads its answer.
    pub async fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        self.write(&request.bytes()).await?;
        self.answer().await
    }

    /// The next answer: up to its length.
    pub async fn answer(&mut self) -> io::Result<Answer> {
        loop {
            if let Some(end) = end_of_head(&self.read) {
                let answer = Answer::parse(&self.read);
                let length =
                    answer.header("content-length").map_or(0, |length| length.parse().unwrap());
                if self.read.len() >= end + length {
                    let whole: Vec<u8> = self.read.drain(..end + length).collect();
                    return Ok(Answer::parse(&whole));
                }
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// All that still comes until the other side ends.
    pub async fn rest(mut self) -> Vec<u8> {
        self.stream.read_to_end(&mut self.read).await.unwrap();
        self.read
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    Some(bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4)
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Takes an answer apart.
    pub fn parse(bytes: &[u8]) -> Self {
        let (head, body) = bytes.split_at(end_of_head(bytes).unwrap());
        let head = std::str::from_utf8(head).unwrap().to_owned();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: body.to_vec() }
    }

    /// A header of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The body, when it is JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

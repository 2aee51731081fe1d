//! A client that costs little: it sends the same bytes over connections that stay open.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A request as it goes over the wire.
pub(crate) fn request(port: u16, token: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2025-11-25\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into()
}

/// One open connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(64 * 1024) })
    }

    /// Sends a request and reads its answer; the body of it.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server hung up");
            let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let (head, body) = self.buffer.split_at(end + 4);
            let head = std::str::from_utf8(head)?.to_ascii_lowercase();
            ensure!(head.starts_with("http/1.1 200"), "it answered {head}");
            let length = head.split("\r\ncontent-length: ").nth(1).context("no length")?;
            let length: usize = length.split("\r\n").next().unwrap_or_default().parse()?;
            if body.len() < length {
                continue;
            }
            ensure!(body.len() == length, "more came than was asked for");
            // Borrowed anew: the borrow checker does not follow one that only some ways return.
            return Ok(self.buffer.get(end + 4..).unwrap_or_default());
        }
    }
}

/// Sends requests for so long over so many connections at once; how long each took, shortest first.
pub(crate) async fn load(
    port: u16,
    request: &[u8],
    time: Duration,
    connections: usize,
) -> Result<Vec<Duration>> {
    let end = Instant::now() + time;
    let lanes = (0..connections).map(|_| async {
        let mut connection = Connection::open(port).await?;
        let mut took = Vec::new();
        while Instant::now() < end {
            let began = Instant::now();
            connection.ask(request).await?;
            took.push(began.elapsed());
        }
        Ok::<_, anyhow::Error>(took)
    });
    let mut took: Vec<_> = try_join_all(lanes).await?.into_iter().flatten().collect();
    took.sort_unstable();
    Ok(took)
}

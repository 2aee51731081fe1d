//! What stands between a client that cannot send a credential and the endpoint: it adds one.

use std::net::Ipv4Addr;

use cortex_lib::secret::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// It ends when it is dropped.
pub struct Bearer {
    port: u16,
    _work: JoinSet<()>,
}

impl Bearer {
    pub async fn before(port: u16, token: &Secret) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let credential = format!("Authorization: Bearer {}\r\n", token.expose());
        let mut work = JoinSet::new();
        work.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, [own, port], credential.clone()));
            }
        });
        Self { port: own, _work: work }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

/// Passes one request on, and its answer back. Who names us as the host means the endpoint; who breaks off has
/// seen enough.
async fn pass(mut client: TcpStream, [own, port]: [u16; 2], credential: String) -> Option<()> {
    let mut seen = Vec::new();
    let head_ends = loop {
        if let Some(at) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 2;
        }
        if client.read_buf(&mut seen).await.ok()? == 0 {
            return None;
        }
    };
    let (head, rest) = seen.split_at(head_ends);
    let mut head = String::from_utf8_lossy(head).into_owned();
    for name in ["127.0.0.1", "localhost"] {
        head = head.replace(&format!("{name}:{own}"), &format!("{name}:{port}"));
    }
    let mut endpoint = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
    // The next request comes over another connection and is seen to as well.
    let head = format!("{head}{credential}Connection: close\r\n");
    endpoint.write_all(head.as_bytes()).await.ok()?;
    endpoint.write_all(rest).await.ok()?;
    tokio::io::copy_bidirectional(&mut client, &mut endpoint).await.ok()?;
    Some(())
}

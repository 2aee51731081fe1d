//! The tools of a core over MCP: one endpoint on 127.0.0.1.
//!
//! A request passes the accept loop (slots, deadlines), the guard (every refusal; it finds out who calls), the
//! protocol of `rmcp` and the catalogue of tools, which is the same that Rust callers use. The endpoint keeps
//! no state of its own: no sessions, no streams, one JSON answer for one POST.

mod endpoint;
mod guard;
mod listener;
mod message;
mod refusal;
mod user_token;

use std::io;
use std::net::Ipv4Addr;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::DropGuard;

pub use user_token::UserToken;

use crate::Cortex;
use crate::api::Catalogue;
use crate::engine::Supervisor;
use crate::error::{Code, Error, Result};
use crate::limits::MCP_STOP_GRACE;
use crate::secret::{Secret, SecretHash};
use listener::Listener;

/// How the endpoint is served.
#[derive(Clone, Debug)]
pub struct McpOptions {
    /// The port on 127.0.0.1; 0 takes any that is free.
    pub port: u16,
    /// The credential of the person who runs Cortex.
    pub token: Secret,
}

/// An endpoint that is served. It ends when it is dropped; [`stop`](Self::stop) lets requests finish.
#[derive(Debug)]
pub struct McpServer {
    port: u16,
    user: watch::Sender<SecretHash>,
    _ends_when_dropped: DropGuard,
    work: Supervisor,
}

/// Serves the tools of `cortex` on 127.0.0.1.
///
/// The endpoint outlives its core: when the core has stopped it says so.
///
/// # Errors
///
/// `mcp.port_in_use`, `mcp.listen_failed`.
pub async fn serve(cortex: &Cortex, options: McpOptions) -> Result<McpServer> {
    serve_catalogue(cortex, options, Catalogue::CORTEX).await
}

async fn serve_catalogue(
    cortex: &Cortex,
    options: McpOptions,
    catalogue: Catalogue,
) -> Result<McpServer> {
    let failed = |error| cannot_listen(options.port, &error);
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await.map_err(failed)?;
    let port = socket.local_addr().map_err(failed)?.port();
    let (user, current) = watch::channel(options.token.hash());
    let work = Supervisor::default();
    let listener = Listener::new(cortex.core(), port, current, catalogue, &work);
    work.spawn(listener.run(socket));
    tracing::info!(port, "MCP is served");
    Ok(McpServer { port, user, _ends_when_dropped: work.stopping().drop_guard(), work })
}

fn cannot_listen(port: u16, error: &io::Error) -> Error {
    let error = if error.kind() == io::ErrorKind::AddrInUse {
        Error::new(Code::McpPortInUse, format!("port {port} of 127.0.0.1 is taken"))
    } else {
        let message = format!("the endpoint cannot listen on port {port} of 127.0.0.1: {error}");
        Error::new(Code::McpListenFailed, message)
    };
    error.with("port", port)
}

impl McpServer {
    /// Where clients send their requests.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, guard::PATH)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on `token` is the user's credential, and no earlier one is.
    pub fn set_user_token(&self, token: &Secret) {
        self.user.send_replace(token.hash());
    }

    /// Takes no more connections and lets requests finish for a short while. Reads that wait are answered at
    /// once; a change goes on in the core even when its caller is cut off.
    pub async fn stop(self) {
        if !self.work.join(MCP_STOP_GRACE * 2).await {
            tracing::warn!("some connections to the endpoint did not end");
        }
    }
}

#[cfg(test)]
mod tests;

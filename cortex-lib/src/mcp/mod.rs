//! The tools of a core over MCP: one endpoint on 127.0.0.1.
//!
//! A request passes the accept loop (slots, deadlines), the guard (every refusal; it finds out who calls), the
//! protocol of `rmcp` and the catalogue of tools, which is the same that Rust callers use. The endpoint keeps
//! no state of its own: no sessions, and one answer for one POST. It is JSON, or the stream of events of a call whose
//! client wants to hear of its progress.

mod call;
mod endpoint;
mod guard;
mod listener;
mod message;
#[cfg(not(feature = "oauth"))]
mod no_oauth;
#[cfg(feature = "oauth")]
pub mod oauth;
mod outline;
mod progress;
mod refusal;
mod slots;
mod user_token;

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::DropGuard;

use user_token::Owner;
pub use user_token::UserToken;

use crate::Cortex;
use crate::api::Catalogue;
use crate::engine::Supervisor;
use crate::error::{Code, Error, Result};
use crate::limits::MCP_STOP_GRACE;
use crate::secret::Secret;
use guard::Guard;
use listener::Listener;
#[cfg(not(feature = "oauth"))]
use no_oauth::Public;
#[cfg(feature = "oauth")]
use oauth::{Public, PublicUrl};

/// How the endpoint is served.
#[derive(Clone, Debug)]
pub struct McpOptions {
    /// The port on 127.0.0.1; 0 takes any that is free.
    pub port: u16,
    /// The credential of the person who runs Cortex.
    pub token: Secret,
}

/// A port that is taken for an endpoint and not served yet. Who connects meanwhile waits.
///
/// It is taken before the core is opened, so that agents that are started again are told where to connect:
/// [`Builder::endpoint`](crate::Builder::endpoint).
#[derive(Debug)]
pub struct McpSocket {
    port: u16,
    listener: TcpListener,
    #[cfg(feature = "oauth")]
    public: Option<PublicUrl>,
}

/// An endpoint that is served. It ends when it is dropped; [`stop`](Self::stop) lets requests finish.
#[derive(Debug)]
pub struct McpServer {
    port: u16,
    owner: Arc<Owner>,
    _ends_when_dropped: DropGuard,
    work: Supervisor,
}

/// Takes a port of 127.0.0.1 for an endpoint; 0 takes any that is free.
///
/// # Errors
///
/// `mcp.port_in_use`, `mcp.listen_failed`.
pub async fn bind(port: u16) -> Result<McpSocket> {
    let failed = |error| cannot_listen(port, &error);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok(McpSocket {
        port,
        listener,
        #[cfg(feature = "oauth")]
        public: None,
    })
}

/// Serves the tools of `cortex` on 127.0.0.1 to clients of the user. Sessions of agents are not told of it: for
/// them [`bind`] first, and open the core with [`Builder::endpoint`](crate::Builder::endpoint).
///
/// # Errors
///
/// `mcp.port_in_use`, `mcp.listen_failed`.
pub async fn serve(cortex: &Cortex, options: McpOptions) -> Result<McpServer> {
    Ok(bind(options.port).await?.serve(cortex, &options.token))
}

impl McpSocket {
    /// Where clients send their requests once it is served.
    pub fn url(&self) -> String {
        url_of(self.port)
    }

    /// The port that is taken.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Lets clients from elsewhere come by a public address, which a reverse proxy serves. Default: none do.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn public_url(self, url: PublicUrl) -> Self {
        Self { public: Some(url), ..self }
    }

    /// Serves the tools of `cortex`. `token` is the credential of the person who runs Cortex.
    ///
    /// The endpoint outlives its core: when the core has stopped it says so.
    pub fn serve(self, cortex: &Cortex, token: &Secret) -> McpServer {
        self.serve_catalogue(cortex, Owner::fixed(token), Catalogue::CORTEX)
    }

    /// Serves the tools of `cortex` to who has the user token of its data directory, which is made on first use. What
    /// replaces it in its [file](UserToken) ends the old one at once.
    ///
    /// # Errors
    ///
    /// `core.data_dir_unusable` when there is no such token and none can be made.
    pub fn serve_owner(self, cortex: &Cortex) -> Result<McpServer> {
        let file = UserToken::of(cortex.data_dir());
        let owner = Owner::of_file(file, &**cortex.core().env())?;
        Ok(self.serve_catalogue(cortex, owner, Catalogue::CORTEX))
    }

    fn serve_catalogue(self, cortex: &Cortex, owner: Owner, catalogue: Catalogue) -> McpServer {
        let core = cortex.core();
        #[cfg(feature = "oauth")]
        let public = self.public.map(|url| Arc::new(Public::new(url, core.clone())));
        #[cfg(not(feature = "oauth"))]
        let public: Option<Arc<Public>> = None;
        let port = self.port;
        let owner = Arc::new(owner);
        let work = Supervisor::default();
        let guard = Guard::new(port, core.clone(), Arc::clone(&owner), public);
        let accept = Listener::new(core, guard, catalogue, &work);
        work.spawn(accept.run(self.listener));
        tracing::info!(port, "MCP is served");
        McpServer { port, owner, _ends_when_dropped: work.stopping().drop_guard(), work }
    }
}

fn url_of(port: u16) -> String {
    format!("http://127.0.0.1:{port}{}", guard::PATH)
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
        url_of(self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on `token` is the user's credential, and no earlier one is.
    pub fn set_user_token(&self, token: &Secret) {
        self.owner.set(token);
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

//! From a data directory to a running core that others can reach.

use std::path::Path;

use cortex_lib::Cortex;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::local::{self, LocalServer};
use cortex_lib::mcp::{self, McpServer, McpSocket, UserToken};
use cortex_runtimes::CommandConfig;

use crate::config::Config;

/// How long a core is meant to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// For one command that looks or decides: nothing is begun that would only be ended with it.
    Glance,
    /// For one run: agents that ran before stay down, because they would only be started to be stopped. The
    /// endpoint is for the sessions of the run, so it takes any port: a run stands in nobody's way.
    Brief,
    /// Until it is told to stop: agents that ran before are started again and the endpoint is served, as
    /// configured. When it cannot be served nothing is begun, so that no agent starts without what it had.
    Long,
}

/// A core of this process.
#[derive(Debug)]
pub struct Opened {
    /// The core.
    pub cortex: Cortex,
    /// Its MCP endpoint. A core goes on without one.
    pub endpoint: Endpoint,
    /// Absent when this machine allows no local socket: then only this process reaches the core.
    local: Option<LocalServer>,
}

/// A port that is taken for an endpoint before the core is opened.
type Bound = Option<Result<McpSocket>>;

/// The MCP endpoint of a core.
#[derive(Debug)]
pub enum Endpoint {
    /// Nobody wants it.
    Off,
    /// It is served.
    On(McpServer),
    /// It could not be served.
    Failed(Error),
}

/// Opens the core of `data_dir` here, with the runtimes of `config` and `extra` ones, and serves its local socket.
///
/// # Errors
///
/// Those of [`Builder::open`](cortex_lib::Builder::open).
pub async fn open(
    data_dir: &Path,
    config: &Config,
    life: Life,
    extra: Vec<CommandConfig>,
) -> Result<Opened> {
    let mut settings = config.settings();
    settings.agents.restore_on_open &= life == Life::Long;
    let mut builder = Cortex::builder(data_dir).settings(settings);
    let bound = bind(data_dir, config, life).await;
    if let Some(Ok(socket)) = &bound {
        builder = builder.endpoint(socket.url());
    }
    let is_crippled = life == Life::Long && matches!(bound, Some(Err(_)));
    if life == Life::Glance || is_crippled {
        builder = builder.at_rest();
    }
    let runtimes = config.runtimes(extra)?;
    for runtime in runtimes {
        builder = builder.runtime(runtime);
    }
    let cortex = builder.open().await?;
    let endpoint = serve_mcp(&cortex, bound);
    let local = local::serve(&cortex)
        .inspect_err(|error| {
            let (code, message) = (error.code(), error.message());
            tracing::warn!(%code, "other processes cannot reach this core: {message}");
        })
        .ok();
    Ok(Opened { cortex, endpoint, local })
}

/// Takes the port of the endpoint. The core comes after it: its agents are told where to connect when they start.
async fn bind(data_dir: &Path, config: &Config, life: Life) -> Bound {
    let port = match life {
        Life::Glance => return None,
        Life::Brief => 0,
        Life::Long => config.mcp.port,
    };
    if !config.mcp.enabled {
        tracing::info!("no MCP: mcp.enabled is false");
        return None;
    }
    // A token that cannot be read is found before agents are told of an endpoint that will not be served.
    Some(match UserToken::of(data_dir).load() {
        Ok(_) => bind_public(port, config, life).await,
        Err(error) => Err(error),
    })
}

/// The public address is that of the core that lives: a reverse proxy knows one port.
async fn bind_public(port: u16, config: &Config, life: Life) -> Result<McpSocket> {
    let url = config.public_url()?.filter(|_| life == Life::Long);
    let socket = mcp::bind(port).await?;
    Ok(match url {
        Some(url) => {
            tracing::info!(%url, "clients from elsewhere may ask to be connected");
            socket.public_url(url)
        }
        None => socket,
    })
}

fn serve_mcp(cortex: &Cortex, bound: Bound) -> Endpoint {
    let Some(bound) = bound else { return Endpoint::Off };
    match bound.and_then(|socket| socket.serve_owner(cortex)) {
        Ok(server) => Endpoint::On(server),
        Err(error) => {
            let (code, message) = (error.code(), error.message());
            tracing::warn!(%code, "no MCP: {message}");
            Endpoint::Failed(error)
        }
    }
}

impl Opened {
    /// Whether other processes reach it by the local socket.
    pub fn is_reachable(&self) -> bool {
        self.local.is_some()
    }

    /// Stops the core in order.
    ///
    /// # Errors
    ///
    /// Those of [`Cortex::shutdown`].
    pub async fn close(self) -> Result<()> {
        // The core first: whoever asks meanwhile hears that it stops.
        let closed = self.cortex.shutdown().await;
        if let Endpoint::On(server) = self.endpoint {
            server.stop().await;
        }
        if let Some(local) = self.local {
            local.stop().await;
        }
        closed
    }
}

impl Endpoint {
    /// Why it could not be served.
    pub fn failure(&self) -> Option<Error> {
        match self {
            Self::Failed(error) => Some(error.clone()),
            Self::Off | Self::On(_) => None,
        }
    }

    /// Where clients send their requests, when it is served.
    pub fn url(&self) -> Option<String> {
        match self {
            Self::On(server) => Some(server.url()),
            Self::Off | Self::Failed(_) => None,
        }
    }
}

/// Makes a folder, and those above it, that only its owner can enter. One that exists is left as it is.
///
/// # Errors
///
/// `core.data_dir_unusable`.
pub(crate) fn make_private(path: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| {
        let message = format!("the folder {} cannot be made: {error}", path.display());
        Error::new(Code::DataDirUnusable, message)
    })
}

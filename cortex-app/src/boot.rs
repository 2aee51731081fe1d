//! From a data directory to a running core that others can reach.

use std::path::Path;

use cortex_lib::Cortex;
use cortex_lib::error::Result;
use cortex_lib::local::{self, LocalServer};
use cortex_runtimes::CommandConfig;

use crate::config::Config;

/// How long a core is meant to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// For one command: agents that ran before stay down, because they would only be started to be stopped.
    Brief,
    /// Until it is told to stop: agents that ran before are started again, as configured.
    Long,
}

/// A core of this process.
#[derive(Debug)]
pub struct Opened {
    /// The core.
    pub cortex: Cortex,
    /// Absent when this machine allows no local socket: then only this process reaches the core.
    local: Option<LocalServer>,
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
    for runtime in config.runtimes(extra)? {
        builder = builder.runtime(runtime);
    }
    let cortex = builder.open().await?;
    let local = local::serve(&cortex)
        .inspect_err(|error| {
            tracing::warn!(code = %error.code(), "other processes cannot reach this core: {}", error.message());
        })
        .ok();
    Ok(Opened { cortex, local })
}

impl Opened {
    /// Stops the core in order.
    ///
    /// # Errors
    ///
    /// Those of [`Cortex::shutdown`].
    pub async fn close(self) -> Result<()> {
        // The core first: whoever asks meanwhile hears that it stops.
        let closed = self.cortex.shutdown().await;
        if let Some(local) = self.local {
            local.stop().await;
        }
        closed
    }
}

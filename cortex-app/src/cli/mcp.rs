//! `cortex mcp`: the tools for clients that start their servers as programs, and the configuration of those clients.

mod client;
mod config;
mod entry;

use std::sync::Arc;

use clap::{Args, Subcommand};
use cortex_lib::error::Result;

use super::{Exit, Global, Screen};
use crate::bridge::{self, Upstream, stdio};
use crate::signals::StopRequests;
use crate::stdout;

/// Serve MCP on standard input and output, by the core that runs
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Mcp {
    /// Open a core here when none runs; it ends with the client
    #[arg(long)]
    embedded: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    Config(config::Config),
}

impl Mcp {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        match self.action {
            Some(Action::Config(config)) => config.run(global, screen),
            None => serve(global, self.embedded).await,
        }
    }
}

/// Serves until the client closes the input and all is answered, or somebody says to stop.
async fn serve(global: &Global, embedded: bool) -> Result<Exit> {
    let mut stops = StopRequests::listen()?;
    let upstream = Arc::new(Upstream::of(global, embedded)?);
    let (say, written) = stdio::output();
    let carried = tokio::select! { biased;
        () = stops.next() => Ok(()),
        // A client that was killed waits for no answer.
        () = stdio::unheard() => Ok(()),
        carried = bridge::carry(stdio::input(), say, &upstream) => match carried {
            Ok(()) => written.await.unwrap_or(Ok(())).map_err(|error| stdout::failure(&error)),
            failed => failed,
        },
    };
    let closed = upstream.close().await;
    carried.and(closed).map(|()| Exit::Done)
}

//! `cortex serve`: a core that runs until it is told to stop.

use clap::Args;
use cortex_lib::engine::CoreState;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::mcp::UserToken;
use serde_json::json;

use super::screen::{Screen, card};
use super::{Exit, Global};
use crate::boot::{self, Life, Opened};
use crate::config::Config;
use crate::log;
use crate::signals::StopRequests;

/// Run the core, its MCP endpoint and its local socket until Ctrl-C; twice: at once
#[derive(Debug, Args)]
pub(super) struct Serve {}

impl Serve {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        let data_dir = global.data_dir()?;
        // From here on a request to stop is never lost, not even while the core opens.
        let mut stops = StopRequests::listen()?;
        let config = Config::read(&data_dir)?;
        log::to_file(&data_dir, &config.log, global.verbose)?;
        let opened = boot::open(&data_dir, &config, Life::Long, Vec::new()).await?;
        if let Some(error) = opened.endpoint.failure() {
            if let Err(error) = opened.close().await {
                // The endpoint is the news; this may well come from the same trouble.
                tracing::warn!(code = %error.code(), "the core did not close well: {}", error.message());
            }
            return Err(error);
        }
        if let Err(error) = announce(&opened, screen) {
            // Nobody may be there to read it; the core is there for others.
            tracing::warn!(code = %error.code(), "{}", error.message());
        }
        let mut states = opened.cortex.states();
        let why = tokio::select! { biased;
            () = stops.next() => None,
            gone = states.wait_for(|state| matches!(state, CoreState::Failed | CoreState::Stopped)) => {
                gone.ok().filter(|state| **state == CoreState::Failed).map(|_| {
                    Error::new(Code::StoreFailed, "the store failed, so the core stopped")
                })
            }
        };
        stop(opened, &mut stops).await?;
        why.map_or(Ok(Exit::Done), Err)
    }
}

/// Stops in order; a second request stops at once.
async fn stop(opened: Opened, stops: &mut StopRequests) -> Result<()> {
    tracing::info!("told to stop");
    let cortex = opened.cortex.clone();
    let mut closing = std::pin::pin!(opened.close());
    tokio::select! { biased;
        closed = &mut closing => return closed,
        () = stops.next() => {}
    }
    tracing::info!("told to stop at once");
    let (now, closed) = tokio::join!(cortex.shutdown_at_once(), closing);
    now.and(closed)
}

fn announce(opened: &Opened, screen: Screen) -> Result<()> {
    let data_dir = opened.cortex.data_dir();
    let token = UserToken::of(data_dir);
    let url = opened.endpoint.url();
    let facts = json!({
        "data_dir": data_dir,
        "pid": std::process::id(),
        "mcp": url.as_ref().map(|url| json!({ "url": url, "token_file": token.path() })),
        "local_socket": opened.is_reachable(),
    });
    if screen.is_json() {
        // One line: whoever started us waits for it.
        return screen.line(&facts.to_string());
    }
    screen.line(&card([
        ("Cortex", Some(format!("runs as process {}", std::process::id()))),
        ("data", Some(data_dir.display().to_string())),
        ("MCP", Some(url.clone().unwrap_or_else(|| "off (mcp.enabled is false)".to_owned()))),
        ("token", url.map(|_| format!("`cortex token show`, in {}", token.path().display()))),
        ("stop", Some("Ctrl-C; twice: at once".to_owned())),
    ]))
}

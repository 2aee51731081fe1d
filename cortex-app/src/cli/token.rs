//! `cortex token`: the credential with which a person's programs use the MCP endpoint.

use clap::{Args, Subcommand};
use cortex_lib::env::SystemEnv;
use cortex_lib::error::Result;
use cortex_lib::mcp::UserToken;
use serde_json::json;

use super::screen::Screen;
use super::{Exit, Global};
use crate::boot;

/// The credential of the MCP endpoint
#[derive(Debug, Args)]
pub(super) struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print it; made when there is none yet
    Show,
    /// Replace it; the old one ends at once, also at a core that runs
    Rotate,
}

impl Token {
    pub(super) fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        let token = UserToken::of(&global.data_dir()?);
        if let Some(folder) = token.path().parent() {
            boot::make_private(folder)?;
        }
        let secret = match self.action {
            Action::Show => token.load_or_create(&SystemEnv::new())?,
            Action::Rotate => token.rotate(&SystemEnv::new())?,
        };
        let shown = json!({ "token": secret.expose(), "file": token.path() });
        screen.show(&shown, |_| secret.expose().to_owned())?;
        Ok(Exit::Done)
    }
}

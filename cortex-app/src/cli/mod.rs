//! The command line. One file for each command.

mod call;
mod exit;
mod global;
mod screen;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use cortex_lib::error::Result;

use crate::door::Door;

pub use exit::Exit;
pub use global::Global;
pub use screen::Screen;

/// Orchestrates coding agents: durable objectives, tasks, sessions and evidence.
#[derive(Debug, Parser)]
#[command(name = "cortex", version, after_help = Exit::TABLE, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Call(call::Call),
}

impl Cli {
    /// Does what the command line says. Failures are told on standard error.
    pub async fn run(self) -> ExitCode {
        let screen = Screen::new(self.global.json);
        let exit = self.command.run(&self.global, screen).await.unwrap_or_else(|error| {
            screen.fail(&error);
            Exit::after(&error)
        });
        exit.into()
    }
}

impl Command {
    async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        match self {
            Self::Call(command) => command.run(global, screen).await,
        }
    }
}

/// Does `work` with a core, and leaves the core afterwards, however the work ended.
async fn with_door<T>(global: &Global, work: impl AsyncFnOnce(&Door) -> Result<T>) -> Result<T> {
    let door = Door::open(global).await?;
    let done = work(&door).await;
    let closed = door.close().await;
    // What made the work fail is the news.
    let done = done?;
    closed.map(|()| done)
}

//! `cortex`: the command line and the server.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use cortex_app::cli::Cli;

fn main() -> anyhow::Result<ExitCode> {
    // First: a process that was started as the owner of an agent's program does nothing else.
    cortex_lib::process::init();
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the threads of Cortex could not be started")?;
    Ok(runtime.block_on(cli.run()))
}

//! `cortex completions`: what a shell needs to complete our command line.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use cortex_lib::error::Result;

use super::screen::Screen;
use super::{Cli, Exit};

/// Print the completions for a shell
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, screen: Screen) -> Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "cortex", &mut script);
        screen.line(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}

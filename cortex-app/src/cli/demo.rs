//! `cortex demo`.

use std::path::PathBuf;

use clap::Args;
use cortex_lib::error::Result;

use super::{Exit, Global};
use crate::demo::{self, Chosen, CodingCli};

const EXIT_CODES: &str = "\
Exit codes: as cortex run.

Progress goes to the standard error, what the tasks returned and what happened to the standard output. With --json the
lines are those of cortex run, and a last one: demo.ended.

--data-dir does not count: the demo has a data directory of its own in its folder.";

/// See Cortex work without an account: a small project by two agents
///
/// Runs the coding CLI that is installed, with its real tools, on a project made for it. A script takes the place of the
/// model, on a server of this program: nothing is spent, no other host is asked, and nothing of your login, settings or
/// projects is read or changed.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Demo {
    /// The coding CLI [default: the first that is installed]
    #[arg(long, value_enum, value_name = "ID")]
    runtime: Option<CodingCli>,
    /// Its program [default: as the runtime finds it]
    #[arg(long, value_name = "PATH", requires = "runtime")]
    executable: Option<PathBuf>,
    /// Keep the folder with the project
    #[arg(long)]
    keep: bool,
}

impl Demo {
    pub(super) async fn run(self, global: &Global) -> Result<Exit> {
        let Self { runtime: cli, executable, keep } = self;
        demo::demo(Chosen { cli, executable, keep }, global).await
    }
}

//! B5: what a turn costs through Cortex beside the bare CLI, in time and in memory, on a scripted model.
//!
//! ```text
//! cargo run --release -p cortex-benches --bin turns -- [--cli claude-code]… [--rounds 60] [--only latency|memory|parse]
//!     [--disk FOLDER] [--peer PYTHON]
//! ```
//!
//! The bare CLI is driven by the least loop that can do it, with the arguments, the environment and the messages that
//! the driver was seen to use. Bare, driver and core have a process of the CLI each and take turns one after the other, so that
//! a machine whose mood changes is in the same mood for all of them; compared is within a round. `--disk` is where the
//! core writes (default: the system's temporary folder); the same core also runs in memory, which shows what the commits wait
//! for. `--peer` is a Python with the package `claude-agent-sdk`, whose client takes part as well.
#![expect(clippy::print_stdout, reason = "the table is the product")]

mod bare;
mod cli;
mod cortex;
mod flood;
mod memory;
mod opencode;
mod peer;
mod place;
mod seen;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::cli::Cli;

const USE: &str = "Use [--cli claude-code|codex|opencode]… [--rounds N] [--only latency|memory|parse] [--disk FOLDER] [--peer PYTHON].";

/// What to measure, and how.
#[derive(Debug)]
struct Asked {
    clis: Vec<Cli>,
    rounds: usize,
    only: Option<String>,
    disk: PathBuf,
    peer: Option<PathBuf>,
}

impl Asked {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut asked = Self {
            clis: Vec::new(),
            rounds: 60,
            only: None,
            disk: std::env::temp_dir(),
            peer: None,
        };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--cli" => asked.clis.push(Cli::named(&value).context(USE)?),
                "--rounds" => asked.rounds = value.parse().context(USE)?,
                "--only" => asked.only = Some(value),
                "--disk" => asked.disk = value.into(),
                "--peer" => asked.peer = Some(value.into()),
                other => bail!("what is {other}? {USE}"),
            }
        }
        if asked.clis.is_empty() {
            asked.clis.extend(Cli::ALL);
        }
        Ok(asked)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }
}

fn main() -> Result<ExitCode> {
    // First: the sessions that are measured are owned as in the real program.
    cortex_lib::process::init();
    if flood::is_asked() {
        flood::play()?;
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq(place::SERVE).is_some() {
        runtime.block_on(place::serve(arguments.next().as_deref()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let asked = Asked::read(arguments)?;
    let done = runtime.block_on(measure(&asked));
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    done.map(|()| ExitCode::SUCCESS)
}

async fn measure(asked: &Asked) -> Result<()> {
    for cli in &asked.clis {
        if asked.wants("latency") {
            table::latency(*cli, asked).await?;
        }
        if asked.wants("memory") {
            memory::measure(*cli).await?;
        }
    }
    if asked.wants("parse") {
        flood::measure().await?;
    }
    Ok(())
}

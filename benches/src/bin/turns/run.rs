//! What is asked for on the command line, and in which order it is measured.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::cli::Cli;
use crate::{alone, flood, memory, place, table};

const USE: &str = "Use [--cli claude-code|codex|opencode]… [--rounds N] [--only latency|core|memory|parse] [--disk FOLDER] [--peer PYTHON].";

/// What to measure, and how.
#[derive(Debug)]
pub(crate) struct Asked {
    clis: Vec<Cli>,
    pub(crate) rounds: usize,
    only: Option<String>,
    pub(crate) disk: PathBuf,
    pub(crate) peer: Option<PathBuf>,
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

/// Measures what is asked for.
pub(crate) fn main() -> Result<ExitCode> {
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
    if asked.wants("core") {
        alone::measure(asked).await?;
    }
    if asked.wants("parse") {
        flood::measure().await?;
    }
    Ok(())
}

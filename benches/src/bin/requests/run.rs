//! What is asked for on the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::server::{self, SERVE};
use crate::table;

const USE: &str = "Use [--rounds N] [--python PYTHON] [--node FOLDER].";

/// What to measure.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) rounds: usize,
    pub(crate) python: Option<PathBuf>,
    pub(crate) node: Option<PathBuf>,
}

impl Asked {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut asked = Self { rounds: 5, python: None, node: None };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--rounds" => asked.rounds = value.parse().context(USE)?,
                "--python" => asked.python = Some(value.into()),
                "--node" => asked.node = Some(value.into()),
                other => bail!("what is {other}? {USE}"),
            }
        }
        Ok(asked)
    }
}

pub(crate) fn main() -> Result<ExitCode> {
    cortex_lib::process::init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq(SERVE).is_some() {
        runtime.block_on(server::serve(arguments.next()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let asked = Asked::read(arguments)?;
    runtime.block_on(table::measure(&asked))?;
    Ok(ExitCode::SUCCESS)
}

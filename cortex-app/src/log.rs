//! Where log lines go: to a file of each day, and to the terminal when asked.

use std::io;
use std::path::Path;

use cortex_lib::error::{Code, Error, Result};
use cortex_lib::store::DataDir;
use tracing::level_filters::LevelFilter;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::boot::make_private;
use crate::config::{Level, Log};

/// Shows log lines on the terminal, when `verbose` says so.
pub(crate) fn to_terminal(verbose: u8) {
    install(None, verbose);
}

/// Keeps log lines in the data directory, and shows them on the terminal when `verbose` says so.
///
/// # Errors
///
/// `core.data_dir_unusable`.
pub(crate) fn to_file(data_dir: &Path, log: &Log, verbose: u8) -> Result<()> {
    let dir = DataDir::logs_dir_of(data_dir);
    make_private(&dir)?;
    let file = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("cortex")
        .filename_suffix("log")
        .max_log_files(log.keep_days.into())
        .build(&dir)
        .map_err(|error| {
            let message = format!("log files cannot be written to {}: {error}", dir.display());
            Error::new(Code::DataDirUnusable, message)
        })?;
    install(Some((file, log.level)), verbose);
    Ok(())
}

fn install(file: Option<(RollingFileAppender, Level)>, verbose: u8) {
    let file = file.map(|(file, level)| {
        tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(file)
            .with_filter(ours(level.into()))
    });
    let shown = match verbose {
        0 => None,
        1 => Some(LevelFilter::INFO),
        2 => Some(LevelFilter::DEBUG),
        _ => Some(LevelFilter::TRACE),
    };
    let terminal = shown.map(|level| {
        tracing_subscriber::fmt::layer()
            .with_ansi(console::colors_enabled_stderr())
            .with_writer(io::stderr)
            .with_filter(ours(level))
    });
    // A process has one log; whoever comes second (a test, an embedder) writes to the first one's.
    drop(tracing_subscriber::registry().with(file).with(terminal).try_init());
}

/// Our own lines at `level`; those of libraries only when something is wrong.
fn ours(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("cortex", level)
        .with_target("cortex_lib", level)
        .with_target("cortex_app", level)
        .with_target("cortex_runtimes", level)
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

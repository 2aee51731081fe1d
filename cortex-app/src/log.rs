//! Where log lines go: to a file of each day, and to the terminal when asked.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use cortex_lib::error::{Code, Error, Result};
use cortex_lib::secret::redact;
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
            .with_writer(Mutex::new(WithoutSecrets(file)))
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
            .with_writer(|| WithoutSecrets(io::stderr()))
            .with_filter(ours(level))
    });
    // A process has one log; whoever comes second (a test, an embedder) writes to the first one's.
    drop(tracing_subscriber::registry().with(file).with(terminal).try_init());
}

/// Takes secrets out of each line: a line may quote what a program printed, whoever wrote it.
#[derive(Debug)]
struct WithoutSecrets<W>(W);

impl<W: Write> Write for WithoutSecrets<W> {
    /// A line comes whole, so nothing of it is kept for later.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(redact(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_without_its_secrets() {
        let mut lines = WithoutSecrets(Vec::new());
        lines.write_all(b"it said: DB_PASSWORD=hunter22 \xff\n").unwrap();
        assert_eq!(String::from_utf8(lines.0).unwrap(), "it said: DB_PASSWORD=[secret] \u{fffd}\n");
    }
}

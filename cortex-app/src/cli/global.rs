//! What every command takes.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use cortex_lib::error::{Code, Error, Result};

use crate::program::Program;

/// What every command takes.
#[derive(Clone, Debug, Default, Args)]
pub struct Global {
    /// Where Cortex keeps its data, an absolute path [default: the platform's folder for application data]
    #[arg(
        long,
        global = true,
        env = "CORTEX_DATA_DIR",
        value_name = "DIR",
        hide_env_values = true
    )]
    pub data_dir: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Show what happens on the terminal; twice: in detail
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

impl Global {
    /// How the program is called again on the same data directory.
    pub(crate) fn program(&self) -> Program {
        Program::on(self.data_dir.as_deref())
    }

    /// The data directory that is meant.
    ///
    /// # Errors
    ///
    /// `core.data_dir_not_absolute`; `core.data_dir_unusable` when the platform has no folder to offer.
    pub fn data_dir(&self) -> Result<PathBuf> {
        match &self.data_dir {
            Some(path) if path.is_absolute() => Ok(path.clone()),
            Some(path) => {
                let message = format!(
                    "the data directory {:?} is not an absolute path",
                    path.display().to_string()
                );
                Err(Error::new(Code::DataDirNotAbsolute, message))
            }
            None => default_data_dir().ok_or_else(|| {
                Error::new(Code::DataDirUnusable, "this user has no folder for application data")
                    .remedy("Give one with --data-dir or CORTEX_DATA_DIR.")
            }),
        }
    }
}

/// `~/.local/share/cortex`, `~/Library/Application Support/Cortex` or `%LOCALAPPDATA%\Cortex`.
fn default_data_dir() -> Option<PathBuf> {
    let name = if cfg!(any(windows, target_os = "macos")) { "Cortex" } else { "cortex" };
    Some(directories::BaseDirs::new()?.data_local_dir().join(name))
}

//! What the demo must not know of the person: logins, settings and repositories that the environment names.
//!
//! The program starts itself again without them, because drivers, git and the commands of the project all inherit
//! what this process has.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use cortex_lib::error::{Code, Error, Result};
use cortex_scripted::CliHome;

use crate::cli::Exit;

/// Tells the program that it has them no more, and where the person's home is: programs are installed there.
const CLEAN: &str = "_CORTEX_DEMO";

/// What is told for a home: it is there, and nothing is in it.
const NO_HOME: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// Where this process, which knows nothing of the person, looks for what they installed.
#[derive(Debug)]
pub(super) struct Clean {
    /// The person's home, when they have one.
    pub(super) home: Option<PathBuf>,
}

impl Clean {
    /// Whether this process is clean, and what it knows.
    pub(super) fn of_this_process() -> Option<Self> {
        let home = std::env::var_os(CLEAN)?;
        Some(Self { home: Some(PathBuf::from(home)).filter(|home| home.is_absolute()) })
    }
}

/// Runs this program again without what names a login, a setting or a repository. Returns how that ended.
///
/// # Errors
///
/// `core.defect` when it cannot be started.
pub(super) fn again() -> Result<Exit> {
    let program = std::env::current_exe().map_err(|error| not_again(&error))?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1));
    for name in CliHome::stripped().into_iter().chain(others()) {
        command.env_remove(name);
    }
    command.env(CLEAN, std::env::home_dir().unwrap_or_default()).env("HOME", NO_HOME);
    run(command)
}

/// Takes the place of this process, so that what a terminal sends reaches it alone.
#[cfg(unix)]
fn run(mut command: Command) -> Result<Exit> {
    use std::os::unix::process::CommandExt as _;
    Err(not_again(&command.exec()))
}

#[cfg(not(unix))]
fn run(mut command: Command) -> Result<Exit> {
    let ended = command.status().map_err(|error| not_again(&error))?;
    let code = ended.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(Exit::Failed, Exit::Run))
}

/// A hook of git, which may have started us, names its repository; and folders for settings are those of the person.
fn others() -> impl Iterator<Item = OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("GIT_") || name.starts_with("XDG_")
    })
}

fn not_again(error: &std::io::Error) -> Error {
    Error::new(Code::Defect, format!("the demo cannot start in clean surroundings: {error}"))
}

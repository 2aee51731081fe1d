//! A program to start: what, where, and with which environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::owned::{Owned, Started};
#[cfg(feature = "terminal")]
use super::terminal::{self, Pty};
use super::{MARKER, TREE, platform};
#[cfg(feature = "terminal")]
use crate::domain::terminal::TerminalSize;
use crate::error::{Code, Error, Result};

/// Variables of Cortex itself. What this process was given, such as its own credential or the marker of a
/// session it runs in, is not for what it starts.
const OWN_PREFIX: &str = "CORTEX_";

/// A file that another process is about to close after writing is busy for a moment.
const BUSY_RETRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(25);

/// A program to start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Program {
    /// The program and its arguments. Without a slash it is looked for in the `PATH` it is given.
    pub argv: Vec<OsString>,
    /// The folder it works in.
    pub cwd: PathBuf,
    /// What differs from the environment of this process; `None` removes. Inherited variables that start with
    /// `CORTEX_` are always removed, unless they are set here.
    pub env: BTreeMap<OsString, Option<OsString>>,
    /// The value of [`MARKER`] for it and all below it, by which [`sweep`](super::sweep) finds them in a later
    /// life.
    pub marker: String,
}

/// Why a program could not be started.
pub(super) enum Fault {
    /// The system refused the program or its folder.
    Program(io::Error),
    /// The machinery around it failed: pipes, owner, watch.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "elsewhere there is none"))]
    Machinery(String, io::Error),
}

impl Program {
    /// A program with its arguments, in the folder `cwd`, known by `marker`. Its environment is this
    /// process's.
    pub fn new(
        argv: impl IntoIterator<Item = impl Into<OsString>>,
        cwd: impl Into<PathBuf>,
        marker: impl Into<String>,
    ) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: cwd.into(),
            env: BTreeMap::new(),
            marker: marker.into(),
        }
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes a variable that it would inherit.
    #[must_use]
    pub fn remove_env(mut self, name: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), None);
        self
    }

    /// Starts it with its input, output and errors in pipes. Call it inside a tokio runtime with IO and time.
    ///
    /// When the future is dropped before it is done, nothing lives on.
    ///
    /// # Errors
    ///
    /// `runtime.not_installed` when the program is not there, `project.invalid_root` when its folder is not,
    /// `runtime.start_failed` when it may not be run or something else failed. Each names program and folder.
    pub async fn spawn(&self) -> Result<Owned> {
        let env = self.whole_environment();
        let started = when_not_busy(|| platform::start(self, &env)).await;
        started.map(|started| self.owned(started)).map_err(|fault| self.error(fault))
    }

    /// Starts it on a pseudo-terminal of its own: its input, output and errors are that terminal, it leads a session
    /// whose controlling terminal that is, and it hears of each new size. Call it inside a tokio runtime with IO
    /// and time.
    ///
    /// It is told that the terminal understands what xterm does, in all colours; what the environment of this process
    /// says of another terminal is not handed on.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    #[cfg(feature = "terminal")]
    pub async fn spawn_on_terminal(&self, size: TerminalSize) -> Result<(Owned, Pty)> {
        let mut env = self.whole_environment();
        for name in terminal::FOREIGN {
            if !self.env.contains_key(OsStr::new(name)) {
                env.remove(OsStr::new(name));
            }
        }
        for (name, value) in terminal::OWN {
            env.entry(name.into()).or_insert_with(|| value.into());
        }
        let started = when_not_busy(|| async {
            let (pty, slave) = terminal::open(size)?;
            Ok((platform::start_on_terminal(self, &env, slave).await?, pty))
        });
        match started.await {
            Ok((started, pty)) => Ok((self.owned(started), pty)),
            Err(fault) => Err(self.error(fault)),
        }
    }

    /// Its name for people.
    pub(super) fn title(&self) -> String {
        self.argv.first().map(|program| program.display().to_string()).unwrap_or_default()
    }

    fn owned(&self, started: Started) -> Owned {
        tracing::debug!(program = %self.title(), pid = started.pid, marker = %self.marker, "started");
        Owned::new(started)
    }

    /// The whole environment that it gets, with a name for its tree.
    #[expect(clippy::disallowed_methods, reason = "a program inherits what is not Cortex's own")]
    fn whole_environment(&self) -> BTreeMap<OsString, OsString> {
        let mut env = self.environment(std::env::vars_os());
        env.insert(TREE.into(), self.tree().into());
        env
    }

    /// What it gets of the environment of this process, and what is set for it.
    fn environment(
        &self,
        inherited: impl Iterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        let mut env: BTreeMap<_, _> = inherited.filter(|(name, _)| !is_own(name)).collect();
        for (name, value) in &self.env {
            match value {
                Some(value) => env.insert(name.clone(), value.clone()),
                None => env.remove(name),
            };
        }
        env.insert(MARKER.into(), self.marker.clone().into());
        env
    }

    /// A name for this tree that no other tree of this process has.
    fn tree(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{}/{}/{number}", self.marker, std::process::id())
    }

    fn error(&self, fault: Fault) -> Error {
        let (program, folder) = (self.title(), self.cwd.display());
        let error = match fault {
            Fault::Machinery(what, error) => Error::new(
                Code::RuntimeStartFailed,
                format!("{program} in {folder} could not be started: {what}: {error}"),
            ),
            // The system's answer does not tell a missing folder from a missing program.
            Fault::Program(_) if !self.cwd.is_dir() => Error::new(
                Code::ProjectInvalidRoot,
                format!("the folder {folder} in which {program} should run is not there"),
            )
            .remedy("Put the folder back, or use another one."),
            Fault::Program(error) if error.kind() == io::ErrorKind::NotFound => Error::new(
                Code::RuntimeNotInstalled,
                if self.exists() {
                    format!("{program} in {folder} needs an interpreter that is not there")
                } else {
                    format!("{program} was not found (to run in {folder})")
                },
            ),
            Fault::Program(error) if error.kind() == io::ErrorKind::PermissionDenied => Error::new(
                Code::RuntimeStartFailed,
                format!("{program} may not be run in {folder}: {error}"),
            )
            .remedy("Check that the program is executable and that the folder may be entered."),
            Fault::Program(error) => Error::new(
                Code::RuntimeStartFailed,
                format!("{program} in {folder} could not be started: {error}"),
            ),
        };
        error.with("program", program).with("folder", self.cwd.display().to_string())
    }

    /// Whether the program is named by a path and there.
    fn exists(&self) -> bool {
        self.argv.first().is_some_and(|program| {
            let path = Path::new(program);
            path.components().count() > 1 && self.cwd.join(path).is_file()
        })
    }
}

/// Starts something, again for a moment while its file is busy.
#[expect(clippy::disallowed_methods, reason = "a busy file tells nobody when it is free")]
async fn when_not_busy<T, F: Future<Output = Result<T, Fault>>>(
    start: impl Fn() -> F,
) -> Result<T, Fault> {
    for _ in 0..BUSY_RETRIES {
        match start().await {
            Err(Fault::Program(error)) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            done => return done,
        }
    }
    start().await
}

/// Whether a variable is one of Cortex's own.
pub(super) fn is_own(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(OWN_PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_cortex_are_not_inherited_but_can_be_set() {
        let inherited = [
            ("CORTEX_MCP_TOKEN", "secret"),
            ("CORTEX_OWNER", "outer"),
            ("PATH", "/bin"),
            ("HOME", "/h"),
        ]
        .map(|(name, value)| (name.into(), value.into()));
        let program = Program::new(["true"], "/", "inner")
            .env("CORTEX_AGENT_ID", "a1")
            .remove_env("HOME")
            .env("LANG", "C");
        let env: Vec<_> = program.environment(inherited.into_iter()).into_iter().collect();
        let want =
            [("CORTEX_AGENT_ID", "a1"), ("CORTEX_OWNER", "inner"), ("LANG", "C"), ("PATH", "/bin")]
                .map(|(name, value)| (name.into(), value.into()));
        assert_eq!(env, want);
    }
}

//! How git is called: quietly, without the programs that a repository may name, and within bounds.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::error::{Code, Error, Result};
use crate::limits;
use crate::process::{Exit, Owned, Program, Tail};

/// The oldest git that can merge without a folder (`merge-tree --write-tree`).
const OLDEST: Version = Version(2, 38);

/// What is read of a pipe at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Set for every call, over what the repository and the user configure: nothing that runs a program, asks
/// for a password, goes to the network, or tidies up.
const CONFIGURATION: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.alternateRefsCommand=true",
    "core.askPass=true",
    "core.editor=true",
    "core.sshCommand=false",
    "credential.helper=",
    "commit.gpgSign=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // A path that is absolute can be compared, and the setting would change the repository's format.
    "worktree.useRelativePaths=false",
    // Others hold these locks for an instant.
    "core.filesRefLockTimeout=5000",
    "core.packedRefsTimeout=5000",
    // What was answered is on the disk.
    "core.fsync=all",
];

/// Another program holds a lock of the repository for an instant: this often the call is made again.
const LOCK_RETRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(250);

/// A version of git: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32);

/// One call of git.
#[derive(Clone, Debug)]
pub(super) struct Call {
    program: PathBuf,
    cwd: PathBuf,
    marker: String,
    arguments: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    input: Vec<u8>,
}

/// What came of a call.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) exit: Exit,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl Call {
    /// A call in the folder `cwd`.
    pub(super) fn new(program: &Path, cwd: &Path, marker: &str) -> Self {
        Self {
            program: program.to_owned(),
            cwd: cwd.to_owned(),
            marker: marker.to_owned(),
            arguments: Vec::new(),
            env: Vec::new(),
            input: Vec::new(),
        }
    }

    /// Adds arguments; the first of all is the name of the command.
    pub(super) fn args<T: Into<OsString>>(
        mut self,
        arguments: impl IntoIterator<Item = T>,
    ) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    pub(super) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// What git reads.
    pub(super) fn input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    /// Runs it; the answer is what it printed.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`, with what git said, also when it does not end with 0.
    pub(super) async fn ok(self) -> Result<Vec<u8>> {
        let (command, cwd) = (self.command(), self.cwd.clone());
        let answer = self.answer().await?;
        if answer.exit.is_success() {
            Ok(answer.stdout)
        } else {
            Err(answer.failed(&command, &cwd))
        }
    }

    /// The same, of text without its line break.
    pub(super) async fn line(self) -> Result<String> {
        let stdout = self.ok().await?;
        Ok(String::from_utf8_lossy(&stdout).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Runs it again while another program holds a lock, for a bounded while.
    #[expect(
        clippy::disallowed_methods,
        reason = "nobody tells when another program lets go of a lock"
    )]
    pub(super) async fn ok_unlocked(self) -> Result<Vec<u8>> {
        let (command, cwd) = (self.command(), self.cwd.clone());
        let mut retries = 0;
        loop {
            let answer = self.clone().answer().await?;
            if answer.exit.is_success() {
                return Ok(answer.stdout);
            }
            if !answer.met_lock() || retries == LOCK_RETRIES {
                return Err(answer.failed(&command, &cwd));
            }
            retries += 1;
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }

    /// Runs it to its end, whatever that is.
    pub(super) async fn answer(self) -> Result<Answer> {
        let command = self.command();
        let program = self.program();
        let owned = program.spawn().await.map_err(|error| cannot_run(&error))?;
        let talk = Talk { owned: &owned, input: self.input };
        let answer = timeout(limits::GIT_TIMEOUT, talk.finish()).await;
        owned.end().await;
        let failure = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(reason)) => reason,
            Err(_) => format!("did not end in {} s", limits::GIT_TIMEOUT.as_secs()),
        };
        let folder = self.cwd.display();
        Err(Error::new(Code::WorkspaceUnavailable, format!("git {command} in {folder} {failure}")))
    }

    /// Its name for people.
    fn command(&self) -> String {
        self.arguments.first().map(|name| name.display().to_string()).unwrap_or_default()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "all that git would obey is taken out by its prefix"
    )]
    fn program(&self) -> Program {
        let mut argv: Vec<OsString> = vec![self.program.clone().into()];
        argv.extend(
            ["--no-optional-locks", "--no-replace-objects", "--literal-pathspecs"].map(Into::into),
        );
        for setting in CONFIGURATION {
            argv.extend([OsStr::new("-c"), OsStr::new(setting)].map(OsStr::to_owned));
        }
        argv.extend(self.arguments.iter().cloned());
        let mut program = Program::new(argv, &self.cwd, &self.marker);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"GIT_") {
                program = program.remove_env(name);
            }
        }
        program = program
            .env("LC_ALL", "C")
            .remove_env("LANGUAGE")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            // Over what is allowed for single ones: no protocol has this name.
            .env("GIT_ALLOW_PROTOCOL", "none");
        for (name, value) in &self.env {
            program = program.env(name, value);
        }
        program
    }
}

impl Answer {
    /// The failure that it tells of.
    pub(super) fn failed(&self, command: &str, cwd: &Path) -> Error {
        let said = match self.stderr.trim() {
            "" => self.exit.to_string(),
            said => said.to_owned(),
        };
        let folder = cwd.display();
        Error::new(Code::WorkspaceUnavailable, format!("git {command} in {folder} failed: {said}"))
    }

    /// Whether another program held a lock.
    fn met_lock(&self) -> bool {
        self.stderr.contains(".lock") && self.stderr.contains("File exists")
    }
}

/// Feeds and reads a program at the same time, so that neither waits for the other.
struct Talk<'a> {
    owned: &'a Owned,
    input: Vec<u8>,
}

impl Talk<'_> {
    async fn finish(self) -> std::result::Result<Answer, String> {
        let (stdin, stdout, stderr) =
            (self.owned.take_stdin(), self.owned.take_stdout(), self.owned.take_stderr());
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A git that has enough of it says why by itself.
                stdin.write_all(&self.input).await.ok();
                stdin.shutdown().await.ok();
            }
            Ok(())
        };
        let read = async {
            let mut bytes = Vec::new();
            let Some(stdout) = stdout else { return Ok(bytes) };
            let max = limits::GIT_OUTPUT_BYTES_MAX;
            stdout
                .take(max + 1)
                .read_to_end(&mut bytes)
                .await
                .map_err(|error| error.to_string())?;
            if u64::try_from(bytes.len()).is_ok_and(|length| length <= max) {
                Ok(bytes)
            } else {
                Err(format!("prints more than {max} bytes"))
            }
        };
        let hear = async {
            let mut tail = Tail::new(limits::REASON_BYTES_MAX);
            let Some(mut stderr) = stderr else { return Ok(tail) };
            let mut chunk = vec![0; CHUNK_BYTES];
            while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
                tail.push(chunk.get(..length).unwrap_or_default());
            }
            Ok(tail)
        };
        let ((), stdout, tail) = tokio::try_join!(feed, read, hear)?;
        let exit = self.owned.exited().await;
        Ok(Answer { exit, stdout, stderr: tail.text() })
    }
}

/// The version of git, if it is new enough.
///
/// # Errors
///
/// `workspace.unavailable`: no git, or an old one.
pub(super) async fn version(call: Call) -> Result<Version> {
    let text = call.args(["version"]).line().await?;
    let version = parse_version(&text).ok_or_else(|| {
        Error::new(
            Code::WorkspaceUnavailable,
            format!("git tells no version that is known: {text}"),
        )
    })?;
    if version < OLDEST {
        let (Version(major, minor), Version(oldest, of_it)) = (version, OLDEST);
        return Err(Error::new(
            Code::WorkspaceUnavailable,
            format!("git {major}.{minor} is too old: {oldest}.{of_it} or newer is needed"),
        )
        .remedy(format!("Install git {oldest}.{of_it} or newer, then retry.")));
    }
    Ok(version)
}

/// `git version 2.39.5 (Apple Git-154)`, `git version 2.47.0.windows.1`.
fn parse_version(text: &str) -> Option<Version> {
    let mut numbers = text.strip_prefix("git version ")?.split(['.', ' ', '-']);
    Some(Version(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Why git could not be started, in the terms of a workspace.
fn cannot_run(error: &Error) -> Error {
    let unavailable = Error::new(Code::WorkspaceUnavailable, error.message());
    match error.code() {
        Code::RuntimeNotInstalled => unavailable
            .remedy("Install git 2.38 or newer where Cortex finds it in its PATH, then retry."),
        Code::ProjectInvalidRoot => unavailable.remedy("Put the folder back, then retry."),
        _ => unavailable,
    }
}

/// Bytes that git printed, as a path of this system.
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        PathBuf::from(OsStr::from_bytes(bytes))
    }
    #[cfg(not(unix))]
    {
        PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// A path as git takes it from its input: bytes, with `/`.
pub(super) fn bytes_of(path: &Path) -> Vec<u8> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        path.as_os_str().as_bytes().to_vec()
    }
    #[cfg(not(unix))]
    {
        path.to_string_lossy().replace('\\', "/").into_bytes()
    }
}

/// The parts of an output that ends each with a NUL.
pub(super) fn records(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

/// Paths as git takes them with `-z --stdin`.
pub(super) fn with_nuls<'a>(paths: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(path);
        bytes.push(0);
    }
    bytes
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn versions_of_all_builds_are_read() {
        for (text, version) in [
            ("git version 2.47.3", Some(Version(2, 47))),
            ("git version 2.39.5 (Apple Git-154)", Some(Version(2, 39))),
            ("git version 2.47.0.windows.1", Some(Version(2, 47))),
            ("git version 3.0-rc1", Some(Version(3, 0))),
            ("hello", None),
        ] {
            assert_eq!(parse_version(text), version, "{text}");
        }
        assert!(Version(2, 9) < OLDEST && OLDEST < Version(3, 0));
    }
}

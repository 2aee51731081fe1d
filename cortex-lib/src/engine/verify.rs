//! Runs a project's verification commands as programs of their own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::timeout;

use crate::domain::verification::{CommandReport, VerificationCommand};
use crate::env::Env;
use crate::limits;
use crate::port::{VerificationOutcome, VerificationRequest, Verifier};
use crate::process::{Exit, Owned, Program, Tail};

/// What is read of a pipe at once.
const CHUNK_BYTES: usize = 8 * 1024;

/// Runs each command as a program, in order, without a shell and without input.
#[derive(Debug)]
pub struct ProcessVerifier {
    env: Arc<dyn Env>,
}

/// What came of one command.
enum Ran {
    Passed(CommandReport),
    Failed(CommandReport, String),
    Unavailable(String),
}

impl ProcessVerifier {
    /// Measures by the clock of `env`.
    pub fn new(env: Arc<dyn Env>) -> Self {
        Self { env }
    }

    async fn run(
        &self,
        command: &VerificationCommand,
        request: &VerificationRequest,
        left: Duration,
    ) -> Ran {
        let title = command.title();
        let begun = self.env.monotonic();
        let program = Program::new(&command.argv, &request.cwd, request.attempt_id.as_str());
        let owned = match program.spawn().await {
            Ok(owned) => owned,
            Err(error) => {
                return Ran::Unavailable(format!("{title} could not run: {}", error.message()));
            }
        };
        let mut output = Output::of(&owned);
        let exit = timeout(left, output.until_exit(&owned)).await.ok();
        let duration = self.env.monotonic().saturating_sub(begun);
        // By now it has ended, or its time is over. What it left behind ends either way.
        owned.end().await;
        output.rest().await;

        let report = CommandReport {
            name: title.to_owned(),
            argv: command.argv.clone(),
            exit_code: exit.and_then(|exit| exit.code),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            output: output.tail.redacted(),
        };
        match exit {
            Some(exit) if exit.is_success() => Ran::Passed(report),
            Some(exit) => Ran::Failed(report, format!("{title} ended with {exit}")),
            None => {
                let secs = request.timeout.as_secs();
                Ran::Failed(report, format!("{title} timed out after {secs} s"))
            }
        }
    }
}

#[async_trait]
impl Verifier for ProcessVerifier {
    async fn verify(&self, request: VerificationRequest) -> VerificationOutcome {
        let begun = self.env.monotonic();
        let mut commands = Vec::new();
        for command in &request.commands {
            let spent = self.env.monotonic().saturating_sub(begun);
            match self.run(command, &request, request.timeout.saturating_sub(spent)).await {
                Ran::Passed(report) => commands.push(report),
                Ran::Failed(report, message) => {
                    commands.push(report);
                    return VerificationOutcome::Failed { commands, message };
                }
                Ran::Unavailable(message) => {
                    return VerificationOutcome::Unavailable { commands, message };
                }
            }
        }
        VerificationOutcome::Passed { commands }
    }
}

/// What a command prints, both streams as they come.
struct Output {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    tail: Tail,
}

impl Output {
    /// Of a command that gets no input.
    fn of(owned: &Owned) -> Self {
        drop(owned.take_stdin());
        Self {
            stdout: owned.take_stdout(),
            stderr: owned.take_stderr(),
            tail: Tail::new(limits::VERIFICATION_OUTPUT_BYTES_MAX),
        }
    }

    /// Reads until the program ends. May be dropped: what was read is kept.
    async fn until_exit(&mut self, owned: &Owned) -> Exit {
        tokio::select! {
            biased;
            exit = owned.exited() => exit,
            () = async { self.read().await; std::future::pending().await } => Exit { code: None, signal: None },
        }
    }

    /// Reads what is left in the pipes of a program that is gone. Their end comes at once, unless something
    /// that escaped holds them.
    async fn rest(&mut self) {
        timeout(limits::DRAIN_MAX, self.read()).await.ok();
    }

    /// Reads to the end of both streams.
    async fn read(&mut self) {
        let (mut from_out, mut from_err) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        while self.stdout.is_some() || self.stderr.is_some() {
            tokio::select! {
                biased;
                read = read(&mut self.stdout, &mut from_out) => match from_out.get(..read) {
                    Some(bytes) if read > 0 => self.tail.push(bytes),
                    _ => self.stdout = None,
                },
                read = read(&mut self.stderr, &mut from_err) => match from_err.get(..read) {
                    Some(bytes) if read > 0 => self.tail.push(bytes),
                    _ => self.stderr = None,
                },
            }
        }
    }
}

/// Some bytes, or 0 at the end; a stream that has ended has nothing to say any more.
async fn read<R: tokio::io::AsyncRead + Unpin>(from: &mut Option<R>, into: &mut [u8]) -> usize {
    match from {
        Some(from) => from.read(into).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::env::SystemEnv;
    use crate::ids::AttemptId;

    fn sh(script: &str) -> VerificationCommand {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        VerificationCommand { argv, name: None }
    }

    fn request(cwd: &Path, commands: Vec<VerificationCommand>) -> VerificationRequest {
        VerificationRequest {
            attempt_id: AttemptId::new("a1"),
            cwd: cwd.to_owned(),
            commands,
            timeout: Duration::from_mins(1),
        }
    }

    fn verifier() -> ProcessVerifier {
        ProcessVerifier::new(Arc::new(SystemEnv::new()))
    }

    fn seen(reports: &[CommandReport]) -> Vec<(Option<i32>, &str)> {
        reports.iter().map(|report| (report.exit_code, report.output.as_str())).collect()
    }

    #[tokio::test]
    async fn commands_run_in_order_in_the_folder_and_all_they_print_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let commands = vec![sh("echo one >file; echo made"), sh("cat file; echo two >&2")];
        match verifier().verify(request(folder.path(), commands)).await {
            VerificationOutcome::Passed { commands } => {
                assert_eq!(seen(&commands), [(Some(0), "made\n"), (Some(0), "one\ntwo\n")]);
                assert_eq!(commands[0].name, "sh");
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_first_failure_is_the_last_command() {
        let folder = tempfile::tempdir().unwrap();
        let commands = vec![sh("true"), sh("echo bad; exit 3"), sh("touch file")];
        match verifier().verify(request(folder.path(), commands)).await {
            VerificationOutcome::Failed { commands, message } => {
                assert_eq!(seen(&commands), [(Some(0), ""), (Some(3), "bad\n")]);
                assert_eq!(message, "sh ended with exit code 3");
            }
            other => panic!("{other:?}"),
        }
        assert!(!folder.path().join("file").exists());
    }

    #[tokio::test]
    async fn a_command_that_is_not_there_says_nothing_about_the_result() {
        let folder = tempfile::tempdir().unwrap();
        let missing =
            VerificationCommand { argv: vec!["cortex-no-such-program".to_owned()], name: None };
        match verifier().verify(request(folder.path(), vec![sh("true"), missing])).await {
            VerificationOutcome::Unavailable { commands, message } => {
                assert_eq!(commands.len(), 1);
                assert!(message.contains("cortex-no-such-program was not found"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn time_that_is_over_ends_the_command_and_keeps_what_it_printed() {
        let folder = tempfile::tempdir().unwrap();
        let commands =
            vec![sh("echo begun; trap '' TERM INT; sleep 1000 & sleep 1000"), sh("true")];
        let mut request = request(folder.path(), commands);
        request.timeout = Duration::from_secs(1);
        match verifier().verify(request).await {
            VerificationOutcome::Failed { commands, message } => {
                assert_eq!(seen(&commands), [(None, "begun\n")]);
                assert_eq!(message, "sh timed out after 1 s");
                assert!((1000..20_000).contains(&commands[0].duration_ms));
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn of_a_flood_the_end_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let commands = vec![sh("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end")];
        match verifier().verify(request(folder.path(), commands)).await {
            VerificationOutcome::Passed { commands } => {
                let output = &commands[0].output;
                assert_eq!(output.len(), limits::VERIFICATION_OUTPUT_BYTES_MAX);
                assert!(output.ends_with("x\nthe end\n"));
            }
            other => panic!("{other:?}"),
        }
    }

    /// The locks and ports of what was started are free again once the verification is dropped.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn dropping_a_verification_ends_its_commands() {
        let folder = tempfile::tempdir().unwrap();
        let commands = vec![sh("echo $$ >new; mv new pid; sleep 1000 & wait")];
        let verifier = verifier();
        let pid = async {
            loop {
                if let Ok(text) = fs_err::read_to_string(folder.path().join("pid")) {
                    return text.trim().to_owned();
                }
                tokio::task::yield_now().await;
            }
        };
        let pid = tokio::select! {
            outcome = verifier.verify(request(folder.path(), commands)) => panic!("{outcome:?}"),
            pid = pid => pid,
        };
        let gone = async {
            while Path::new("/proc").join(&pid).exists() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), gone).await.unwrap();
    }
}

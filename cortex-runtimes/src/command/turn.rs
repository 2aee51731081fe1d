//! One turn: the program runs once.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::error::{Code, Error};
use cortex_lib::limits;
use cortex_lib::port::{OutputKind, SessionEvent, SessionSpec, Turn, TurnFailure, TurnOutcome};
use cortex_lib::process::{Exit, Owned, Program, Signal, Tail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::CommandConfig;
use super::output::{Printed, Shown};

/// An interrupted program has this long to put things in order.
const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// Names of files in the session's folder. One turn runs at a time, so one of each is enough.
const INSTRUCTION_FILE: &str = "instruction.txt";
const AGENT_INSTRUCTIONS_FILE: &str = "agent-instructions.txt";

/// Whether and how a turn is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Not,
    Interrupt,
    /// With the session, by force after this long.
    Close(Duration),
}

/// What a turn needs of its session.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) config: Arc<CommandConfig>,
    pub(super) spec: Arc<SessionSpec>,
    pub(super) events: mpsc::Sender<SessionEvent>,
}

impl Run {
    /// Runs the program. When it returns, nothing that the program started lives.
    pub(super) async fn take(&self, turn: &Turn, mut stops: watch::Receiver<Stop>) -> TurnOutcome {
        if let Err(error) = self.write_files(turn) {
            let message = format!("the instruction could not be handed over: {error}");
            return failed(Cause::Error, message);
        }
        let owned = match self.program(turn).spawn().await {
            Ok(owned) => owned,
            Err(error) => return failed(cause(&error), error.message().to_owned()),
        };
        let (mut printed, mut errors) = (Printed::new(), Tail::new(limits::STDERR_TAIL_BYTES_MAX));
        let gone = CancellationToken::new();
        let shown = Shown { turn_id: &turn.id, events: &self.events, gone: &gone };
        let exit = {
            let mut talk = pin!(talk(&owned, &turn.instruction, &shown, &mut printed, &mut errors));
            tokio::select! {
                biased;
                // Everything that was printed belongs to the result, also what is read after the end.
                exit = async { tokio::join!(ended(&owned, &gone), &mut talk).0 } => Some(exit),
                how = stopped(&mut stops) => {
                    ask(&owned, how, &mut talk).await;
                    None
                }
            }
        };
        owned.end().await;
        match exit {
            Some(exit) => self.outcome(exit, printed, &errors),
            None => TurnOutcome::Interrupted,
        }
    }

    fn outcome(&self, exit: Exit, printed: Printed, errors: &Tail) -> TurnOutcome {
        if exit.is_success() {
            return TurnOutcome::Succeeded { text: printed.into_text() };
        }
        let (name, errors) = (&self.config.name, errors.redacted());
        let errors = match errors.trim() {
            "" => "it printed no error",
            errors => errors,
        };
        match exit.code {
            Some(code) => {
                failed(Cause::Error, format!("{name} ended with exit code {code}: {errors}"))
            }
            None => failed(Cause::Crashed, format!("{name} was ended by {exit}: {errors}")),
        }
    }

    fn program(&self, turn: &Turn) -> Program {
        let spec = &self.spec;
        let mut program = Program::new(&self.config.argv, &spec.cwd, spec.session_id.as_str());
        for (name, value) in &self.config.env {
            program = program.env(name, value);
        }
        program = program
            .env("CORTEX_SESSION_ID", spec.session_id.as_str())
            .env("CORTEX_INSTRUCTION_FILE", spec.scratch.join(INSTRUCTION_FILE));
        if let Some(agent_id) = &spec.agent_id {
            program = program.env("CORTEX_AGENT_ID", agent_id.as_str());
        }
        if let Some(attempt_id) = &turn.attempt_id {
            program = program.env("CORTEX_ATTEMPT_ID", attempt_id.as_str());
        }
        if spec.instructions.is_some() {
            let file = spec.scratch.join(AGENT_INSTRUCTIONS_FILE);
            program = program.env("CORTEX_AGENT_INSTRUCTIONS_FILE", file);
        }
        if let Some(mcp) = &spec.mcp {
            program =
                program.env("CORTEX_MCP_URL", &mcp.url).env("CORTEX_MCP_TOKEN", mcp.token.expose());
        }
        program
    }

    fn write_files(&self, turn: &Turn) -> io::Result<()> {
        let write =
            |name: &str, text: &str| fs_err::write(Path::join(&self.spec.scratch, name), text);
        write(INSTRUCTION_FILE, &turn.instruction)?;
        self.spec.instructions.iter().try_for_each(|text| write(AGENT_INSTRUCTIONS_FILE, text))
    }
}

/// Hands the instruction over and reads both streams to their ends.
async fn talk(
    owned: &Owned,
    instruction: &str,
    shown: &Shown<'_>,
    printed: &mut Printed,
    errors: &mut Tail,
) {
    let stdout = async {
        if let Some(stdout) = owned.take_stdout() {
            shown.read(stdout, OutputKind::Text, |line| printed.push(line)).await;
        }
    };
    let stderr = async {
        if let Some(stderr) = owned.take_stderr() {
            let keep = |line: &str| [line, "\n"].iter().for_each(|text| errors.push(text));
            shown.read(stderr, OutputKind::Stderr, keep).await;
        }
    };
    tokio::join!(feed(owned.take_stdin(), instruction), stdout, stderr);
}

/// Writes and closes. A program that does not read all of it is in its right.
async fn feed(stdin: Option<ChildStdin>, instruction: &str) {
    if let Some(mut stdin) = stdin {
        stdin.write_all(instruction.as_bytes()).await.ok();
        stdin.shutdown().await.ok();
    }
}

/// Waits until the program has ended and nothing of it lives.
async fn ended(owned: &Owned, gone: &CancellationToken) -> Exit {
    let exit = owned.exited().await;
    owned.end().await;
    gone.cancel();
    exit
}

/// Waits until the turn is to be stopped.
async fn stopped(stops: &mut watch::Receiver<Stop>) -> Stop {
    match stops.wait_for(|stop| *stop != Stop::Not).await {
        Ok(stop) => *stop,
        Err(_) => Stop::Close(Duration::ZERO),
    }
}

/// Asks the program to end, and listens to it meanwhile: one that cannot print cannot end either.
async fn ask(owned: &Owned, how: Stop, talk: impl Future<Output = ()>) {
    let (signal, grace) = match how {
        Stop::Close(grace) => (Signal::Terminate, grace),
        Stop::Interrupt | Stop::Not => (Signal::Interrupt, INTERRUPT_GRACE),
    };
    owned.signal(signal);
    let listen = async {
        talk.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        _ = timeout(grace, owned.exited()) => {}
        () = listen => {}
    }
}

/// The class of a failed start.
fn cause(error: &Error) -> Cause {
    if error.code() == Code::ProjectInvalidRoot { Cause::InvalidRoot } else { Cause::Error }
}

fn failed(cause: Cause, message: String) -> TurnOutcome {
    TurnOutcome::Failed(TurnFailure { cause, message, resets_at: None })
}

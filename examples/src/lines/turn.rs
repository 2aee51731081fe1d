//! A turn: the agent runs once, and with its end everything ends that it started.

use std::path::Path;
use std::sync::Arc;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::limits::STDERR_TAIL_BYTES_MAX;
use cortex_lib::port::{
    OutputKind, SessionEvent, SessionSpec, ToolRequest, Turn, TurnFailure, TurnOutcome,
};
use cortex_lib::process::{Lines, Owned, Program, Tail};
use cortex_lib::{Code, Error};
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStderr, ChildStdin};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::protocol::{Answer, Begin, Class, Line};

/// What a turn needs of its session.
pub(super) struct Run {
    pub(super) spec: Arc<SessionSpec>,
    pub(super) events: mpsc::Sender<SessionEvent>,
}

impl Run {
    /// Runs the agent. When it returns, nothing that the agent started lives.
    pub(super) async fn take(
        self,
        program: &Path,
        turn: &Turn,
        mut answers: mpsc::Receiver<Answer>,
        stop: &CancellationToken,
    ) -> TurnOutcome {
        // The marker is how the core finds what an earlier life of it left behind.
        let program = Program::new([program], &self.spec.cwd, self.spec.session_id.as_str());
        // A stop does not give the start up half way: it could not say when what was begun has ended.
        let owned = match program.spawn().await {
            Ok(owned) => owned,
            Err(error) => return not_started(&error),
        };
        let mut asked = None;
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => TurnOutcome::Interrupted,
            outcome = self.talk(&owned, turn, &mut answers, &mut asked) => outcome,
        };
        owned.end().await;
        if let Some(request_id) = asked {
            // Without waiting for room: the turn may end because nobody reads any more.
            drop(self.events.try_send(SessionEvent::ToolRequestWithdrawn { request_id }));
        }
        outcome
    }

    /// Says what to do and follows what is printed, up to a result. `asked` is the request that waits.
    async fn talk(
        &self,
        owned: &Owned,
        turn: &Turn,
        answers: &mut mpsc::Receiver<Answer>,
        asked: &mut Option<String>,
    ) -> TurnOutcome {
        let streams = (owned.take_stdin(), owned.take_stdout(), owned.take_stderr());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = streams else {
            return failed(Cause::Error, "the agent has no pipes".to_owned());
        };
        let mut errors = Tail::new(STDERR_TAIL_BYTES_MAX);
        let instructions = self.spec.instructions.as_deref();
        let begin = Begin { instruction: &turn.instruction, instructions };
        let mut lines = Lines::new(stdout);
        let follow = async {
            write(&mut stdin, &begin).await;
            // An error of a pipe is its end. A line that is not known is the next version's: it is passed over.
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str(&line.text) {
                    Ok(Line::Say(text)) => self.show(turn, OutputKind::Text, text).await,
                    Ok(Line::Ask { id, tool, input }) => {
                        *asked = Some(id.clone());
                        let summary = format!("{tool}: {input}");
                        self.say(SessionEvent::ToolRequest(ToolRequest {
                            request_id: id.clone(),
                            turn_id: Some(turn.id.clone()),
                            tool,
                            summary,
                            input,
                            questions: Vec::new(),
                            of_cortex: None,
                        }))
                        .await;
                        // An answer to an earlier request came too late.
                        while let Some(answer) = answers.recv().await {
                            if answer.id == id {
                                *asked = None;
                                write(&mut stdin, &answer).await;
                                break;
                            }
                        }
                    }
                    Ok(Line::Done { text }) => return Some(TurnOutcome::Succeeded { text }),
                    Ok(Line::Failed { why, class }) => return Some(failed(cause(class), why)),
                    Err(_) => self.say(SessionEvent::Active).await,
                }
            }
            None
        };
        let (outcome, ()) = tokio::join!(
            async {
                let outcome = follow.await;
                // What it started may hold its streams: they end with it.
                owned.end().await;
                outcome
            },
            self.errors(turn, stderr, &mut errors)
        );
        outcome.unwrap_or_else(|| {
            let message = format!("the agent ended without a result: {}", errors.redacted().trim());
            failed(Cause::Crashed, message)
        })
    }

    async fn errors(&self, turn: &Turn, stderr: ChildStderr, errors: &mut Tail) {
        let mut lines = Lines::new(stderr);
        while let Ok(Some(line)) = lines.next_line().await {
            errors.push(&line.text);
            errors.push("\n");
            self.show(turn, OutputKind::Stderr, line.text).await;
        }
    }

    async fn show(&self, turn: &Turn, kind: OutputKind, text: String) {
        self.say(SessionEvent::Output { turn_id: Some(turn.id.clone()), kind, text }).await;
    }

    async fn say(&self, event: SessionEvent) {
        // Nobody who listens: the session is being dropped, and the turn with it.
        self.events.send(event).await.ok();
    }
}

async fn write(stdin: &mut ChildStdin, line: &impl Serialize) {
    // An agent that does not read shows by what it prints, or by its end.
    if let Ok(mut text) = serde_json::to_vec(line) {
        text.push(b'\n');
        stdin.write_all(&text).await.ok();
    }
}

/// What the core has to know of a failure: whether, and when, to try again.
fn cause(class: Class) -> Cause {
    match class {
        Class::MayPass => Cause::Transient,
        Class::QuotaUsedUp => Cause::RateLimited,
        Class::Refused => Cause::Refused,
    }
}

/// The class of a failed start.
fn not_started(error: &Error) -> TurnOutcome {
    let is_folder = error.code() == Code::ProjectInvalidRoot;
    failed(if is_folder { Cause::InvalidRoot } else { Cause::Error }, error.message().to_owned())
}

fn failed(cause: Cause, message: String) -> TurnOutcome {
    TurnOutcome::Failed(TurnFailure { cause, message, resets_at: None })
}

//! The planner's turn: one read-only turn in a session of its own, which belongs to no agent.
//!
//! The session has a row before anything of it lives, and loses it when nothing of it lives any more. So it counts
//! as a session that lives, and the next start finds what a core that died left of it. The work runs beside its
//! caller: when the caller goes away, the time is over or the core stops, it still ends the session first.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::core::{Core, CoreState};
use super::incoming::{self, Incoming};
use super::run::pause;
use super::shutdown::close_within;
use crate::domain::agent::{Interaction, Role};
use crate::domain::capability::Capability;
use crate::domain::text::reason;
use crate::error::{Code, Error, Result};
use crate::ids::{RuntimeId, SessionId, TurnId};
use crate::limits::{CLOSE_GRACE, PLANNER_TIMEOUT, START_TIMEOUT, STORE_RETRY_WAIT};
use crate::port::{
    Health, Opened, Runtime, Session, SessionEvent, SessionSpec, ToolAnswer, ToolRequest, Turn,
    TurnFailure, TurnOutcome,
};
use crate::store::{PlannerSession, Project};

/// What a runtime must be able to do to plan.
const NEEDS: [Capability; 2] = [Capability::StructuredSession, Capability::ReadOnlyTurn];

/// What the planner answered, as it came: data that nobody checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanAnswer {
    /// The text, with whatever secrets it holds: whoever reads the plan takes them out of its parts.
    pub(crate) text: String,
    /// The runtime that wrote it.
    pub(crate) runtime_id: RuntimeId,
    /// The model that wrote it, when it is known.
    pub(crate) model: Option<String>,
}

impl Core {
    /// Lets the planner answer `instruction` in the root of `project`. It spends a turn. Whoever drops this ends the
    /// turn; when it returns, nothing of the session lives.
    ///
    /// # Errors
    ///
    /// `planner.unavailable`, `planner.failed`, `planner.timed_out`, `runtime.not_installed`,
    /// `project.not_found`, `project.invalid_root`, `resource.limit_reached`, `core.data_dir_unusable`.
    pub(crate) async fn plan_turn(
        &self,
        project: Project,
        instruction: String,
    ) -> Result<PlanAnswer> {
        let runtime = self.planner().await?;
        if !self.host().is_folder(&project.root) {
            let (root, name) = (project.root.display(), &project.name);
            let message = format!("the folder {root} of project {name} is not there");
            return Err(Error::new(Code::ProjectInvalidRoot, message)
                .with("project_id", project.id.as_str()));
        }
        let gone = CancellationToken::new();
        let work = PlanTurn {
            row: PlannerSession {
                id: SessionId::new(self.env().mint()),
                project_id: project.id,
                runtime_id: runtime.info().id.clone(),
            },
            core: self.clone(),
            runtime,
            root: project.root,
            instruction,
            gone: gone.clone(),
        };
        let (answer, answered) = oneshot::channel();
        self.supervisor().spawn(work.run(answer));
        let _ends_with_its_caller = gone.drop_guard();
        answered
            .await
            .unwrap_or_else(|_| Err(Error::new(Code::Defect, "the planner's turn was lost")))
    }

    /// The runtime that plans.
    async fn planner(&self) -> Result<Arc<dyn Runtime>> {
        let id = self.settings().planner.runtime_id.clone();
        let unavailable =
            |why: String| Error::new(Code::PlannerUnavailable, why).with("runtime_id", id.as_str());
        let runtime = self
            .runtimes()
            .get(&id)
            .ok_or_else(|| unavailable(format!("the planner's runtime {id} is not registered")))?;
        let lacks = NEEDS.iter().find(|need| !runtime.info().capabilities.contains(need));
        if let Some(lacks) = lacks {
            return Err(unavailable(format!("{id} cannot plan: it lacks {lacks}")));
        }
        // What is not known to be ill is tried: its start tells more than a look.
        if self.health(runtime).health != Health::Unhealthy {
            return Ok(Arc::clone(runtime));
        }
        // Somebody may have mended it since the last look.
        let Some(known) = self.check_health(runtime).await else { return Err(stopped(self)) };
        let report = known.report.filter(|report| report.health == Health::Unhealthy);
        let Some(report) = report else { return Ok(Arc::clone(runtime)) };
        let why = report.message.unwrap_or_else(|| "it is not healthy".to_owned());
        // Without a program and its version, there is none; a start would say the same.
        let missing = report.executable.is_none() && report.version.is_none();
        let error = if missing {
            Error::new(Code::RuntimeNotInstalled, why).with("runtime_id", id.as_str())
        } else {
            unavailable(format!("{id} cannot plan now: {why}"))
        };
        Err(match report.remediation {
            Some(remediation) => error.remedy(remediation),
            None => error,
        })
    }
}

/// One turn of the planner, and the session it runs in.
struct PlanTurn {
    core: Core,
    row: PlannerSession,
    runtime: Arc<dyn Runtime>,
    root: PathBuf,
    instruction: String,
    /// Nobody waits for the plan any more.
    gone: CancellationToken,
}

impl PlanTurn {
    async fn run(self, answer: oneshot::Sender<Result<PlanAnswer>>) {
        let (row, max) = (self.row.clone(), self.core.settings().resources.max_active_processes);
        let begun = self.core.store().write(move |tx| tx.begin_planner_session(&row, max)).await;
        if let Err(error) = begun {
            return drop(answer.send(Err(error)));
        }
        let planned = self.in_scratch().await;
        // The caller may call again at once, so what counts against the limit goes first.
        let forgotten = self.forget().await;
        drop(answer.send(planned));
        if !forgotten {
            self.keep_forgetting().await;
        }
    }

    async fn in_scratch(&self) -> Result<PlanAnswer> {
        let scratch = self.core.host().make_scratch(&self.row.id)?;
        let planned = self.in_session(scratch).await;
        self.core.host().remove_scratch(&self.row.id);
        planned
    }

    /// Opens the session, runs the turn and closes the session, whatever happens.
    async fn in_session(&self, scratch: PathBuf) -> Result<PlanAnswer> {
        let mut over = pin!(self.over());
        let Opened { session, events, facts, terminal: _ } =
            self.open(scratch, over.as_mut()).await?;
        let talk = AssertUnwindSafe(self.converse(&session, events)).catch_unwind();
        let (text, polite) = tokio::select! { biased;
            why = over.as_mut() => (Err(why), false),
            text = talk => match text {
                Ok(text) => (text, true),
                Err(_) => (Err(panicked()), false),
            },
        };
        let close = |grace: Duration| {
            let host = Arc::clone(self.core.host());
            close_within(host, self.row.id.clone(), Arc::clone(&session), grace)
        };
        if polite {
            tokio::select! { biased;
                () = close(CLOSE_GRACE) => {}
                _ = over => close(Duration::ZERO).await,
            }
        } else {
            close(Duration::ZERO).await;
        }
        let runtime_id = self.row.runtime_id.clone();
        Ok(PlanAnswer { text: text?, runtime_id, model: facts.model })
    }

    /// Ends when there is no point in going on, with the reason.
    async fn over(&self) -> Error {
        tokio::select! { biased;
            () = self.gone.cancelled() => failed("nobody waits for the plan any more"),
            () = stops(&self.core) => stopped(&self.core),
            () = pause(PLANNER_TIMEOUT) => {
                let (name, secs) = (&self.runtime.info().name, PLANNER_TIMEOUT.as_secs());
                Error::new(Code::PlannerTimedOut, format!("{name} did not answer within {secs} s"))
            }
        }
    }

    async fn open(
        &self,
        scratch: PathBuf,
        over: Pin<&mut impl Future<Output = Error>>,
    ) -> Result<Opened> {
        let spec = SessionSpec {
            session_id: self.row.id.clone(),
            agent_id: None,
            role: Role::Worker,
            interaction: Interaction::Structured,
            cwd: self.root.clone(),
            scratch,
            model: None,
            instructions: None,
            resume: None,
            read_only: true,
            trusted: false,
            // It gets no credential of Cortex: what it reads could make it misuse one.
            mcp: None,
        };
        let name = &self.runtime.info().name;
        let opening = AssertUnwindSafe(self.runtime.open(spec)).catch_unwind();
        let why = tokio::select! { biased;
            why = over => why,
            opened = tokio::time::timeout(START_TIMEOUT, opening) => match opened {
                Ok(Ok(Ok(opened))) => return Ok(opened),
                Ok(Ok(Err(error))) => return Err(self.not_opened(&incoming::error(error))),
                Ok(Err(_)) => panicked(),
                Err(_) => Error::new(
                    Code::PlannerUnavailable,
                    format!("{name} was not ready within {} s", START_TIMEOUT.as_secs()),
                ),
            },
        };
        // An opening that was dropped ends what it began, but not before this goes on.
        self.core.host().sweep(vec![self.row.id.to_string()]).await;
        Err(why)
    }

    fn not_opened(&self, error: &Error) -> Error {
        let unavailable = match error.code() {
            Code::RuntimeNotInstalled => {
                Error::new(Code::RuntimeNotInstalled, reason(error.message()))
            }
            code => {
                let (name, why) = (&self.runtime.info().name, reason(error.message()));
                Error::new(Code::PlannerUnavailable, format!("{name} did not start: {why}"))
                    .with("cause", code.as_str())
            }
        };
        unavailable.remedy(error.remediation()).with("runtime_id", self.row.runtime_id.as_str())
    }

    /// Sends the turn and hears the session until it has an answer.
    async fn converse(
        &self,
        session: &Arc<dyn Session>,
        mut events: mpsc::Receiver<SessionEvent>,
    ) -> Result<String> {
        let id = TurnId::new(self.core.env().mint());
        let instruction = self.instruction.clone();
        let turn = Turn { id: id.clone(), attempt_id: None, instruction };
        let mut sending = pin!(session.send(turn));
        let (mut sent, mut heard) = (false, Incoming::default());
        loop {
            // Heard while it is sent: a driver may have much to say before it has accepted the turn.
            let event = tokio::select! { biased;
                accepted = sending.as_mut(), if !sent => {
                    accepted.map_err(|error| self.not_sent(&incoming::error(error)))?;
                    sent = true;
                    continue;
                }
                event = events.recv() => event.map(|event| heard.with_data(event)),
            };
            match event {
                Some(SessionEvent::TurnEnded(end)) if end.turn_id == id => {
                    return self.answer_of(end.outcome);
                }
                Some(SessionEvent::ToolRequest(request)) => self.deny(session, request),
                Some(SessionEvent::Ended { message }) => {
                    let name = &self.runtime.info().name;
                    return Err(failed(&format!("the session of {name} ended: {message}")));
                }
                None => return Err(failed("the driver let go of the session")),
                // Nobody watches the planner, and a turn of another name is none of ours.
                Some(
                    SessionEvent::Output { .. }
                    | SessionEvent::Active
                    | SessionEvent::ToolRequestWithdrawn { .. }
                    | SessionEvent::NativeSession { .. }
                    | SessionEvent::TurnEnded(_),
                ) => {}
            }
        }
    }

    /// What must be asked for is more than reading the project.
    fn deny(&self, session: &Arc<dyn Session>, request: ToolRequest) {
        let session = Arc::clone(session);
        let reason = "The planner may only read the project.".to_owned();
        self.core.supervisor().spawn(async move {
            let answer = ToolAnswer::Deny { reason };
            if let Err(error) = session.answer(&request.request_id, answer).await {
                tracing::debug!(tool = request.tool, code = %error.code(), "not answered: {}", error.message());
            }
        });
    }

    fn not_sent(&self, error: &Error) -> Error {
        let name = &self.runtime.info().name;
        failed(&format!("{name} did not take the turn: {}", error.message()))
            .remedy(error.remediation())
            .with("cause", error.code().as_str())
    }

    fn answer_of(&self, outcome: TurnOutcome) -> Result<String> {
        let name = &self.runtime.info().name;
        match outcome {
            TurnOutcome::Succeeded { text } => Ok(text),
            TurnOutcome::Interrupted => Err(failed(&format!("the turn of {name} was interrupted"))),
            TurnOutcome::Failed(TurnFailure { cause, message, resets_at }) => {
                let error = failed(&format!("the turn of {name} failed: {message}"))
                    .with("cause", cause.as_str());
                Err(match resets_at {
                    Some(at) => error.with("resets_at", at.to_string()),
                    None => error,
                })
            }
        }
    }

    /// Nothing of the session lives any more. Returns whether that is written down.
    async fn forget(&self) -> bool {
        let id = self.row.id.clone();
        match self.core.store().write(move |tx| tx.remove_planner_session(&id)).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(session = %self.row.id, code = %error.code(), "the end of a planner's session was not kept: {}", error.message());
                false
            }
        }
    }

    /// Tries until it is written down, as the engine does with what has happened. A core that stops leaves it to the next start.
    async fn keep_forgetting(&self) {
        loop {
            tokio::select! { biased;
                () = stops(&self.core) => return,
                () = pause(STORE_RETRY_WAIT) => {}
            }
            if self.forget().await {
                return;
            }
        }
    }
}

fn failed(why: &str) -> Error {
    Error::new(Code::PlannerFailed, reason(why))
}

fn panicked() -> Error {
    Error::new(Code::Defect, "the driver panicked")
}

/// Ends when the core is on its way down.
async fn stops(core: &Core) {
    // The core outlives its work, so it tells of every change.
    drop(core.states().wait_for(|state| *state != CoreState::Ready).await);
}

/// Why a core that is on its way down plans no more.
fn stopped(core: &Core) -> Error {
    let why = core.check_ready().err();
    why.unwrap_or_else(|| Error::new(Code::CoreStopped, "the core stops"))
}

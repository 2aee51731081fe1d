//! Jobs: what the world is owed, begun beside the engine and reported back to it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc::error::SendError;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::core::Core;
use super::incoming;
use super::live::{Live, Pulse, Pump, Work};
use super::run::{Begun, Engine, stale_is_fine};
use super::sending;
use super::shutdown::close_within;
use super::wake::{Done, Job, Wake};
use crate::domain::attempt::{AttemptInput, Cause, EndReason};
use crate::domain::capability::Capability;
use crate::domain::instruction::{self, DependencyResult};
use crate::domain::objective::FlowState;
use crate::domain::task::TaskStatus;
use crate::domain::verification::CommandReport;
use crate::domain::workspace::{self, WorkspaceInput};
use crate::error::{Code, Error, Result};
use crate::ids::{AttemptId, SessionId, TurnId};
use crate::limits::CLOSE_GRACE;
use crate::port::{Host, Opened, Session, Turn, VerificationOutcome, VerificationRequest};
use crate::progress::{AttemptReport, SessionEnd, last_failure_text};
use crate::store::{Attempt, ReadTx};

/// What a job brings, when it is done.
pub(super) type Outcome = std::pin::Pin<Box<dyn Future<Output = Done> + Send>>;

impl Engine {
    /// Begins a job.
    pub(super) fn begin(&mut self, job: Job) {
        let work = self.work(&job).unwrap_or_else(|error| {
            let failed = Done::failed(&job, error);
            Box::pin(async move { failed })
        });
        let token = CancellationToken::new();
        self.begun.insert(job.clone(), Begun { token: token.clone(), finished: false });
        let (wakes, stop) = (self.core.wakes().clone(), self.core.supervisor().stopping());
        // Only these may be dropped half way; half a line in a pipe would break a session.
        let can_be_ended =
            matches!(job, Job::Open(_) | Job::Verify(_) | Job::Prepare(_) | Job::Gather(_));
        let host = Arc::clone(self.core.host());
        self.core.supervisor().spawn(async move {
            let done = tokio::select! { biased;
                () = token.cancelled(), if can_be_ended => Done::Cancelled,
                () = stop.cancelled() => return,
                done = AssertUnwindSafe(work).catch_unwind() => {
                    done.unwrap_or_else(|_| Done::failed(&job, panicked()))
                }
            };
            let done = incoming::done(done);
            if let Err(SendError(wake)) = wakes.send(Wake::Done(job, done)).await {
                close_unheard(host, wake).await;
            }
        });
    }

    /// What a job does.
    fn work(&self, job: &Job) -> Result<Outcome> {
        Ok(match job {
            Job::Open(id) => self.open(id)?,
            Job::Close(id) => self.close(id),
            Job::SendTurn(id) => self.send_turn(id)?,
            Job::InterruptTurn(id) => {
                let attempt = self.core.store().read(|tx| tx.attempt(id))?.ok_or_else(gone)?;
                self.interrupt(&attempt.session_id, attempt.turn_id)?
            }
            Job::Verify(id) => self.verify(id)?,
            Job::Prepare(id) => self.prepare(id)?,
            Job::Gather(id) => self.gather(id)?,
            Job::Save(id) => self.save(id)?,
            Job::Point(id) => self.point(id)?,
            Job::Squash(id) => self.squash(id)?,
            Job::Remove(id) => self.remove(id)?,
            Job::SendDirect(id) => {
                let steady = self.core.store().steady();
                let (turn, inbox) = self.core.store().read(|tx| {
                    let turn = tx.direct_turn(id)?.ok_or_else(gone)?;
                    let inbox = tx.inbox_count(&turn.agent_id, steady)?;
                    Ok((turn, inbox))
                })?;
                let instruction = instruction::with_inbox(turn.text, inbox);
                let (session, handed) = self.begin_work(&turn.session_id, &turn.id, None)?;
                let turn = Turn { id: turn.id, attempt_id: None, instruction };
                Box::pin(async move { Done::Sent(sending::send(session, turn, handed).await) })
            }
            Job::Steer(id, turn) => self.steer(id, turn)?,
            Job::InterruptDirect(id) => {
                let turn = self.core.store().read(|tx| tx.direct_turn(id))?.ok_or_else(gone)?;
                self.interrupt(&turn.session_id, turn.id)?
            }
            Job::Answer(id) => self.answer(id)?,
        })
    }

    pub(super) fn session(&self, id: &SessionId) -> Result<Arc<dyn Session>> {
        self.live.get(id).map(|live| Arc::clone(&live.session)).ok_or_else(gone)
    }

    /// A turn is on its way to its session. The guard goes when the driver has begun to send it.
    fn begin_work(
        &self,
        id: &SessionId,
        turn: &TurnId,
        attempt: Option<&Attempt>,
    ) -> Result<(Arc<dyn Session>, DropGuard)> {
        let live = self.live.get(id).ok_or_else(gone)?;
        let handed = CancellationToken::new();
        let guard = handed.clone().drop_guard();
        let work = Work {
            turn: turn.clone(),
            task: attempt.map(|attempt| attempt.task_id.clone()),
            attempt: attempt.map(|attempt| attempt.id.clone()),
            handed,
        };
        live.pulse.begin(work, self.core.env().monotonic());
        Ok((Arc::clone(&live.session), guard))
    }

    fn close(&self, id: &SessionId) -> Outcome {
        let (host, id) = (Arc::clone(self.core.host()), id.clone());
        let session = self.live.get(&id).map(|live| Arc::clone(&live.session));
        let grace =
            self.shutdown.as_ref().map_or(CLOSE_GRACE, super::shutdown::Shutdown::close_grace);
        Box::pin(async move {
            if let Some(session) = session {
                close_within(host, id, session, grace).await;
            }
            Done::Closed
        })
    }

    fn send_turn(&self, id: &AttemptId) -> Result<Outcome> {
        let steady = self.core.store().steady();
        let (attempt, instruction, flow) = self.core.store().read(|tx| {
            let attempt = tx.attempt(id)?.ok_or_else(gone)?;
            let inbox = tx.inbox_count(&attempt.agent_id, steady)?;
            let instruction = instruction::with_inbox(instruction_of(tx, &attempt)?, inbox);
            let flow = tx.objective(&tx.task(&attempt.task_id)?.objective_id)?.flow;
            Ok((attempt, instruction, flow))
        })?;
        // A pause that drains lets turns end, and this one has not begun.
        if flow != FlowState::Running {
            return Ok(Box::pin(async { Done::HeldBack }));
        }
        if !self.core.host().is_folder(&attempt.workspace.path) {
            let message = format!("the folder {} is not there", attempt.workspace.path.display());
            let code = if attempt.is_isolated() {
                Code::WorkspaceUnavailable
            } else {
                Code::ProjectInvalidRoot
            };
            return Err(Error::new(code, message));
        }
        let (session, handed) =
            self.begin_work(&attempt.session_id, &attempt.turn_id, Some(&attempt))?;
        let turn = Turn { id: attempt.turn_id, attempt_id: Some(attempt.id), instruction };
        Ok(Box::pin(async move { Done::Sent(sending::send(session, turn, handed).await) }))
    }

    fn interrupt(&self, id: &SessionId, turn: TurnId) -> Result<Outcome> {
        let live = self.live.get(id).ok_or_else(gone)?;
        // It was told to end before it went to its session, which will never speak of it then.
        let Some(handed) = live.pulse.handed(&turn) else {
            return Ok(Box::pin(async { Done::NeverSent }));
        };
        let session = Arc::clone(&live.session);
        let runtime_id = self.core.store().read(|tx| tx.session(id))?.ok_or_else(gone)?.runtime_id;
        let able =
            self.core.runtime(&runtime_id)?.info().capabilities.contains(&Capability::Interrupt);
        Ok(Box::pin(async move {
            if !able {
                let message = format!("{runtime_id} cannot interrupt a turn");
                return Done::Interrupted(Err(Error::new(Code::RuntimeCapabilityMissing, message)));
            }
            Done::Interrupted(sending::interrupt(session, turn, handed).await)
        }))
    }

    fn verify(&self, id: &AttemptId) -> Result<Outcome> {
        let (attempt, verification) = self.core.store().read(|tx| {
            let attempt = tx.attempt(id)?.ok_or_else(gone)?;
            let project = tx.project(&tx.task(&attempt.task_id)?.project_id)?;
            Ok((attempt, project.verification))
        })?;
        let host = Arc::clone(self.core.host());
        Ok(Box::pin(async move {
            let Some(verification) = verification else {
                let message = "the project's verification was taken away meanwhile".to_owned();
                return Done::Verified(VerificationOutcome::Unavailable {
                    commands: Vec::new(),
                    message,
                });
            };
            let request = VerificationRequest {
                attempt_id: attempt.id,
                cwd: attempt.workspace.path,
                commands: verification.commands,
                timeout: Duration::from_secs(verification.timeout_secs.into()),
            };
            Done::Verified(host.verify(request).await)
        }))
    }

    /// Writes down what a job brought.
    pub(super) async fn job_done(&mut self, job: Job, done: Done) {
        if let Some(begun) = self.begun.get_mut(&job) {
            begun.finished = true;
        }
        let written = match (&job, done) {
            (Job::Open(id), Done::Opened(Ok(opened))) => self.opened(id, opened).await,
            (Job::Open(id), Done::Opened(Err(error))) => self.not_opened(id, error).await,
            // The core stops: the agent stays wanted.
            (Job::Open(id), Done::Cancelled) if self.shutdown.is_some() => self.closed(id).await,
            (Job::Open(id), Done::Cancelled) => {
                let error =
                    Error::new(Code::AgentStartCancelled, "the agent was stopped while it started");
                self.not_opened(id, error).await
            }
            (Job::Close(id), Done::Closed | Done::Cancelled) => self.closed(id).await,
            (Job::SendTurn(id), Done::Sent(sent)) => self.turn_sent(id, sent).await,
            (Job::SendTurn(id), Done::HeldBack) => {
                let paused = AttemptInput::End(EndReason::ObjectivePaused);
                self.tell_attempt(id, paused, AttemptReport::default()).await
            }
            (Job::InterruptTurn(id), Done::Interrupted(Err(error))) => {
                self.not_interrupted(id, &error).await
            }
            (Job::InterruptTurn(id), Done::NeverSent) => self.never_sent(id).await,
            (Job::InterruptDirect(id), Done::NeverSent) => self.direct_never_sent(id).await,
            (Job::Answer(id), Done::Answered(answered)) => self.answered(id, answered).await,
            (Job::Prepare(id), Done::Prepared(prepared)) => self.prepared(id, prepared).await,
            (Job::Gather(id), Done::Gathered(files)) => self.gathered(id, files).await,
            (Job::Save(id), Done::Workspace(done)) => {
                self.workspace_done(id, WorkspaceInput::Saved, done).await
            }
            (Job::Point(id), Done::Workspace(done)) => {
                self.workspace_done(id, WorkspaceInput::Pointed, done).await
            }
            (Job::Remove(id), Done::Workspace(done)) => {
                self.workspace_done(id, WorkspaceInput::Gone, done).await
            }
            (Job::Squash(id), Done::Squashed(done)) => self.squashed(id, done).await,
            (Job::Verify(id), Done::Verified(outcome)) => self.verified(id, outcome).await,
            (Job::Verify(id), Done::Cancelled) => self.verification_ended(id).await,
            (Job::SendDirect(id), Done::Sent(sent)) => self.direct_sent(id, sent).await,
            (Job::Steer(id, _), Done::Steered(steered)) => self.steered(id, steered).await,
            // The turn's own end tells the rest; a session that is gone tells itself.
            (_, _) => Ok(()),
        };
        if let Err(error) = written {
            tracing::error!(?job, code = %error.code(), "what came of a job was not kept: {}", error.message());
        }
    }

    async fn opened(&mut self, id: &SessionId, opened: Opened) -> Result<()> {
        let row = self.core.store().read(|tx| tx.session(id)?.ok_or_else(gone));
        let agent_id = match row {
            Ok(row) => row.agent_id,
            Err(error) => {
                let host = Arc::clone(self.core.host());
                close_within(host, id.clone(), opened.session, Duration::ZERO).await;
                return self.not_opened(id, error).await;
            }
        };
        if let Some(terminal) = &opened.terminal {
            self.core.terminals().add(agent_id.clone(), id.clone(), Arc::clone(terminal));
        }
        let pulse = Arc::new(Pulse::default());
        let pump = Pump {
            session_id: id.clone(),
            agent_id,
            events: opened.events,
            pulse: Arc::clone(&pulse),
            output: self.core.output_bus().clone(),
            wakes: self.core.wakes().clone(),
            env: Arc::clone(self.core.env()),
        };
        let Opened { session, terminal, facts, .. } = opened;
        self.live.insert(id.clone(), Live { session, terminal, pulse, end: None });
        self.core.supervisor().spawn(pump.run());
        let session = id.clone();
        let settings = self.core.settings();
        let wanted = self.record(move |tx| tx.session_opened(&session, &facts, &settings)).await?;
        if !wanted && let Some(live) = self.live.get_mut(id) {
            live.end = Some(SessionEnd::Closed);
        }
        Ok(())
    }

    async fn not_opened(&mut self, id: &SessionId, error: Error) -> Result<()> {
        self.core.host().remove_scratch(id);
        let (session, settings) = (id.clone(), self.core.settings());
        self.record(move |tx| tx.session_open_failed(&session, error.clone(), &settings)).await
    }

    pub(super) async fn closed(&mut self, id: &SessionId) -> Result<()> {
        let end = self.live.remove(id).and_then(|live| live.end);
        self.core.terminals().remove(id);
        self.core.host().remove_scratch(id);
        let end = match (end, &self.shutdown) {
            (_, Some(_)) => SessionEnd::CoreGone,
            (Some(end), None) => end,
            (None, None) => SessionEnd::Closed,
        };
        let (session, settings) = (id.clone(), self.core.settings());
        self.record(move |tx| tx.session_over(&session, &end, &settings)).await
    }

    async fn turn_sent(&mut self, id: &AttemptId, sent: Result<()>) -> Result<()> {
        let input = match &sent {
            Ok(()) => AttemptInput::TurnAccepted,
            Err(error) => AttemptInput::TurnFailed(match error.code() {
                Code::ProjectInvalidRoot => Cause::InvalidRoot,
                Code::WorkspaceUnavailable => Cause::WorkspaceUnavailable,
                Code::RuntimeSessionEnded => Cause::Crashed,
                Code::RuntimeRefused | Code::RuntimeNotLoggedIn => Cause::Refused,
                _ => Cause::Error,
            }),
        };
        let report = AttemptReport {
            message: sent.err().map(|error| error.message().to_owned()),
            ..AttemptReport::default()
        };
        self.tell_attempt(id, input, report).await
    }

    /// A runtime that cannot interrupt, or a session that is gone: the session is ended instead (S-136).
    async fn not_interrupted(&mut self, id: &AttemptId, error: &Error) -> Result<()> {
        tracing::debug!(attempt = %id, code = %error.code(), "not interrupted: {}", error.message());
        self.tell_attempt(id, AttemptInput::GraceOver, AttemptReport::default()).await
    }

    /// It was told to end between its assignment and its sending: the agent never heard of it.
    async fn never_sent(&mut self, id: &AttemptId) -> Result<()> {
        let message = Some("it was ended before its turn was sent".to_owned());
        let report = AttemptReport { message, ..AttemptReport::default() };
        self.tell_attempt(id, AttemptInput::TurnFailed(Cause::Error), report).await
    }

    async fn direct_never_sent(&mut self, id: &TurnId) -> Result<()> {
        let turn = id.clone();
        let error = Error::new(Code::AgentStateConflict, "it was interrupted before it was sent")
            .remedy("Send it again if it is still wanted.");
        self.record(move |tx| tx.direct_turn_refused(&turn, &error, "interrupted")).await
    }

    async fn verified(&mut self, id: &AttemptId, outcome: VerificationOutcome) -> Result<()> {
        let report = |commands: Vec<CommandReport>, message| AttemptReport {
            message,
            commands,
            ..AttemptReport::default()
        };
        let (input, report) = match outcome {
            VerificationOutcome::Passed { commands } => {
                (AttemptInput::VerificationPassed, report(commands, None))
            }
            VerificationOutcome::Failed { commands, message } => {
                (AttemptInput::VerificationFailed, report(commands, Some(message)))
            }
            VerificationOutcome::Unavailable { commands, message } => {
                (AttemptInput::VerificationUnavailable, report(commands, Some(message)))
            }
        };
        self.tell_attempt(id, input, report).await
    }

    /// Its commands were ended: with its task, or with the core, after which they begin anew.
    pub(super) async fn verification_ended(&self, id: &AttemptId) -> Result<()> {
        self.tell_attempt(id, AttemptInput::VerificationHalted, AttemptReport::default()).await
    }

    async fn direct_sent(&mut self, id: &TurnId, sent: Result<()>) -> Result<()> {
        let turn = id.clone();
        match sent {
            Ok(()) => self.record(move |tx| tx.direct_turn_accepted(&turn)).await,
            Err(error) => {
                self.record(move |tx| tx.direct_turn_refused(&turn, &error, "error")).await
            }
        }
    }

    pub(super) async fn tell_attempt(
        &self,
        id: &AttemptId,
        input: AttemptInput,
        report: AttemptReport,
    ) -> Result<()> {
        let (id, settings) = (id.clone(), self.core.settings());
        self.record(move |tx| stale_is_fine(tx.attempt_input(&id, input, &report, &settings))).await
    }

    /// Which core this is the engine of.
    pub(super) fn core(&self) -> &Core {
        &self.core
    }
}

/// What an engine that is gone will not hear. A session that opened too late is closed all the same.
pub(super) async fn close_unheard(host: Arc<dyn Host>, wake: Wake) {
    if let Wake::Done(Job::Open(id), Done::Opened(Ok(opened))) = wake {
        close_within(host, id, opened.session, Duration::ZERO).await;
    }
}

pub(super) fn panicked() -> Error {
    Error::new(Code::Defect, "the driver panicked")
}

pub(super) fn gone() -> Error {
    Error::new(Code::RuntimeSessionEnded, "the session is over")
}

/// The instruction of an attempt's turn, from the rows.
fn instruction_of(tx: &ReadTx<'_>, attempt: &Attempt) -> Result<String> {
    let task = tx.task(&attempt.task_id)?;
    let mut results = Vec::new();
    for id in &task.depends_on {
        let dependency = tx.task(id)?;
        debug_assert_eq!(
            dependency.state.phase.status(),
            TaskStatus::Completed,
            "a task starts after its dependencies"
        );
        let branch = dependency.spec.isolated().then(|| workspace::branch_of(id));
        let result = dependency.result;
        let changed = result.as_ref().and_then(|result| result.changed_files.as_deref());
        let changed = changed.filter(|_| branch.is_some()).unwrap_or_default();
        results.push(DependencyResult {
            title: dependency.spec.title.clone().unwrap_or_else(|| dependency.spec.key.clone()),
            changed_files: changed.iter().map(|file| file.path.clone()).collect(),
            branch,
            text: result.map(|result| result.text).unwrap_or_default(),
            key: dependency.spec.key,
        });
    }
    let description = if task.spec.isolated() {
        instruction::in_own_worktree(&task.spec.description)
    } else {
        task.spec.description
    };
    let failure = last_failure_text(&tx.attempts_of(&task.id)?);
    Ok(instruction::compose(&description, &results, failure.as_deref()))
}

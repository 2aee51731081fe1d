//! Attempts: what their steps mean for their agent and their task.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::agents::TurnFailed;
use super::turns::TurnOver;
use crate::domain::agent::AgentInput;
use crate::domain::approval::ApprovalInput;
use crate::domain::attempt::{AttemptInput, AttemptState, Cause, EndReason, Next, Outcome};
use crate::domain::event::EventKind;
use crate::domain::hold::{Hold, HoldEnd};
use crate::domain::message::takes_messages;
use crate::domain::objective::FlowState;
use crate::domain::retry::backoff;
use crate::domain::task::{AttemptEnd, Evidence, Phase, TaskInput};
use crate::domain::text::{head_and_tail, reason};
use crate::domain::usage::Usage;
use crate::domain::verification::CommandReport;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, AttemptId, SessionId, TaskId, TurnId};
use crate::limits::{
    CHANGED_FILES_MAX, RATE_LIMIT_WAIT, RATE_LIMIT_WAIT_MAX, RATE_LIMIT_WAIT_MIN, RELEASE_GRACE,
    RESULT_BYTES_MAX, TASK_TIMEOUT_SECS,
};
use crate::settings::Settings;
use crate::store::{
    Attempt, AttemptFailure, AttemptResult, Decision, DecisionKind, Files, HoldRow, NewEvent,
    TaskFailure, TaskResult, Timer, VerificationRecord, VerificationStatus, Why, Workspace,
    WorkspaceKind, WriteTx,
};
use crate::time::Timestamp;

/// What is known beside an attempt's input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptReport {
    /// What the turn returned.
    pub text: Option<String>,
    /// Why something went wrong.
    pub message: Option<String>,
    /// When a rate limit ends.
    pub resets_at: Option<Timestamp>,
    /// What the turn used.
    pub usage: Usage,
    /// The verification commands that ran.
    pub commands: Vec<CommandReport>,
    /// The commit that its worktree began at.
    pub base_commit: Option<String>,
    /// The folder of its worktree that stands for the project's.
    pub folder: Option<PathBuf>,
    /// What became known of its files.
    pub files: Files,
}

impl WriteTx<'_> {
    /// Gives a task to an agent: keeps the attempt, from here on its turn is owed. An isolated one gets a worktree in
    /// `worktrees` and a session of its own; the agent's own conversation rests meanwhile (H-31).
    ///
    /// # Errors
    ///
    /// `task.state_conflict`, `agent.state_conflict` when either is not ready for it.
    pub fn assign(
        &mut self,
        task_id: &TaskId,
        agent_id: &AgentId,
        worktrees: &Path,
    ) -> Result<Attempt> {
        let (task, agent) = (self.task(task_id)?, self.agent(agent_id)?);
        let project = self.project(&task.project_id)?;
        let own_session = agent.state.session().cloned().ok_or_else(|| {
            Error::new(Code::AgentStateConflict, format!("agent {} has no session", agent.name))
                .with("agent_id", agent_id.as_str())
        })?;
        let number =
            self.attempts_of(task_id)?.last().map_or(1, |last| last.number.saturating_add(1));
        let id = AttemptId::new(self.env().mint());
        let isolated = task.spec.isolated();
        let (kind, path, session_id) = if isolated {
            let session = SessionId::new(self.env().mint());
            self.insert_session(&session, agent_id, &agent.runtime_id, Some(&id))?;
            (WorkspaceKind::Worktree, worktrees.join(id.as_str()), session)
        } else {
            (WorkspaceKind::Project, project.root.clone(), own_session)
        };
        let attempt = Attempt {
            id,
            task_id: task_id.clone(),
            number,
            agent_id: agent_id.clone(),
            runtime_id: agent.runtime_id,
            session_id,
            turn_id: TurnId::new(self.env().mint()),
            state: if isolated || project.is_git {
                AttemptState::Preparing
            } else {
                AttemptState::Starting
            },
            generation: self.objective(&task.objective_id)?.generation,
            workspace: Workspace { kind, path, branch: None, base_commit: None },
            files: Files::default(),
            result: None,
            failure: None,
            usage: Usage::default(),
            verification: None,
            started_at: self.now(),
            ended_at: None,
        };
        self.step_task(task_id, TaskInput::Assign(attempt.id.clone()), |_| ())?;
        self.step_agent(agent_id, AgentInput::Assign(attempt.id.clone()), &Why::Because("task"))?;
        self.insert_attempt(&attempt, &task.project_id)?;
        if isolated {
            self.plan_workspace(&attempt, &task, &project.root)?;
        }
        let limit = task.spec.timeout_secs.unwrap_or(TASK_TIMEOUT_SECS);
        let due = self.steady().after(std::time::Duration::from_secs(limit.into()));
        self.set_timer(&Timer::AttemptDeadline(attempt.id.clone()), due)?;
        Ok(attempt)
    }

    /// Tells an attempt what happened, and its agent and its task what that means for them.
    ///
    /// # Errors
    ///
    /// `attempt.stale` when it does not wait for that any more: nothing changed.
    pub fn attempt_input(
        &mut self,
        id: &AttemptId,
        input: AttemptInput,
        report: &AttemptReport,
        settings: &Settings,
    ) -> Result<Attempt> {
        let before = self
            .attempt(id)?
            .ok_or_else(|| Error::new(Code::AttemptStale, format!("there is no attempt {id}")))?;
        let task = self.task(&before.task_id)?;
        let was = before.state;
        let (attempt, changed) = self.step_attempt(before, &task.project_id, input, |attempt| {
            note(attempt, input, report);
        })?;
        if !changed {
            return Ok(attempt);
        }
        self.close_to_others(was, &attempt, input)?;
        if was.holds_agent() && !attempt.state.holds_agent() {
            self.tell_attempt_turn_over(&attempt, input, report)?;
            self.add_agent_usage(&attempt.agent_id, report.usage)?;
            let release = AgentInput::Release(attempt.id.clone());
            self.step_agent(&attempt.agent_id, release, &Why::Because("task over"))?;
        }
        if let Some(record) = attempt.verification.as_ref().filter(|_| ends_verification(input)) {
            let data =
                json!({ "execution_id": attempt.id, "task_id": task.id, "status": record.status });
            self.emit(NewEvent {
                kind: EventKind::VerificationEnded,
                project_id: Some(task.project_id.clone()),
                agent_id: None,
                data,
            })?;
        }
        self.workspace_follows(&attempt, input)?;
        match attempt.state {
            AttemptState::Preparing
            | AttemptState::Opening
            | AttemptState::Starting
            | AttemptState::Running
            | AttemptState::Halting(_) => {}
            AttemptState::Ending(reason) => {
                let due = self.steady().after(RELEASE_GRACE);
                self.set_timer(&Timer::AttemptGrace(id.clone()), due)?;
                if reason == EndReason::ObjectivePaused {
                    self.step_task(&task.id, TaskInput::Interrupt(id.clone()), |_| ())?;
                }
            }
            // The core ends the sessions itself, and wants the agents back at its next start.
            AttemptState::Killing(EndReason::CoreStopping) => {}
            // A session of its own ends alone.
            AttemptState::Killing(_) if attempt.is_isolated() => {}
            // The session is shared with nothing else that runs: the agent goes with it. Only a person who ends
            // the task ends the agent too.
            AttemptState::Killing(reason) => {
                let input = match reason {
                    EndReason::TimedOut | EndReason::Stalled | EndReason::ApprovalTimedOut => {
                        AgentInput::Recycle
                    }
                    EndReason::TaskCancelled
                    | EndReason::ObjectivePaused
                    | EndReason::AgentStopped
                    | EndReason::CoreStopping => AgentInput::Stop,
                };
                let why = Why::Because("did not let go of its task");
                self.step_agent(&attempt.agent_id, input, &why)?;
            }
            AttemptState::Gathering | AttemptState::Verifying => {
                self.clear_timer(&Timer::AttemptDeadline(id.clone()))?;
                self.step_task(&task.id, TaskInput::Verify(id.clone()), |_| ())?;
            }
            AttemptState::Over(outcome) => self.attempt_over(&attempt, outcome, settings)?,
        }
        Ok(attempt)
    }

    /// What waits for an attempt, or for a person because of it, ends when it takes it no more.
    fn close_to_others(
        &mut self,
        was: AttemptState,
        attempt: &Attempt,
        input: AttemptInput,
    ) -> Result<()> {
        if takes_messages(was) && !takes_messages(attempt.state) {
            self.expire_messages_to_attempt(attempt)?;
        }
        if was.may_act() && !attempt.state.may_act() {
            let stops = input == AttemptInput::End(EndReason::CoreStopping);
            let input = if stops { ApprovalInput::CoreGone } else { ApprovalInput::Withdraw };
            self.end_approvals_of_turn(&attempt.turn_id, input)?;
        }
        Ok(())
    }

    fn attempt_over(
        &mut self,
        attempt: &Attempt,
        outcome: Outcome,
        settings: &Settings,
    ) -> Result<()> {
        let task = self.task(&attempt.task_id)?;
        let end = AttemptEnd {
            outcome,
            retries_max: task.spec.max_retries.unwrap_or(settings.retry.max_retries),
            isolated: attempt.is_isolated(),
            approve_unverified: settings.approvals.approve_unverified,
        };
        let wait = backoff(&settings.retry, task.state.retries.saturating_add(1), |sides| {
            self.env().roll(sides)
        });
        let (now, steady) = (self.now(), self.steady());
        let paused = self.objective(&task.objective_id)?.flow != FlowState::Running;
        let over = TaskInput::AttemptOver(attempt.id.clone(), end);
        let (task, changed) = self.step_task(&task.id, over, |task| match task.state.phase {
            Phase::Completed(evidence) => {
                task.result = Some(result_of(attempt, evidence, now));
                if evidence == Evidence::None {
                    task.decisions.push(automatic_approval(attempt, now));
                }
            }
            Phase::Ready => {
                let hold = hold_for(attempt, outcome, steady, wait);
                task.hold = hold.map(|hold| if paused { hold.paused(steady) } else { hold });
            }
            Phase::Blocked(cause) => task.failure = Some(failure_of(cause.as_str(), attempt, true)),
            Phase::Failed(cause) => task.failure = Some(failure_of(cause.as_str(), attempt, false)),
            Phase::Created | Phase::Running(_) | Phase::Verifying(_) | Phase::Cancelled(_) => {}
        })?;
        if attempt.is_isolated() {
            self.settle_workspaces(&task.id)?;
        }
        if !changed {
            return Ok(());
        }
        if let (Phase::Completed(Evidence::None), Some(decision)) =
            (&task.state.phase, task.decisions.last())
        {
            self.tell_decision(&task, decision)?;
        }
        self.task_moved(&task, settings)
    }

    fn tell_attempt_turn_over(
        &mut self,
        attempt: &Attempt,
        input: AttemptInput,
        report: &AttemptReport,
    ) -> Result<()> {
        let said = attempt.failure.as_ref().map(|failure| failure.message.clone());
        let failed = TurnFailed {
            cause: attempt.cause().unwrap_or("interrupted"),
            message: said.unwrap_or_else(|| "it was ended".to_owned()),
        };
        let end = match (input, &report.text) {
            (AttemptInput::TurnSucceeded(_), Some(text)) => Ok((text.as_str(), report.usage)),
            _ => Err(&failed),
        };
        let (agent_id, turn_id) = (&attempt.agent_id, &attempt.turn_id);
        self.tell_turn_over(&TurnOver { agent_id, turn_id, execution_id: Some(&attempt.id), end })
    }

    /// Tells every running attempt that the core stops in order. What confirms it runs again after the next start.
    pub fn end_attempts_for_shutdown(&mut self, settings: &Settings) -> Result<()> {
        for attempt in self.live_attempts()? {
            self.attempt_input(
                &attempt.id,
                AttemptInput::End(EndReason::CoreStopping),
                &AttemptReport::default(),
                settings,
            )?;
        }
        Ok(())
    }
}

fn ends_verification(input: AttemptInput) -> bool {
    matches!(
        input,
        AttemptInput::VerificationPassed
            | AttemptInput::VerificationFailed
            | AttemptInput::VerificationUnavailable
            | AttemptInput::VerificationHalted
    )
}

/// Writes what is known into the attempt.
fn note(attempt: &mut Attempt, input: AttemptInput, report: &AttemptReport) {
    attempt.usage = attempt.usage.plus(report.usage);
    if let Some(text) = &report.text {
        let kept = head_and_tail(text, RESULT_BYTES_MAX);
        attempt.result = Some(AttemptResult { text: kept.text, truncated: kept.truncated });
    }
    // The first reason is the real one: what was told to end says next that it was interrupted.
    if let (None, Some(message)) = (&attempt.failure, &report.message) {
        attempt.failure =
            Some(AttemptFailure { message: reason(message), resets_at: report.resets_at });
    }
    let status = match input {
        AttemptInput::Prepared { .. } => {
            attempt.workspace.base_commit.clone_from(&report.base_commit);
            if let Some(folder) = &report.folder {
                attempt.workspace.path.clone_from(folder);
            }
            attempt.files.before.clone_from(&report.files.before);
            return;
        }
        AttemptInput::Gathered { verify } => {
            let Files { tree, commit, changed, .. } = report.files.clone();
            let before = attempt.files.before.take();
            attempt.files = Files { before, tree, commit, changed };
            if let Some(files) = &mut attempt.files.changed {
                files.truncate(CHANGED_FILES_MAX);
            }
            if !verify {
                return;
            }
            VerificationStatus::Running
        }
        AttemptInput::TurnSucceeded(Next::Verify) => VerificationStatus::Running,
        AttemptInput::VerificationPassed => VerificationStatus::Passed,
        AttemptInput::VerificationFailed => VerificationStatus::Failed,
        AttemptInput::VerificationUnavailable => VerificationStatus::Unavailable,
        AttemptInput::VerificationHalted => VerificationStatus::Cancelled,
        AttemptInput::TurnAccepted
        | AttemptInput::SessionOpened
        | AttemptInput::WorkspaceFailed
        | AttemptInput::TurnSucceeded(Next::Gather | Next::Nothing)
        | AttemptInput::TurnFailed(_)
        | AttemptInput::SessionLost
        | AttemptInput::CoreLost
        | AttemptInput::End(_)
        | AttemptInput::GraceOver => return,
    };
    let tree = attempt.files.tree.clone();
    let commands = report.commands.clone();
    attempt.verification = Some(VerificationRecord { status, commands, tree });
}

fn result_of(attempt: &Attempt, evidence: Evidence, at: Timestamp) -> TaskResult {
    let (text, truncated) = attempt
        .result
        .as_ref()
        .map_or((String::new(), false), |kept| (kept.text.clone(), kept.truncated));
    TaskResult { text, truncated, evidence, changed_files: attempt.files.changed.clone(), at }
}

/// The result of a task's last attempt, as a person approves it.
pub(super) fn approved_result(attempt: Option<&Attempt>, at: Timestamp) -> TaskResult {
    attempt.map_or_else(
        || TaskResult {
            text: String::new(),
            truncated: false,
            evidence: Evidence::Approved,
            changed_files: None,
            at,
        },
        |attempt| result_of(attempt, Evidence::Approved, at),
    )
}

fn automatic_approval(attempt: &Attempt, at: Timestamp) -> Decision {
    Decision {
        decision: DecisionKind::Approved,
        execution_id: Some(attempt.id.clone()),
        by: "automatic".to_owned(),
        reason: Some("approvals.approve_unverified is set".to_owned()),
        at,
    }
}

fn failure_of(cause: &str, attempt: &Attempt, retryable: bool) -> TaskFailure {
    let said = attempt.failure.as_ref().map(|failure| failure.message.clone());
    let message = said.unwrap_or_else(|| match cause {
        "verification.missing" => {
            "The project has no verification, so a person decides whether the result holds"
                .to_owned()
        }
        other => format!("The attempt ended with {other}"),
    });
    TaskFailure { cause: cause.to_owned(), message, retryable }
}

/// What holds a task back before it is tried again.
fn hold_for(
    attempt: &Attempt,
    outcome: Outcome,
    now: Timestamp,
    wait: std::time::Duration,
) -> Option<HoldRow> {
    let Outcome::Failed(cause) = outcome else { return None };
    let (hold, until) = if cause == Cause::RateLimited {
        let told = attempt.failure.as_ref().and_then(|failure| failure.resets_at);
        let until = told.unwrap_or_else(|| now.after(RATE_LIMIT_WAIT));
        let (soonest, latest) = (now.after(RATE_LIMIT_WAIT_MIN), now.after(RATE_LIMIT_WAIT_MAX));
        (Hold::RateLimited, until.clamp(soonest, latest))
    } else {
        (Hold::Backoff, now.after(wait))
    };
    Some(HoldRow {
        hold,
        until: HoldEnd::At(until),
        cause: cause.as_str().to_owned(),
        runtime_id: attempt.runtime_id.clone(),
    })
}

/// Why the last attempt at a task did not count, for the next instruction.
pub(crate) fn last_failure_text(attempts: &[Attempt]) -> Option<String> {
    let last = attempts.iter().rev().find(|attempt| attempt.state.is_over())?;
    let (AttemptState::Over(Outcome::Failed(cause)), Some(failure)) = (last.state, &last.failure)
    else {
        let was_lost = matches!(last.state, AttemptState::Over(Outcome::Lost));
        return was_lost.then(|| {
            "It was interrupted by a crash; parts of the work may be done already. Look before you begin.".to_owned()
        });
    };
    let mut text = format!("{}: {}", cause.as_str(), failure.message);
    let commands =
        last.verification.as_ref().map(|record| record.commands.as_slice()).unwrap_or_default();
    for ran in commands.iter().filter(|ran| ran.exit_code != Some(0)) {
        let _infallible = write!(text, "\n$ {}\n{}", ran.argv.join(" "), ran.output);
    }
    Some(text)
}

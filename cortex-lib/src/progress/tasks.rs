//! Tasks: what people decide about them, and what a task's move means for others.

use serde_json::json;

use super::AttemptReport;
use super::attempts::approved_result;
use crate::domain::attempt::{AttemptInput, EndReason};
use crate::domain::event::EventKind;
use crate::domain::graph;
use crate::domain::objective::{self, FlowInput};
use crate::domain::task::{CancelCause, TaskInput, TaskStatus};
use crate::error::{Code, Error, Result};
use crate::ids::{AttemptId, ObjectiveId, TaskId};
use crate::settings::Settings;
use crate::store::{Attempt, Decision, DecisionKind, Task, TaskFailure, WriteTx};

/// How a task is cancelled.
#[derive(Debug)]
struct Cancelled {
    cause: CancelCause,
    message: String,
    /// What is kept of a person's decision; a task that goes with another one has none of its own.
    decision: Option<Decision>,
}

/// Who decided about a task, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// `user` or `automatic`.
    pub by: String,
    /// Why, if that was said.
    pub reason: Option<String>,
    /// The attempt that was looked at: the decision counts only if it is still the last one.
    pub execution_id: Option<AttemptId>,
}

impl WriteTx<'_> {
    /// Cancels a task and all that depend on it. What runs of them is told to end.
    ///
    /// # Errors
    ///
    /// `task.not_found`, `task.state_conflict` for one that completed or failed.
    pub fn cancel_task(
        &mut self,
        id: &TaskId,
        decided: &Decided,
        settings: &Settings,
    ) -> Result<Task> {
        let (task, changed) = self.cancel_asked(id, decided, settings)?;
        if changed {
            self.task_moved(&task, settings)?;
        }
        Ok(task)
    }

    /// Cancels one task because a person asked for it, and nothing with it. Returns whether it changed.
    pub(super) fn cancel_asked(
        &mut self,
        id: &TaskId,
        decided: &Decided,
        settings: &Settings,
    ) -> Result<(Task, bool)> {
        let (now, last) = (self.now(), self.last_attempt(id)?);
        let message = decided.reason.clone().unwrap_or_else(|| "It was cancelled".to_owned());
        let decision = Some(decision(DecisionKind::Cancelled, decided, last.as_ref(), now));
        let cancelled = Cancelled { cause: CancelCause::Asked, message, decision };
        self.cancel_one(id, cancelled, settings)
    }

    /// Accepts the result of a task that is blocked by its verification.
    ///
    /// # Errors
    ///
    /// `task.not_found`, `task.state_conflict`.
    pub fn approve_task(
        &mut self,
        id: &TaskId,
        decided: &Decided,
        settings: &Settings,
    ) -> Result<Task> {
        let (now, last) = (self.now(), self.last_attempt(id)?);
        if let Some(task) =
            self.already_decided(id, DecisionKind::Approved, decided, last.as_ref())?
        {
            return Ok(task);
        }
        let decision = decision(DecisionKind::Approved, decided, last.as_ref(), now);
        let result = approved_result(last.as_ref(), now);
        let kept = decision.clone();
        let (task, _) = self.step_task(id, TaskInput::Approve, |task| {
            task.result = Some(result);
            task.failure = None;
            task.decisions.push(kept);
        })?;
        self.tell_decision(&task, &decision)?;
        self.settle_workspaces(id)?;
        self.task_moved(&task, settings)?;
        Ok(task)
    }

    /// Asks for another attempt of a blocked task.
    ///
    /// # Errors
    ///
    /// `task.not_found`, `task.state_conflict`.
    pub fn retry_task(&mut self, id: &TaskId, decided: &Decided) -> Result<Task> {
        let (now, last) = (self.now(), self.last_attempt(id)?);
        if let Some(task) =
            self.already_decided(id, DecisionKind::Retried, decided, last.as_ref())?
        {
            return Ok(task);
        }
        let decision = decision(DecisionKind::Retried, decided, last.as_ref(), now);
        let kept = decision.clone();
        let (task, _) = self.step_task(id, TaskInput::Retry, |task| {
            (task.failure, task.hold) = (None, None);
            task.decisions.push(kept);
        })?;
        self.tell_decision(&task, &decision)?;
        self.settle_workspaces(id)?;
        Ok(task)
    }

    /// A decision counts for the last attempt only; the same decision about it again is no error (S-168, S-169, S-172).
    fn already_decided(
        &self,
        id: &TaskId,
        kind: DecisionKind,
        decided: &Decided,
        last: Option<&Attempt>,
    ) -> Result<Option<Task>> {
        let task = self.task(id)?;
        let last = last.map(|attempt| &attempt.id);
        let about = decided.execution_id.as_ref();
        let recorded = |attempt: Option<&AttemptId>| {
            task.decisions.iter().any(|decision| {
                decision.decision == kind && decision.execution_id.as_ref() == attempt
            })
        };
        if about.is_some() && recorded(about) {
            return Ok(Some(task));
        }
        check_is_last(&task, about, last)?;
        let waits_again = task.state.phase.status() == TaskStatus::Blocked;
        Ok((last.is_some() && recorded(last) && !waits_again).then_some(task))
    }

    pub(super) fn last_attempt(&self, id: &TaskId) -> Result<Option<Attempt>> {
        Ok(self.attempts_of(id)?.pop())
    }

    fn cancel_one(
        &mut self,
        id: &TaskId,
        cancelled: Cancelled,
        settings: &Settings,
    ) -> Result<(Task, bool)> {
        let Cancelled { cause, message, decision } = cancelled;
        let kept = decision.clone();
        let (task, changed) = self.step_task(id, TaskInput::Cancel(cause), |task| {
            let cause = cause.as_str().to_owned();
            task.failure = Some(TaskFailure { cause, message, retryable: false });
            task.hold = None;
            task.decisions.extend(kept);
        })?;
        if let Some(decision) = decision.filter(|_| changed) {
            self.tell_decision(&task, &decision)?;
        }
        if changed {
            let attempts = self.attempts_of(id)?;
            for attempt in attempts.into_iter().filter(|attempt| attempt.ended_at.is_none()) {
                let end = AttemptInput::End(EndReason::TaskCancelled);
                self.attempt_input(&attempt.id, end, &AttemptReport::default(), settings)?;
            }
            self.settle_workspaces(id)?;
        }
        Ok((task, changed))
    }

    /// What a task's new status means for the tasks that depend on it and for its objective.
    pub(super) fn task_moved(&mut self, moved: &Task, settings: &Settings) -> Result<()> {
        let tasks = self.tasks_of(&moved.objective_id)?;
        let edges: Vec<_> =
            tasks.iter().map(|task| (task.id.clone(), task.depends_on.clone())).collect();
        let done = |id: &TaskId| {
            tasks
                .iter()
                .any(|task| task.id == *id && task.state.phase.status() == TaskStatus::Completed)
        };
        let (cause, message) = match moved.state.phase.status() {
            TaskStatus::Completed => {
                for task in
                    tasks.iter().filter(|task| task.state.phase.status() == TaskStatus::Created)
                {
                    if task.depends_on.contains(&moved.id) && task.depends_on.iter().all(done) {
                        self.step_task(&task.id, TaskInput::DependenciesMet, |_| ())?;
                    }
                }
                return self.objective_moved(&moved.objective_id);
            }
            TaskStatus::Failed => (
                CancelCause::DependencyFailed,
                format!("task {}, which it needs, failed", moved.spec.key),
            ),
            TaskStatus::Cancelled => (
                CancelCause::DependencyCancelled,
                format!("task {}, which it needs, was cancelled", moved.spec.key),
            ),
            TaskStatus::Created
            | TaskStatus::Ready
            | TaskStatus::Running
            | TaskStatus::Verifying
            | TaskStatus::Blocked => {
                return Ok(());
            }
        };
        for id in graph::dependents(&moved.id, &edges) {
            if !self.task(&id)?.state.phase.status().is_ended() {
                let cancelled = Cancelled { cause, message: message.clone(), decision: None };
                self.cancel_one(&id, cancelled, settings)?;
            }
        }
        self.objective_moved(&moved.objective_id)
    }

    /// Ends the objective with its last task.
    pub(super) fn objective_moved(&mut self, id: &ObjectiveId) -> Result<()> {
        let objective = self.objective(id)?;
        let statuses: Vec<_> =
            self.tasks_of(id)?.iter().map(|task| task.state.phase.status()).collect();
        let status = objective::status(objective.flow, &statuses, true);
        if status.is_ended() && objective.ended_at.is_none() {
            let (objective, _) =
                self.step_objective(&objective.id, FlowInput::Ended, "automatic", None)?;
            self.end_objective(&objective, status)?;
        }
        Ok(())
    }

    /// Tells a decision that was recorded.
    pub(super) fn tell_decision(&mut self, task: &Task, decision: &Decision) -> Result<()> {
        let data = json!({
            "decision": decision.decision, "execution_id": decision.execution_id,
            "by": decision.by, "reason": decision.reason,
        });
        self.tell_task(EventKind::TaskDecided, task, data)
    }
}

/// What a person says about an attempt counts only while that is the last one (S-162, S-168).
pub(super) fn check_is_last(
    task: &Task,
    about: Option<&AttemptId>,
    last: Option<&AttemptId>,
) -> Result<()> {
    if about.is_none() || about == last {
        return Ok(());
    }
    let message = format!(
        "attempt {} is not the last one of task {}",
        about.map_or("", AttemptId::as_str),
        task.spec.key
    );
    Err(Error::new(Code::TaskStateConflict, message).with("task_id", task.id.as_str()))
}

fn decision(
    kind: DecisionKind,
    decided: &Decided,
    last: Option<&Attempt>,
    at: crate::time::Timestamp,
) -> Decision {
    Decision {
        decision: kind,
        execution_id: last.map(|attempt| attempt.id.clone()),
        by: decided.by.clone(),
        reason: decided.reason.clone(),
        at,
    }
}

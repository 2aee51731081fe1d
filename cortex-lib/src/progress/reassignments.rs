//! Moves of tasks from one agent to another.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::Decided;
use super::objectives::not_a_worker_for;
use super::tasks::check_is_last;
use crate::domain::capability::Capability;
use crate::domain::event::EventKind;
use crate::domain::task::TaskStatus;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, AttemptId, RuntimeId, TaskId};
use crate::store::{Attempt, Reassignment, Task, WriteTx};

impl WriteTx<'_> {
    /// Moves a task that waits to another agent of its project; `None`: to any that can run it.
    ///
    /// The same move again is no error and no second record, whatever came of the task since.
    ///
    /// # Errors
    ///
    /// `task.not_found`, `agent.not_found`, `task.agent_not_eligible`, and `task.state_conflict` for a task that
    /// does not wait, whose last attempt is another one than was looked at, or has not let go yet.
    pub fn reassign_task(
        &mut self,
        id: &TaskId,
        to: Option<&AgentId>,
        decided: &Decided,
        capabilities: &BTreeMap<RuntimeId, BTreeSet<Capability>>,
    ) -> Result<Task> {
        let mut task = self.task(id)?;
        let about = decided.execution_id.as_ref();
        if task.pinned.as_ref() == to && is_recorded(&task, to, about) {
            return Ok(task);
        }
        if let Some(agent) = to {
            self.check_may_run(&task, agent, capabilities)?;
        }
        let last = self.last_attempt(id)?;
        check_is_last(&task, about, last.as_ref().map(|attempt| &attempt.id))?;
        check_waits(&task, last.as_ref())?;
        if task.pinned.as_ref() == to {
            return Ok(task);
        }
        let moved = Reassignment {
            by: decided.by.clone(),
            from_agent_id: task.pinned.take(),
            to_agent_id: to.cloned(),
            execution_id: last.map(|attempt| attempt.id),
            reason: decided.reason.clone(),
            at: self.now(),
        };
        let data = json!({
            "from_agent_id": moved.from_agent_id, "to_agent_id": moved.to_agent_id,
            "execution_id": moved.execution_id, "by": moved.by, "reason": moved.reason,
        });
        task.pinned = to.cloned();
        task.reassignments.push(moved);
        self.save_task(&task)?;
        self.tell_task(EventKind::TaskReassigned, &task, data)?;
        Ok(task)
    }

    /// Whether an agent could run a task if it were READY (H-33).
    fn check_may_run(
        &self,
        task: &Task,
        agent_id: &AgentId,
        capabilities: &BTreeMap<RuntimeId, BTreeSet<Capability>>,
    ) -> Result<()> {
        let agent = self.agent(agent_id)?;
        let why_not = if agent.project_id == task.project_id {
            not_a_worker_for(&agent, &task.spec, capabilities)
        } else {
            Some(format!("agent {} belongs to another project", agent.name))
        };
        let Some(message) = why_not else { return Ok(()) };
        Err(Error::new(Code::TaskAgentNotEligible, message)
            .with("task_id", task.id.as_str())
            .with("agent_id", agent_id.as_str()))
    }
}

/// Whether the move was made before. Who names the attempt it was about may be late: a newer attempt may run
/// on the new agent already.
fn is_recorded(task: &Task, to: Option<&AgentId>, about: Option<&AttemptId>) -> bool {
    task.reassignments.iter().any(|moved| {
        moved.to_agent_id.as_ref() == to
            && (about.is_none() || moved.execution_id.as_ref() == about)
    })
}

/// Only a task that waits, and that nobody works on any more, can be moved.
fn check_waits(task: &Task, last: Option<&Attempt>) -> Result<()> {
    let status = task.state.phase.status();
    let conflict = |message: String| {
        Error::new(Code::TaskStateConflict, message)
            .with("task_id", task.id.as_str())
            .with("status", status.as_str())
    };
    match status {
        TaskStatus::Created | TaskStatus::Ready | TaskStatus::Blocked => {}
        TaskStatus::Running
        | TaskStatus::Verifying
        | TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Cancelled => {
            let key = &task.spec.key;
            return Err(conflict(format!("task {key} is {}: it does not wait", status.as_str())));
        }
    }
    if last.is_none_or(|attempt| attempt.state.is_over()) {
        return Ok(());
    }
    let message = format!("the last attempt of task {} still lets go", task.spec.key);
    Err(conflict(message).remedy("Ask again when it has ended: at most 30 s later."))
}

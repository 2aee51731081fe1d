//! What must hold, whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use cortex_lib::api::view::ObjectiveView;
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::waiting::WaitReason;
use cortex_lib::port::{Asked, ScriptedWorld};
use cortex_lib::store::{DecisionKind, Event, ReadTx};
use cortex_lib::{Result, error::Code};

use crate::callers::Told;

/// Free repeats of one task (C22).
const FREE_REPEATS: usize = 5;

/// What was acknowledged is on disk, and rows agree with each other.
pub fn of_rows(tx: &ReadTx<'_>, told: &Told) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for id in &told.objectives {
        if tx.objective(id).is_err() {
            broken.push(format!("objective {id} was acknowledged and is lost"));
        }
    }
    for id in told.agents.difference(&told.removed) {
        if tx.agent(id).is_err_and(|error| error.code() == Code::AgentNotFound) {
            // Another caller may have removed it, and its answer got lost.
            if tx.agent_name(id)?.is_none() {
                broken.push(format!("agent {id} was acknowledged and is lost"));
            }
        }
    }
    for id in &told.removed {
        if tx.agent(id).is_ok() {
            broken.push(format!("agent {id} was removed and is back"));
        }
    }
    for id in &told.tasks {
        let Ok(task) = tx.task(id) else {
            broken.push(format!("task {id} was acknowledged and is lost"));
            continue;
        };
        let status = task.state.phase.status();
        if told.cancelled.contains(id) && status != TaskStatus::Cancelled {
            broken.push(format!("task {id} was cancelled and is {status:?}"));
        }
        let attempts = tx.attempts_of(id)?;
        let live: Vec<_> = attempts.iter().filter(|attempt| !attempt.state.is_over()).collect();
        if live.len() > 1 {
            broken.push(format!("task {id} has {} live attempts", live.len()));
        }
        let runs = matches!(status, TaskStatus::Running | TaskStatus::Verifying);
        if runs && live.is_empty() {
            broken.push(format!("task {id} is {status:?} and nothing of it runs"));
        }
        let asked = task.decisions.iter().filter(|one| one.decision == DecisionKind::Retried);
        let max =
            1 + usize::from(task.spec.max_retries.unwrap_or(2)) + asked.count() + FREE_REPEATS;
        if attempts.len() > max {
            broken.push(format!(
                "task {id} was tried {} times, at most {max} are right",
                attempts.len()
            ));
        }
    }
    for (id, kind) in &told.decided {
        let task = tx.task(id)?;
        if !task.decisions.iter().any(|decision| decision.decision == *kind) {
            broken.push(format!("task {id} was {kind:?} and does not know it"));
        }
    }
    Ok(broken)
}

/// Every task that has not ended runs, or waits and says why.
pub fn of_waits(objectives: &[ObjectiveView]) -> Vec<String> {
    let tasks = objectives.iter().flat_map(|objective| &objective.tasks);
    let silent = tasks.filter(|task| match task.status {
        TaskStatus::Created | TaskStatus::Ready | TaskStatus::Blocked => task.waiting.is_none(),
        _ => false,
    });
    silent
        .map(|task| {
            format!("task {} is {:?} and does not say why it waits", task.task_id, task.status)
        })
        .collect()
}

/// After a quiet time, nothing moves: what waits, waits for a person.
pub fn of_rest(objectives: &[ObjectiveView]) -> Vec<String> {
    let mut broken = of_waits(objectives);
    for task in objectives.iter().flat_map(|objective| &objective.tasks) {
        if matches!(task.status, TaskStatus::Running | TaskStatus::Verifying) {
            broken.push(format!("task {} still is {:?}", task.task_id, task.status));
        }
        let reason = task.waiting.as_ref().map(|waiting| waiting.reason);
        let for_a_person = [
            WaitReason::Dependencies,
            WaitReason::NoEligibleAgent,
            WaitReason::AssignedAgentUnavailable,
            WaitReason::Approval,
        ];
        if reason.is_some_and(|reason| !for_a_person.contains(&reason)) {
            broken.push(format!("task {} still waits for {reason:?}", task.task_id));
        }
        let waits_for = task.waiting.iter().filter_map(|waiting| waiting.dependencies.as_ref());
        let mut ended = waits_for.flat_map(|wait| &wait.task_ids).filter(|id| {
            let mut tasks = objectives.iter().flat_map(|objective| &objective.tasks);
            tasks.any(|other| other.task_id == **id && other.status.is_ended())
        });
        if let Some(id) = ended.next() {
            broken.push(format!("task {} waits for {id}, which has ended", task.task_id));
        }
        if task.attempts.iter().any(|attempt| attempt.ended_at.is_none()) {
            broken.push(format!("an attempt of task {} never ended", task.task_id));
        }
    }
    broken
}

/// A row that says that an agent lives is backed by a session that lives, and the other way round.
pub fn of_agents(tx: &ReadTx<'_>, world: &ScriptedWorld) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let processes = world.processes();
    let mut backed = BTreeSet::new();
    for agent in tx.agents(None)? {
        let status = agent.state.status();
        if matches!(status, AgentStatus::Starting | AgentStatus::Stopping | AgentStatus::Busy) {
            broken.push(format!("agent {} still is {}", agent.name, status.as_str()));
        }
        if let Some(session) = agent.state.session() {
            backed.insert(session.to_string());
            if !processes.contains(session.as_str()) {
                broken.push(format!(
                    "agent {} is {} without a session",
                    agent.name,
                    status.as_str()
                ));
            }
        }
    }
    let orphans: Vec<_> = processes.difference(&backed).collect();
    if !orphans.is_empty() {
        broken.push(format!("nobody owns {orphans:?}"));
    }
    Ok(broken)
}

/// Nothing was sent twice, and never two turns at once.
pub fn of_world(world: &ScriptedWorld) -> Vec<String> {
    let mut broken = Vec::new();
    let (mut turns, mut attempts, mut sessions) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for asked in world.asked() {
        match asked {
            Asked::Turn(_, turn) => {
                if turn.attempt_id.clone().is_some_and(|attempt| !attempts.insert(attempt)) {
                    broken.push(format!("attempt {:?} was sent twice", turn.attempt_id));
                }
                if !turns.insert(turn.id.clone()) {
                    broken.push(format!("turn {} was sent twice", turn.id));
                }
            }
            Asked::Open(spec) if spec.resume.is_none() => {
                sessions.insert(spec.session_id);
            }
            _ => {}
        }
    }
    let overlaps = world.overlaps();
    if !overlaps.is_empty() {
        broken.push(format!("turns {overlaps:?} were sent while another one ran"));
    }
    broken
}

/// The log has no gap, and its stories are possible.
pub fn of_events(events: &[Event]) -> Vec<String> {
    let mut stories = Stories::default();
    let mut before: Option<&Event> = None;
    for event in events {
        if let Some(before) = before.filter(|before| before.seq + 1 != event.seq) {
            stories.broken.push(format!("event {} follows {}", event.seq, before.seq));
        }
        before = Some(event);
        match event.kind {
            EventKind::AttemptChanged => stories.attempt_changed(event),
            EventKind::TaskChanged | EventKind::AgentStateChanged => stories.moved(event),
            _ => {}
        }
    }
    stories.broken
}

/// What the log has told so far.
#[derive(Default)]
struct Stories {
    /// Of each attempt: its status, and whether it was over.
    attempts: BTreeMap<String, (String, bool)>,
    /// Of each task: its live attempt.
    live: BTreeMap<String, String>,
    /// Of each task and agent: where it stood.
    places: BTreeMap<String, String>,
    broken: Vec<String>,
}

fn text(event: &Event, key: &str) -> String {
    let value = event.data.get(key).and_then(serde_json::Value::as_str);
    value.unwrap_or_default().to_owned()
}

impl Stories {
    fn attempt_changed(&mut self, event: &Event) {
        let (id, task) = (text(event, "execution_id"), text(event, "task_id"));
        let status = text(event, "status");
        let ended = event.data.get("ended").is_some_and(|ended| *ended == true);
        if let Some((before, over)) = self.attempts.get(&id) {
            if *over {
                self.broken.push(format!("attempt {id} goes on after its end: {status}"));
            }
            // What was told to end says so at once. Only a stop of the core that nobody confirmed is lost.
            let told = ["CANCELLED", "TIMED_OUT", "FAILED"].contains(&before.as_str());
            if told && *before != status && status != "LOST" {
                self.broken.push(format!("attempt {id} was {before} and became {status}"));
            }
        } else if let Some(other) = self.live.insert(task.clone(), id.clone()) {
            self.broken.push(format!("attempt {id} of task {task} began while {other} was live"));
        }
        if ended {
            self.live.remove(&task);
        }
        self.attempts.insert(id, (status, ended));
    }

    fn moved(&mut self, event: &Event) {
        let id = match &event.agent_id {
            Some(agent) => agent.to_string(),
            None => text(event, "task_id"),
        };
        let (from, to) = (text(event, "from"), text(event, "to"));
        if let Some(place) = self.places.get(&id).filter(|place| **place != from) {
            self.broken.push(format!("{id} was {place} and went from {from} to {to}"));
        }
        self.places.insert(id, to);
    }
}

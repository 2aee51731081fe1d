//! At the end, when every caller has helped and enough time has passed.

use std::collections::BTreeSet;

use cortex_lib::Result;
use cortex_lib::api::view::ObjectiveView;
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::waiting::WaitReason;
use cortex_lib::port::ScriptedWorld;
use cortex_lib::store::ReadTx;
use rusqlite::Connection;

use super::{Broken, Promise};

fn waits(what: String) -> Broken {
    Broken::new(Promise::NothingWaitsForEver, what)
}

/// Every task that has not ended runs, or waits and says why; what it waits for that is no person has a time.
pub fn waits_have_reasons(objectives: &[ObjectiveView]) -> Vec<Broken> {
    let mut broken = Vec::new();
    for task in objectives.iter().flat_map(|objective| &objective.tasks) {
        let stands = !task.status.is_ended()
            && !matches!(task.status, TaskStatus::Running | TaskStatus::Verifying);
        let Some(waiting) = &task.waiting else {
            if stands {
                broken.push(waits(format!(
                    "task {} is {:?} and does not say why it waits",
                    task.task_id, task.status
                )));
            }
            continue;
        };
        let bounded = match waiting.reason {
            WaitReason::Backoff => waiting.backoff.is_some(),
            WaitReason::RateLimited => waiting.rate_limited.is_some(),
            WaitReason::Dependencies => waiting.dependencies.is_some(),
            WaitReason::Approval => waiting.approval.is_some(),
            _ => true,
        };
        if !bounded {
            let what = format!("task {} waits for {:?} and nothing of it", task.task_id, waiting);
            broken.push(waits(what));
        }
    }
    broken
}

/// After a quiet time nothing moves: what waits, waits for a person. `full`: as many sessions live as may.
pub fn everything_rests(objectives: &[ObjectiveView], full: bool) -> Vec<Broken> {
    let mut broken = waits_have_reasons(objectives);
    for task in objectives.iter().flat_map(|objective| &objective.tasks) {
        if matches!(task.status, TaskStatus::Running | TaskStatus::Verifying) {
            broken.push(waits(format!("task {} still is {:?}", task.task_id, task.status)));
        }
        let reason = task.waiting.as_ref().map(|waiting| waiting.reason);
        let for_a_person = [
            WaitReason::Dependencies,
            WaitReason::ObjectivePaused,
            WaitReason::NoEligibleAgent,
            WaitReason::AssignedAgentUnavailable,
            WaitReason::Approval,
        ];
        let excused =
            |reason| for_a_person.contains(&reason) || full && reason == WaitReason::ProcessLimit;
        if reason.is_some_and(|reason| !excused(reason)) {
            broken.push(waits(format!("task {} still waits for {reason:?}", task.task_id)));
        }
        if let Some(wait) = task.waiting.as_ref().and_then(|waiting| waiting.dependencies.as_ref())
        {
            let tasks = objectives.iter().flat_map(|objective| &objective.tasks);
            let mut open = tasks.filter(|task| !task.status.is_ended());
            if !open.any(|other| wait.task_ids.contains(&other.task_id)) {
                let what = format!("task {} waits for tasks that have ended", task.task_id);
                broken.push(waits(what));
            }
        }
        if task.attempts.iter().any(|attempt| attempt.ended_at.is_none()) {
            broken.push(waits(format!("an attempt of task {} never ended", task.task_id)));
        }
    }
    broken
}

/// What waited for a short time only is over.
pub fn messages_expire(conn: &Connection) -> Vec<Broken> {
    let query = "SELECT message_id FROM message WHERE status = 'WAITING' AND ttl_secs <= 3600";
    let mut statement = conn.prepare(query).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|id| waits(format!("message {} still waits", id.unwrap()))).collect()
}

/// A row that says that an agent lives is backed by a session that lives, and the other way round.
pub fn agents_have_sessions(tx: &ReadTx<'_>, world: &ScriptedWorld) -> Result<Vec<Broken>> {
    let mut broken = Vec::new();
    let processes = world.processes();
    let mut backed = BTreeSet::new();
    for agent in tx.agents(None)? {
        let status = agent.state.status();
        if matches!(status, AgentStatus::Starting | AgentStatus::Stopping | AgentStatus::Busy) {
            broken.push(waits(format!("agent {} still is {}", agent.name, status.as_str())));
        }
        if let Some(session) = agent.state.session() {
            backed.insert(session.to_string());
            if !processes.contains(session.as_str()) {
                let what = format!("agent {} is {} without a session", agent.name, status.as_str());
                broken.push(Broken::new(Promise::NothingIsLeftBehind, what));
            }
        }
    }
    let orphans: Vec<_> = processes.difference(&backed).collect();
    if !orphans.is_empty() {
        let what = format!("nobody owns {orphans:?}");
        broken.push(Broken::new(Promise::NothingIsLeftBehind, what));
    }
    Ok(broken)
}

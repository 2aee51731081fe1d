//! Between two lives, when nothing runs: what was acknowledged is there.

use std::path::Path;

use cortex_lib::domain::message::MessageState;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::limits::FREE_REPEATS_MAX;
use cortex_lib::store::{DecisionKind, ReadTx, Task};
use cortex_lib::{Result, error::Code};
use rusqlite::{Connection, OpenFlags};

use super::requests::answers_are_kept;
use super::{Broken, Promise};
use crate::sim::hand::Told;

/// All rules about a store that nobody writes to.
pub fn on_disk(path: &Path, tx: &ReadTx<'_>, told: &Told) -> Result<Vec<Broken>> {
    let mut broken: Vec<_> = file_is_whole(path).into_iter().collect();
    broken.extend(things_are_kept(tx, told)?);
    broken.extend(proposals_and_messages_are_kept(tx, told)?);
    broken.extend(answers_are_kept(tx, told)?);
    for id in &told.tasks {
        match tx.task(id) {
            Ok(task) => {
                broken.extend(decisions_are_kept(&task, told));
                broken.extend(spawns_are_bounded(tx, &task)?);
            }
            Err(error) => broken.push(lost(format!("task {id} was acknowledged: {error:?}"))),
        }
    }
    Ok(broken)
}

fn lost(what: String) -> Broken {
    Broken::new(Promise::NothingIsLost, what)
}

/// `SQLite` finds nothing wrong with its file.
fn file_is_whole(path: &Path) -> Option<Broken> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).unwrap();
    let text = |query| conn.query_row(query, [], |row| row.get::<_, String>(0));
    let whole = text("PRAGMA integrity_check").unwrap();
    let dangling = conn.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
    (whole != "ok" || dangling).then(|| lost(format!("the file is damaged: {whole}, {dangling}")))
}

/// Every answered change is there: its events, and what it made or removed.
fn things_are_kept(tx: &ReadTx<'_>, told: &Told) -> Result<Vec<Broken>> {
    let mut broken = Vec::new();
    let newest = tx.newest_seq()?;
    if newest < told.seq {
        broken.push(lost(format!("event {} was acknowledged, {newest} is the newest", told.seq)));
    }
    for id in told.objectives.iter().filter(|id| tx.objective(id).is_err()) {
        broken.push(lost(format!("objective {id} was acknowledged and is gone")));
    }
    let removed = |error: cortex_lib::Error| error.code() == Code::AgentNotFound;
    for id in told.agents.difference(&told.removed) {
        // Another caller may have removed it, and its answer got lost.
        if tx.agent(id).is_err_and(removed) && tx.agent_name(id)?.is_none() {
            broken.push(lost(format!("agent {id} was acknowledged and is gone")));
        }
    }
    for id in told.removed.iter().filter(|id| tx.agent(id).is_ok()) {
        broken.push(lost(format!("agent {id} was removed and is back")));
    }
    for id in told.removed_projects.iter().filter(|id| tx.project(id).is_ok()) {
        broken.push(lost(format!("project {id} was removed and is back")));
    }
    Ok(broken)
}

/// What was proposed, decided about it, posted and acknowledged stands.
fn proposals_and_messages_are_kept(tx: &ReadTx<'_>, told: &Told) -> Result<Vec<Broken>> {
    let mut broken = Vec::new();
    for id in told.proposals.iter().filter(|id| tx.proposal(id).is_err()) {
        broken.push(lost(format!("proposal {id} was acknowledged and is gone")));
    }
    for (id, wanted) in &told.settled {
        let status = tx.proposal(id)?.state.status();
        if status != *wanted {
            broken.push(lost(format!("proposal {id} was {wanted:?} and is {status:?}")));
        }
    }
    for id in &told.posted {
        if tx.message(id)?.is_none() {
            broken.push(lost(format!("message {id} was acknowledged and is gone")));
        }
    }
    for id in &told.acked {
        let state = tx.message(id)?.map(|message| message.state);
        if state != Some(MessageState::Acked) {
            broken.push(lost(format!("message {id} was taken out and is {state:?}")));
        }
    }
    Ok(broken)
}

/// What people decided about a task stands.
fn decisions_are_kept(task: &Task, told: &Told) -> Vec<Broken> {
    let mut broken = Vec::new();
    let status = task.state.phase.status();
    if told.cancelled.contains(&task.id) && status != TaskStatus::Cancelled {
        broken.push(lost(format!("task {} was cancelled and is {status:?}", task.id)));
    }
    if told.integrated.contains(&task.id) && task.integration.is_none() {
        broken.push(lost(format!("task {} was integrated and does not know it", task.id)));
    }
    let of_task = told.decided.iter().filter(|(id, _)| *id == task.id);
    for (_, kind) in of_task {
        if !task.decisions.iter().any(|decision| decision.decision == *kind) {
            broken.push(lost(format!("task {} was {kind:?} and does not know it", task.id)));
        }
    }
    broken
}

/// A task is not tried more often than anybody asked for.
fn spawns_are_bounded(tx: &ReadTx<'_>, task: &Task) -> Result<Option<Broken>> {
    let asked = task.decisions.iter().filter(|one| one.decision == DecisionKind::Retried);
    let retries = usize::from(task.spec.max_retries.unwrap_or(2));
    let generation = tx.objective(&task.objective_id)?.generation;
    // Every pause that interrupts, and nothing else, is a change of the flow.
    let pauses = usize::try_from(generation).unwrap_or(usize::MAX);
    let max = pauses + 1 + retries + asked.count() + usize::from(FREE_REPEATS_MAX);
    let tried = tx.attempts_of(&task.id)?.len();
    Ok((tried > max).then(|| {
        let what = format!("task {} was tried {tried} times, at most {max} are right", task.id);
        Broken::new(Promise::NothingWaitsForEver, what)
    }))
}

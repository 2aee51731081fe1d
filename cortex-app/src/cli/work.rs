//! How objectives and their tasks are shown, for the commands that show them.

use std::collections::BTreeMap;

use cortex_lib::api::tool::{ListAgents, ListTasks};
use cortex_lib::api::view::{AttemptView, ObjectiveView, TaskView};
use cortex_lib::error::Result;
use cortex_lib::ids::AgentId;
use cortex_lib::store::VerificationStatus;

use super::screen::{cell, table};
use crate::door::Door;
use crate::run::clock;
use crate::run::words::{self, Names};

/// What agents are called.
pub(super) async fn agents(door: &Door) -> Result<BTreeMap<AgentId, String>> {
    let agents = door.call(ListAgents { project_id: None }).await?.agents;
    Ok(agents.into_iter().map(|agent| (agent.agent_id, agent.name)).collect())
}

/// What is called how around a task.
pub(super) async fn names_around(door: &Door, task: &TaskView) -> Result<Names> {
    let objectives = door.call(ListTasks {}).await?.objectives;
    let own = objectives.iter().find(|objective| objective.objective_id == task.objective_id);
    let agents = agents(door).await?;
    // An objective that is too old to be listed waits for nothing.
    Ok(own.map(|own| Names::of(own, agents)).unwrap_or_default())
}

/// The tasks of an objective: where each stands and why.
pub(super) fn tasks(objective: &ObjectiveView, names: &Names) -> String {
    let row = |task: &TaskView| {
        [
            format!("  {}", task.key),
            task.status.as_str().to_owned(),
            attempts(task, names),
            evidence(task).unwrap_or_default().to_owned(),
            task.task_id.to_string(),
            why(task, names).map_or_else(String::new, |why| cell(&why)),
        ]
    };
    let headings = ["  TASK", "STATUS", "ATTEMPTS", "EVIDENCE", "ID", "WHY"];
    table(headings, objective.tasks.iter().map(row), "  no tasks")
}

/// How often it was tried, and who tried last.
fn attempts(task: &TaskView, names: &Names) -> String {
    match task.attempts.last() {
        Some(last) => format!("{}, {}", task.attempts.len(), names.agent(&last.agent_id)),
        None => "0".to_owned(),
    }
}

/// What speaks for its result, or against the last one.
pub(super) fn evidence(task: &TaskView) -> Option<&'static str> {
    if let Some(result) = &task.result {
        return Some(words::evidence(result.evidence));
    }
    let verification = |attempt: &AttemptView| Some(attempt.verification.as_ref()?.status);
    Some(match task.attempts.last().and_then(verification)? {
        VerificationStatus::Running => "being verified",
        VerificationStatus::Passed => "verified",
        VerificationStatus::Failed => "refuted",
        VerificationStatus::Unavailable => "not verifiable",
        VerificationStatus::Cancelled => "not verified",
    })
}

/// Why it stands where it stands.
pub(super) fn why(task: &TaskView, names: &Names) -> Option<String> {
    let failure = task.failure.as_ref().map(|failure| failure.message.clone());
    failure.or_else(|| Some(names.waiting(task.waiting.as_ref()?, clock::now())))
}

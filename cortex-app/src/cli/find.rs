//! Things by what people call them: a name or an id.

use cortex_lib::api::tool::{ListAgents, ListProjects, ListProposals, ListTasks};
use cortex_lib::api::view::{AgentView, ObjectiveView, ProjectView, ProposalView, TaskView};
use cortex_lib::domain::proposal::ProposalStatus;
use cortex_lib::error::{Code, Error, Result};

use crate::door::Door;

/// The project called `name`, or with that id.
///
/// # Errors
///
/// `project.not_found`.
pub(super) async fn project(door: &Door, name: &str) -> Result<ProjectView> {
    let projects = door.call(ListProjects {}).await?.projects;
    let found = projects
        .into_iter()
        .find(|project| project.project_id.as_str() == name || project.name == name);
    found.ok_or_else(|| {
        Error::new(Code::ProjectNotFound, format!("there is no project {name}"))
            .remedy(lists(door, "project list"))
    })
}

/// The agent called `name`, or with that id; in `project`, when it is given.
///
/// # Errors
///
/// `agent.not_found`, `project.not_found`; `validation.invalid_arguments` when several have the name.
pub(super) async fn agent(door: &Door, name: &str, within: Option<&str>) -> Result<AgentView> {
    let project_id = match within {
        Some(within) => Some(project(door, within).await?.project_id),
        None => None,
    };
    let mut agents = door.call(ListAgents { project_id }).await?.agents;
    agents.retain(|agent| agent.agent_id.as_str() == name || agent.name == name);
    let ids: Vec<_> = agents.iter().map(|agent| agent.agent_id.to_string()).collect();
    match (agents.pop(), ids.len()) {
        (Some(agent), 1) => Ok(agent),
        (None, _) => Err(Error::new(Code::AgentNotFound, format!("there is no agent {name}"))
            .remedy(lists(door, "agent list"))),
        (Some(_), _) => Err(several("agents are called", name, &ids)
            .remedy("Say which with --project, or give the id.")),
    }
}

/// The task with the key `name`, or with that id.
///
/// # Errors
///
/// `task.not_found`; `validation.invalid_arguments` when several have the key.
pub(super) async fn task(door: &Door, name: &str) -> Result<TaskView> {
    let objectives = door.call(ListTasks {}).await?.objectives;
    let mut tasks: Vec<_> = objectives.into_iter().flat_map(|objective| objective.tasks).collect();
    tasks.retain(|task| task.task_id.as_str() == name || task.key == name);
    let ids: Vec<_> = tasks.iter().map(|task| task.task_id.to_string()).collect();
    match (tasks.pop(), ids.len()) {
        (Some(task), 1) => Ok(task),
        (None, _) => Err(Error::new(Code::TaskNotFound, format!("there is no task {name}"))
            .remedy(lists(door, "task list --all"))),
        (Some(_), _) => {
            Err(several("tasks have the key", name, &ids)
                .remedy("Give the id of the one you mean."))
        }
    }
}

/// The objective with the title `name`, or with that id. Of several the only one that has not ended is meant.
///
/// # Errors
///
/// `objective.not_found`; `validation.invalid_arguments` when several have the title.
pub(super) async fn objective(door: &Door, name: &str) -> Result<ObjectiveView> {
    let mut found = door.call(ListTasks {}).await?.objectives;
    found.retain(|one| one.objective_id.as_str() == name || one.title == name);
    let id = |one: &ObjectiveView| one.objective_id.to_string();
    match the_open_one(found, |one| one.ended_at.is_none(), id) {
        Ok(Some(objective)) => Ok(objective),
        Ok(None) => {
            Err(Error::new(Code::ObjectiveNotFound, format!("there is no objective {name}"))
                .remedy(lists(door, "objective list --all")))
        }
        Err(ids) => {
            Err(several("objectives are called", name, &ids)
                .remedy("Give the id of the one you mean."))
        }
    }
}

/// The proposal whose plan has the title `name`, or with that id. Of several the only one that waits is meant.
///
/// # Errors
///
/// `proposal.not_found`; `validation.invalid_arguments` when several have the title.
pub(super) async fn proposal(door: &Door, name: &str) -> Result<ProposalView> {
    let mut found = door.call(ListProposals { project_id: None, state: None }).await?.proposals;
    found.retain(|one| one.proposal_id.as_str() == name || one.plan.title == name);
    let pending = |one: &ProposalView| one.state == ProposalStatus::Pending;
    match the_open_one(found, pending, |one| one.proposal_id.to_string()) {
        Ok(Some(proposal)) => Ok(proposal),
        Ok(None) => Err(Error::new(Code::ProposalNotFound, format!("there is no proposal {name}"))
            .remedy(lists(door, "proposal list --all"))),
        Err(ids) => {
            Err(several("proposals are called", name, &ids)
                .remedy("Give the id of the one you mean."))
        }
    }
}

/// The only one; of several the only open one. Else the ids of all.
fn the_open_one<T>(
    mut found: Vec<T>,
    is_open: impl Fn(&T) -> bool,
    id: impl Fn(&T) -> String,
) -> std::result::Result<Option<T>, Vec<String>> {
    let ids: Vec<_> = found.iter().map(id).collect();
    if found.len() > 1 {
        found.retain(is_open);
    }
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(Some(only)),
        (None, _) if ids.is_empty() => Ok(None),
        (Some(_) | None, _) => Err(ids),
    }
}

fn lists(door: &Door, words: &str) -> String {
    format!("`{}` shows all of them.", door.hint(words))
}

fn several(what: &str, name: &str, ids: &[String]) -> Error {
    let message = format!("{} {what} {name}: {}", ids.len(), ids.join(", "));
    Error::new(Code::InvalidArguments, message)
}

//! Things by what people call them: a name or an id.

use cortex_lib::api::tool::{ListAgents, ListProjects, ListTasks};
use cortex_lib::api::view::{AgentView, ProjectView, TaskView};
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
            .remedy("`cortex project list` shows all of them.")
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
            .remedy("`cortex agent list` shows all of them.")),
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
            .remedy("`cortex task list --all` shows all of them.")),
        (Some(_), _) => {
            Err(several("tasks have the key", name, &ids)
                .remedy("Give the id of the one you mean."))
        }
    }
}

fn several(what: &str, name: &str, ids: &[String]) -> Error {
    let message = format!("{} {what} {name}: {}", ids.len(), ids.join(", "));
    Error::new(Code::InvalidArguments, message)
}

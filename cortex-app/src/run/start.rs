//! Sets up what a file asks for: the project, its agents, the objective. Done again, it changes nothing that is
//! as the file says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cortex_lib::api::operator::UpdateProject;
use cortex_lib::api::tool::{
    CreateAgent, CreateObjective, GetAgentStatus, ListAgents, ListProjects, ListRuntimes,
    StartAgent, StopAgent, UpdateAgent,
};
use cortex_lib::api::view::{AgentView, ObjectiveView, ProjectView};
use cortex_lib::domain::agent::{AgentStatus, Role};
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::AgentId;
use futures_util::future::join_all;
use serde_json::json;

use cortex_runtimes::CommandConfig;

use super::file::{FileAgent, ObjectiveFile};
use crate::config::Config;
use crate::door::Door;

/// The agents of a file, ready to work.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    /// All of them.
    pub(crate) agents: Vec<AgentView>,
    /// Those that this run started: it stops them at its end.
    pub(crate) started: Vec<AgentId>,
}

/// Refuses runtimes that the core does not have, before anything is written.
///
/// # Errors
///
/// `runtime.not_found`.
pub(crate) async fn check_runtimes(
    door: &Door,
    file: &ObjectiveFile,
    data_dir: &Path,
) -> Result<()> {
    if door.is_there() {
        check_programs(file, &Config::read(data_dir)?)?;
    }
    let known: BTreeSet<_> =
        door.call(ListRuntimes {}).await?.runtimes.into_iter().map(|one| one.runtime_id).collect();
    for agent in &file.agents {
        let id = &agent.runtime_id;
        if known.contains(id) {
            continue;
        }
        let name = id.as_str().strip_prefix("command:");
        let own = file.runtimes.iter().find(|runtime| name == Some(&runtime.name));
        let names: Vec<_> = known.iter().map(ToString::to_string).collect();
        let message = format!(
            "agent {} wants runtime {id}, and the core has {}",
            agent.name,
            names.join(", ")
        );
        let error = Error::new(Code::RuntimeNotFound, message).with("runtime_id", id.as_str());
        return Err(match own {
            Some(own) => error.remedy(add_to_config(own)),
            None => error,
        });
    }
    Ok(())
}

/// Refuses a file whose programs a core of another process may know by the same names and other words: it would
/// run something else than the file says.
fn check_programs(file: &ObjectiveFile, config: &Config) -> Result<()> {
    for own in &file.runtimes {
        let used = |agent: &FileAgent| {
            agent.runtime_id.as_str().strip_prefix("command:") == Some(&own.name)
        };
        let same = config
            .runtimes
            .commands
            .get(&own.name)
            .is_some_and(|known| (&known.argv, &known.env) == (&own.argv, &own.env));
        if same || !file.agents.iter().any(used) {
            continue;
        }
        let message = format!(
            "a core serves this data directory, and config.json has no program {} like the file's",
            own.name
        );
        return Err(Error::new(Code::RuntimeNotFound, message).remedy(add_to_config(own)));
    }
    Ok(())
}

/// A core that another process serves took its runtimes from its configuration when it started.
fn add_to_config(own: &CommandConfig) -> String {
    format!(
        "The core that serves this data directory does not know the file's runtimes. Stop it, use \
         another --data-dir, or add this to its config.json and start it again: {}",
        json!({ "runtimes": { "commands": { &own.name: { "argv": own.argv, "env": own.env } } } })
    )
}

/// The file's project, if it is registered.
///
/// # Errors
///
/// `project.name_taken` when a project of its name has another folder.
pub(crate) async fn find_project(door: &Door, file: &ObjectiveFile) -> Result<Option<ProjectView>> {
    let root = canonical(&file.root);
    let projects = door.call(ListProjects {}).await?.projects;
    if let Some(same) = projects.iter().find(|project| project.root == root) {
        return Ok(Some(same.clone()));
    }
    match projects.into_iter().find(|project| project.name == file.project) {
        Some(other) => {
            let message = format!(
                "a project {} is there, and its folder is {}, not {}",
                other.name,
                other.root.display(),
                root.display()
            );
            Err(Error::new(Code::ProjectNameTaken, message)
                .remedy("Give the file's project another name.")
                .with("project_id", other.project_id.as_str()))
        }
        None => Ok(None),
    }
}

/// Registers the project, or brings its verification up to date.
///
/// # Errors
///
/// As [`find_project`] and `add_project`.
pub(crate) async fn project(door: &Door, file: &ObjectiveFile) -> Result<ProjectView> {
    if file.create {
        fs_err::create_dir_all(&file.root).map_err(|error| {
            Error::new(
                Code::ProjectInvalidRoot,
                format!("the project's folder cannot be made: {error}"),
            )
            .remedy("Correct project.root, or make the folder.")
        })?;
    }
    let Some(found) = find_project(door, file).await? else {
        return Ok(door.call(file.add_project()).await?.project);
    };
    // A file without a verification does not take away the one that a person gave the project.
    if file.verification.is_none() || file.verification == found.verification {
        return Ok(found);
    }
    let verification = Some(file.verification.clone());
    let update = UpdateProject { verification, ..UpdateProject::new(found.project_id) };
    Ok(door.call(update).await?.project)
}

/// Creates the agents that are not there, brings the others up to date, and starts all of them at once.
///
/// # Errors
///
/// What the first agent that did not start failed with. Those that this call started are stopped again.
pub(crate) async fn crew(door: &Door, file: &ObjectiveFile, project: &ProjectView) -> Result<Crew> {
    let list = ListAgents { project_id: Some(project.project_id.clone()) };
    let there = door.call(list).await?.agents;
    let mut agents = Vec::new();
    for wanted in &file.agents {
        let found = there.iter().find(|agent| agent.name == wanted.name);
        agents.push(match found {
            Some(found) => up_to_date(door, wanted, found).await?,
            None => door.call::<CreateAgent>(wanted.create_in(&project.project_id)).await?.agent,
        });
    }
    let started: Vec<_> = agents
        .iter()
        .filter(|agent| !agent.state.is_live())
        .map(|agent| agent.agent_id.clone())
        .collect();
    let results = join_all(agents.iter().map(|agent| start(door, agent))).await;
    let up: Vec<_> = results.iter().flatten().map(|agent| agent.name.clone()).collect();
    let failed = agents.iter().zip(&results).find_map(|(agent, result)| {
        result.as_ref().err().map(|error| start_failed(agent, error, &up))
    });
    let crew = Crew { agents: results.into_iter().flatten().collect(), started };
    match failed {
        Some(error) => {
            dismiss(door, &crew).await;
            Err(error)
        }
        None => Ok(crew),
    }
}

/// Stops what this run started. What cannot be stopped now is stopped with its core.
pub(crate) async fn dismiss(door: &Door, crew: &Crew) {
    let stops = crew.started.iter().map(|id| door.call(StopAgent { agent_id: id.clone() }));
    for error in join_all(stops).await.into_iter().filter_map(Result::err) {
        tracing::warn!(code = %error.code(), "an agent was not stopped: {}", error.message());
    }
}

/// Creates the objective, with pins by id instead of by name.
///
/// # Errors
///
/// As `create_objective`.
pub(crate) async fn objective(
    door: &Door,
    file: &ObjectiveFile,
    project: &ProjectView,
    crew: &Crew,
) -> Result<ObjectiveView> {
    let mut tasks = file.tasks.clone();
    for task in &mut tasks {
        if let Some(name) = task.assigned_agent_id.take() {
            let agent = crew.agents.iter().find(|agent| agent.name == name.as_str());
            task.assigned_agent_id = agent.map(|agent| agent.agent_id.clone());
        }
    }
    let create = CreateObjective {
        project_id: project.project_id.clone(),
        title: file.title.clone(),
        tasks,
    };
    Ok(door.call(create).await?.objective)
}

async fn up_to_date(door: &Door, wanted: &FileAgent, found: &AgentView) -> Result<AgentView> {
    if found.role == Role::Orchestrator {
        let message = format!("agent {} is an orchestrator and never runs a task", found.name);
        return Err(Error::new(Code::AgentStateConflict, message)
            .remedy("Give the file's agent another name."));
    }
    let same = found.runtime_id == wanted.runtime_id
        && found.model == wanted.model
        && found.instructions == wanted.instructions;
    if same {
        return Ok(found.clone());
    }
    if found.state.is_live() {
        let message =
            format!("agent {} is {} and not as the file says", found.name, found.state.as_str());
        return Err(Error::new(Code::AgentStateConflict, message)
            .remedy("Stop the agent first, or give the file's agent another name.")
            .with("agent_id", found.agent_id.as_str()));
    }
    let update = UpdateAgent {
        agent_id: found.agent_id.clone(),
        name: None,
        runtime_id: Some(wanted.runtime_id.clone()),
        model: Some(wanted.model.clone()),
        instructions: Some(wanted.instructions.clone()),
        skills: None,
    };
    Ok(door.call(update).await?.agent)
}

/// Starts an agent and waits until it takes tasks.
async fn start(door: &Door, agent: &AgentView) -> Result<AgentView> {
    // Before the first look, so that no change after it is missed.
    let mut events = door.events(Some(door.newest_event().await?)).await?;
    let mut now = door.call(StartAgent { agent_id: agent.agent_id.clone() }).await?.agent;
    // The core may have begun the start before, when it opened: then it does not wait for us.
    while now.state == AgentStatus::Starting {
        if events.next().await?.is_none() {
            return Err(Error::new(Code::CoreStopped, "the core has stopped"));
        }
        now = door.call(GetAgentStatus { agent_id: agent.agent_id.clone() }).await?.agent;
    }
    if matches!(now.state, AgentStatus::Ready | AgentStatus::Busy) {
        return Ok(now);
    }
    let error = if let Some(failure) = now.last_failure {
        Error::new(failure.code, failure.message).remedy(failure.remediation)
    } else {
        let message = format!("agent {} is {}", now.name, now.state.as_str());
        Error::new(Code::AgentStateConflict, message)
    };
    Err(error.with("agent_id", now.agent_id.as_str()))
}

fn start_failed(agent: &AgentView, error: &Error, up: &[String]) -> Error {
    let others = match up {
        [] => "no agent is up".to_owned(),
        up => format!("up: {}", up.join(", ")),
    };
    let message = format!("agent {} did not start: {} ({others})", agent.name, error.message());
    Error::new(error.code(), message)
        .remedy(error.remediation())
        .with("agent_id", agent.agent_id.as_str())
}

/// A folder's own name, when it is there.
fn canonical(path: &Path) -> PathBuf {
    fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

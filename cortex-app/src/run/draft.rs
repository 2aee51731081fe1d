//! A draft of the planner as an objective file.

use std::path::Path;

use cortex_lib::api::tool::plan_objective::{Draft, DraftTask};
use cortex_lib::api::view::{AgentView, ProjectView};
use cortex_lib::domain::agent::Role;
use cortex_lib::error::{Code, Error, Result};
use serde::Serialize;

/// What [`ObjectiveFile`](super::ObjectiveFile) reads, as far as a draft and its project say it.
#[derive(Debug, Serialize)]
struct Written<'a> {
    project: WrittenProject<'a>,
    agents: Vec<WrittenAgent<'a>>,
    objective: WrittenObjective<'a>,
}

#[derive(Debug, Serialize)]
struct WrittenProject<'a> {
    name: &'a str,
    root: &'a Path,
}

#[derive(Debug, Serialize)]
struct WrittenAgent<'a> {
    name: &'a str,
    runtime: Option<&'a str>,
    model: Option<&'a str>,
    instructions: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct WrittenObjective<'a> {
    title: &'a str,
    tasks: &'a [DraftTask],
}

/// The file: the tasks of the draft for the workers of its project. A project without a worker gets one that has no
/// runtime yet; `cortex run` asks for it.
pub(crate) fn file(draft: &Draft, project: &ProjectView, agents: &[AgentView]) -> Result<String> {
    let workers = agents.iter().filter(|agent| agent.role == Role::Worker);
    let mut agents: Vec<_> = workers
        .map(|agent| WrittenAgent {
            name: &agent.name,
            runtime: Some(agent.runtime_id.as_str()),
            model: agent.model.as_deref(),
            instructions: agent.instructions.as_deref(),
        })
        .collect();
    if agents.is_empty() {
        agents.push(WrittenAgent {
            name: "worker",
            runtime: None,
            model: None,
            instructions: None,
        });
    }
    let written = Written {
        // The verification of a project stays when a file does not name one.
        project: WrittenProject { name: &project.name, root: &project.root },
        agents,
        objective: WrittenObjective { title: &draft.title, tasks: &draft.tasks },
    };
    toml::to_string_pretty(&written)
        .map_err(|error| Error::new(Code::Defect, format!("a draft is no TOML: {error}")))
}

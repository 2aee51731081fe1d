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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::ObjectiveFile;

    const AT: &str = "2026-01-01T00:00:00.000Z";

    fn agent(name: &str, role: &str) -> AgentView {
        let agent = json!({
            "agent_id": name, "project_id": "p", "name": name, "runtime_id": "claude-code", "role": role,
            "interaction": "structured", "instructions": "Be brief.\nBe kind.", "skills": true,
            "state": "CREATED", "usage": {}, "created_at": AT, "updated_at": AT,
        });
        serde_json::from_value(agent).unwrap()
    }

    #[test]
    fn a_draft_is_a_file_that_a_run_takes_for_the_workers_of_its_project() {
        let folder = tempfile::tempdir().unwrap();
        let project = json!({
            "project_id": "p", "name": "web", "root": folder.path(), "is_git_repository": false, "trusted": false,
            "created_at": AT,
        });
        let task = |key: &str, on: &[&str]| {
            json!({
                "key": key, "title": key, "description": "One.\n'''\nTwo.", "type": "test", "priority": "high",
                "depends_on": on, "requirements": ["interrupt"],
            })
        };
        let tasks = [task("a", &[]), task("b", &["a"])];
        let draft = json!({ "project_id": "p", "title": "T", "tasks": tasks });
        let draft: Draft = serde_json::from_value(draft).unwrap();
        let project: ProjectView = serde_json::from_value(project).unwrap();
        let agents = [agent("ada", "worker"), agent("eve", "orchestrator")];

        let path = folder.path().join("t.toml");
        fs_err::write(&path, file(&draft, &project, &agents).unwrap()).unwrap();
        let read = ObjectiveFile::read(&path, None).unwrap();
        assert_eq!((read.root.as_path(), read.agents.len()), (folder.path(), 1));
        assert_eq!(read.agents[0].instructions, agents[0].instructions);
        let wanted: Vec<_> = draft.tasks.iter().map(|task| &task.description).collect();
        assert_eq!(read.tasks.iter().map(|task| &task.description).collect::<Vec<_>>(), wanted);
        assert_eq!(read.tasks[1].depends_on, ["a"]);
        assert_eq!(read.tasks[1].requirements, draft.tasks[1].requirements);
    }
}

//! An objective file: a project, the agents that work in it, and the tasks to do, in TOML.
//!
//! Everything that can be checked without a core is checked here, all problems at once and each with its line,
//! so that nothing is written for a file that does not hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use cortex_lib::api::tool::{CreateAgent, CreateObjective};
use cortex_lib::api::{Command, CommandDef, operator::AddProject};
use cortex_lib::domain::agent::Role;
use cortex_lib::domain::plan::{self, Requirement, TaskSpec, TaskType};
use cortex_lib::domain::schedule::Priority;
use cortex_lib::domain::verification::Verification;
use cortex_lib::error::Problem;
use cortex_lib::ids::{AgentId, ProjectId, RuntimeId};
use cortex_runtimes::{CommandConfig, CommandRuntime};
use serde::{Deserialize, Serialize};

use super::problems::{FileError, Lines};

/// In a command of the file: the folder that the file is in.
const HERE: &str = "{here}";

/// What a valid file asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectiveFile {
    /// The file itself.
    pub(crate) path: PathBuf,
    /// The project's name.
    pub(crate) project: String,
    /// The project's folder, absolute.
    pub(crate) root: PathBuf,
    /// Make the folder when it is not there.
    pub(crate) create: bool,
    /// What decides whether a result holds.
    pub(crate) verification: Option<Verification>,
    /// The runtimes that the file brings.
    pub(crate) runtimes: Vec<CommandConfig>,
    /// Who works.
    pub(crate) agents: Vec<FileAgent>,
    /// The objective's title.
    pub(crate) title: String,
    /// Its tasks. A pin is still the agent's name.
    pub(crate) tasks: Vec<TaskSpec>,
}

/// An agent of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileAgent {
    /// Unique in the file.
    pub(crate) name: String,
    /// What it runs on.
    pub(crate) runtime_id: RuntimeId,
    /// The model, when the file names one.
    pub(crate) model: Option<String>,
    /// What is appended to the runtime's system prompt.
    pub(crate) instructions: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    project: RawProject,
    #[serde(default)]
    runtimes: BTreeMap<String, RawRuntime>,
    agents: Vec<RawAgent>,
    objective: RawObjective,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProject {
    name: String,
    root: PathBuf,
    #[serde(default)]
    create: bool,
    verification: Option<Verification>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRuntime {
    argv: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAgent {
    name: String,
    runtime: Option<String>,
    model: Option<String>,
    instructions: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawObjective {
    title: String,
    tasks: Vec<RawTask>,
}

/// A [`TaskSpec`] whose pin is a name. A test compares the fields of both.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    key: String,
    title: Option<String>,
    description: String,
    #[serde(default, rename = "type")]
    task_type: TaskType,
    #[serde(default)]
    priority: Priority,
    #[serde(default)]
    depends_on: Vec<String>,
    #[serde(default)]
    requirements: Vec<Requirement>,
    assigned_agent: Option<String>,
    max_retries: Option<u8>,
    timeout_secs: Option<u32>,
    #[serde(default)]
    paths: Vec<String>,
}

impl From<RawTask> for TaskSpec {
    fn from(task: RawTask) -> Self {
        Self {
            key: task.key,
            title: task.title,
            description: task.description,
            task_type: task.task_type,
            priority: task.priority,
            depends_on: task.depends_on,
            requirements: task.requirements,
            assigned_agent_id: task.assigned_agent.map(AgentId::new),
            max_retries: task.max_retries,
            timeout_secs: task.timeout_secs,
            paths: task.paths,
        }
    }
}

impl ObjectiveFile {
    /// Reads and checks a file. `runtime`: every agent runs on it, whatever the file says.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the file.
    pub(crate) fn read(path: &Path, runtime: Option<&RuntimeId>) -> Result<Self, FileError> {
        let text = fs_err::read_to_string(path).map_err(|error| {
            let next =
                "name a file that describes an objective; examples/objectives/README.md says how";
            FileError::whole(path, format!("{error}: {next}"))
        })?;
        let absolute =
            std::path::absolute(path).map_err(|error| FileError::whole(path, error.to_string()))?;
        Self::parse(path, absolute.parent().unwrap_or(&absolute), &text, runtime)
    }

    /// Checks the text of a file in the folder `here`.
    fn parse(
        path: &Path,
        here: &Path,
        text: &str,
        runtime: Option<&RuntimeId>,
    ) -> Result<Self, FileError> {
        let mut lines = Lines::of(path, text);
        let raw: Raw = lines.parse()?;
        let file = Self::resolve(raw, path, here, runtime, &mut lines);
        file.check(&mut lines);
        lines.finish(file)
    }

    fn resolve(
        raw: Raw,
        path: &Path,
        here: &Path,
        runtime: Option<&RuntimeId>,
        lines: &mut Lines<'_>,
    ) -> Self {
        let (Raw { project, runtimes, agents, objective }, path) = (raw, path.to_owned());
        let fill = |word: String| word.replace(HERE, &here.display().to_string());
        let runtimes: Vec<_> = runtimes
            .into_iter()
            .map(|(name, raw)| CommandConfig {
                name,
                argv: raw.argv.into_iter().map(fill).collect(),
                env: raw.env.into_iter().map(|(name, value)| (name, fill(value))).collect(),
            })
            .collect();
        let mut verification = project.verification;
        for command in verification.iter_mut().flat_map(|all| all.commands.iter_mut()) {
            command.argv = std::mem::take(&mut command.argv).into_iter().map(fill).collect();
        }
        // Without a word an agent runs on the runtime that the file brings, if that is one.
        let default = match runtimes.as_slice() {
            [only] => Some(format!("command:{}", only.name)),
            _ => None,
        };
        let mut resolved = Vec::new();
        for (at, agent) in agents.into_iter().enumerate() {
            let named = runtime.map(ToString::to_string).or(agent.runtime).or(default.clone());
            if named.is_none() {
                let message =
                    "is missing: name a runtime here, define one in [runtimes], or use --runtime";
                lines.add(&format!("agents[{at}].runtime"), message);
            }
            resolved.push(FileAgent {
                name: agent.name,
                runtime_id: RuntimeId::new(named.unwrap_or_default()),
                model: agent.model,
                instructions: agent.instructions,
            });
        }
        Self {
            path,
            project: project.name,
            root: lexical(&here.join(project.root)),
            create: project.create,
            verification,
            runtimes,
            agents: resolved,
            title: objective.title,
            tasks: objective.tasks.into_iter().map(TaskSpec::from).collect(),
        }
    }

    /// Asks the commands that will be given, and the rules of plans, what they would refuse.
    fn check(&self, lines: &mut Lines<'_>) {
        let project = ProjectId::new("project");
        lines.add_all("project.", would_refuse(&self.add_project()));
        if !self.create && !self.root.is_dir() {
            let message =
                format!("{} is no folder; make it, or set create = true", self.root.display());
            lines.add("project.root", &message);
        }
        for runtime in &self.runtimes {
            if let Err(error) = CommandRuntime::new(runtime.clone()) {
                let at = format!("runtimes.{}", runtime.name);
                for problem in error.problems() {
                    // The name is the key of the table.
                    let field = if problem.path == "name" {
                        String::new()
                    } else {
                        format!(".{}", problem.path)
                    };
                    lines.add(&format!("{at}{field}"), &problem.message);
                }
            }
        }
        self.check_agents(&project, lines);
        let objective = CreateObjective {
            project_id: project,
            title: self.title.clone(),
            tasks: self.tasks.clone(),
        };
        let mut problems = would_refuse(&objective);
        if problems.is_empty() {
            let names: BTreeSet<_> = self.agents.iter().map(|agent| agent.name.as_str()).collect();
            let pin = |_: &TaskSpec, name: &AgentId| {
                (!names.contains(name.as_str()))
                    .then(|| format!("{name:?} is no agent of this file", name = name.as_str()))
            };
            let no_git = (!self.root.join(".git").exists())
                .then_some("workspace_isolation needs a project that is a git repository");
            if let Err(error) = plan::check(&self.tasks, pin, no_git) {
                problems = error.problems().to_vec();
            }
        }
        for problem in &mut problems {
            problem.path = problem.path.replace("assigned_agent_id", "assigned_agent");
        }
        lines.add_all("objective.", problems);
    }

    fn check_agents(&self, project: &ProjectId, lines: &mut Lines<'_>) {
        if self.agents.is_empty() {
            lines.add("agents", "must have at least 1 item");
        }
        let mut names = BTreeSet::new();
        for (at, agent) in self.agents.iter().enumerate() {
            let at = format!("agents[{at}].");
            if !names.insert(&agent.name) {
                lines.add(
                    &format!("{at}name"),
                    &format!("{:?} names another agent of this file", agent.name),
                );
            }
            if agent.runtime_id.as_str().is_empty() {
                continue;
            }
            let mut problems = would_refuse(&agent.create_in(project));
            for problem in &mut problems {
                problem.path = problem.path.replace("runtime_id", "runtime");
            }
            lines.add_all(&at, problems);
        }
    }

    /// The command that registers the file's project.
    pub(crate) fn add_project(&self) -> AddProject {
        AddProject {
            name: self.project.clone(),
            root: self.root.clone(),
            verification: self.verification.clone(),
        }
    }
}

impl FileAgent {
    /// The command that creates the agent.
    pub(crate) fn create_in(&self, project: &ProjectId) -> CreateAgent {
        CreateAgent {
            project_id: project.clone(),
            name: self.name.clone(),
            runtime_id: self.runtime_id.clone(),
            model: self.model.clone(),
            role: Role::Worker,
            instructions: self.instructions.clone(),
            skills: true,
        }
    }
}

/// What the bounds of a command say against it.
fn would_refuse<C: Command>(command: &C) -> Vec<Problem> {
    let args = match serde_json::to_value(command) {
        Ok(args) => args,
        Err(error) => return vec![Problem::new("", error.to_string())],
    };
    match CommandDef::of::<C>().check(args) {
        Ok(_) => Vec::new(),
        Err(error) if error.problems().is_empty() => vec![Problem::new("", error.message())],
        Err(error) => error.problems().to_vec(),
    }
}

/// The path without `.` and `..`, by its names alone: the folder need not be there yet.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;

    use super::*;

    #[test]
    fn a_file_that_is_not_there_says_what_a_file_is() {
        let error = ObjectiveFile::read(Path::new("/nowhere/missing.toml"), None).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("missing.toml") && said.contains("objectives/README.md"), "{said}");
    }

    const GOOD: &str = r#"
[project]
name = "p"
root = "../scratch"
create = true

[runtimes.one]
argv = ["sh", "{here}/a.sh"]

[[agents]]
name = "ada"

[objective]
title = "T"

[[objective.tasks]]
key = "a"
description = "do"
assigned_agent = "ada"
"#;

    fn parse(text: &str) -> Result<ObjectiveFile, FileError> {
        ObjectiveFile::parse(Path::new("o.toml"), Path::new("/x/objectives"), text, None)
    }

    fn problems(text: &str) -> Vec<String> {
        parse(text).unwrap_err().to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_file_is_resolved_from_its_own_folder() {
        let file = parse(GOOD).unwrap();
        assert_eq!(file.root, Path::new("/x/scratch"));
        assert_eq!(file.runtimes[0].argv, ["sh", "/x/objectives/a.sh"]);
        assert_eq!(file.agents[0].runtime_id, RuntimeId::new("command:one"));
        assert_eq!(file.tasks[0].assigned_agent_id, Some(AgentId::new("ada")));
    }

    #[test]
    fn another_runtime_is_for_every_agent() {
        let other = RuntimeId::new("claude-code");
        let file = ObjectiveFile::parse(Path::new("o"), Path::new("/x"), GOOD, Some(&other));
        assert_eq!(file.unwrap().agents[0].runtime_id, other);
    }

    #[test]
    fn an_unknown_field_is_told_with_its_line() {
        let seen = problems(&GOOD.replace("assigned_agent", "assign_agent"));
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert!(seen[0].starts_with("o.toml:19: objective.tasks[0]"), "{seen:?}");
        assert!(seen[0].contains("unknown field `assign_agent`"), "{seen:?}");
    }

    #[test]
    fn all_problems_are_told_each_with_its_line() {
        let text = GOOD
            .replace("create = true", "create = false")
            .replace("name = \"ada\"", "name = \"bob\"")
            .replace("key = \"a\"", "key = \"A\"\ndepends_on = [\"x\"]");
        assert_eq!(
            problems(&text),
            [
                "o.toml:4: project.root: /x/scratch is no folder; make it, or set create = true",
                "o.toml:17: objective.tasks[0].key: \"A\" must be 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or digit",
                "o.toml:20: objective.tasks[0].assigned_agent: \"ada\" is no agent of this file",
                "o.toml:18: objective.tasks[0].depends_on[0]: no task of this objective has the key \"x\"",
            ]
        );
    }

    #[test]
    fn bounds_of_the_commands_are_bounds_of_the_file() {
        let seen = problems(
            &GOOD.replace("description = \"do\"", "description = \"do\"\ntimeout_secs = 1"),
        );
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert!(seen[0].starts_with("o.toml:19: objective.tasks[0].timeout_secs: "), "{seen:?}");
    }

    #[test]
    fn an_agent_without_a_runtime_is_refused_when_there_is_a_choice() {
        let seen =
            problems(&GOOD.replace("[[agents]]", "[runtimes.two]\nargv = [\"sh\"]\n[[agents]]"));
        assert!(seen[0].contains("agents[0].runtime: is missing"), "{seen:?}");
    }

    #[test]
    fn a_task_of_a_file_has_the_fields_of_a_task() {
        let spec = schema_for!(TaskSpec).to_value();
        let mut wanted: BTreeSet<String> =
            spec["properties"].as_object().unwrap().keys().cloned().collect();
        assert!(wanted.remove("assigned_agent_id") && wanted.insert("assigned_agent".to_owned()));
        let raw: RawTask = toml::from_str("key = \"a\"\ndescription = \"b\"").unwrap();
        let have = serde_json::to_value(&raw).unwrap();
        assert_eq!(have.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>(), wanted);
    }
}

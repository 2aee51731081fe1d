//! What a plan of tasks must be like before anything of it is kept.

use std::collections::{BTreeMap, BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::capability::Capability;
use super::graph;
use super::schedule::Priority;
use crate::error::{Code, Error, Problem, Result};
use crate::ids::AgentId;
use crate::limits::{DESCRIPTION_BYTES_MAX, TASKS_MAX};

/// What sort of work a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum TaskType {
    /// Changes the project.
    Implementation,
    /// Finds something out.
    Research,
    /// Judges somebody's work.
    Review,
    /// Tests something.
    Test,
    /// Writes documentation.
    Documentation,
    /// Anything else.
    #[default]
    Other,
}

/// What a task requires: a capability of its agent's runtime, or a worktree of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Requirement {
    /// The runtime must have it.
    Capability(Capability),
    /// Each attempt runs in a git worktree of its own.
    WorkspaceIsolation,
}

impl Requirement {
    pub(super) const ISOLATION: &'static str = "workspace_isolation";

    fn names() -> Vec<&'static str> {
        Capability::ALL
            .iter()
            .map(|capability| capability.as_str())
            .chain([Self::ISOLATION])
            .collect()
    }
}

impl TryFrom<String> for Requirement {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name == Self::ISOLATION {
            return Ok(Self::WorkspaceIsolation);
        }
        let capability = Capability::ALL.iter().find(|capability| capability.as_str() == name);
        capability
            .map(|found| Self::Capability(*found))
            .ok_or_else(|| format!("must be one of {}", Self::names().join(", ")))
    }
}

impl From<Requirement> for String {
    fn from(requirement: Requirement) -> Self {
        match requirement {
            Requirement::Capability(capability) => capability.as_str().to_owned(),
            Requirement::WorkspaceIsolation => Requirement::ISOLATION.to_owned(),
        }
    }
}

impl JsonSchema for Requirement {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Requirement".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Self::names() })
    }
}

/// One task of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct TaskSpec {
    /// Its name inside the objective: 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or digit.
    pub key: String,
    /// A short title; the key when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub title: Option<String>,
    /// What to do, in words for the agent, at most 64 KiB.
    #[schemars(length(min = 1), extend("x-max-bytes" = DESCRIPTION_BYTES_MAX))]
    pub description: String,
    /// What sort of work it is.
    #[serde(default, rename = "type")]
    pub task_type: TaskType,
    /// How urgent it is.
    #[serde(default)]
    pub priority: Priority,
    /// Keys of tasks that must complete first; their results are passed on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub depends_on: Vec<String>,
    /// What it requires of its agent and its workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub requirements: Vec<Requirement>,
    /// The only agent that may run it; any eligible one when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_agent_id: Option<AgentId>,
    /// Retries after failures; as the settings say when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10))]
    pub max_retries: Option<u8>,
    /// Seconds that one attempt may take; 3,600 when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 86_400))]
    pub timeout_secs: Option<u32>,
    /// The files it will touch, as globs relative to the project's root: tasks with overlapping claims do not
    /// run at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub paths: Vec<String>,
}

impl TaskSpec {
    /// A task with the defaults: any agent, no dependencies, retries as the settings say.
    pub fn new(key: impl Into<String>, description: impl Into<String>) -> Self {
        Self { key: key.into(), description: description.into(), ..Self::default() }
    }

    /// The same, after the tasks with these keys.
    #[must_use]
    pub fn after<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.depends_on.extend(keys.into_iter().map(Into::into));
        self
    }

    /// Whether each attempt gets a worktree of its own.
    pub fn isolated(&self) -> bool {
        self.requirements.contains(&Requirement::WorkspaceIsolation)
    }

    /// What the runtime of its agent must be able to do.
    pub fn capabilities(&self) -> BTreeSet<Capability> {
        self.requirements
            .iter()
            .filter_map(|requirement| match requirement {
                Requirement::Capability(capability) => Some(*capability),
                Requirement::WorkspaceIsolation => None,
            })
            .collect()
    }
}

/// Checks a plan by every rule and tells all problems at once.
///
/// `pin` says what is wrong with pinning a task to an agent, `isolation` what is wrong with isolated tasks in
/// this project, if anything.
///
/// # Errors
///
/// `validation.invalid_objective`, `task.unknown_dependency` or `task.dependency_cycle`: the first class that
/// has a problem decides the code (H-12).
pub fn check(
    tasks: &[TaskSpec],
    pin: impl Fn(&TaskSpec, &AgentId) -> Option<String>,
    isolation: Option<&str>,
) -> Result<()> {
    // Nothing else is looked at then: what follows is made for a handful of tasks, and the caller may send
    // as many as fit into a request.
    if tasks.is_empty() || tasks.len() > TASKS_MAX {
        let message = format!("must have 1 to {TASKS_MAX} items, has {}", tasks.len());
        return Err(Error::invalid(Code::InvalidObjective, vec![Problem::new("tasks", message)]));
    }
    let invalid = shape_problems(tasks, pin, isolation);
    let unknown = unknown_dependencies(tasks);
    let edges: BTreeMap<&str, Vec<&str>> = tasks
        .iter()
        .map(|task| {
            (
                task.key.as_str(),
                task.depends_on.iter().map(String::as_str).filter(|on| *on != task.key).collect(),
            )
        })
        .collect();
    let cycle: Vec<_> = graph::cycle(&edges)
        .map(|cycle| Problem::new("tasks", format!("depend on each other: {}", cycle.join(" → "))))
        .into_iter()
        .collect();

    let code = if !invalid.is_empty() {
        Code::InvalidObjective
    } else if !unknown.is_empty() {
        Code::TaskUnknownDependency
    } else if !cycle.is_empty() {
        Code::TaskDependencyCycle
    } else {
        return Ok(());
    };
    Err(Error::invalid(code, invalid.into_iter().chain(unknown).chain(cycle).collect()))
}

fn shape_problems(
    tasks: &[TaskSpec],
    pin: impl Fn(&TaskSpec, &AgentId) -> Option<String>,
    isolation: Option<&str>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut keys = BTreeSet::new();
    for (at, task) in tasks.iter().enumerate() {
        let mut add = |field: &str, message: String| {
            problems.push(Problem::new(format!("tasks[{at}].{field}"), message));
        };
        if !is_key(&task.key) {
            add(
                "key",
                format!(
                    "{:?} must be 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or digit",
                    task.key
                ),
            );
        } else if !keys.insert(&task.key) {
            add("key", format!("{:?} names another task of this objective", task.key));
        }
        let mut earlier = BTreeSet::new();
        for (on, dependency) in task.depends_on.iter().enumerate() {
            if *dependency == task.key {
                add(&format!("depends_on[{on}]"), "names the task itself".to_owned());
            } else if !earlier.insert(dependency) {
                add(&format!("depends_on[{on}]"), format!("names {dependency:?} again"));
            }
        }
        for (on, path) in task.paths.iter().enumerate() {
            if let Some(problem) = path_problem(path) {
                add(&format!("paths[{on}]"), problem);
            }
        }
        if let Some(problem) = task.assigned_agent_id.as_ref().and_then(|agent| pin(task, agent)) {
            add("assigned_agent_id", problem);
        }
        if let Some(problem) = isolation.filter(|_| task.isolated()) {
            add("requirements", problem.to_owned());
        }
    }
    problems
}

fn unknown_dependencies(tasks: &[TaskSpec]) -> Vec<Problem> {
    let known: BTreeSet<_> = tasks.iter().map(|task| &task.key).collect();
    let unknown = |at: usize, task: &TaskSpec| {
        let path = move |on| format!("tasks[{at}].depends_on[{on}]");
        task.depends_on
            .iter()
            .enumerate()
            .filter(|(_, key)| !known.contains(key))
            .map(|(on, key)| {
                Problem::new(path(on), format!("no task of this objective has the key {key:?}"))
            })
            .collect::<Vec<_>>()
    };
    tasks.iter().enumerate().flat_map(|(at, task)| unknown(at, task)).collect()
}

fn is_key(key: &str) -> bool {
    let first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=32).contains(&key.len())
        && key.starts_with(first)
        && key.chars().all(|c| first(c) || c == '_' || c == '-')
}

fn path_problem(path: &str) -> Option<String> {
    if path.is_empty() || path.len() > 1024 {
        Some("must be 1 to 1024 bytes long".to_owned())
    } else if path.starts_with('/')
        || path.contains('\\')
        || path.contains(':')
        || path.split(['/', '{', ',', '}']).any(|part| part == "..")
    {
        Some(format!(
            "{path:?} must be relative to the project's root, with / between names and no .."
        ))
    } else if globset::Glob::new(path).is_err() {
        Some(format!("{path:?} is not a glob"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(key: &str, depends_on: &[&str]) -> TaskSpec {
        TaskSpec {
            key: key.into(),
            description: "do it".into(),
            depends_on: depends_on.iter().map(|key| (*key).to_owned()).collect(),
            ..TaskSpec::default()
        }
    }

    fn refusal(tasks: &[TaskSpec]) -> (Code, Vec<String>) {
        let error = check(tasks, |_, _| None, None).unwrap_err();
        (error.code(), error.problems().iter().map(|problem| problem.path.clone()).collect())
    }

    #[test]
    fn a_diamond_is_fine() {
        assert_eq!(
            check(
                &[task("a", &[]), task("b", &["a"]), task("c", &["a"]), task("d", &["b", "c"])],
                |_, _| None,
                None
            ),
            Ok(())
        );
    }

    #[test]
    fn counts_keys_and_self_dependencies_are_invalid_objective() {
        assert_eq!(refusal(&[]), (Code::InvalidObjective, vec!["tasks".into()]), "S-090");
        let many: Vec<_> = (0..11).map(|n| task(&format!("t{n}"), &[])).collect();
        assert_eq!(refusal(&many), (Code::InvalidObjective, vec!["tasks".into()]), "S-090");
        let seen = refusal(&[task("a", &["a"]), task("a", &[]), task("B!", &[])]);
        assert_eq!(
            seen,
            (
                Code::InvalidObjective,
                ["tasks[0].depends_on[0]", "tasks[1].key", "tasks[2].key"].map(Into::into).to_vec()
            )
        );
    }

    /// One request holds thousands of tasks. A walk as deep as their chain would end the process.
    #[test]
    fn a_chain_of_any_length_is_refused_by_its_count() {
        let chain: Vec<_> =
            (0..50_000).map(|n| task(&format!("t{n}"), &[&format!("t{}", n + 1)])).collect();
        assert_eq!(refusal(&chain), (Code::InvalidObjective, vec!["tasks".into()]));
    }

    #[test]
    fn a_refusal_lists_only_so_many_problems() {
        let paths = vec!["..".to_owned(); 1_000];
        let (_, seen) = refusal(&[TaskSpec { paths, ..task("a", &[]) }]);
        assert_eq!(seen.len(), crate::limits::PROBLEMS_MAX + 1);
    }

    #[test]
    fn all_problems_are_told_and_the_first_class_decides_the_code() {
        let seen = refusal(&[task("a", &["b", "x"]), task("b", &["a"])]);
        assert_eq!(
            seen,
            (
                Code::TaskUnknownDependency,
                ["tasks[0].depends_on[1]", "tasks"].map(Into::into).to_vec()
            )
        );
    }

    #[test]
    fn a_cycle_is_named_in_order() {
        let error =
            check(&[task("a", &["b"]), task("b", &["c"]), task("c", &["a"])], |_, _| None, None)
                .unwrap_err();
        assert_eq!(error.code(), Code::TaskDependencyCycle);
        assert!(error.message().contains("a → b → c → a"), "{}", error.message());
    }

    #[test]
    fn pins_isolation_and_paths_are_checked() {
        let pinned = TaskSpec { assigned_agent_id: Some(AgentId::new("x")), ..task("a", &[]) };
        let isolated =
            TaskSpec { requirements: vec![Requirement::WorkspaceIsolation], ..task("b", &[]) };
        let paths = TaskSpec {
            paths: vec!["../x".into(), "src/**".into(), "/etc".into(), "[".into()],
            ..task("c", &[])
        };
        let error = check(
            &[pinned, isolated, paths],
            |_, _| Some("no such agent".into()),
            Some("no git repository"),
        )
        .unwrap_err();
        let seen: Vec<_> = error.problems().iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(
            seen,
            [
                "tasks[0].assigned_agent_id",
                "tasks[1].requirements",
                "tasks[2].paths[0]",
                "tasks[2].paths[2]",
                "tasks[2].paths[3]"
            ]
        );
    }

    #[test]
    fn a_requirement_is_a_word() {
        let parse = |text: &str| serde_json::from_str::<Requirement>(text);
        assert_eq!(parse("\"workspace_isolation\"").unwrap(), Requirement::WorkspaceIsolation);
        assert_eq!(parse("\"resume\"").unwrap(), Requirement::Capability(Capability::Resume));
        assert!(parse("\"telepathy\"").unwrap_err().to_string().contains("must be one of"));
    }
}

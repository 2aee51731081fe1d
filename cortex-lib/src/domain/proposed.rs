//! A plan that waits for a decision: what a person reads before it becomes work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::{Requirement, TaskSpec, TaskType};
use super::schedule::Priority;
use crate::limits::{DESCRIPTION_BYTES_MAX, SUMMARY_BYTES_MAX, TITLE_CHARS_MAX};

/// A guess at the size of a task. It helps a person who decides and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Estimate {
    /// A short turn.
    Small,
    /// Between the two.
    Medium,
    /// A long turn.
    Large,
}

/// One task of a proposed plan. It names no agent, path, model, time-out or retries: none of that is for a plan
/// to choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct ProposedTask {
    /// Its name inside the plan: 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or digit.
    pub key: String,
    /// A short title.
    #[schemars(length(min = 1, max = TITLE_CHARS_MAX))]
    pub title: String,
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
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub depends_on: Vec<String>,
    /// What it requires of its agent and its workspace.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub requirements: Vec<Requirement>,
    /// How large it seems; it is dropped when the plan becomes work.
    #[serde(default)]
    pub estimate: Option<Estimate>,
}

/// A plan that waits for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct ProposedPlan {
    /// The title of the objective that it becomes.
    #[schemars(length(min = 1, max = TITLE_CHARS_MAX))]
    pub title: String,
    /// What the plan does and why it is cut like that, for the person who decides.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-max-bytes" = SUMMARY_BYTES_MAX))]
    pub summary: Option<String>,
    /// 1 to 10 tasks.
    pub tasks: Vec<ProposedTask>,
}

impl ProposedPlan {
    /// The tasks as an objective takes them. Nothing is added; the estimates are dropped.
    pub fn specs(&self) -> Vec<TaskSpec> {
        self.tasks.iter().map(ProposedTask::spec).collect()
    }
}

impl ProposedTask {
    fn spec(&self) -> TaskSpec {
        TaskSpec {
            key: self.key.clone(),
            title: Some(self.title.clone()),
            description: self.description.clone(),
            task_type: self.task_type,
            priority: self.priority,
            depends_on: self.depends_on.clone(),
            requirements: self.requirements.clone(),
            // Written out, so that a field that tasks get later has to be thought about here.
            assigned_agent_id: None,
            max_retries: None,
            timeout_secs: None,
            paths: Vec::new(),
        }
    }
}

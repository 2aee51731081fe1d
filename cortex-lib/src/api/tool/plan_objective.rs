//! `plan_objective`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Access, Command, Effect, Granted, Tool, Wait};
use crate::domain::plan::{Requirement, TaskType};
use crate::domain::planned::Asked;
use crate::domain::proposed::{ProposedPlan, ProposedTask};
use crate::domain::schedule::Priority;
use crate::error::{Code, Result};
use crate::ids::ProjectId;
use crate::limits::{GOAL_BYTES_MAX, PLANNER_TIMEOUT};

/// Let the planner split a goal into 1 to 10 tasks and get the draft back. Nothing is created. The planner is one turn of the runtime in the setting `planner.runtime_id`; it reads the project, cannot change it and gets no tools of Cortex. Use `propose_objective` to keep the plan for a person instead.
/// Cost: the tokens of a turn and up to 5 minutes; who stops waiting ends it. Next: `create_objective`, whose every rule the draft keeps: pass it there, unchanged or edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanObjective {
    /// The project to plan in.
    pub project_id: ProjectId,
    /// What is to be reached, in words for the planner, at most 16 KiB.
    #[schemars(length(min = 1), extend("x-max-bytes" = GOAL_BYTES_MAX))]
    pub goal: String,
}

/// The answer of `plan_objective`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DraftReply {
    /// The arguments of `create_objective`.
    pub draft: Draft,
}

/// An objective that does not exist: the arguments of `create_objective`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Draft {
    /// The project it is for.
    pub project_id: ProjectId,
    /// Its title.
    pub title: String,
    /// 1 to 10 tasks.
    pub tasks: Vec<DraftTask>,
}

/// A task of a draft. Every key is always there; it names no agent and no retries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct DraftTask {
    /// Its name inside the objective.
    pub key: String,
    /// A short title.
    pub title: String,
    /// What to do, in words for the agent.
    pub description: String,
    /// What sort of work it is.
    #[serde(rename = "type")]
    pub task_type: TaskType,
    /// How urgent it is.
    pub priority: Priority,
    /// Keys of tasks that must complete first.
    pub depends_on: Vec<String>,
    /// What it requires of its agent.
    pub requirements: Vec<Requirement>,
}

impl Draft {
    fn of(project_id: ProjectId, plan: ProposedPlan) -> Self {
        let tasks = plan.tasks.into_iter().map(DraftTask::of).collect();
        Self { project_id, title: plan.title, tasks }
    }
}

impl DraftTask {
    fn of(task: ProposedTask) -> Self {
        Self {
            key: task.key,
            title: task.title,
            description: task.description,
            task_type: task.task_type,
            priority: task.priority,
            depends_on: task.depends_on,
            requirements: task.requirements,
        }
    }
}

impl Command for PlanObjective {
    type Output = DraftReply;
    const NAME: &'static str = "plan_objective";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::WritesLast;
    const ERRORS: &'static [Code] = &[
        Code::ProjectNotFound,
        Code::ProjectInvalidRoot,
        Code::ResourceLimitReached,
        Code::PlannerUnavailable,
        Code::RuntimeNotInstalled,
        Code::PlannerTimedOut,
        Code::PlannerFailed,
        Code::PlannerInvalidPlan,
        Code::InvalidObjective,
        Code::TaskUnknownDependency,
        Code::TaskDependencyCycle,
        Code::DataDirUnusable,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let (plan, _) = cx.ask_planner(&self.project_id, &self.goal, Asked::Draft).await?;
        Ok(DraftReply { draft: Draft::of(self.project_id, plan) })
    }
}

impl Tool for PlanObjective {
    const WAIT: Option<Wait> =
        Some(Wait { what: "The planner reads the project and plans", at_most: PLANNER_TIMEOUT });
}

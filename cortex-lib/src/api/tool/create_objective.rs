//! `create_objective`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ObjectiveReply;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::domain::plan::TaskSpec;
use crate::error::{Code, Result};
use crate::ids::ProjectId;
use crate::progress::NewObjective;

/// Create an objective: a goal split into 1 to 10 tasks that you list. Nothing is planned by a model; for that, `plan_objective`. Each task runs as one turn of a READY agent of the project and starts only after the tasks it depends on have completed; their results are passed on in its instruction. Returns the objective with the `task_id` of every task.
/// Cost: at once, and the tokens of a turn for each attempt at a task. Next: `list_tasks` says how the tasks go, and why one waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateObjective {
    /// The project it is for.
    pub project_id: ProjectId,
    /// Its title.
    #[schemars(length(min = 1, max = 200))]
    pub title: String,
    /// 1 to 10 tasks.
    pub tasks: Vec<TaskSpec>,
}

impl Command for CreateObjective {
    type Output = ObjectiveReply;
    const NAME: &'static str = "create_objective";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[
        Code::ProjectNotFound,
        Code::InvalidObjective,
        Code::TaskUnknownDependency,
        Code::TaskDependencyCycle,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let capabilities = cx.core().board_facts().capabilities;
        let isolation = cx.core().isolation_problem(&self.project_id, &self.tasks).await?;
        let new = NewObjective {
            project_id: self.project_id,
            title: self.title,
            tasks: self.tasks,
            proposal_id: None,
            by: "user".to_owned(),
        };
        let objective = cx
            .core()
            .store()
            .write(move |tx| tx.create_objective(new, &capabilities, isolation.as_deref()));
        cx.objective_reply(&objective.await?.id)
    }
}

impl Tool for CreateObjective {}

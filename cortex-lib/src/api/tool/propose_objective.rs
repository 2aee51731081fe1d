//! `propose_objective`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ProposalReply;
use crate::api::view::ProposalView;
use crate::api::{Access, Command, Effect, Granted, Tool, Wait};
use crate::domain::planned::Asked;
use crate::error::{Code, Result};
use crate::ids::ProjectId;
use crate::limits::{GOAL_BYTES_MAX, PLANNER_TIMEOUT};
use crate::progress::NewProposal;

/// Let the planner of `plan_objective` split a goal into 1 to 10 tasks and keep its plan as a pending proposal, for a person to read. The plan is data: no task exists and nothing runs until `approve_proposal`. At most 20 proposals may wait at once.
/// Cost: the tokens of a turn and up to 5 minutes; who stops waiting ends it. Next: `approve_proposal`, `edit_proposal` to change it, `reject_proposal` to turn it down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposeObjective {
    /// The project to plan in.
    pub project_id: ProjectId,
    /// What is to be reached, in words for the planner, at most 16 KiB.
    #[schemars(length(min = 1), extend("x-max-bytes" = GOAL_BYTES_MAX))]
    pub goal: String,
}

impl Command for ProposeObjective {
    type Output = ProposalReply;
    const NAME: &'static str = "propose_objective";
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
        Code::InvalidProposal,
        Code::InvalidObjective,
        Code::TaskUnknownDependency,
        Code::TaskDependencyCycle,
        Code::ProposalTooManyPending,
        Code::DataDirUnusable,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let store = cx.core().store();
        // Before a turn is spent; it is looked at again when the plan is kept.
        store.read(|tx| {
            cx.project(tx, &self.project_id)?;
            tx.check_room_for_proposal()
        })?;
        let (plan, source) = cx.ask_planner(&self.project_id, &self.goal, Asked::Proposal).await?;
        let new = NewProposal { project_id: self.project_id, goal: self.goal, source, plan };
        let proposal = store.write(move |tx| tx.propose(new)).await?;
        Ok(ProposalReply { proposal: ProposalView::of(proposal) })
    }
}

impl Tool for ProposeObjective {
    const WAIT: Option<Wait> =
        Some(Wait { what: "The planner reads the project and plans", at_most: PLANNER_TIMEOUT });
}

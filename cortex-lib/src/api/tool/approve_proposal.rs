//! `approve_proposal`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::view::{ObjectiveView, ProposalView};
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::ProposalId;

/// Approve a pending proposal: the one step that turns a plan into work. It creates an objective of exactly the plan's tasks by the rules of `create_objective`. No agent, path, model, time-out or number of retries comes from a plan, and its estimates are dropped. If no objective can be created, the proposal stays pending. Approving twice creates one objective: the second call fails and names it.
/// Cost: at once; tasks without dependencies become READY and agents start on them, a turn for each attempt. Next: `list_tasks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveProposal {
    /// The revision to approve.
    pub proposal_id: ProposalId,
}

/// An approved proposal and what it became.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Approved {
    /// The proposal.
    pub proposal: ProposalView,
    /// The objective that was made of it.
    pub objective: ObjectiveView,
}

impl Command for ApproveProposal {
    type Output = Approved;
    const NAME: &'static str = "approve_proposal";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[
        Code::ProposalNotFound,
        Code::ProjectNotFound,
        Code::InvalidObjective,
        Code::TaskUnknownDependency,
        Code::TaskDependencyCycle,
        Code::ProposalSuperseded,
        Code::ProposalAlreadyDecided,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let capabilities = cx.core().board_facts().capabilities;
        let id = self.proposal_id;
        let plan = cx.core().store().read(|tx| tx.proposal(&id))?;
        let isolation = cx.core().isolation_problem(&plan.project_id, &plan.plan.specs()).await?;
        let (proposal, objective) = cx
            .core()
            .store()
            .write(move |tx| tx.approve_proposal(&id, "user", &capabilities, isolation.as_deref()))
            .await?;
        let objective = cx.objective_reply(&objective.id)?.objective;
        Ok(Approved { proposal: ProposalView::of(proposal), objective })
    }
}

impl Tool for ApproveProposal {}

//! The planner, and what people do with its proposals.

use cortex_lib::api::tool::{
    ApproveProposal, EditProposal, ListProposals, PlanObjective, ProposeObjective, RejectProposal,
};
use cortex_lib::api::view::ProposalView;
use cortex_lib::domain::plan::Requirement;
use cortex_lib::domain::proposal::ProposalStatus;
use cortex_lib::ids::ProposalId;

use crate::sim::hand::{Hand, MADE_UP};

pub async fn plan_objective(hand: &Hand) {
    let Some(project_id) = hand.project().await else { return };
    let plan = PlanObjective { project_id, goal: "Count the words.".into() };
    if hand.dice.once_in(4) {
        // Whoever goes away ends the turn; nothing of it may be left.
        let patience = hand.dice.seconds(40);
        drop(tokio::time::timeout(patience, hand.call(plan)).await);
    } else {
        hand.call(plan).await;
    }
}

pub async fn propose_objective(hand: &Hand) {
    let Some(project_id) = hand.project().await else { return };
    let propose = ProposeObjective { project_id, goal: "Count the lines.".into() };
    let made = if hand.dice.once_in(6) {
        let patience = hand.dice.seconds(40);
        tokio::time::timeout(patience, hand.call(propose)).await.ok().flatten()
    } else {
        hand.call(propose).await
    };
    if let Some(made) = made {
        hand.told.borrow_mut().proposals.insert(made.proposal.proposal_id);
    }
}

/// A proposal that waits, if there is one; now and then any other, or one that never was.
async fn proposal(hand: &Hand) -> Option<ProposalView> {
    let proposals = hand.call(ListProposals { project_id: None, state: None }).await?.proposals;
    let any = hand.dice.once_in(8);
    let waits = |one: &ProposalView| any || one.state == ProposalStatus::Pending;
    let proposals: Vec<_> = proposals.into_iter().filter(waits).collect();
    let mut one = hand.dice.pick(&proposals).cloned()?;
    if hand.dice.once_in(30) {
        one.proposal_id = ProposalId::new(MADE_UP);
    }
    Some(one)
}

pub async fn edit_proposal(hand: &Hand) {
    let Some(one) = proposal(hand).await else { return };
    let mut plan = one.plan;
    plan.title = format!("edited {}", hand.dice.roll(9));
    for task in &mut plan.tasks {
        if hand.dice.once_in(2) {
            task.requirements = vec![Requirement::WorkspaceIsolation];
        }
        // A plan that cannot hold is refused whole.
        if hand.dice.once_in(20) {
            task.depends_on = vec![task.key.clone()];
        }
    }
    let edited = hand.call(EditProposal { proposal_id: one.proposal_id, plan }).await;
    if let Some(edited) = edited {
        hand.told.borrow_mut().proposals.insert(edited.proposal.proposal_id);
    }
}

pub async fn approve_proposal(hand: &Hand) {
    let Some(one) = proposal(hand).await else { return };
    let approve = ApproveProposal { proposal_id: one.proposal_id };
    let Some(done) = hand.call(approve).await else { return };
    let mut told = hand.told.borrow_mut();
    told.settled.push((done.proposal.proposal_id, ProposalStatus::Approved));
    told.objectives.insert(done.objective.objective_id);
    told.tasks.extend(done.objective.tasks.into_iter().map(|task| task.task_id));
}

pub async fn reject_proposal(hand: &Hand) {
    let Some(one) = proposal(hand).await else { return };
    let reject = RejectProposal { proposal_id: one.proposal_id, reason: None };
    if let Some(done) = hand.call(reject).await {
        let settled = (done.proposal.proposal_id, ProposalStatus::Rejected);
        hand.told.borrow_mut().settled.push(settled);
    }
}

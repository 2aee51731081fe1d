//! Proposed plans: kept as data, edited, and in the end turned down or made into work.

use std::collections::{BTreeMap, BTreeSet};

use super::NewObjective;
use crate::domain::capability::Capability;
use crate::domain::proposal::{ProposalInput, ProposalSource, ProposalState, ProposalStatus};
use crate::domain::proposed::ProposedPlan;
use crate::error::Result;
use crate::ids::{ProjectId, ProposalId, RuntimeId};
use crate::store::{Objective, Proposal, WriteTx};

/// A plan that somebody proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewProposal {
    /// The project it is for.
    pub project_id: ProjectId,
    /// What was asked for.
    pub goal: String,
    /// Who wrote it.
    pub source: ProposalSource,
    /// The plan.
    pub plan: ProposedPlan,
}

impl WriteTx<'_> {
    /// Keeps a plan until somebody decides about it. No task exists before that.
    ///
    /// # Errors
    ///
    /// `project.not_found`, `proposal.too_many_pending`, and those of
    /// [`plan::check`](crate::domain::plan::check).
    pub fn propose(&mut self, new: NewProposal) -> Result<Proposal> {
        // A planner's plan names no agent, so nobody's capabilities are asked for.
        let isolation = Some("only a person asks for a worktree, when editing the proposal");
        self.check_tasks(&new.project_id, &new.plan.specs(), &BTreeMap::new(), isolation)?;
        self.check_room_for_proposal()?;
        let id = ProposalId::new(self.env().mint());
        let proposal = Proposal {
            first_id: id.clone(),
            id,
            revision: 1,
            project_id: new.project_id,
            goal: new.goal,
            source: new.source,
            previous: None,
            plan: new.plan,
            state: ProposalState::Pending,
            resolution: None,
            created_at: self.now(),
        };
        self.insert_proposal(&proposal)?;
        Ok(proposal)
    }

    /// Replaces a pending revision by a new one, which the person wrote. `isolation`: what is wrong with isolated tasks
    /// in its project, as far as it was looked at (H-42).
    ///
    /// # Errors
    ///
    /// `proposal.not_found`, `project.not_found`, those of [`plan::check`](crate::domain::plan::check),
    /// `proposal.superseded`, `proposal.already_decided`.
    pub fn edit_proposal(
        &mut self,
        id: &ProposalId,
        plan: ProposedPlan,
        by: &str,
        isolation: Option<&str>,
    ) -> Result<Proposal> {
        let edited = self.proposal(id)?;
        // A plan names no agent, so nobody's capabilities are asked for.
        self.check_tasks(&edited.project_id, &plan.specs(), &BTreeMap::new(), isolation)
            .map_err(|error| error.inside("plan"))?;
        let next = ProposalId::new(self.env().mint());
        self.step_proposal(id, ProposalInput::Edit { by: next.clone() }, by, None)?;
        let proposal = Proposal {
            id: next,
            revision: edited.revision.saturating_add(1),
            source: ProposalSource::Operator,
            previous: Some(edited.id.clone()),
            plan,
            state: ProposalState::Pending,
            resolution: None,
            created_at: self.now(),
            ..edited
        };
        self.insert_proposal(&proposal)?;
        Ok(proposal)
    }

    /// Makes an objective of a pending revision. `isolation` is as for [`create_objective`](Self::create_objective). Both are decided in this one transaction: there is never an
    /// approval without its objective, nor a second objective.
    ///
    /// # Errors
    ///
    /// `proposal.not_found`, `project.not_found`, `proposal.superseded`, `proposal.already_decided`, and those of
    /// [`create_objective`](Self::create_objective); nothing is changed then.
    pub fn approve_proposal(
        &mut self,
        id: &ProposalId,
        by: &str,
        capabilities: &BTreeMap<RuntimeId, BTreeSet<Capability>>,
        isolation: Option<&str>,
    ) -> Result<(Proposal, Objective)> {
        let proposal = self.proposal(id)?;
        self.project(&proposal.project_id)?;
        self.check_undecided(&proposal)?;
        let new = NewObjective {
            project_id: proposal.project_id,
            tasks: proposal.plan.specs(),
            title: proposal.plan.title,
            proposal_id: Some(proposal.id),
            by: by.to_owned(),
        };
        let objective = self
            .create_objective(new, capabilities, isolation)
            .map_err(|error| error.inside("plan"))?;
        let input = ProposalInput::Approve { objective: objective.id.clone() };
        let approved = self.step_proposal(id, input, by, None)?;
        debug_assert_eq!(objective.proposal_id.as_ref(), Some(id), "both name each other");
        Ok((approved, objective))
    }

    /// Turns a pending revision down for good. No older one comes back.
    ///
    /// # Errors
    ///
    /// `proposal.not_found`, `proposal.superseded`, `proposal.already_decided`.
    pub fn reject_proposal(
        &mut self,
        id: &ProposalId,
        by: &str,
        reason: Option<String>,
    ) -> Result<Proposal> {
        self.step_proposal(id, ProposalInput::Reject, by, reason)
    }

    /// Rejects what waits for a project that goes (H-26).
    pub(super) fn reject_proposals_of(&mut self, project: &ProjectId) -> Result<()> {
        for proposal in self.proposals(Some(project), Some(ProposalStatus::Pending))? {
            let reason = Some("project removed".to_owned());
            self.reject_proposal(&proposal.id, "user", reason)?;
        }
        Ok(())
    }
}

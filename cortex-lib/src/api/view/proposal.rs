//! A proposal as callers see it. Every key is always there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::proposal::{ProposalSource, ProposalState, ProposalStatus};
use crate::domain::proposed::ProposedPlan;
use crate::ids::{ObjectiveId, ProjectId, ProposalId, RuntimeId};
use crate::store::Proposal;
use crate::time::Timestamp;

/// One revision of a proposed plan. The text of a plan is data, never an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposalView {
    /// The revision.
    pub proposal_id: ProposalId,
    /// 1 for the first.
    pub revision: u32,
    /// The project it is for.
    pub project_id: ProjectId,
    /// What was asked for.
    pub goal: String,
    /// Where it stands.
    pub state: ProposalStatus,
    /// Who wrote it.
    pub source: ProposalSourceView,
    /// The revision that was edited; null for the first.
    pub previous: Option<ProposalId>,
    /// The revision that took its place.
    pub superseded_by: Option<ProposalId>,
    /// The plan.
    pub plan: ProposedPlan,
    /// When it was made.
    pub created_at: Timestamp,
    /// How its wait ended; null while it is pending.
    pub resolution: Option<ResolutionView>,
}

/// Who wrote a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposalSourceView {
    /// The planner, or the person who runs Cortex.
    pub kind: SourceKind,
    /// The runtime of the planner.
    pub runtime_id: Option<RuntimeId>,
    /// The model of the planner, when it is known.
    pub model: Option<String>,
}

/// Who wrote a revision, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SourceKind {
    /// A turn of the planner.
    Planner,
    /// The person who runs Cortex.
    Operator,
}

/// How the wait of a revision ended: by an edit, an approval or a rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolutionView {
    /// Who decided.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why, when a reason was given.
    pub reason: Option<String>,
    /// The objective that an approval made.
    pub objective_id: Option<ObjectiveId>,
}

impl ProposalView {
    pub(crate) fn of(proposal: Proposal) -> Self {
        let state = proposal.state.status();
        let (superseded_by, objective_id) = match proposal.state {
            ProposalState::Superseded { by } => (Some(by), None),
            ProposalState::Approved { objective } => (None, Some(objective)),
            ProposalState::Pending | ProposalState::Rejected => (None, None),
        };
        let source = match proposal.source {
            ProposalSource::Planner { runtime_id, model } => ProposalSourceView {
                kind: SourceKind::Planner,
                runtime_id: Some(runtime_id),
                model,
            },
            ProposalSource::Operator => {
                ProposalSourceView { kind: SourceKind::Operator, runtime_id: None, model: None }
            }
        };
        Self {
            proposal_id: proposal.id,
            revision: proposal.revision,
            project_id: proposal.project_id,
            goal: proposal.goal,
            state,
            source,
            previous: proposal.previous,
            superseded_by,
            plan: proposal.plan,
            created_at: proposal.created_at,
            resolution: proposal.resolution.map(|resolution| ResolutionView {
                by: resolution.by,
                at: resolution.at,
                reason: resolution.reason,
                objective_id,
            }),
        }
    }
}

//! `reject_proposal`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ProposalReply;
use crate::api::view::ProposalView;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};
use crate::ids::ProposalId;

/// Reject a pending proposal for good. No objective is created, and no earlier revision comes back.
/// Cost: one record, at once. Next: `propose_objective` asks for another plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectProposal {
    /// The revision to reject.
    pub proposal_id: ProposalId,
    /// Why; kept with the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2000))]
    pub reason: Option<String>,
}

impl Command for RejectProposal {
    type Output = ProposalReply;
    const NAME: &'static str = "reject_proposal";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] =
        &[Code::ProposalNotFound, Code::ProposalSuperseded, Code::ProposalAlreadyDecided];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let Self { proposal_id, reason } = self;
        let rejected =
            cx.core().store().write(move |tx| tx.reject_proposal(&proposal_id, "user", reason));
        Ok(ProposalReply { proposal: ProposalView::of(rejected.await?) })
    }
}

impl Tool for RejectProposal {}

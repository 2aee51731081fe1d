//! `edit_proposal`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ProposalReply;
use crate::api::view::ProposalView;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::domain::proposed::ProposedPlan;
use crate::error::{Code, Result};
use crate::ids::ProposalId;

/// Replace a pending proposal by a plan of your own. Pass the whole plan, as `list_proposals` shows it. It becomes a new pending revision, which names the edited one as previous; the edited one is superseded for good. The plan is checked by every rule of `create_objective`; one that breaks a rule changes nothing. Of two edits of one revision only the first wins.
/// Cost: one record, at once; nothing runs. Next: `approve_proposal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditProposal {
    /// The revision to replace.
    pub proposal_id: ProposalId,
    /// The whole new plan.
    pub plan: ProposedPlan,
}

impl Command for EditProposal {
    type Output = ProposalReply;
    const NAME: &'static str = "edit_proposal";
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
        let Self { proposal_id, plan } = self;
        let project = cx.core().store().read(|tx| tx.proposal(&proposal_id))?.project_id;
        let isolation = cx.core().isolation_problem(&project, &plan.specs()).await?;
        let edited = cx
            .core()
            .store()
            .write(move |tx| tx.edit_proposal(&proposal_id, plan, "user", isolation.as_deref()));
        Ok(ProposalReply { proposal: ProposalView::of(edited.await?) })
    }
}

impl Tool for EditProposal {}

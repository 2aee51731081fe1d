//! `list_approvals`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::view::ApprovalView;
use crate::api::{Access, Command, Effect, Granted};
use crate::domain::approval::ApprovalStatus;
use crate::error::{Code, Result};
use crate::ids::{AgentId, ProjectId};
use crate::limits::APPROVALS_LISTED_MAX;
use crate::store::ApprovalFilter;

/// List what agents wanted to use and asked, those that wait first, then the newest first: the tool, its arguments, where it stands, who decided and why. Everything that waits and the newest 2,000 others are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListApprovals {
    /// Only those that stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ApprovalStatus>,
    /// Only those of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Only those of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// How many at most.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: u32,
}

impl Default for ListApprovals {
    fn default() -> Self {
        Self { state: None, project_id: None, agent_id: None, limit: default_limit() }
    }
}

const fn default_limit() -> u32 {
    100
}

/// Tool requests: those that wait first, then the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalList {
    /// The requests.
    pub approvals: Vec<ApprovalView>,
}

impl Command for ListApprovals {
    type Output = ApprovalList;
    const NAME: &'static str = "list_approvals";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[Code::ProjectNotFound, Code::AgentNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        cx.core().store().read(|tx| {
            if let Some(id) = &self.project_id {
                tx.project(id)?;
            }
            if let Some(id) = &self.agent_id {
                tx.agent(id)?;
            }
            let filter = ApprovalFilter {
                project: self.project_id.clone(),
                agent: self.agent_id.clone(),
                status: self.state,
            };
            let found = tx.approvals(&filter, self.limit.min(APPROVALS_LISTED_MAX))?;
            let views = found.into_iter().map(|approval| ApprovalView::of(approval, tx));
            Ok(ApprovalList { approvals: views.collect::<Result<_>>()? })
        })
    }
}

//! `deny_approval`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ApprovalReply;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::ApprovalId;

/// Deny a tool request that waits, or decline to answer its questions. The agent reads the reason and goes on without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyApproval {
    /// The request.
    pub approval_id: ApprovalId,
    /// Why; the agent reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2000))]
    pub reason: Option<String>,
}

impl Command for DenyApproval {
    type Output = ApprovalReply;
    const NAME: &'static str = "deny_approval";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::ApprovalNotFound, Code::ApprovalNotPending];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let (id, reason) = (self.approval_id.clone(), self.reason);
        cx.core().store().write(move |tx| tx.deny_approval(&id, reason)).await?;
        cx.approval_reply(&self.approval_id)
    }
}

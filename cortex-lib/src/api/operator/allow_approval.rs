//! `allow_approval`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ApprovalReply;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::ApprovalId;

/// Allow a tool request that waits, this once. It is decided by whoever is first; later answers are refused. A request with questions is answered with `answer_approval` instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowApproval {
    /// The request.
    pub approval_id: ApprovalId,
}

impl Command for AllowApproval {
    type Output = ApprovalReply;
    const NAME: &'static str = "allow_approval";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::ApprovalNotFound, Code::ApprovalNotPending];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let id = self.approval_id.clone();
        cx.core().store().write(move |tx| tx.allow_approval(&id, None)).await?;
        cx.approval_reply(&self.approval_id)
    }
}

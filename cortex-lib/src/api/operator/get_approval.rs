//! `get_approval`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ApprovalReply;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Result};
use crate::ids::ApprovalId;

/// Get one tool request with its arguments and questions, where it stands, who decided and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetApproval {
    /// The request.
    pub approval_id: ApprovalId,
}

impl Command for GetApproval {
    type Output = ApprovalReply;
    const NAME: &'static str = "get_approval";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[Code::ApprovalNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        cx.approval_reply(&self.approval_id)
    }
}

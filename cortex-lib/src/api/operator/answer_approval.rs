//! `answer_approval`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::ApprovalReply;
use crate::api::{Access, Command, Effect, Granted};
use crate::domain::approval::Answers;
use crate::error::{Code, Result};
use crate::ids::ApprovalId;

/// Answer the questions that an agent asks its user. Each question takes one of its choices, several where it says so, or other words where it takes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerApproval {
    /// The request.
    pub approval_id: ApprovalId,
    /// The answers, by the id of the question. At most 16384 bytes in all.
    pub answers: Answers,
}

impl Command for AnswerApproval {
    type Output = ApprovalReply;
    const NAME: &'static str = "answer_approval";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] = &[Code::ApprovalNotFound, Code::ApprovalNotPending];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let (id, answers) = (self.approval_id.clone(), self.answers);
        cx.core().store().write(move |tx| tx.answer_approval(&id, answers)).await?;
        cx.approval_reply(&self.approval_id)
    }
}

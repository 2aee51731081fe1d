//! `always_allow_approval`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::view::ApprovalView;
use crate::api::{Access, Command, Effect, Granted};
use crate::domain::approval::Rule;
use crate::error::{Code, Result};
use crate::ids::ApprovalId;
use crate::limits::RULE_INPUT_CHARS_MAX;

/// Allow a tool request that waits, and make a rule of its project that allows the same from now on. For a command it is exactly that command, for an address its host, for any other tool the tool. The rule stands right before the one that left the request to a person, else behind the other rules of the project; rules before it stay in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlwaysAllowApproval {
    /// The request.
    pub approval_id: ApprovalId,
    /// A pattern for the arguments instead of the one that is made: `cargo test*`. It must match the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = RULE_INPUT_CHARS_MAX))]
    pub input: Option<String>,
}

/// The request, and the rule that was made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlwaysAllowed {
    /// The request.
    pub approval: ApprovalView,
    /// The rule.
    pub rule: Rule,
}

impl Command for AlwaysAllowApproval {
    type Output = AlwaysAllowed;
    const NAME: &'static str = "always_allow_approval";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Writes;
    const ERRORS: &'static [Code] =
        &[Code::ApprovalNotFound, Code::ApprovalNotPending, Code::RuleLimitReached];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let (settings, data_dir) = (cx.core().settings(), cx.core().data_dir_text());
        let allowed = cx.core().store().write(move |tx| {
            tx.always_allow_approval(&self.approval_id, self.input, &settings, &data_dir)
        });
        let (approval, rule) = allowed.await?;
        let approval = cx.approval_reply(&approval.id)?.approval;
        Ok(AlwaysAllowed { approval, rule })
    }
}

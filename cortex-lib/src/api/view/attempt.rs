//! An attempt as callers see it. Every key is always there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::task::Detail;
use crate::domain::text::head_and_tail;
use crate::domain::usage::Usage;
use crate::domain::verification::CommandReport;
use crate::ids::{AgentId, AttemptId, RuntimeId};
use crate::limits::LISTED_RESULT_BYTES_MAX;
use crate::store::{Attempt, AttemptResult, AttemptStatus, VerificationStatus, Workspace};
use crate::time::Timestamp;

/// One try of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttemptView {
    /// The attempt.
    pub execution_id: AttemptId,
    /// 1 is the first.
    pub number: u32,
    /// Who ran it.
    pub agent_id: AgentId,
    /// On what.
    pub runtime_id: RuntimeId,
    /// Where it stands.
    pub status: AttemptStatus,
    /// Why it failed or was ended.
    pub cause: Option<String>,
    /// What happened, in one sentence.
    pub message: Option<String>,
    /// The generation of the objective's flow when it started.
    pub generation: u32,
    /// When it was assigned.
    pub started_at: Timestamp,
    /// When its agent had let go and its verification had ended.
    pub ended_at: Option<Timestamp>,
    /// What its turn returned.
    pub result: Option<AttemptResult>,
    /// What its turn used.
    pub usage: Option<Usage>,
    /// How its result was verified; lists say it of the last attempt only.
    pub verification: Option<VerificationView>,
    /// Where it worked.
    pub workspace: Option<Workspace>,
    /// The runtime's own name of its session.
    pub native_session_id: Option<String>,
}

/// How a result was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerificationView {
    /// How far it came.
    pub status: VerificationStatus,
    /// The hash of the git tree that it ran on; left out where git could not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// What ran; left out in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<CommandReport>>,
}

impl AttemptView {
    /// Builds it with as much detail as the caller gets. `native`: its session as the runtime calls it.
    pub(crate) fn of(attempt: Attempt, native: Option<String>, detail: Detail) -> Self {
        let cut = |result: AttemptResult| match detail {
            Detail::Full => result,
            Detail::Listed => {
                let kept = head_and_tail(&result.text, LISTED_RESULT_BYTES_MAX);
                AttemptResult { text: kept.text, truncated: kept.truncated || result.truncated }
            }
        };
        Self {
            status: attempt.status(),
            cause: attempt.cause().map(str::to_owned),
            message: attempt.failure.as_ref().map(|failure| failure.message.clone()),
            execution_id: attempt.id,
            number: attempt.number,
            agent_id: attempt.agent_id,
            runtime_id: attempt.runtime_id,
            generation: attempt.generation,
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            result: attempt.result.map(cut),
            usage: (!attempt.usage.is_empty()).then_some(attempt.usage),
            verification: attempt.verification.map(|record| VerificationView {
                status: record.status,
                tree: record.tree,
                commands: (detail == Detail::Full).then_some(record.commands),
            }),
            workspace: Some(attempt.workspace),
            native_session_id: native,
        }
    }
}

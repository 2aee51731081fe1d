//! Tool requests and rules as the person who runs Cortex sees them. Every key is always there.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::approval::{
    Answers, ApprovalStatus, Decide, DecidedBy, Listed, Origin, Question,
};
use crate::error::Result;
use crate::ids::{AgentId, ApprovalId, AttemptId, ProjectId, TaskId, TurnId};
use crate::store::{Approval, ReadTx};
use crate::time::Timestamp;

/// A tool that an agent wanted to use, or what it asked its user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalView {
    /// The request.
    pub approval_id: ApprovalId,
    /// The project of the agent.
    pub project_id: ProjectId,
    /// Who asks.
    pub agent_id: AgentId,
    /// Its name.
    pub agent_name: String,
    /// The attempt that asks; null when a person sent the turn directly.
    pub execution_id: Option<AttemptId>,
    /// Its task.
    pub task_id: Option<TaskId>,
    /// The turn that asks.
    pub turn_id: TurnId,
    /// The tool, by the runtime's name.
    pub tool: String,
    /// What it would do, in one line.
    pub summary: String,
    /// Its arguments, without secrets.
    pub input: Value,
    /// Whether something of the arguments is missing because they are long.
    pub input_truncated: bool,
    /// The folder that the agent works in.
    pub cwd: PathBuf,
    /// What the agent asks its user; empty for a tool. Answered with `answer_approval`.
    pub questions: Vec<Question>,
    /// What was answered, by the id of the question.
    pub answers: Option<Answers>,
    /// Where it stands.
    pub state: ApprovalStatus,
    /// Who decided: `user`, `rule:` with its id, `role`, `default`, `timeout` or `limit`; null while it waits and when nobody did.
    pub decided_by: Option<String>,
    /// Why it waits, was decided so or ended.
    pub reason: Option<String>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When it was decided or ended.
    pub decided_at: Option<Timestamp>,
    /// When it is denied because nobody answered; null: it waits as long as its turn.
    pub due_at: Option<Timestamp>,
}

impl ApprovalView {
    pub(crate) fn of(approval: Approval, tx: &ReadTx<'_>) -> Result<Self> {
        Ok(Self {
            agent_name: tx.agent_name(&approval.agent_id)?.unwrap_or_default(),
            approval_id: approval.id,
            project_id: approval.project_id,
            agent_id: approval.agent_id,
            execution_id: approval.attempt_id,
            task_id: approval.task_id,
            turn_id: approval.turn_id,
            tool: approval.tool,
            summary: approval.summary,
            input: approval.input,
            input_truncated: approval.truncated,
            cwd: approval.cwd,
            questions: approval.questions,
            answers: approval.answers,
            state: approval.state.status(),
            decided_by: approval.decided_by.as_ref().map(DecidedBy::to_string),
            reason: approval.reason,
            created_at: approval.created_at,
            decided_at: approval.decided_at,
            due_at: approval.due_at,
        })
    }
}

/// A rule of the effective list of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleView {
    /// Its place in the list; the first is 1. Explanations name it.
    pub position: u32,
    /// Where it comes from. Only those of the project can be changed by commands.
    pub origin: Origin,
    /// Its name.
    pub id: String,
    /// The tool, as a pattern.
    pub tool: String,
    /// The pattern for the arguments; null: any.
    pub input: Option<String>,
    /// The name of the agent; null: every agent.
    pub agent: Option<String>,
    /// What it decides.
    pub decide: Decide,
}

impl RuleView {
    pub(crate) fn of(listed: Listed) -> Self {
        let rule = listed.rule;
        Self {
            position: u32::try_from(listed.position).unwrap_or(u32::MAX),
            origin: listed.origin,
            id: rule.id,
            tool: rule.tool,
            input: rule.input,
            agent: rule.agent,
            decide: rule.decide,
        }
    }
}

//! An objective as callers see it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::task::{Detail, TaskView};
use crate::domain::objective::{FlowState, ObjectiveStatus, PausePolicy, status};
use crate::domain::waiting::Waiting;
use crate::error::Result;
use crate::ids::{ObjectiveId, ProjectId, ProposalId, TaskId};
use crate::progress::Work;
use crate::settings::Settings;
use crate::store::{ReadTx, Task};
use crate::time::Timestamp;

/// A goal split into tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveView {
    /// The objective.
    pub objective_id: ObjectiveId,
    /// The project it is for.
    pub project_id: ProjectId,
    /// Its title.
    pub title: String,
    /// Where it stands, derived from its tasks.
    pub status: ObjectiveStatus,
    /// Whether its tasks may start.
    pub flow: FlowView,
    /// Its tasks in the order of their creation.
    pub tasks: Vec<TaskView>,
    /// What it was made from, when that is a proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ObjectiveSource>,
    /// Who created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its last task ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// What an objective was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveSource {
    /// The proposal that was approved. An old one may not be kept any more.
    pub proposal_id: ProposalId,
}

/// Whether the tasks of an objective may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowView {
    /// They may, or not.
    pub state: FlowStateView,
    /// How the pause treats what runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PausePolicy>,
    /// Raised by every pause, resume and cancel.
    pub generation: u32,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// Who changed it.
    pub changed_by: String,
}

/// Whether tasks may start, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FlowStateView {
    /// They may.
    Running,
    /// None starts.
    Paused,
}

impl ObjectiveView {
    /// Puts together an objective with its tasks. `waits`: what the scheduler says of every task.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(crate) fn of(
        Work { objective, tasks }: Work,
        waits: &BTreeMap<TaskId, Waiting>,
        settings: &Settings,
        detail: Detail,
        tx: &ReadTx<'_>,
    ) -> Result<Self> {
        let view = |task: Task| {
            let waiting = waits.get(&task.id).cloned();
            TaskView::of(task, waiting, settings, detail, tx)
        };
        let tasks = tasks.into_iter().map(view).collect::<Result<Vec<_>>>()?;
        let statuses: Vec<_> = tasks.iter().map(|task| task.status).collect();
        let tried = tasks.iter().any(|task| !task.attempts.is_empty());
        let (state, policy) = match objective.flow {
            FlowState::Running => (FlowStateView::Running, None),
            FlowState::Paused(policy) => (FlowStateView::Paused, Some(policy)),
        };
        Ok(Self {
            status: status(objective.flow, &statuses, tried),
            flow: FlowView {
                state,
                policy,
                generation: objective.generation,
                changed_at: objective.changed_at,
                changed_by: objective.changed_by,
            },
            tasks,
            source: objective.proposal_id.map(|proposal_id| ObjectiveSource { proposal_id }),
            objective_id: objective.id,
            project_id: objective.project_id,
            title: objective.title,
            created_by: objective.created_by,
            created_at: objective.created_at,
            ended_at: objective.ended_at,
        })
    }
}

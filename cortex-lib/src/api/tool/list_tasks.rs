//! `list_tasks`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::view::{Detail, ObjectiveView};
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::domain::schedule;
use crate::domain::waiting::Waiting;
use crate::error::{Code, Result};
use crate::ids::TaskId;
use crate::limits::ENDED_OBJECTIVES_LISTED_MAX;
use crate::progress::Work;
use crate::settings::Settings;
use crate::store::{Objective, ReadTx};

/// List every objective with its tasks: the status of each task, why a task that has not started waits, its attempts and, once COMPLETED, its result. Long results are cut. The newest 500 ended objectives are listed.
/// Cost: reads only, at once; the answer is long when much was done. Next: `get_task_status` has one task with its whole result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListTasks {}

/// Objectives, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveList {
    /// The objectives.
    pub objectives: Vec<ObjectiveView>,
    /// Ended objectives that are kept and not listed, because they are older than the newest 500.
    pub objectives_kept: u64,
}

impl Command for ListTasks {
    type Output = ObjectiveList;
    const NAME: &'static str = "list_tasks";
    const ACCESS: Access = Access::EVERYONE;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let core = cx.core();
        // Every agent asks for this list again and again, and mostly nothing has changed.
        let asked = format!("{:?} {:?}", cx.project_scope(), core.state());
        let list = core.store().read_once(asked, |tx| {
            let (work, board) = tx.work(&core.board_facts())?;
            let schedule = schedule::plan(&board, core.store().steady());
            let due = schedule.next_due;
            let list = listed(cx, tx, work, &schedule.into_waits(), &core.settings())?;
            Ok((list, due))
        })?;
        Ok((*list).clone())
    }
}

fn listed(
    cx: Granted<'_>,
    tx: &ReadTx<'_>,
    work: Vec<Work>,
    waits: &BTreeMap<TaskId, Waiting>,
    settings: &Settings,
) -> Result<ObjectiveList> {
    let known = work.into_iter().map(|work| (work.objective.id, work.tasks));
    let mut known: BTreeMap<_, _> = known.collect();
    let objectives = tx.objectives(cx.project_scope(), ENDED_OBJECTIVES_LISTED_MAX)?;
    let view = |objective: Objective| {
        let tasks = match known.remove(&objective.id) {
            Some(tasks) => tasks,
            None => tx.tasks_of(&objective.id)?,
        };
        ObjectiveView::of(Work { objective, tasks }, waits, settings, Detail::Listed, tx)
    };
    let ended = objectives.iter().filter(|objective| objective.ended_at.is_some()).count();
    let ended = u64::try_from(ended).unwrap_or(u64::MAX);
    let kept = tx.ended_objective_count(cx.project_scope())?;
    Ok(ObjectiveList {
        objectives_kept: kept.saturating_sub(ended),
        objectives: objectives.into_iter().map(view).collect::<Result<_>>()?,
    })
}

impl Tool for ListTasks {}

//! The flow of objectives, and tasks that move to another agent.

use cortex_lib::api::tool::{
    CancelObjective, ListTasks, PauseObjective, ReassignTask, ResumeObjective,
};
use cortex_lib::api::view::ObjectiveView;
use cortex_lib::domain::objective::{ObjectiveStatus, PausePolicy};
use cortex_lib::domain::task::TaskStatus as S;
use cortex_lib::ids::ObjectiveId;

use crate::sim::hand::{Hand, MADE_UP};

/// An objective like that, if there is one; now and then any other, or one that never was.
async fn objective(hand: &Hand, wanted: impl Fn(ObjectiveStatus) -> bool) -> Option<ObjectiveView> {
    let objectives = hand.call(ListTasks {}).await?.objectives;
    let any = hand.dice.once_in(10);
    let fits: Vec<_> = objectives.into_iter().filter(|one| any || wanted(one.status)).collect();
    let mut one = hand.dice.pick(&fits).cloned()?;
    if hand.dice.once_in(30) {
        one.objective_id = ObjectiveId::new(MADE_UP);
    }
    Some(one)
}

pub async fn pause_objective(hand: &Hand) {
    let Some(one) = objective(hand, |status| !status.is_ended()).await else { return };
    let policy = if hand.dice.once_in(2) { PausePolicy::Interrupt } else { PausePolicy::Drain };
    hand.call(PauseObjective { objective_id: one.objective_id, policy, reason: None }).await;
}

pub async fn resume_objective(hand: &Hand) {
    let Some(one) = objective(hand, |status| status == ObjectiveStatus::Paused).await else {
        return;
    };
    hand.call(ResumeObjective { objective_id: one.objective_id }).await;
}

pub async fn cancel_objective(hand: &Hand) {
    let Some(one) = objective(hand, |status| !status.is_ended()).await else { return };
    let cancel = CancelObjective { objective_id: one.objective_id, reason: Some("no".into()) };
    let Some(done) = hand.call(cancel).await else { return };
    // What had completed stays so; whatever had not is cancelled for good.
    let tasks = done.objective.tasks.into_iter();
    let cancelled = tasks.filter(|task| task.status == S::Cancelled).map(|task| task.task_id);
    hand.told.borrow_mut().cancelled.extend(cancelled);
}

/// Lets most of what is paused go on.
pub async fn resume_all(hand: &Hand) {
    let Some(list) = hand.call(ListTasks {}).await else { return };
    for one in list.objectives {
        if one.status == ObjectiveStatus::Paused && !hand.dice.once_in(4) {
            hand.call(ResumeObjective { objective_id: one.objective_id }).await;
        }
    }
}

pub async fn reassign_task(hand: &Hand) {
    let waits = |status| matches!(status, S::Created | S::Ready | S::Blocked);
    let Some(task) = hand.task(waits).await else { return };
    let agents = hand.agents().await;
    let to = hand.dice.pick(&agents).filter(|_| !hand.dice.once_in(3));
    let last = task.attempts.last().filter(|_| hand.dice.once_in(3));
    let reassign = ReassignTask {
        task_id: task.task_id,
        to_agent_id: to.map(|agent| agent.agent_id.clone()),
        execution_id: last.map(|attempt| attempt.execution_id.clone()),
        reason: None,
    };
    hand.call(reassign).await;
}

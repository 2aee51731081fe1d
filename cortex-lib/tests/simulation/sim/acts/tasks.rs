//! Tasks, and what people decide about them.

use cortex_lib::api::tool::{ApproveTask, CancelTask, GetTaskStatus, RetryTask};
use cortex_lib::api::view::TaskView;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::ids::AttemptId;
use cortex_lib::store::DecisionKind;

use crate::sim::hand::Hand;

pub async fn cancel_task(hand: &Hand) {
    let Some(task) = hand.task(|status| !status.is_ended() || hand.dice.once_in(4)).await else {
        return;
    };
    let cancel = CancelTask { task_id: task.task_id.clone(), reason: None };
    if hand.call(cancel).await.is_some() {
        hand.told.borrow_mut().cancelled.insert(task.task_id);
    }
}

/// The attempt that a decision is about: none, the last one, or an earlier one.
fn about(hand: &Hand, task: &TaskView) -> Option<AttemptId> {
    match hand.dice.roll(4) {
        0 => hand.dice.pick(&task.attempts).map(|attempt| attempt.execution_id.clone()),
        1 => task.attempts.last().map(|attempt| attempt.execution_id.clone()),
        _ => None,
    }
}

pub async fn approve_task(hand: &Hand) {
    let Some(task) = hand.task(|status| status == TaskStatus::Blocked).await else { return };
    let (task_id, execution_id) = (task.task_id.clone(), about(hand, &task));
    if hand.call(ApproveTask { task_id, execution_id, reason: None }).await.is_some() {
        let decided = (task.task_id.clone(), DecisionKind::Approved);
        hand.told.borrow_mut().decided.push(decided);
    }
    hand.call(GetTaskStatus { task_id: task.task_id }).await;
}

pub async fn retry_task(hand: &Hand) {
    let Some(task) = hand.task(|status| status == TaskStatus::Blocked).await else { return };
    let (task_id, execution_id) = (task.task_id.clone(), about(hand, &task));
    if hand.call(RetryTask { task_id, execution_id, reason: None }).await.is_some() {
        let decided = (task.task_id.clone(), DecisionKind::Retried);
        hand.told.borrow_mut().decided.push(decided);
    }
    hand.call(GetTaskStatus { task_id: task.task_id }).await;
}

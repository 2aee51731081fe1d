//! What people do with the results of isolated tasks, and with the files themselves.

use cortex_lib::api::tool::{IntegrateTask, ListTasks};
use cortex_lib::api::view::TaskView;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::store::WorkspaceKind;

use super::root;
use crate::sim::hand::Hand;

pub async fn integrate_task(hand: &Hand) {
    let Some(task) = hand.task(|status| status == TaskStatus::Completed).await else { return };
    integrate(hand, task).await;
}

/// Integrates what can be, one after the other, and commits it now and then.
pub async fn integrate_all(hand: &Hand) {
    let Some(list) = hand.call(ListTasks {}).await else { return };
    for task in list.objectives.into_iter().flat_map(|one| one.tasks) {
        let worktree = task.workspace.as_ref().is_some_and(|it| it.kind == WorkspaceKind::Worktree);
        if task.status == TaskStatus::Completed && worktree {
            integrate(hand, task).await;
            if !hand.dice.once_in(4) {
                hand.world.commit_staged(root());
            }
        }
    }
}

async fn integrate(hand: &Hand, task: TaskView) {
    let integrate = IntegrateTask { task_id: task.task_id.clone() };
    if let Some(done) = hand.call(integrate).await {
        if done.task.integration.is_none() {
            hand.may_not("an integration was answered and is not there");
        }
        hand.told.borrow_mut().integrated.insert(task.task_id);
    }
}

/// A person works in the project's folder, and commits what is staged.
pub async fn work_by_hand(hand: &Hand) {
    match hand.dice.roll(4) {
        0 => hand.world.write_file(root().join("mine.txt"), &hand.dice.next().to_string()),
        1 => hand.world.write_file(root().join("t0.txt"), "mine"),
        _ => hand.world.commit_staged(root()),
    }
}

/// A person takes a worktree away, or makes it its own.
pub async fn meddle(hand: &Hand) {
    let standing: Vec<_> = hand.world.worktrees().into_iter().collect();
    // The youngest one is most likely in use.
    let youngest = standing.last().filter(|_| !hand.dice.once_in(3));
    let Some(path) = youngest.or_else(|| hand.dice.pick(&standing)) else { return };
    if !hand.dice.once_in(4) {
        hand.world.disown_worktree(path);
        hand.told.borrow_mut().disowned.insert(path.clone());
    } else if !hand.told.borrow().disowned.contains(path) {
        hand.world.take_worktree(path);
        hand.told.borrow_mut().taken.insert(path.clone());
    }
}

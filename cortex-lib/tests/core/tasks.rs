//! The lives of tasks.

use cortex_lib::api::tool::{ApproveTask, ListTasks};
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::objective::ObjectiveStatus;
use cortex_lib::domain::task::{Evidence, TaskStatus};
use cortex_lib::port::Script;
use cortex_lib::store::AttemptStatus;

use crate::bench::{Setup, secs, spec};

fn key_of(instruction: &str) -> String {
    instruction.trim_start_matches("Do ").split('.').next().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_diamond_of_tasks_runs_in_order_and_passes_its_results_on() {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|turn| {
                Script::new().wait(secs(5)).answer(format!("[{}]", key_of(&turn.instruction)))
            })
        })
        .host(|host| host)
        .open()
        .await;
    bench.ready("a").await;
    bench.ready("b").await;
    let plan = vec![
        spec("top", &[]),
        spec("left", &["top"]),
        spec("right", &["top"]),
        spec("bottom", &["left", "right"]),
        spec("alone", &[]),
    ];
    let objective = bench.objective(plan).await;
    let bottom = &objective.tasks[3].task_id;
    let done = bench.until_task(bottom, TaskStatus::Completed).await;
    assert_eq!(done.result.as_ref().unwrap().evidence, Evidence::Verified);
    assert_eq!(done.result.unwrap().text, "[bottom]");

    let turns = bench.world.turns();
    assert_eq!(turns.len(), 5, "each task is one turn");
    let of = |key: &str| {
        turns.iter().find(|turn| key_of(&turn.instruction) == key).unwrap().instruction.clone()
    };
    assert!(of("left").contains("[result of top: top]\n```\n[top]\n```"), "{}", of("left"));
    let last = of("bottom");
    assert!(
        last.contains("[left]") && last.contains("[right]") && !last.contains("[top]"),
        "{last}"
    );
    let mut listed = bench.call(ListTasks {}).await.objectives;
    assert_eq!(listed.remove(0).status, ObjectiveStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_tried_again_after_a_growing_wait_and_tells_why() {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|turn| match turn.instruction.matches("overloaded").count() {
                0 => Script::new().fail(Cause::Transient, "overloaded"),
                _ => Script::new().fail(Cause::Transient, "overloaded again"),
            })
        })
        .settings(|settings| settings.retry.jitter_percent = 0)
        .open()
        .await;
    bench.ready("a").await;
    let objective = bench.objective(vec![spec("x", &[]), spec("y", &["x"])]).await;
    let x = bench.until_task(&objective.tasks[0].task_id, TaskStatus::Failed).await;

    assert_eq!(x.attempts.len(), 3, "S-140: one try and two retries");
    let waits: Vec<_> = x
        .attempts
        .windows(2)
        .map(|pair| pair[1].started_at.since(pair[0].ended_at.unwrap()))
        .collect();
    assert!(waits[0] >= secs(5) && waits[0] < secs(6), "{waits:?}");
    assert!(waits[1] >= secs(10) && waits[1] < secs(11), "{waits:?}");
    assert!(x.attempts.iter().all(|attempt| attempt.status == AttemptStatus::Failed));
    assert_eq!(x.failure.unwrap().cause, "transient");
    let second = &bench.world.turns()[1].instruction;
    assert!(second.contains("did not count. Why:\n```\ntransient: overloaded\n```"), "{second}");

    let y = bench.task(&objective.tasks[1].task_id).await;
    assert_eq!(y.status, TaskStatus::Cancelled);
    assert_eq!(y.failure.unwrap().cause, "dependency.failed");
    let listed = bench.call(ListTasks {}).await.objectives;
    assert_eq!(listed[0].status, ObjectiveStatus::Failed);
    assert!(listed[0].ended_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_result_without_verification_waits_for_a_person() {
    let bench = Setup::new().open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "verification.missing");
    let approve = ApproveTask { task_id: id, execution_id: None, reason: Some("read it".into()) };
    let task = bench.call(approve).await.task;
    assert_eq!(task.status, TaskStatus::Completed);
    let result = task.result.unwrap();
    assert_eq!((result.text.as_str(), result.evidence), ("done", Evidence::Approved));
}

//! The lives of tasks.

use cortex_lib::api::tool::{ApproveTask, ListProjects, ListTasks, RetryTask};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::objective::ObjectiveStatus;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::{Evidence, TaskStatus};
use cortex_lib::domain::usage::Usage;
use cortex_lib::domain::waiting::WaitReason;
use cortex_lib::error::Code;
use cortex_lib::limits::{DEPENDENCY_RESULT_BYTES_MAX, RESULT_BYTES_MAX};
use cortex_lib::port::Script;
use cortex_lib::store::{AttemptStatus, DecisionKind};
use cortex_lib::time::Timestamp;
use serde_json::json;

use crate::bench::{EPOCH, SCRIPTED, Setup, pass, secs, spec};

fn key_of(instruction: &str) -> String {
    instruction.trim_start_matches("Do ").split('.').next().unwrap_or_default().to_owned()
}

/// S-091, S-093, S-094.
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

/// Limits: dependency result of 10 MB → head and tail, `truncated`.
#[tokio::test(start_paused = true)]
async fn a_dependency_result_of_10_mb_comes_as_head_and_tail_and_is_called_truncated() {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|turn| {
                let text = match key_of(&turn.instruction).as_str() {
                    "large" => format!("the head{}the tail", " word".repeat(2 << 20)),
                    _ => "done".to_owned(),
                };
                Script::new().answer(text)
            })
        })
        .host(|host| host)
        .open()
        .await;
    bench.ready("a").await;
    let plan = vec![spec("large", &[]), spec("small", &["large"])];
    let objective = bench.objective(plan).await;
    bench.until_task(&objective.tasks[1].task_id, TaskStatus::Completed).await;
    let large = bench.task(&objective.tasks[0].task_id).await.result.unwrap();
    assert!(large.truncated && large.text.len() <= RESULT_BYTES_MAX, "{}", large.text.len());
    assert!(large.text.starts_with("the head") && large.text.ends_with("the tail"));
    let told = bench.world.turns().remove(1).instruction;
    assert!(told.len() < DEPENDENCY_RESULT_BYTES_MAX + 512, "{}", told.len());
    for part in ["```\nthe head word", "bytes left out", "the tail\n```"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let small = bench.task(&objective.tasks[1].task_id).await.result.unwrap();
    assert!(!small.truncated);
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

/// S-165, S-166.
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

/// S-167.
#[tokio::test(start_paused = true)]
async fn a_refused_turn_waits_for_a_person() {
    let bench = Setup::new()
        .runtime(|runtime| runtime.turn(|_| Script::new().fail(Cause::Refused, "log in first")))
        .open()
        .await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 1, "H-36: trying again would not help");
    assert_eq!(task.failure.as_ref().unwrap().cause, "runtime.refused");
    let error = bench.refuse(ApproveTask { task_id: id, execution_id: None, reason: None }).await;
    assert_eq!(error.code(), Code::TaskStateConflict, "S-167: there is no result to approve");
}

/// S-170, S-171.
#[tokio::test(start_paused = true)]
async fn after_a_retry_that_a_person_asked_for_a_failure_blocks() {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|turn| {
                if turn.instruction.contains("log in") {
                    Script::new().fail(Cause::Error, "broken")
                } else {
                    Script::new().fail(Cause::Refused, "log in")
                }
            })
        })
        .open()
        .await;
    bench.ready("a").await;
    let id = bench.one_task(TaskSpec { max_retries: Some(0), ..spec("x", &[]) }).await;
    bench.until_task(&id, TaskStatus::Blocked).await;
    let retry = RetryTask { task_id: id.clone(), execution_id: None, reason: None };
    let status = bench.call(retry).await.task.status;
    assert!(matches!(status, TaskStatus::Ready | TaskStatus::Running), "S-170: {status:?}");
    let look = async || Some(bench.task(&id).await).filter(|task| task.attempts.len() == 2);
    bench.until("the second attempt", look).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "attempt.failed", "S-171");
}

#[tokio::test(start_paused = true)]
async fn a_task_has_its_time() {
    let bench = Setup::new()
        .runtime(|runtime| runtime.turn(|_| Script::new().use_tool("a long build")))
        .open()
        .await;
    let agent = bench.ready("a").await;
    let limits = TaskSpec { timeout_secs: Some(20), max_retries: Some(0), ..spec("x", &[]) };
    let id = bench.one_task(limits).await;
    let task = bench.until_task(&id, TaskStatus::Failed).await;
    let attempt = &task.attempts[0];
    assert_eq!(attempt.status, AttemptStatus::TimedOut);
    assert_eq!(attempt.ended_at.unwrap().since(attempt.started_at), secs(20));
    assert_eq!(task.failure.unwrap().cause, "timed_out");
    assert_eq!(bench.world.interrupts().len(), 1);
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready, "it let go and is free");
}

#[tokio::test(start_paused = true)]
async fn a_silent_turn_is_ended_and_tried_again() {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|turn| {
                if turn.instruction.contains("stalled") {
                    Script::new().answer("awake")
                } else {
                    Script::new().wait(secs(100)).say("hm")
                }
            })
        })
        .open()
        .await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    let first = &task.attempts[0];
    assert_eq!(first.cause.as_deref(), Some("stalled"), "H-45");
    let took = first.ended_at.unwrap().since(first.started_at);
    assert!(took >= secs(700) && took < secs(702), "ten minutes after its last word: {took:?}");
    assert_eq!(task.attempts.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_never_accepted_has_stalled() {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|turn| {
                if turn.instruction.contains("stalled") {
                    Script::new().answer("done")
                } else {
                    Script::new().never_accepted()
                }
            })
        })
        .open()
        .await;
    bench.ready("a").await;
    // An agent that had nothing to do for long is not silent.
    pass(secs(5000)).await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    let first = &task.attempts[0];
    let took = first.ended_at.unwrap().since(first.started_at);
    assert!(took >= secs(600) && took < secs(602), "H-45: {took:?}");
    assert_eq!(task.attempts.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_tool_may_be_silent() {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|_| Script::new().use_tool("build").wait(secs(3000)).answer("built"))
        })
        .open()
        .await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 1, "H-45: a tool that runs is no stall");
}

/// Limits: "limit reached, resets …" → waits until that instant, no retry spent.
#[tokio::test(start_paused = true)]
async fn a_quota_is_waited_for_and_costs_no_retry() {
    let resets_at = Timestamp::from_millis(EPOCH).after(secs(7200));
    let bench = Setup::new()
        .runtime(move |runtime| {
            runtime.turn(move |turn| {
                if turn.instruction.contains("quota") {
                    Script::new().answer("done")
                } else {
                    Script::new().rate_limited(Some(resets_at))
                }
            })
        })
        .open()
        .await;
    bench.ready("a").await;
    let id = bench.one_task(TaskSpec { max_retries: Some(0), ..spec("x", &[]) }).await;
    let look = async || bench.task(&id).await.waiting.filter(|_| bench.world.turns().len() == 1);
    let waiting = bench.until("the wait", look).await;
    assert_eq!(waiting.reason, WaitReason::RateLimited);
    let quota = waiting.rate_limited.unwrap();
    assert_eq!((quota.until, quota.runtime_id.unwrap().as_str()), (resets_at, SCRIPTED));
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 2);
    assert!(task.attempts[1].started_at >= resets_at);
}

#[tokio::test(start_paused = true)]
async fn a_quota_without_a_time_is_waited_for_a_minute() {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|turn| {
                if turn.instruction.contains("quota") {
                    Script::new().answer("done")
                } else {
                    Script::new().rate_limited(None)
                }
            })
        })
        .open()
        .await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    let wait = task.attempts[1].started_at.since(task.attempts[0].ended_at.unwrap());
    assert!(wait >= secs(60) && wait < secs(61), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_is_gone_is_a_matter_for_a_person() {
    let bench = Setup::new().open().await;
    let agent = bench.ready("a").await;
    let root = bench.call(ListProjects {}).await.projects.remove(0).root;
    bench.world.remove_folder(&root);
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "project.invalid_root");
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready);
    assert!(bench.world.turns().is_empty(), "no turn is sent into a folder that is gone");
    bench.world.restore_folder(&root);
    bench.call(RetryTask { task_id: id.clone(), execution_id: None, reason: None }).await;
    let look = async || (bench.world.turns().len() == 1).then_some(());
    bench.until("the retry", look).await;
}

#[tokio::test(start_paused = true)]
async fn unverified_results_complete_where_the_settings_say_so() {
    let bench = Setup::new().settings(|s| s.approvals.approve_unverified = true).open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Completed).await;
    assert_eq!(task.result.unwrap().evidence, Evidence::None, "H-43");
    let decision = &task.decisions[0];
    assert_eq!((decision.decision, decision.by.as_str()), (DecisionKind::Approved, "automatic"));
    let told = bench.told_after(0);
    let told = told.iter().find(|event| event.kind == EventKind::TaskDecided).unwrap();
    assert_eq!(
        (&told.data["by"], &told.data["decision"]),
        (&json!("automatic"), &json!("approved"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_turns_use_is_added_up() {
    let usage = Usage { input_tokens: Some(7), cost_usd: Some(0.5), ..Usage::default() };
    let bench = Setup::new()
        .runtime(move |runtime| runtime.turn(move |_| Script::new().usage(usage).answer("done")))
        .open()
        .await;
    let agent = bench.ready("a").await;
    for key in ["x", "y"] {
        let id = bench.one_task(spec(key, &[])).await;
        let task = bench.until_task(&id, TaskStatus::Blocked).await;
        assert_eq!(task.attempts[0].usage, Some(usage));
    }
    let all = bench.see(&agent).await.usage;
    assert_eq!((all.input_tokens, all.output_tokens, all.cost_usd), (Some(14), None, Some(1.0)));
}

/// S-166
#[tokio::test(start_paused = true)]
async fn decisions_about_a_task_are_told() {
    let bench = Setup::new().open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let execution_id =
        Some(bench.until_task(&id, TaskStatus::Blocked).await.attempts.remove(0).execution_id);
    let seen = bench.cortex.newest_event().unwrap();
    let reason = Some("looks right".to_owned());
    let approve = ApproveTask { task_id: id.clone(), execution_id: execution_id.clone(), reason };
    bench.call(approve).await;
    let told: Vec<_> = bench.told_after(seen);
    let kinds: Vec<_> = told.iter().map(|event| event.kind).collect();
    let wanted = [EventKind::TaskChanged, EventKind::TaskDecided, EventKind::ObjectiveEnded];
    assert_eq!(kinds, wanted);
    let data = &told[1].data;
    assert_eq!((&data["task_id"], &data["decision"]), (&json!(id), &json!("approved")));
    assert_eq!((&data["by"], &data["reason"]), (&json!("user"), &json!("looks right")));
    assert_eq!(data["execution_id"], json!(execution_id));
}

//! Pausing objectives and letting them go on.

use std::time::Duration;

use std::path::Path;

use cortex_lib::Code;
use cortex_lib::api::SessionKind;
use cortex_lib::api::operator::PauseAgent;
use cortex_lib::api::tool::{
    ApproveTask, CancelObjective, CancelTask, PauseObjective, ResumeObjective, RetryTask,
    SendMessage, StopAgent,
};
use cortex_lib::api::view::{FlowStateView, ObjectiveView, TaskView};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::objective::{ObjectiveStatus, PausePolicy};
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::waiting::WaitReason;
use cortex_lib::ids::{AgentId, ObjectiveId, TaskId};
use cortex_lib::port::{Script, ScriptedRuntime, Verdict};
use cortex_lib::progress::Decided;
use cortex_lib::settings::Settings;
use cortex_lib::store::{AttemptStatus, VerificationStatus};
use cortex_lib::time::Timestamp;
use serde_json::json;

use crate::bench::{Bench, EPOCH, Setup, pass, secs, spec};
use crate::lives::life;

const HOUR: Duration = Duration::from_hours(1);

fn pause(id: &ObjectiveId, policy: PausePolicy) -> PauseObjective {
    PauseObjective { objective_id: id.clone(), policy, reason: None }
}

fn drain(id: &ObjectiveId) -> PauseObjective {
    pause(id, PausePolicy::Drain)
}

fn interrupt(id: &ObjectiveId) -> PauseObjective {
    pause(id, PausePolicy::Interrupt)
}

fn resume(id: &ObjectiveId) -> ResumeObjective {
    ResumeObjective { objective_id: id.clone() }
}

fn retry(id: &TaskId) -> RetryTask {
    RetryTask { task_id: id.clone(), execution_id: None, reason: None }
}

fn approve(id: &TaskId) -> ApproveTask {
    ApproveTask { task_id: id.clone(), execution_id: None, reason: None }
}

fn waits(task: &TaskView) -> Option<WaitReason> {
    task.waiting.as_ref().map(|waiting| waiting.reason)
}

/// A core whose turns all do as `script` says.
async fn doing(script: Script) -> Bench {
    Setup::new().runtime(|runtime| runtime.turn(move |_| script.clone())).open().await
}

/// An objective whose only task runs on the agent `a`.
async fn running(bench: &Bench, task: TaskSpec) -> (AgentId, ObjectiveId, TaskId) {
    let agent = bench.ready("a").await;
    let objective = bench.objective(vec![task]).await;
    let id = only(&objective).task_id.clone();
    bench.until_turns(1).await;
    bench.until_task(&id, TaskStatus::Running).await;
    (agent, objective.objective_id, id)
}

fn only(objective: &ObjectiveView) -> &TaskView {
    assert_eq!(objective.tasks.len(), 1);
    objective.tasks.first().unwrap()
}

/// S-143, S-144, S-146, S-152
#[tokio::test(start_paused = true)]
async fn a_paused_objective_starts_nothing_and_its_tasks_keep_their_states() {
    let bench = Setup::new().open().await;
    let objective = bench.objective(vec![spec("x", &[]), spec("y", &["x"])]).await;
    let id = objective.objective_id;
    let call = json!({ "objective_id": id });
    let paused = bench.cx.call_json("pause_objective", call).await.unwrap();
    let paused = &paused["objective"];
    assert_eq!((&paused["status"], &paused["flow"]["state"]), (&json!("PAUSED"), &json!("PAUSED")));
    assert_eq!(paused["flow"]["policy"], json!("drain"), "S-146: what is meant without a word");
    assert_eq!(paused["flow"]["generation"], json!(1));
    assert_eq!(paused["flow"]["changed_by"], json!("user"));
    let [x, y] = paused["tasks"].as_array().unwrap().as_slice() else { panic!("{paused}") };
    let waiting =
        json!({ "reason": "objective_paused", "objective_paused": { "policy": "drain" } });
    assert_eq!((&x["status"], &x["waiting"]), (&json!("READY"), &waiting), "H-10");
    assert_eq!(
        (&y["status"], &y["waiting"]["reason"]),
        (&json!("CREATED"), &json!("dependencies"))
    );

    bench.ready("a").await;
    pass(HOUR).await;
    assert_eq!(bench.world.turns(), []);
    let still = bench.listed(&id).await;
    assert_eq!(still.status, ObjectiveStatus::Paused);
    assert_eq!(waits(&still.tasks[0]), Some(WaitReason::ObjectivePaused));
}

/// S-143
#[tokio::test(start_paused = true)]
async fn a_pause_is_of_one_objective_alone() {
    let bench = Setup::new().open().await;
    let paused = bench.objective(vec![spec("x", &[])]).await.objective_id;
    bench.call(drain(&paused)).await;
    let other = bench.one_task(spec("y", &[])).await;
    bench.ready("a").await;
    bench.until_task(&other, TaskStatus::Blocked).await;
    assert_eq!(bench.world.turns().len(), 1);
}

/// S-146
#[tokio::test(start_paused = true)]
async fn what_runs_ends_by_itself_under_a_drain_and_nothing_follows_it() {
    let bench = doing(Script::new().wait(secs(20)).answer("done")).await;
    let agent = bench.ready("a").await;
    let objective = bench.objective(vec![spec("x", &[]), spec("y", &[])]).await;
    bench.until_turns(1).await;
    let answer = bench.call(drain(&objective.objective_id)).await.objective;
    assert_eq!(answer.tasks[0].status, TaskStatus::Running, "S-152: PAUSED all the same");
    assert_eq!(answer.status, ObjectiveStatus::Paused);
    let done = bench.until_task(&objective.tasks[0].task_id, TaskStatus::Blocked).await;
    assert_eq!(done.attempts[0].status, AttemptStatus::Succeeded);
    assert_eq!(bench.world.interrupts(), []);
    pass(HOUR).await;
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready);
    assert_eq!(bench.world.turns().len(), 1);
}

/// S-149
#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_during_a_drain_is_verified_at_once() {
    let bench = Setup::new()
        .runtime(|runtime| runtime.turn(|_| Script::new().wait(secs(20)).answer("done")))
        .host(|host| host.verify(|_| Verdict::Pass(secs(5))))
        .open()
        .await;
    let (_, objective, id) = running(&bench, spec("x", &[])).await;
    bench.call(drain(&objective)).await;
    let began = tokio::time::Instant::now();
    let task = bench.until_task(&id, TaskStatus::Completed).await;
    assert!(began.elapsed() < secs(30), "H-27: {:?}", began.elapsed());
    assert_eq!(task.attempts.len(), 1);
}

/// S-147, S-148
#[tokio::test(start_paused = true)]
async fn an_interrupt_costs_no_retry_and_the_task_runs_again_after_the_resume() {
    let bench = doing(Script::new().interrupted_after(secs(4))).await;
    let task = TaskSpec { max_retries: Some(0), ..spec("x", &[]) };
    let (agent, objective, id) = running(&bench, task).await;
    let answer = bench.call(interrupt(&objective)).await.objective;
    assert_eq!(
        (answer.status, answer.flow.policy),
        (ObjectiveStatus::Paused, Some(PausePolicy::Interrupt))
    );
    let task = only(&answer);
    assert_eq!(task.status, TaskStatus::Ready, "S-148: meanwhile");
    assert_eq!(waits(task), Some(WaitReason::PreviousAttemptEnding), "H-37");
    let attempt = &task.attempts[0];
    assert_eq!((attempt.status, attempt.ended_at), (AttemptStatus::Cancelled, None), "H-37");
    assert_eq!(bench.status(&agent).await, AgentStatus::Busy, "H-37");

    bench.until_agent(&agent, AgentStatus::Ready).await;
    let task = bench.task(&id).await;
    assert_eq!(task.attempts[0].cause.as_deref(), Some("objective.paused"));
    assert!(task.attempts[0].ended_at.is_some());
    assert_eq!((task.status, waits(&task)), (TaskStatus::Ready, Some(WaitReason::ObjectivePaused)));
    assert_eq!(bench.world.interrupts().len(), 1);
    pass(HOUR).await;
    assert_eq!(bench.world.turns().len(), 1);

    bench.call(resume(&objective)).await;
    bench.until_turns(2).await;
    let task = bench.task(&id).await;
    assert_eq!((task.status, task.attempts.len()), (TaskStatus::Running, 2));
    assert_eq!((task.attempts[1].number, task.attempts[1].generation), (2, 2));
}

/// S-148
#[tokio::test(start_paused = true)]
async fn a_resume_waits_for_the_agent_that_still_lets_go() {
    let bench = doing(Script::new().interrupted_after(secs(20))).await;
    let (_, objective, id) = running(&bench, spec("x", &[])).await;
    bench.ready("b").await;
    bench.call(interrupt(&objective)).await;
    let resumed = bench.call(resume(&objective)).await.objective;
    assert_eq!(waits(only(&resumed)), Some(WaitReason::PreviousAttemptEnding));
    bench.until_turns(2).await;
    let task = bench.task(&id).await;
    assert!(task.attempts[1].started_at >= task.attempts[0].ended_at.unwrap());
    assert_eq!(bench.world.overlaps(), []);
}

/// S-149
#[tokio::test(start_paused = true)]
async fn a_verification_runs_to_its_end_under_either_pause() {
    for policy in [PausePolicy::Drain, PausePolicy::Interrupt] {
        let bench = Setup::new().host(|host| host.verify(|_| Verdict::Pass(secs(60)))).open().await;
        bench.ready("a").await;
        let objective = bench.objective(vec![spec("x", &[]), spec("y", &["x"])]).await;
        let id = objective.tasks[0].task_id.clone();
        bench.until_task(&id, TaskStatus::Verifying).await;
        let paused = bench.call(pause(&objective.objective_id, policy)).await.objective;
        assert_eq!(paused.tasks[0].status, TaskStatus::Verifying, "{policy:?}");
        let task = bench.until_task(&id, TaskStatus::Completed).await;
        let verification = task.attempts[0].verification.as_ref().unwrap();
        assert_eq!(verification.status, VerificationStatus::Passed, "H-27: {policy:?}");
        let next = bench.task(&objective.tasks[1].task_id).await;
        assert_eq!(
            (next.status, waits(&next)),
            (TaskStatus::Ready, Some(WaitReason::ObjectivePaused))
        );
    }
}

/// S-145
#[tokio::test(start_paused = true)]
async fn what_is_blocked_can_be_decided_during_a_pause() {
    let bench = Setup::new().open().await;
    bench.ready("a").await;
    let plan = ["approved", "retried", "cancelled"].map(|key| spec(key, &[])).to_vec();
    let plan = [plan, vec![spec("next", &["approved"])]].concat();
    let objective = bench.objective(plan).await;
    let ids: Vec<_> = objective.tasks.iter().map(|task| task.task_id.clone()).collect();
    for id in &ids[..3] {
        bench.until_task(id, TaskStatus::Blocked).await;
    }
    let paused = bench.call(drain(&objective.objective_id)).await.objective;
    assert_eq!(waits(&paused.tasks[0]), Some(WaitReason::Approval));
    assert_eq!(bench.call(approve(&ids[0])).await.task.status, TaskStatus::Completed);
    let next = bench.task(&ids[3]).await;
    assert_eq!((next.status, waits(&next)), (TaskStatus::Ready, Some(WaitReason::ObjectivePaused)));
    let retried = bench.call(retry(&ids[1])).await.task;
    assert_eq!(retried.status, TaskStatus::Ready);
    assert_eq!(waits(&retried), Some(WaitReason::ObjectivePaused));
    let cancel = CancelTask { task_id: ids[2].clone(), reason: None };
    assert_eq!(bench.call(cancel).await.task.status, TaskStatus::Cancelled);
    assert_eq!(bench.refuse(retry(&ids[2])).await.code(), Code::TaskStateConflict);
    pass(HOUR).await;
    assert_eq!(bench.world.turns().len(), 3, "nothing starts");
    assert_eq!(bench.listed(&objective.objective_id).await.flow.generation, 1);
    bench.call(resume(&objective.objective_id)).await;
    bench.until_turns(5).await;
}

/// S-150
#[tokio::test(start_paused = true)]
async fn pausing_again_changes_nothing_except_an_interrupt_over_a_drain() {
    let bench = doing(Script::new()).await;
    let (_, objective, id) = running(&bench, spec("x", &[])).await;
    let first = bench.call(drain(&objective)).await.objective;
    assert_eq!(bench.call(drain(&objective)).await.objective, first);
    assert_eq!(bench.world.interrupts(), []);
    let stricter = bench.call(interrupt(&objective)).await.objective;
    assert_eq!((stricter.flow.policy, stricter.flow.generation), (Some(PausePolicy::Interrupt), 2));
    assert_eq!(
        bench.until_task(&id, TaskStatus::Ready).await.attempts[0].status,
        AttemptStatus::Cancelled
    );
    let seen = bench.listed(&objective).await.flow;
    for policy in [PausePolicy::Drain, PausePolicy::Interrupt] {
        assert_eq!(bench.call(pause(&objective, policy)).await.objective.flow, seen, "{policy:?}");
    }
}

/// S-141, S-151, S-156
#[tokio::test(start_paused = true)]
async fn the_generation_counts_decisions_that_change_something() {
    let bench = Setup::new().open().await;
    let id = bench.objective(vec![spec("x", &[]), spec("y", &["x"])]).await.objective_id;
    let flow = async || bench.listed(&id).await.flow.generation;
    assert_eq!(bench.call(resume(&id)).await.objective.flow.generation, 0, "S-156: it runs");
    assert_eq!(bench.call(drain(&id)).await.objective.flow.generation, 1);
    assert_eq!(bench.call(drain(&id)).await.objective.flow.generation, 1);
    assert_eq!(bench.call(interrupt(&id)).await.objective.flow.generation, 2);
    assert_eq!(bench.call(resume(&id)).await.objective.flow.generation, 3);
    assert_eq!(bench.call(resume(&id)).await.objective.flow.generation, 3);
    bench.call(drain(&id)).await;
    assert_eq!(flow().await, 4);
    let cancel = CancelObjective { objective_id: id.clone(), reason: None };
    let cancelled = bench.call(cancel.clone()).await.objective;
    assert_eq!((cancelled.flow.generation, cancelled.flow.state), (5, FlowStateView::Running));
    bench.call(cancel).await;
    bench.call(resume(&id)).await;
    assert_eq!(flow().await, 5);
}

/// S-153
#[tokio::test(start_paused = true)]
async fn what_has_ended_cannot_be_paused() {
    let bench = Setup::new().host(|host| host).open().await;
    bench.ready("a").await;
    let objective = bench.objective(vec![spec("x", &[])]).await;
    bench.until_task(&objective.tasks[0].task_id, TaskStatus::Completed).await;
    let seen = bench.cortex.newest_event().unwrap();
    for policy in [PausePolicy::Drain, PausePolicy::Interrupt] {
        let error = bench.refuse(pause(&objective.objective_id, policy)).await;
        assert_eq!(error.code(), Code::ObjectiveStateConflict, "{policy:?}");
        assert_eq!(error.detail("objective_id").unwrap(), objective.objective_id.as_str());
    }
    let ended = bench.call(resume(&objective.objective_id)).await.objective;
    assert_eq!((ended.status, ended.flow.generation), (ObjectiveStatus::Completed, 0), "S-156");
    assert_eq!(bench.cortex.newest_event().unwrap(), seen);
}

/// S-151
#[tokio::test(start_paused = true)]
async fn a_pause_ends_by_itself_with_the_last_task() {
    let bench = Setup::new().open().await;
    bench.ready("a").await;
    let objective = bench.objective(vec![spec("x", &[])]).await;
    let (id, task) = (objective.objective_id, objective.tasks[0].task_id.clone());
    bench.until_task(&task, TaskStatus::Blocked).await;
    bench.call(drain(&id)).await;
    let seen = bench.cortex.newest_event().unwrap();
    bench.call(approve(&task)).await;
    let ended = bench.listed(&id).await;
    assert_eq!(
        (ended.status, ended.flow.state),
        (ObjectiveStatus::Completed, FlowStateView::Running)
    );
    assert_eq!((ended.flow.generation, ended.flow.changed_by.as_str()), (2, "automatic"));
    let told = bench.told_after(seen);
    let resumed = told.iter().find(|event| event.kind == EventKind::ObjectiveResumed).unwrap();
    assert_eq!(
        (&resumed.data["by"], &resumed.data["generation"]),
        (&json!("automatic"), &json!(2))
    );
    assert_eq!(bench.call(resume(&id)).await.objective, ended, "a resume that comes late");
}

/// S-154
#[tokio::test(start_paused = true)]
async fn a_resume_looks_at_everything_afresh() {
    let bench = Setup::new().open().await;
    let agent = bench.ready("a").await;
    let (late, other) = (bench.agent("late").await, spec("any", &[]));
    let pinned = TaskSpec { assigned_agent_id: Some(late), ..spec("pinned", &["x"]) };
    let objective = bench.objective(vec![spec("x", &[]), pinned, other]).await;
    bench.until_task(&objective.tasks[0].task_id, TaskStatus::Blocked).await;
    bench.until_task(&objective.tasks[2].task_id, TaskStatus::Blocked).await;
    bench.call(drain(&objective.objective_id)).await;
    bench.call(approve(&objective.tasks[0].task_id)).await;
    bench.call(retry(&objective.tasks[2].task_id)).await;
    bench.call(StopAgent { agent_id: agent }).await;
    let resumed = bench.call(resume(&objective.objective_id)).await.objective;
    assert_eq!(resumed.status, ObjectiveStatus::Running);
    assert_eq!(waits(&resumed.tasks[1]), Some(WaitReason::AssignedAgentUnavailable));
    assert_eq!(waits(&resumed.tasks[2]), Some(WaitReason::NoEligibleAgent));
}

/// Transient failures for ever, and a wait of 100 s before the second try.
fn failing() -> Setup {
    let fails = || Script::new().fail(Cause::Transient, "busy");
    let mut setup = Setup::new().runtime(|runtime| runtime.turn(move |_| fails()));
    setup.settings.retry.base_ms = 100_000;
    setup.settings.retry.jitter_percent = 0;
    setup
}

/// How long it takes until that many turns were sent.
async fn time_until_turns(bench: &Bench, count: usize) -> Duration {
    let began = tokio::time::Instant::now();
    bench.until_turns(count).await;
    began.elapsed()
}

/// S-155
#[tokio::test(start_paused = true)]
async fn a_backoff_goes_on_from_where_it_was() {
    let bench = failing().open().await;
    bench.ready("a").await;
    let objective = bench.objective(vec![spec("x", &[])]).await;
    let (id, task) = (objective.objective_id, objective.tasks[0].task_id.clone());
    bench.until_turns(1).await;
    bench.until_task(&task, TaskStatus::Ready).await;
    pass(secs(40)).await;
    bench.call(drain(&id)).await;
    pass(HOUR).await;
    assert_eq!(waits(&bench.task(&task).await), Some(WaitReason::ObjectivePaused));
    let resumed = bench.call(resume(&id)).await.objective;
    let backoff = only(&resumed).waiting.as_ref().unwrap().backoff.as_ref().unwrap();
    assert_eq!(backoff.cause, "transient");
    assert_eq!(bench.world.turns().len(), 1);
    let took = time_until_turns(&bench, 2).await;
    assert!(took > secs(55) && took < secs(62), "H-29: {took:?}");
}

/// S-155
#[tokio::test(start_paused = true)]
async fn a_backoff_that_begins_during_a_pause_runs_from_the_resume() {
    let bench = failing()
        .runtime(|r| r.turn(|_| Script::new().wait(secs(9)).fail(Cause::Transient, "busy")))
        .open()
        .await;
    let (_, objective, id) = running(&bench, spec("x", &[])).await;
    bench.call(drain(&objective)).await;
    bench.until_task(&id, TaskStatus::Ready).await;
    pass(HOUR).await;
    bench.call(resume(&objective)).await;
    let took = time_until_turns(&bench, 2).await;
    assert!(took > secs(98) && took < secs(102), "H-29: {took:?}");
}

/// S-155
#[test]
fn what_is_left_of_a_backoff_outlives_the_core() {
    let mut setup = failing();
    let (project, objective, task) = life(async {
        let bench = setup.open().await;
        bench.ready("a").await;
        let objective = bench.objective(vec![spec("x", &[])]).await;
        let task = objective.tasks[0].task_id.clone();
        bench.until_turns(1).await;
        bench.until_task(&task, TaskStatus::Ready).await;
        pass(secs(40)).await;
        bench.call(drain(&objective.objective_id)).await;
        setup.world.lose_core();
        (bench.project.clone(), objective.objective_id, task)
    });
    life(async {
        let bench = setup.reopen(&project).await;
        pass(HOUR).await;
        assert_eq!(bench.listed(&objective).await.status, ObjectiveStatus::Paused);
        assert_eq!(waits(&bench.task(&task).await), Some(WaitReason::ObjectivePaused));
        bench.call(resume(&objective)).await;
        let took = time_until_turns(&bench, 2).await;
        assert!(took > secs(55) && took < secs(62), "H-29: {took:?}");
    });
}

/// S-155
#[tokio::test(start_paused = true)]
async fn a_rate_limit_runs_on_during_a_pause() {
    let resets_at = Timestamp::from_millis(EPOCH).after(secs(100));
    for (paused, left) in [(secs(30), 60..=71), (HOUR, 0..=2)] {
        let bench = doing(Script::new().rate_limited(Some(resets_at))).await;
        bench.ready("a").await;
        let objective = bench.objective(vec![spec("x", &[])]).await;
        bench.until_turns(1).await;
        bench.until_task(&objective.tasks[0].task_id, TaskStatus::Ready).await;
        bench.call(drain(&objective.objective_id)).await;
        pass(paused).await;
        bench.call(resume(&objective.objective_id)).await;
        let took = time_until_turns(&bench, 2).await;
        assert!(left.contains(&took.as_secs()), "H-29: {took:?} after a pause of {paused:?}");
    }
}

/// S-146, S-147
#[tokio::test(start_paused = true)]
async fn a_pause_between_the_decision_to_start_and_the_spawn_sends_no_turn_and_spends_no_retry() {
    for policy in [PausePolicy::Drain, PausePolicy::Interrupt] {
        let bench = Setup::new().open().await;
        let agent = bench.ready("a").await;
        bench.call(PauseAgent { agent_id: agent.clone() }).await;
        let task = TaskSpec { max_retries: Some(0), ..spec("x", &[]) };
        let objective = bench.objective(vec![task]).await;
        let (id, task) = (objective.objective_id, objective.tasks[0].task_id.clone());
        let (paused, started, by) = (id.clone(), task.clone(), agent.clone());
        let decided = Decided { by: "user".into(), reason: None, execution_id: None };
        let at_once = bench.store.write(move |tx| {
            tx.resume_agent(&by)?;
            tx.assign(&started, &by, Path::new("worktrees"))?;
            tx.pause_objective(&paused, policy, &decided, &Settings::default())
        });
        at_once.await.unwrap();
        let began = tokio::time::Instant::now();
        bench.until_agent(&agent, AgentStatus::Ready).await;
        assert!(began.elapsed() < secs(2), "{policy:?}: {:?}", began.elapsed());
        let seen = bench.task(&task).await;
        assert_eq!((seen.status, seen.attempts.len()), (TaskStatus::Ready, 1), "{policy:?}");
        assert_eq!(seen.attempts[0].cause.as_deref(), Some("objective.paused"), "{policy:?}");
        assert_eq!((bench.world.turns(), bench.world.interrupts()), (vec![], vec![]), "{policy:?}");
        bench.call(resume(&id)).await;
        let seen = bench.until_task(&task, TaskStatus::Blocked).await;
        assert_eq!(seen.failure.unwrap().cause, "verification.missing", "{policy:?}");
    }
}

/// S-136
#[tokio::test(start_paused = true)]
async fn an_agent_whose_runtime_cannot_interrupt_is_stopped_at_once_by_a_pause() {
    let unable =
        |runtime: ScriptedRuntime| runtime.turn(|_| Script::new()).without(Capability::Interrupt);
    let bench = Setup::new().runtime(unable).open().await;
    let (agent, objective, id) = running(&bench, spec("x", &[])).await;
    let began = tokio::time::Instant::now();
    bench.call(interrupt(&objective)).await;
    bench.until_agent(&agent, AgentStatus::Stopped).await;
    assert!(began.elapsed() < secs(2), "{:?}", began.elapsed());
    assert_eq!(bench.world.interrupts(), [], "a driver is not asked for what it cannot do");
    assert!(bench.world.processes().is_empty());
    let task = bench.task(&id).await;
    assert_eq!(task.attempts[0].cause.as_deref(), Some("objective.paused"));
    assert_eq!((task.status, task.failure), (TaskStatus::Ready, None));
}

/// S-140, S-147
#[tokio::test(start_paused = true)]
async fn cancelling_while_an_attempt_ends_from_a_pause_gives_it_no_more_time() {
    let bench = doing(Script::new().deaf()).await;
    let (agent, objective, id) = running(&bench, spec("x", &[])).await;
    let began = tokio::time::Instant::now();
    bench.call(interrupt(&objective)).await;
    pass(secs(20)).await;
    let cancel = CancelObjective { objective_id: objective.clone(), reason: None };
    let cancelled = bench.call(cancel).await.objective;
    assert_eq!(cancelled.status, ObjectiveStatus::Cancelled);
    assert_eq!(only(&cancelled).status, TaskStatus::Cancelled);
    bench.until_agent(&agent, AgentStatus::Stopped).await;
    let took = began.elapsed();
    assert!(took >= secs(30) && took < secs(32), "the same 30 s: {took:?}");
    let task = bench.task(&id).await;
    assert_eq!(
        task.attempts[0].cause.as_deref(),
        Some("objective.paused"),
        "it was told that first"
    );
    assert_eq!(task.status, TaskStatus::Cancelled);
}

/// S-147
#[tokio::test(start_paused = true)]
async fn a_pause_does_not_change_how_an_attempt_ends_that_ends_already() {
    let bench = doing(Script::new().deaf()).await;
    let task = TaskSpec { timeout_secs: Some(60), max_retries: Some(0), ..spec("x", &[]) };
    let (agent, objective, id) = running(&bench, task).await;
    let timed_out = async || {
        let attempt = bench.task(&id).await.attempts.remove(0);
        (attempt.status == AttemptStatus::TimedOut).then_some(())
    };
    bench.until("the end of its time", timed_out).await;
    let began = tokio::time::Instant::now();
    bench.call(interrupt(&objective)).await;
    bench.until_task(&id, TaskStatus::Failed).await;
    assert!(began.elapsed() < secs(31), "{:?}", began.elapsed());
    bench.until_agent(&agent, AgentStatus::Ready).await;
    let task = bench.task(&id).await;
    assert_eq!(task.attempts[0].cause.as_deref(), Some("timed_out"));
    assert_eq!(task.status, TaskStatus::Failed, "its only try is spent");
}

/// S-146
#[tokio::test(start_paused = true)]
async fn a_direct_turn_is_no_part_of_an_objective_and_goes_on() {
    let bench = doing(Script::new().wait(secs(60)).answer("hi")).await;
    let agent = bench.ready("a").await;
    let objective = bench.objective(vec![spec("x", &[])]).await.objective_id;
    bench.call(interrupt(&objective)).await;
    let look = async || (bench.status(&agent).await == AgentStatus::Ready).then_some(());
    bench.until("a free agent", look).await;
    let seen = bench.cortex.newest_event().unwrap();
    bench.call(SendMessage { agent_id: agent.clone(), message: "hi".into() }).await;
    bench.call(resume(&objective)).await;
    bench.call(interrupt(&objective)).await;
    assert!(bench.see(&agent).await.current.unwrap().turn_id.is_some());
    pass(secs(61)).await;
    let told = bench.told_after(seen);
    assert!(told.iter().any(|event| event.kind == EventKind::SessionTurnCompleted));
}

/// S-147
#[test]
fn an_attempt_that_a_pause_ended_is_not_lost_with_the_core() {
    let mut setup = Setup::new().runtime(|runtime| runtime.turn(|_| Script::new().deaf()));
    let (project, objective, id) = life(async {
        let bench = setup.open().await;
        let (_, objective, id) = running(&bench, spec("x", &[])).await;
        bench.call(interrupt(&objective)).await;
        setup.world.lose_core();
        (bench.project.clone(), objective, id)
    });
    life(async {
        let bench = setup.reopen(&project).await;
        let task = bench.task(&id).await;
        assert_eq!(task.attempts[0].cause.as_deref(), Some("objective.paused"));
        assert_eq!(
            (task.status, waits(&task)),
            (TaskStatus::Ready, Some(WaitReason::ObjectivePaused))
        );
        bench.call(resume(&objective)).await;
        bench.until_turns(2).await;
    });
}

/// S-157
#[tokio::test(start_paused = true)]
async fn no_session_pauses_resumes_or_cancels_an_objective() {
    let bench = Setup::new().open().await;
    let id = bench.objective(vec![spec("x", &[])]).await.objective_id;
    for kind in [SessionKind::Orchestrator, SessionKind::Agent, SessionKind::Hook] {
        let cx = bench.session(kind);
        let cancel = CancelObjective { objective_id: id.clone(), reason: None };
        for refused in [
            cx.call(drain(&id)).await.unwrap_err(),
            cx.call(resume(&id)).await.unwrap_err(),
            cx.call(cancel).await.unwrap_err(),
        ] {
            assert_eq!(refused.code(), Code::PermissionDenied, "{kind:?}");
        }
    }
    assert_eq!(bench.listed(&id).await.flow.generation, 0);
}

/// S-141, S-151
#[tokio::test(start_paused = true)]
async fn every_decision_about_the_flow_is_told_with_who_and_why() {
    let bench = Setup::new().open().await;
    let id = bench.objective(vec![spec("x", &[])]).await.objective_id;
    let seen = bench.cortex.newest_event().unwrap();
    let reason = || Some("lunch".to_owned());
    bench.call(PauseObjective { reason: reason(), ..drain(&id) }).await;
    bench.call(resume(&id)).await;
    bench.call(CancelObjective { objective_id: id.clone(), reason: reason() }).await;
    let told = bench.told_after(seen);
    let flow: Vec<_> = told
        .iter()
        .filter(|event| event.kind.as_str().starts_with("objective."))
        .map(|event| (event.kind, event.data["generation"].clone(), event.data["reason"].clone()))
        .collect();
    let wanted = [
        (EventKind::ObjectivePaused, json!(1), json!("lunch")),
        (EventKind::ObjectiveResumed, json!(2), json!(null)),
        (EventKind::ObjectiveCancelled, json!(3), json!("lunch")),
        (EventKind::ObjectiveEnded, json!(null), json!(null)),
    ];
    assert_eq!(flow, wanted);
    assert!(told.iter().all(|event| event.data["objective_id"] == json!(id)));
    assert_eq!(told[0].data["by"], json!("user"));
}

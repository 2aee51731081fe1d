//! Cancelling what runs.

use cortex_lib::api::operator::PauseAgent;
use cortex_lib::api::tool::{
    ApproveTask, CancelObjective, CancelTask, ListTasks, PauseObjective, StartAgent, StopAgent,
};
use cortex_lib::api::view::FlowStateView;
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::objective::{ObjectiveStatus, PausePolicy};
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::waiting::WaitReason;
use cortex_lib::ids::{AgentId, ObjectiveId, TaskId};
use cortex_lib::port::{Script, Verdict};
use cortex_lib::progress::Decided;
use cortex_lib::settings::Settings;
use cortex_lib::store::{AttemptStatus, DecisionKind, VerificationStatus};

use crate::bench::{Bench, Setup, secs, spec};

fn cancel(id: &TaskId) -> CancelTask {
    CancelTask { task_id: id.clone(), reason: Some("not needed".into()) }
}

/// A running task on an agent that does as `script` says.
async fn running(script: Script) -> (Bench, AgentId, TaskId) {
    let runtime =
        |runtime: cortex_lib::port::ScriptedRuntime| runtime.turn(move |_| script.clone());
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_turns(1).await;
    bench.until_task(&id, TaskStatus::Running).await;
    (bench, agent, id)
}

/// S-135.
#[tokio::test(start_paused = true)]
async fn a_running_task_is_interrupted_and_its_agent_is_free() {
    let (bench, agent, id) = running(Script::new().interrupted_after(secs(4))).await;
    let task = bench.call(cancel(&id)).await.task;
    assert_eq!(task.status, TaskStatus::Cancelled);
    assert_eq!(task.attempts[0].status, AttemptStatus::Cancelled, "H-37: at once");
    assert_eq!(task.attempts[0].ended_at, None, "H-37: it still lets go");
    assert_eq!(bench.status(&agent).await, AgentStatus::Busy);
    bench.until_agent(&agent, AgentStatus::Ready).await;
    let attempt = bench.task(&id).await.attempts.remove(0);
    assert_eq!(attempt.cause.as_deref(), Some("task.cancelled"), "S-135");
    assert!(attempt.ended_at.is_some());
    assert_eq!(bench.world.interrupts().len(), 1);
    let decision = bench.task(&id).await.decisions.remove(0);
    assert_eq!(decision.reason.as_deref(), Some("not needed"));
}

/// S-140.
#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_let_go_is_stopped_after_thirty_seconds() {
    let (bench, agent, id) = running(Script::new().deaf()).await;
    let began = tokio::time::Instant::now();
    bench.call(cancel(&id)).await;
    bench.until_agent(&agent, AgentStatus::Stopped).await;
    let took = began.elapsed();
    assert!(took >= secs(30) && took < secs(32), "S-140: {took:?}");
    assert!(bench.world.processes().is_empty());
    assert_eq!(bench.task(&id).await.attempts[0].status, AttemptStatus::Cancelled);
}

/// S-136.
#[tokio::test(start_paused = true)]
async fn an_agent_whose_runtime_cannot_interrupt_is_stopped_at_once() {
    let runtime = |runtime: cortex_lib::port::ScriptedRuntime| {
        runtime.turn(|_| Script::new()).without(Capability::Interrupt)
    };
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_turns(1).await;
    let began = tokio::time::Instant::now();
    bench.call(cancel(&id)).await;
    bench.until_agent(&agent, AgentStatus::Stopped).await;
    assert!(began.elapsed() < secs(2), "S-136: {:?}", began.elapsed());
    assert!(bench.world.interrupts().is_empty(), "a driver is not asked for what it cannot do");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_the_cancellation_does_not_count() {
    let (bench, agent, id) = running(Script::new().deaf().wait(secs(10)).answer("too late")).await;
    bench.call(cancel(&id)).await;
    bench.until_agent(&agent, AgentStatus::Ready).await;
    let task = bench.task(&id).await;
    assert_eq!((task.status, task.result), (TaskStatus::Cancelled, None));
    assert_eq!(task.attempts[0].status, AttemptStatus::Cancelled);
}

/// S-134.
#[tokio::test(start_paused = true)]
async fn cancelling_takes_along_what_depends_on_it_and_nothing_else() {
    let runtime = |runtime: cortex_lib::port::ScriptedRuntime| runtime.turn(|_| Script::new());
    let bench = Setup::new().runtime(runtime).open().await;
    bench.ready("a").await;
    let plan = vec![spec("x", &[]), spec("y", &["x"]), spec("z", &["y"]), spec("w", &[])];
    let tasks = bench.objective(plan).await.tasks;
    bench.call(cancel(&tasks[0].task_id)).await;
    let of = async |at: usize| {
        let task = bench.task(&tasks[at].task_id).await;
        (task.status, task.failure.map(|failure| failure.cause))
    };
    let dependent = (TaskStatus::Cancelled, Some("dependency.cancelled".to_owned()));
    assert_eq!(of(1).await, dependent, "S-134, H-43");
    assert_eq!(of(2).await, dependent);
    assert!(!of(3).await.0.is_ended());
    bench.call(cancel(&tasks[3].task_id)).await;
    assert_eq!(bench.call(ListTasks {}).await.objectives[0].status, ObjectiveStatus::Cancelled);
}

/// S-135
#[tokio::test(start_paused = true)]
async fn a_cancel_between_the_decision_to_start_and_the_spawn_sends_no_turn_and_is_not_waited_for()
{
    let bench = Setup::new().open().await;
    let agent = bench.ready("a").await;
    bench.call(PauseAgent { agent_id: agent.clone() }).await;
    let id = bench.one_task(spec("x", &[])).await;
    start_and_cancel(&bench, &id, &agent).await;
    let began = tokio::time::Instant::now();
    bench.until_agent(&agent, AgentStatus::Ready).await;
    assert!(began.elapsed() < secs(2), "{:?}", began.elapsed());
    assert_eq!(bench.task(&id).await.attempts[0].status, AttemptStatus::Cancelled);
    assert!(bench.world.turns().is_empty());
    assert!(bench.world.interrupts().is_empty());
}

/// S-074.
#[tokio::test(start_paused = true)]
async fn stopping_a_busy_agent_gives_its_task_back() {
    let (bench, agent, id) = running(Script::new()).await;
    let stopped = bench.call(StopAgent { agent_id: agent.clone() }).await.agent;
    assert_eq!(stopped.state, AgentStatus::Stopped);
    let task = bench.task(&id).await;
    assert_eq!(task.status, TaskStatus::Ready, "H-30");
    assert_eq!(task.attempts[0].cause.as_deref(), Some("agent.stopped"));
    assert_eq!(task.waiting.unwrap().reason, WaitReason::NoEligibleAgent);
    assert!(bench.world.processes().is_empty());
    bench.call(StartAgent { agent_id: agent }).await;
    bench.until_turns(2).await;
    assert_eq!(bench.task(&id).await.attempts.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_loses_its_agents_too_often_waits_for_a_person() {
    let (bench, agent, id) = running(Script::new()).await;
    for turn in 2..=6 {
        bench.call(StopAgent { agent_id: agent.clone() }).await;
        bench.call(StartAgent { agent_id: agent.clone() }).await;
        bench.until_turns(turn).await;
    }
    bench.call(StopAgent { agent_id: agent.clone() }).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "retry.free_repeats_spent", "C22: five are free");
    assert_eq!(task.attempts.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn files_stay_claimed_until_the_cancelled_attempt_has_let_go() {
    let runtime = |runtime: cortex_lib::port::ScriptedRuntime| {
        runtime.turn(|turn| {
            if turn.instruction.contains("first") {
                Script::new().interrupted_after(secs(20))
            } else {
                Script::new().answer("done")
            }
        })
    };
    let bench = Setup::new().runtime(runtime).open().await;
    bench.ready("a").await;
    bench.ready("b").await;
    let claim = |key: &str| TaskSpec { paths: vec!["src/**".into()], ..spec(key, &[]) };
    let first = bench.one_task(claim("first")).await;
    bench.until_turns(1).await;
    let second = bench.one_task(claim("second")).await;
    assert_eq!(bench.task(&second).await.waiting.unwrap().reason, WaitReason::PathsInUse);
    bench.call(cancel(&first)).await;
    let waiting = bench.task(&second).await.waiting.unwrap();
    assert_eq!(waiting.reason, WaitReason::PathsInUse, "its objective has ended, its turn has not");
    assert_eq!(waiting.paths_in_use.unwrap().task_ids, std::slice::from_ref(&first));
    bench.until_task(&second, TaskStatus::Blocked).await;
    let ended = bench.task(&first).await.attempts[0].ended_at.unwrap();
    assert!(bench.task(&second).await.attempts[0].started_at >= ended);
}

/// Decides in one commit that a task starts and that it does not.
async fn start_and_cancel(bench: &Bench, task: &TaskId, agent: &AgentId) {
    let (task, agent) = (task.clone(), agent.clone());
    let decided = Decided { by: "user".into(), reason: None, execution_id: None };
    bench
        .store
        .write(move |tx| {
            tx.resume_agent(&agent)?;
            tx.assign(&task, &agent, std::path::Path::new("/worktrees"))?;
            tx.cancel_task(&task, &decided, &Settings::default())
        })
        .await
        .unwrap();
}

fn cancel_all(id: &ObjectiveId) -> CancelObjective {
    CancelObjective { objective_id: id.clone(), reason: Some("not needed".into()) }
}

/// S-139, S-140
#[tokio::test(start_paused = true)]
async fn cancelling_an_objective_ends_everything_that_has_not_ended() {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|turn| {
                if turn.instruction.contains("Do runs") {
                    Script::new().interrupted_after(secs(4))
                } else {
                    Script::new().answer("done")
                }
            })
        })
        .open()
        .await;
    let agent = bench.ready("a").await;
    let absent =
        TaskSpec { assigned_agent_id: Some(bench.agent("absent").await), ..spec("ready", &[]) };
    let plan = vec![
        spec("completed", &[]),
        spec("blocked", &["completed"]),
        spec("runs", &["completed"]),
        absent,
        spec("created", &["ready"]),
    ];
    let objective = bench.objective(plan).await;
    let ids: Vec<_> = objective.tasks.iter().map(|task| task.task_id.clone()).collect();
    bench.until_task(&ids[0], TaskStatus::Blocked).await;
    let accept = ApproveTask { task_id: ids[0].clone(), execution_id: None, reason: None };
    bench.call(accept).await;
    bench.until_task(&ids[1], TaskStatus::Blocked).await;
    bench.until_turns(3).await;
    bench.until_task(&ids[2], TaskStatus::Running).await;

    let cancelled = bench.call(cancel_all(&objective.objective_id)).await.objective;
    assert_eq!(cancelled.status, ObjectiveStatus::Cancelled);
    assert!(cancelled.ended_at.is_some());
    assert_eq!(cancelled.flow.generation, 1, "S-141: also where nothing was paused");
    assert_eq!(cancelled.tasks[0].status, TaskStatus::Completed, "what was done stays done");
    for task in &cancelled.tasks[1..] {
        assert_eq!(task.status, TaskStatus::Cancelled, "{}", task.key);
        assert_eq!(task.failure.as_ref().unwrap().cause, "task.cancelled", "{}", task.key);
        let decision = task.decisions.last().unwrap();
        assert_eq!(decision.decision, DecisionKind::Cancelled, "{}", task.key);
        assert_eq!(decision.reason.as_deref(), Some("not needed"), "{}", task.key);
    }
    assert_eq!(cancelled.tasks[2].attempts[0].status, AttemptStatus::Cancelled);
    bench.until_agent(&agent, AgentStatus::Ready).await;
    assert_eq!(bench.world.interrupts().len(), 1);
}

/// S-140
#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_let_go_of_a_cancelled_objective_is_stopped_after_thirty_seconds() {
    let (bench, agent, id) = running(Script::new().deaf()).await;
    let objective = bench.task(&id).await.objective_id;
    let began = tokio::time::Instant::now();
    bench.call(cancel_all(&objective)).await;
    bench.until_agent(&agent, AgentStatus::Stopped).await;
    let took = began.elapsed();
    assert!(took >= secs(30) && took < secs(32), "{took:?}");
    assert!(bench.world.processes().is_empty());
}

/// S-139, S-149
#[tokio::test(start_paused = true)]
async fn cancelling_an_objective_ends_its_verifications_also_during_a_pause() {
    let bench = Setup::new().host(|host| host.verify(|_| Verdict::Never)).open().await;
    bench.ready("a").await;
    let objective = bench.objective(vec![spec("x", &[])]).await;
    let (objective_id, id) = (objective.objective_id, objective.tasks[0].task_id.clone());
    bench.until_task(&id, TaskStatus::Verifying).await;
    let (policy, reason) = (PausePolicy::Interrupt, None);
    bench.call(PauseObjective { objective_id: objective_id.clone(), policy, reason }).await;
    let cancelled = bench.call(cancel_all(&objective_id)).await.objective;
    assert_eq!(cancelled.tasks[0].status, TaskStatus::Cancelled);
    bench.until("the end", async || bench.task(&id).await.attempts[0].ended_at).await;
    let attempt = bench.task(&id).await.attempts.remove(0);
    assert_eq!(attempt.verification.unwrap().status, VerificationStatus::Cancelled, "H-27");
    assert_eq!(bench.world.processes().len(), 1, "only the session lives");
}

/// S-141
#[tokio::test(start_paused = true)]
async fn cancelling_an_objective_ends_its_pause_with_one_generation() {
    let bench = Setup::new().open().await;
    let objective_id = bench.objective(vec![spec("x", &[]), spec("y", &["x"])]).await.objective_id;
    let (policy, reason) = (PausePolicy::Drain, None);
    bench.call(PauseObjective { objective_id: objective_id.clone(), policy, reason }).await;
    let flow = bench.call(cancel_all(&objective_id)).await.objective.flow;
    assert_eq!((flow.state, flow.policy, flow.generation), (FlowStateView::Running, None, 2));
    assert_eq!(flow.changed_by, "user");
}

/// S-142
#[tokio::test(start_paused = true)]
async fn cancelling_an_objective_with_nothing_left_changes_nothing() {
    let bench = Setup::new().host(|host| host).open().await;
    bench.ready("a").await;
    let objective = bench.objective(vec![spec("x", &[])]).await;
    bench.until_task(&objective.tasks[0].task_id, TaskStatus::Completed).await;
    let (before, seen) =
        (bench.listed(&objective.objective_id).await, bench.cortex.newest_event().unwrap());
    assert_eq!(bench.call(cancel_all(&objective.objective_id)).await.objective, before);
    assert_eq!(before.status, ObjectiveStatus::Completed);
    assert_eq!(bench.cortex.newest_event().unwrap(), seen);
}

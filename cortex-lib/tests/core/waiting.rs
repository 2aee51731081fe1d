//! Why tasks wait.

use std::time::Duration;

use cortex_lib::api::operator::{PauseAgent, RemoveAgent, ResumeAgent};
use cortex_lib::api::tool::{SendMessage, StopAgent, UpdateAgent};
use cortex_lib::domain::agent::{AgentStatus, Role};
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::plan::{Requirement, TaskSpec};
use cortex_lib::domain::schedule::Priority;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::waiting::{NotEligibleReason, WaitReason, Waiting};
use cortex_lib::error::Code;
use cortex_lib::ids::{AgentId, RuntimeId, TaskId};
use cortex_lib::port::{Script, ScriptedRuntime};

use futures_util::FutureExt as _;

use crate::bench::{Bench, SCRIPTED, Setup, new_agent, pass, secs, spec};

async fn waits(bench: &Bench, id: &TaskId) -> Waiting {
    bench.task(id).await.waiting.unwrap()
}

/// Why the only agent of the project cannot take a task.
async fn why_not(bench: &Bench, id: &TaskId) -> NotEligibleReason {
    let waiting = waits(bench, id).await;
    assert_eq!(waiting.reason, WaitReason::NoEligibleAgent);
    waiting.no_eligible_agent.unwrap().agents.first().unwrap().reason
}

fn endless(runtime: ScriptedRuntime) -> ScriptedRuntime {
    runtime.turn(|_| Script::new())
}

fn pinned(key: &str, agent: &AgentId) -> TaskSpec {
    TaskSpec { assigned_agent_id: Some(agent.clone()), ..spec(key, &[]) }
}

/// S-093, S-095.
#[tokio::test(start_paused = true)]
async fn a_task_waits_for_its_dependencies() {
    let bench = Setup::new().open().await;
    let tasks = bench.objective(vec![spec("x", &[]), spec("y", &["x"])]).await.tasks;
    let waiting = waits(&bench, &tasks[1].task_id).await;
    assert_eq!(waiting.reason, WaitReason::Dependencies);
    assert_eq!(waiting.dependencies.unwrap().task_ids, [tasks[0].task_id.clone()], "H-10");
}

/// S-092, S-095.
#[tokio::test(start_paused = true)]
async fn a_task_waits_for_an_agent_that_can_take_it() {
    let limited = ScriptedRuntime::new("limited").without(Capability::Skills);
    let bench = Setup::new().runtime(endless).another(limited).open().await;
    let id = bench.one_task(spec("x", &[])).await;
    let waiting = waits(&bench, &id).await;
    assert_eq!(waiting.no_eligible_agent.unwrap().agents, [], "there is none at all");

    let agent = bench.agent("a").await;
    assert_eq!(why_not(&bench, &id).await, NotEligibleReason::NotReady);
    let mut orchestrator = new_agent(&bench.project, "o", SCRIPTED);
    orchestrator.role = Role::Orchestrator;
    let orchestrator = bench.call(orchestrator).await.agent.agent_id;
    bench.call(RemoveAgent { agent_id: agent }).await;
    assert_eq!(why_not(&bench, &id).await, NotEligibleReason::Orchestrator);
    bench.call(RemoveAgent { agent_id: orchestrator }).await;

    let skilled = TaskSpec {
        requirements: vec![Requirement::Capability(Capability::Skills)],
        priority: Priority::Urgent,
        ..spec("skilled", &[])
    };
    bench.agent_on("l", "limited").await;
    let skilled = bench.one_task(skilled).await;
    assert_eq!(why_not(&bench, &skilled).await, NotEligibleReason::MissingCapability);
    let waiting = waits(&bench, &skilled).await.no_eligible_agent.unwrap();
    assert_eq!(waiting.agents[0].missing, [Capability::Skills]);
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_for_a_busy_agent() {
    let bench = Setup::new().runtime(endless).open().await;
    let agent = bench.ready("a").await;
    bench.one_task(spec("x", &[])).await;
    bench.until_agent(&agent, AgentStatus::Busy).await;
    let second = bench.one_task(spec("y", &[])).await;
    assert_eq!(why_not(&bench, &second).await, NotEligibleReason::Busy);
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_for_the_end_of_a_direct_turn() {
    let runtime = |runtime: ScriptedRuntime| {
        runtime.turn(|turn| match turn.attempt_id {
            None => Script::new().wait(secs(10)).answer("hello"),
            Some(_) => Script::new().answer("done"),
        })
    };
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.ready("a").await;
    bench.call(SendMessage { agent_id: agent, message: "hi".into() }).await;
    let id = bench.one_task(spec("x", &[])).await;
    assert_eq!(why_not(&bench, &id).await, NotEligibleReason::Busy, "H-49");
    bench.until_task(&id, TaskStatus::Blocked).await;
}

/// S-092.
#[tokio::test(start_paused = true)]
async fn a_pinned_task_waits_for_its_agent_whatever_happens_to_it() {
    let limited = ScriptedRuntime::new("limited").without(Capability::Skills);
    let bench = Setup::new().another(limited).open().await;
    let (mine, _other) = (bench.agent("a").await, bench.ready("b").await);
    let skills = vec![Requirement::Capability(Capability::Skills)];
    let id = bench.one_task(TaskSpec { requirements: skills, ..pinned("x", &mine) }).await;
    let waiting = waits(&bench, &id).await;
    assert_eq!(waiting.reason, WaitReason::AssignedAgentUnavailable);
    let why = waiting.assigned_agent_unavailable.unwrap();
    assert_eq!((why.state, why.reason), (Some(AgentStatus::Created), NotEligibleReason::NotReady));

    let runtime_id = Some(RuntimeId::new("limited"));
    let update = UpdateAgent {
        agent_id: mine.clone(),
        name: None,
        runtime_id,
        model: None,
        instructions: None,
        skills: None,
    };
    bench.call(update).await;
    let why = waits(&bench, &id).await.assigned_agent_unavailable.unwrap();
    assert_eq!(why.reason, NotEligibleReason::MissingCapability, "H-34");
    assert_eq!(why.missing, [Capability::Skills]);

    let error = bench.refuse(RemoveAgent { agent_id: mine }).await;
    assert_eq!(error.code(), Code::AgentInUse, "H-25");
    assert_eq!(error.detail("task_ids").unwrap(), &serde_json::json!([id]));
}

#[tokio::test(start_paused = true)]
async fn a_paused_agent_takes_nothing_until_it_is_resumed() {
    let bench = Setup::new().open().await;
    let agent = bench.ready("a").await;
    let paused = bench.call(PauseAgent { agent_id: agent.clone() }).await.agent;
    assert_eq!(paused.state, AgentStatus::Paused);
    let id = bench.one_task(spec("x", &[])).await;
    assert_eq!(why_not(&bench, &id).await, NotEligibleReason::NotReady);
    let hello = SendMessage { agent_id: agent.clone(), message: "hi".into() };
    assert_eq!(bench.refuse(hello).await.code(), Code::AgentStateConflict);
    bench.call(ResumeAgent { agent_id: agent }).await;
    bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(waits(&bench, &id).await.reason, WaitReason::Approval);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_failed_waits_and_says_until_when_and_why() {
    let runtime =
        |runtime: ScriptedRuntime| runtime.turn(|_| Script::new().fail(Cause::Transient, "busy"));
    let bench = Setup::new().runtime(runtime).open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let look = async || bench.task(&id).await.waiting.filter(|w| w.reason == WaitReason::Backoff);
    let backoff = bench.until("the wait", look).await.backoff.unwrap();
    assert_eq!(backoff.cause, "transient");
    let ended = bench.task(&id).await.attempts[0].ended_at.unwrap();
    let wait = backoff.until.since(ended);
    assert!(wait >= secs(4) && wait <= secs(6), "5 s, give or take a fifth: {wait:?}");
}

#[tokio::test(start_paused = true)]
async fn tasks_that_claim_the_same_files_run_one_after_the_other() {
    let runtime =
        |runtime: ScriptedRuntime| runtime.turn(|_| Script::new().wait(secs(9)).answer("x"));
    let bench = Setup::new().runtime(runtime).open().await;
    for name in ["a", "b", "c"] {
        bench.ready(name).await;
    }
    let claim = |key: &str, path: &str| TaskSpec { paths: vec![path.into()], ..spec(key, &[]) };
    let plan = vec![claim("x", "src/**"), claim("y", "src/main.rs"), claim("z", "docs/**")];
    let tasks = bench.objective(plan).await.tasks;
    bench.until_turns(2).await;
    let waiting = waits(&bench, &tasks[1].task_id).await;
    assert_eq!(waiting.reason, WaitReason::PathsInUse, "H-35");
    assert_eq!(waiting.paths_in_use.unwrap().task_ids, [tasks[0].task_id.clone()]);
    bench.until_task(&tasks[1].task_id, TaskStatus::Blocked).await;
}

#[tokio::test(start_paused = true)]
async fn urgent_tasks_come_first() {
    let bench = Setup::new().open().await;
    let agent = bench.agent("a").await;
    let with = |key: &str, priority| TaskSpec { priority, ..spec(key, &[]) };
    let plan = vec![
        with("low", Priority::Low),
        with("normal", Priority::Normal),
        with("urgent", Priority::Urgent),
        with("high", Priority::High),
    ];
    bench.objective(plan).await;
    bench.call(cortex_lib::api::tool::StartAgent { agent_id: agent }).await;
    bench.until_turns(4).await;
    let order: Vec<_> = bench.world.turns().into_iter().map(|turn| turn.instruction).collect();
    assert_eq!(order, ["Do urgent.", "Do high.", "Do normal.", "Do low."]);
}

#[tokio::test(start_paused = true)]
async fn a_core_on_its_way_down_says_so() {
    let bench = Setup::new().runtime(|r| r.turn(|_| Script::new().deaf())).open().await;
    bench.ready("a").await;
    bench.one_task(spec("x", &[])).await;
    bench.until_turns(1).await;
    let second = bench.one_task(spec("y", &[])).await;
    let cortex = bench.cortex.clone();
    let down = async { cortex.shutdown().await };
    let look = async {
        let waits_so = async || {
            bench.task(&second).await.waiting.filter(|w| w.reason == WaitReason::CoreStopping)
        };
        bench.until("the reason", waits_so).await;
        let cancel = cortex_lib::api::tool::CancelTask { task_id: second.clone(), reason: None };
        let refused = bench.cx.call(cancel).await.unwrap_err();
        assert_eq!(refused.code(), Code::CoreNotReady, "H-47: reads yes, changes no");
    };
    let (down, ()) = tokio::join!(down, look);
    down.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_session_is_dying_gets_no_task() {
    let bench = Setup::new().runtime(|r| r.close_takes(secs(5))).open().await;
    let agent = bench.ready("a").await;
    let session = bench.world.session_of(&agent).unwrap();
    bench.world.kill(&session, "killed").await;
    pass(Duration::from_millis(1)).await;
    let id = bench.one_task(pinned("x", &agent)).await;
    bench.until_agent(&agent, AgentStatus::Crashed).await;
    let task = bench.task(&id).await;
    assert_eq!(task.attempts, [], "a retry would be spent for nothing");
    assert_eq!(task.waiting.unwrap().reason, WaitReason::AssignedAgentUnavailable);
    bench.call(StopAgent { agent_id: agent }).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_starts_right_now_says_so() {
    let bench = Setup::new().open().await;
    let agent = bench.ready("a").await;
    bench.call(PauseAgent { agent_id: agent.clone() }).await;
    let id = bench.one_task(spec("x", &[])).await;
    // What may start is seen before the engine gets to it.
    bench.store.write(move |tx| tx.resume_agent(&agent)).now_or_never();
    assert_eq!(waits(&bench, &id).await.reason, WaitReason::Starting);
    bench.until_turns(1).await;
}

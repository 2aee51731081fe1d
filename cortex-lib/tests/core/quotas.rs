//! The quota of a runtime holds back every task that would run there, and nothing else.

use cortex_lib::api::tool::{CancelTask, ReassignTask, StartAgent};
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::waiting::WaitReason;
use cortex_lib::ids::AgentId;
use cortex_lib::port::{Script, ScriptedRuntime};
use cortex_lib::time::Timestamp;

use crate::bench::{Bench, EPOCH, Setup, pass, secs, spec};

/// Turns meet the limit until it is over.
fn limited(runtime: ScriptedRuntime) -> ScriptedRuntime {
    let until = Timestamp::from_millis(EPOCH).after(secs(7200));
    let first = std::sync::atomic::AtomicBool::new(true);
    runtime.turn(move |_| {
        if first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            Script::new().rate_limited(Some(until))
        } else {
            Script::new().wait(secs(1)).answer("done")
        }
    })
}

fn pinned(key: &str, agent: &AgentId) -> TaskSpec {
    TaskSpec { assigned_agent_id: Some(agent.clone()), ..spec(key, &[]) }
}

async fn reason(bench: &Bench, id: &cortex_lib::ids::TaskId) -> Option<WaitReason> {
    bench.task(id).await.waiting.map(|waiting| waiting.reason)
}

/// Limits: other ready tasks for that runtime wait `rate_limited` with the same end, and no turn is wasted on them.
#[tokio::test(start_paused = true)]
async fn a_rate_limit_holds_the_whole_runtime_until_its_end() {
    let bench = Setup::new().runtime(limited).open().await;
    let (one, two) = (bench.ready("one").await, bench.ready("two").await);
    let first = bench.one_task(pinned("a", &one)).await;
    bench.until_turns(1).await;
    pass(secs(1)).await;
    let until = bench.task(&first).await.waiting.unwrap().rate_limited.unwrap().until;
    let others = [bench.one_task(spec("b", &[])).await, bench.one_task(pinned("c", &two)).await];
    pass(secs(60)).await;
    for id in &others {
        let waiting = bench.task(id).await.waiting.unwrap();
        assert_eq!(waiting.reason, WaitReason::RateLimited);
        let quota = waiting.rate_limited.unwrap();
        assert_eq!((quota.until, quota.runtime_id.unwrap().as_str()), (until, "scripted"));
    }
    assert_eq!(bench.world.turns().len(), 1, "nobody else tries in vain");
    for id in others.iter().chain([&first]) {
        let task = bench.until_task(id, TaskStatus::Blocked).await;
        assert!(task.started_at.is_some() && task.attempts.last().unwrap().started_at >= until);
    }
}

/// Limits: other runtimes go on.
#[tokio::test(start_paused = true)]
async fn a_rate_limit_of_one_runtime_leaves_the_others_alone() {
    let bench = Setup::new().runtime(limited).another(ScriptedRuntime::new("other")).open().await;
    let one = bench.ready("one").await;
    let other = bench.agent_on("other", "other").await;
    bench.call(StartAgent { agent_id: other.clone() }).await;
    let held = bench.one_task(pinned("a", &one)).await;
    bench.until_turns(1).await;
    pass(secs(1)).await;
    let free = bench.one_task(spec("b", &[])).await;
    let task = bench.until_task(&free, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.last().unwrap().agent_id, other);
    assert_eq!(reason(&bench, &held).await, Some(WaitReason::RateLimited));
}

/// The limit stands in the task that met it: when nobody waits for it any more, the next task may try.
#[tokio::test(start_paused = true)]
async fn a_rate_limit_goes_with_the_task_that_met_it() {
    let bench = Setup::new().runtime(limited).open().await;
    bench.ready("one").await;
    let first = bench.one_task(spec("a", &[])).await;
    bench.until_turns(1).await;
    pass(secs(1)).await;
    let second = bench.one_task(spec("b", &[])).await;
    assert_eq!(reason(&bench, &second).await, Some(WaitReason::RateLimited));
    bench.call(CancelTask { task_id: first, reason: None }).await;
    bench.until_task(&second, TaskStatus::Blocked).await;
}

/// A task that is moved to another runtime leaves the quota behind that it met; the others still wait for it.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_moved_to_another_runtime_does_not_wait_for_the_old_quota() {
    let bench = Setup::new().runtime(limited).another(ScriptedRuntime::new("other")).open().await;
    let one = bench.ready("one").await;
    let held = bench.one_task(pinned("a", &one)).await;
    bench.until_turns(1).await;
    pass(secs(1)).await;
    let twin = bench.ready("twin").await;
    let other = bench.agent_on("other", "other").await;
    let moved = |to: &AgentId| ReassignTask {
        task_id: held.clone(),
        to_agent_id: Some(to.clone()),
        execution_id: None,
        reason: None,
    };
    bench.call(moved(&twin)).await;
    assert_eq!(reason(&bench, &held).await, Some(WaitReason::RateLimited), "the same runtime");
    bench.call(moved(&other)).await;
    assert_eq!(reason(&bench, &held).await, Some(WaitReason::AssignedAgentUnavailable));
    let second = bench.one_task(pinned("b", &one)).await;
    assert_eq!(reason(&bench, &second).await, Some(WaitReason::RateLimited));
    bench.call(StartAgent { agent_id: other.clone() }).await;
    let task = bench.until_task(&held, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.last().unwrap().agent_id, other);
}

/// Promise 4: neither a time that has passed nor one that never comes is taken as it is told.
#[tokio::test(start_paused = true)]
async fn a_quota_is_waited_for_at_least_some_seconds_and_at_most_some_days() {
    let never = Timestamp::from_millis(i64::MAX);
    for (told, least, most) in
        [(Timestamp::default(), secs(10), secs(11)), (never, secs(691_200), secs(691_201))]
    {
        let limited = move |_: &_| Script::new().rate_limited(Some(told));
        let bench = Setup::new().runtime(|runtime| runtime.turn(limited)).open().await;
        bench.ready("one").await;
        let id = bench.one_task(spec("a", &[])).await;
        bench.until_turns(1).await;
        pass(secs(1)).await;
        let task = bench.task(&id).await;
        let until = task.waiting.unwrap().rate_limited.unwrap().until;
        let wait = until.since(task.attempts[0].ended_at.unwrap());
        assert!(wait >= least && wait <= most, "{wait:?}");
    }
}

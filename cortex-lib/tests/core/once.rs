//! Calls that change something at most once: asked again, they find it done.

use cortex_lib::api::operator::{PauseAgent, ResumeAgent};
use cortex_lib::api::tool::{
    AckMessage, ApproveTask, CancelObjective, CancelTask, InterruptAgent, PauseObjective,
    PostMessage, ReassignTask, ResumeObjective, RetryTask, StartAgent, StopAgent,
};
use cortex_lib::api::{Catalogue, Command, Effect};
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::message::{Addressee, Channel};
use cortex_lib::domain::objective::PausePolicy;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::Code;
use cortex_lib::port::Script;

use crate::bench::{Bench, Setup, spec};

/// Asks twice and sees that the second time changes nothing.
async fn twice<C: Command<Output: PartialEq + std::fmt::Debug> + Clone>(bench: &Bench, call: C) {
    let first = bench.call(call.clone()).await;
    let seen = bench.cortex.newest_event().unwrap();
    let second = bench.call(call).await;
    assert_eq!(first, second, "{}", C::NAME);
    assert_eq!(bench.cortex.newest_event().unwrap(), seen, "{} left a trace", C::NAME);
}

/// S-058, S-063, S-070, S-073.
#[tokio::test(start_paused = true)]
async fn asking_an_agent_for_the_same_thing_again_changes_nothing() {
    let bench = Setup::new().runtime(|r| r.turn(|_| Script::new().deaf())).open().await;
    let agent_id = bench.agent("a").await;
    twice(&bench, StopAgent { agent_id: agent_id.clone() }).await;
    twice(&bench, StartAgent { agent_id: agent_id.clone() }).await;
    twice(&bench, InterruptAgent { agent_id: agent_id.clone() }).await;
    let message = "hi".to_owned();
    let hello = cortex_lib::api::tool::SendMessage { agent_id: agent_id.clone(), message };
    bench.call(hello).await;
    twice(&bench, InterruptAgent { agent_id: agent_id.clone() }).await;
    twice(&bench, PauseAgent { agent_id: agent_id.clone() }).await;
    twice(&bench, ResumeAgent { agent_id: agent_id.clone() }).await;
    twice(&bench, StopAgent { agent_id }).await;
}

/// S-169, S-172.
#[tokio::test(start_paused = true)]
async fn deciding_the_same_again_is_recorded_once() {
    let runtime = |r: cortex_lib::port::ScriptedRuntime| {
        r.turn(|turn| {
            if turn.instruction.contains("log in") {
                Script::new().answer("done")
            } else {
                Script::new().fail(Cause::Refused, "log in")
            }
        })
    };
    let bench = Setup::new().runtime(runtime).open().await;
    let agent_id = bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let first = bench.until_task(&id, TaskStatus::Blocked).await.attempts.remove(0).execution_id;
    bench.call(PauseAgent { agent_id: agent_id.clone() }).await;
    let retry = RetryTask { task_id: id.clone(), execution_id: Some(first.clone()), reason: None };
    twice(&bench, retry.clone()).await;
    bench.call(ResumeAgent { agent_id }).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 2);
    let late = bench.call(retry).await.task;
    assert_eq!(late.status, TaskStatus::Blocked, "S-172: not made twice, whatever came since");
    assert_eq!(late.decisions.len(), 1);

    let old = ApproveTask { task_id: id.clone(), execution_id: Some(first), reason: None };
    assert_eq!(bench.refuse(old).await.code(), Code::TaskStateConflict, "S-168");
    let last = Some(task.attempts[1].execution_id.clone());
    twice(&bench, ApproveTask { task_id: id.clone(), execution_id: last, reason: None }).await;
    twice(&bench, ApproveTask { task_id: id.clone(), execution_id: None, reason: None }).await;
    assert_eq!(bench.task(&id).await.decisions.len(), 2, "S-169");
    let cancel = CancelTask { task_id: id, reason: None };
    assert_eq!(bench.refuse(cancel).await.code(), Code::TaskStateConflict, "S-137");
}

/// S-137.
#[tokio::test(start_paused = true)]
async fn cancelling_twice_is_one_decision() {
    let bench = Setup::new().open().await;
    let id = bench.one_task(spec("x", &[])).await;
    twice(&bench, CancelTask { task_id: id.clone(), reason: None }).await;
    assert_eq!(bench.task(&id).await.decisions.len(), 1, "S-137");
}

/// S-142, S-150, S-156, S-163
#[tokio::test(start_paused = true)]
async fn asking_for_the_same_flow_or_the_same_move_again_changes_nothing() {
    let bench = Setup::new().open().await;
    let agent = bench.agent("a").await;
    let objective = bench.objective(vec![spec("x", &[])]).await;
    let (objective_id, task_id) = (objective.objective_id, objective.tasks[0].task_id.clone());
    let pause = |policy| PauseObjective {
        objective_id: objective_id.clone(),
        policy,
        reason: Some("lunch".to_owned()),
    };
    twice(&bench, pause(PausePolicy::Drain)).await;
    twice(&bench, pause(PausePolicy::Interrupt)).await;
    twice(&bench, pause(PausePolicy::Drain)).await;
    twice(&bench, ResumeObjective { objective_id: objective_id.clone() }).await;
    let reassign = |to_agent_id| ReassignTask {
        task_id: task_id.clone(),
        to_agent_id,
        execution_id: None,
        reason: Some("it knows the code".to_owned()),
    };
    twice(&bench, reassign(Some(agent))).await;
    twice(&bench, reassign(None)).await;
    twice(&bench, CancelObjective { objective_id, reason: None }).await;
}

/// S-223
#[tokio::test(start_paused = true)]
async fn acknowledging_twice_is_one_event() {
    let bench = Setup::new().open().await;
    let agent_id = bench.agent("a").await;
    let channel = Channel::Project(bench.project.clone());
    let post = PostMessage::new(channel, Addressee::Agent(agent_id), "hi");
    let message_id = bench.call(post).await.message.message_id;
    twice(&bench, AckMessage { message_id }).await;
}

#[test]
fn every_tool_that_changes_at_most_once_is_tried_here() {
    let tried = [
        StartAgent::NAME,
        InterruptAgent::NAME,
        StopAgent::NAME,
        CancelTask::NAME,
        CancelObjective::NAME,
        PauseObjective::NAME,
        ResumeObjective::NAME,
        ReassignTask::NAME,
        ApproveTask::NAME,
        RetryTask::NAME,
        AckMessage::NAME,
    ];
    let once = Catalogue::CORTEX.tools.iter().filter(|tool| tool.effect == Effect::WritesOnce);
    assert_eq!(once.map(|tool| tool.name).collect::<Vec<_>>(), tried);
}

//! Direct turns, and turns that end when they should not.

use std::sync::Arc;

use cortex_lib::api::operator::PauseAgent;
use cortex_lib::api::tool::{CancelTask, InterruptAgent, SendMessage, StopAgent};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::approval::{Decide, Rule, Unmatched};
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::usage::Usage;
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::{AgentId, TurnId};
use cortex_lib::port::{
    Asked, OutputKind, Script, ScriptedRuntime, SessionEvent, ToolAnswer, TurnEnd, TurnOutcome,
};
use cortex_lib::store::{AttemptStatus, Event};
use serde_json::json;

use crate::bench::{Bench, Setup, pass, secs, spec};

async fn with(script: Script) -> (Bench, AgentId) {
    let runtime = |runtime: ScriptedRuntime| runtime.turn(move |_| script.clone());
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.ready("a").await;
    (bench, agent)
}

fn hello(agent: &AgentId) -> SendMessage {
    SendMessage { agent_id: agent.clone(), message: "hello".into() }
}

fn interrupt(agent: &AgentId) -> InterruptAgent {
    InterruptAgent { agent_id: agent.clone() }
}

/// The ends of turns so far.
async fn ends(bench: &Bench) -> Vec<Event> {
    let is_end = |event: &Event| {
        matches!(event.kind, EventKind::SessionTurnCompleted | EventKind::SessionTurnFailed)
    };
    bench.agent_events().await.into_iter().filter(is_end).collect()
}

async fn until_ends(bench: &Bench, count: usize) -> Vec<Event> {
    let look = async || Some(ends(bench).await).filter(|ends| ends.len() >= count);
    bench.until("the end of a turn", look).await
}

fn succeeded(turn_id: &TurnId, text: &str) -> SessionEvent {
    let outcome = TurnOutcome::Succeeded { text: text.to_owned() };
    SessionEvent::TurnEnded(TurnEnd { turn_id: turn_id.clone(), outcome, usage: Usage::default() })
}

/// S-064, S-066.
#[tokio::test(start_paused = true)]
async fn a_message_starts_a_turn_whose_result_comes_as_an_event() {
    let (bench, agent) = with(Script::new().wait(secs(3)).answer("hi")).await;
    let sent = bench.call(hello(&agent)).await;
    assert!(sent.delivered);
    let seen = bench.see(&agent).await;
    let turn = seen.current.unwrap().turn_id.unwrap();
    assert_eq!(seen.state, AgentStatus::Ready, "a direct turn leaves it READY");
    let error = bench.refuse(hello(&agent)).await;
    assert_eq!(error.code(), Code::RuntimeTurnInProgress);
    let end = until_ends(&bench, 1).await.remove(0);
    assert_eq!(end.kind, EventKind::SessionTurnCompleted);
    assert_eq!((&end.data["turn_id"], &end.data["result"]), (&json!(turn), &json!("hi")));
    assert_eq!(end.data.get("execution_id"), None);
    assert_eq!(bench.see(&agent).await.current, None);
    assert_eq!(bench.world.turns()[0].instruction, "hello");
}

/// S-069.
#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_the_turn_and_keeps_the_session() {
    let (bench, agent) = with(Script::new()).await;
    assert!(bench.call(interrupt(&agent)).await.interrupted, "also when nothing runs");
    bench.call(hello(&agent)).await;
    bench.call(interrupt(&agent)).await;
    let end = until_ends(&bench, 1).await.remove(0);
    assert_eq!(
        (end.kind, &end.data["cause"]),
        (EventKind::SessionTurnFailed, &json!("interrupted"))
    );
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready);
    bench.call(hello(&agent)).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_hear_the_interrupt_is_stopped_in_time() {
    let (bench, agent) = with(Script::new().deaf()).await;
    bench.call(hello(&agent)).await;
    let began = tokio::time::Instant::now();
    bench.call(interrupt(&agent)).await;
    for _ in 0..3 {
        pass(secs(9)).await;
        // To ask again is not to have more patience.
        bench.call(interrupt(&agent)).await;
    }
    bench.until_agent(&agent, AgentStatus::Stopped).await;
    assert!(began.elapsed() < secs(32), "{:?}", began.elapsed());
    assert_eq!(ends(&bench).await[0].data["cause"], "interrupted");
}

/// S-065.
#[tokio::test(start_paused = true)]
async fn a_busy_agent_takes_no_message_and_no_interrupt() {
    let (bench, agent) = with(Script::new()).await;
    bench.one_task(spec("x", &[])).await;
    bench.until_agent(&agent, AgentStatus::Busy).await;
    assert_eq!(bench.refuse(hello(&agent)).await.code(), Code::AgentStateConflict);
    let error = bench.refuse(interrupt(&agent)).await;
    assert_eq!(error.code(), Code::AgentStateConflict);
    assert_eq!(error.remediation(), "Cancel the task that it runs.");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_the_runtime_refuses_is_not_delivered() {
    let error = Error::new(Code::RuntimeRefused, "too long").remedy("Say less.");
    let (bench, agent) = with(Script::new().refused(error)).await;
    let error = bench.refuse(hello(&agent)).await;
    assert_eq!((error.code(), error.message()), (Code::RuntimeRefused, "too long"));
    assert_eq!(error.remediation(), "Say less.");
    assert_eq!(bench.see(&agent).await.current, None, "it takes the next one");
    assert_eq!(ends(&bench).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_accepted_in_time_is_not_delivered() {
    let (bench, agent) = with(Script::new().never_accepted()).await;
    let began = tokio::time::Instant::now();
    assert_eq!(bench.refuse(hello(&agent)).await.code(), Code::RuntimeProtocol);
    assert!(began.elapsed() >= secs(60) && began.elapsed() < secs(61));
}

#[tokio::test(start_paused = true)]
async fn a_message_to_an_agent_that_is_stopped_meanwhile_is_not_delivered() {
    let (bench, agent) = with(Script::new().accepted_after(secs(20))).await;
    let send = bench.cx.call(hello(&agent));
    let stop = async {
        bench.until_turns(1).await;
        bench.call(StopAgent { agent_id: agent.clone() }).await;
    };
    let (answer, ()) = tokio::join!(send, stop);
    assert_eq!(answer.unwrap_err().code(), Code::RuntimeSessionEnded);
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_a_paused_agent_goes_on() {
    let (bench, agent) = with(Script::new().wait(secs(5)).answer("hi")).await;
    bench.call(hello(&agent)).await;
    bench.call(PauseAgent { agent_id: agent.clone() }).await;
    let end = until_ends(&bench, 1).await.remove(0);
    assert_eq!(end.kind, EventKind::SessionTurnCompleted, "H-24");
    assert_eq!(bench.see(&agent).await.current, None);
    assert_eq!(bench.status(&agent).await, AgentStatus::Paused);
}

/// S-073.
#[tokio::test(start_paused = true)]
async fn stopping_an_agent_ends_its_turn() {
    let (bench, agent) = with(Script::new()).await;
    bench.call(hello(&agent)).await;
    bench.call(StopAgent { agent_id: agent.clone() }).await;
    assert_eq!(until_ends(&bench, 1).await[0].data["cause"], "interrupted");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_twice_ends_once() {
    let script = Script::new().wait(secs(1)).answer("first").answer("second");
    let (bench, agent) = with(script).await;
    bench.call(hello(&agent)).await;
    let id = {
        until_ends(&bench, 1).await;
        bench.one_task(spec("x", &[])).await
    };
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts[0].result.as_ref().unwrap().text, "first");
    let results: Vec<_> =
        ends(&bench).await.into_iter().map(|end| end.data["result"].clone()).collect();
    assert_eq!(results, ["first", "first"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_turn_that_nobody_sent_changes_nothing() {
    let script = Script::new().end_another(TurnId::new("made-up")).wait(secs(5)).answer("mine");
    let (bench, _) = with(script).await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 1);
    assert_eq!(task.attempts[0].result.as_ref().unwrap().text, "mine");
}

#[tokio::test(start_paused = true)]
async fn another_session_cannot_end_a_turn() {
    let (bench, mine) = with(Script::new()).await;
    let other = bench.ready("b").await;
    let other = bench.world.session_of(&other).unwrap();
    bench.call(hello(&mine)).await;
    let turn = bench.world.turns()[0].id.clone();
    assert!(bench.world.emit(&other, succeeded(&turn, "foreign")).await);
    let task = TaskSpec { assigned_agent_id: Some(mine.clone()), ..spec("x", &[]) };
    let id = bench.one_task(task).await;
    pass(secs(5)).await;
    assert_eq!(ends(&bench).await, [], "a direct turn");
    bench.call(interrupt(&mine)).await;
    bench.until_turns(2).await;
    let turn = bench.world.turns()[1].id.clone();
    assert!(bench.world.emit(&other, succeeded(&turn, "foreign")).await);
    pass(secs(5)).await;
    assert_eq!(bench.task(&id).await.status, TaskStatus::Running, "and one of a task");
}

#[tokio::test(start_paused = true)]
async fn a_late_end_of_the_first_attempt_does_not_end_the_second() {
    let runtime = |runtime: ScriptedRuntime| {
        runtime.turn(|turn| {
            if turn.instruction.contains("timed_out") {
                Script::new().wait(secs(60)).answer("second")
            } else {
                // It says that it was interrupted, and later that it is done.
                Script::new().use_tool("x").wait(secs(20)).stop().wait(secs(9)).answer("late")
            }
        })
    };
    let bench = Setup::new().runtime(runtime).open().await;
    bench.ready("a").await;
    let id = bench.one_task(TaskSpec { timeout_secs: Some(15), ..spec("x", &[]) }).await;
    bench.until_turns(2).await;
    pass(secs(10)).await;
    let task = bench.task(&id).await;
    assert_eq!(task.attempts[0].status, AttemptStatus::TimedOut);
    assert_eq!((task.attempts.len(), task.status), (2, TaskStatus::Running));
}

#[tokio::test(start_paused = true)]
async fn what_a_session_says_after_its_end_changes_nothing() {
    let script = Script::new().outlives_close().deaf().wait(secs(60)).answer("from the grave");
    let (bench, agent) = with(script).await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_turns(1).await;
    bench.call(StopAgent { agent_id: agent.clone() }).await;
    pass(secs(100)).await;
    let task = bench.task(&id).await;
    assert_eq!(task.status, TaskStatus::Ready);
    assert_eq!(task.attempts[0].status, AttemptStatus::Cancelled);
    assert_eq!(bench.status(&agent).await, AgentStatus::Stopped);
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_come_before_the_turn_is_accepted() {
    let (bench, agent) = with(Script::new().accepted_after(secs(5)).answer("fast")).await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 1);
    bench.call(hello(&agent)).await;
    pass(secs(10)).await;
    assert_eq!(bench.see(&agent).await.current, None);
    bench.call(hello(&agent)).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_whose_turn_is_still_being_sent_is_interrupted() {
    let (bench, agent) = with(Script::new().accepted_after(secs(5))).await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_turns(1).await;
    bench.call(CancelTask { task_id: id, reason: None }).await;
    let began = tokio::time::Instant::now();
    bench.until_agent(&agent, AgentStatus::Ready).await;
    assert!(began.elapsed() < secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn output_is_shown_with_the_task_it_belongs_to() {
    let (bench, agent) = with(Script::new().say("thinking").answer("done")).await;
    let mut output = bench.cortex.output();
    let id = bench.one_task(spec("x", &[])).await;
    let shown = output.next().await.unwrap();
    assert_eq!((shown.agent_id, shown.task_id), (agent, Some(id.clone())));
    assert_eq!((shown.kind, shown.text.as_str()), (OutputKind::Text, "thinking"));
    let attempt = bench.task(&id).await.attempts[0].execution_id.clone();
    assert_eq!(shown.execution_id, Some(attempt));
}

#[tokio::test(start_paused = true)]
async fn tool_requests_are_answered_by_the_rules() {
    let script = Script::new()
        .ask("Bash", json!({ "command": "cargo test" }))
        .ask("Bash", json!({ "command": "git push" }))
        .answer("done");
    let rule = Rule {
        id: "tests".into(),
        tool: "Bash".into(),
        input: Some("cargo *".into()),
        agent: None,
        decide: Decide::Allow,
    };
    let setup = Setup::new()
        .runtime(move |runtime| runtime.turn(move |_| script.clone()))
        .settings(|settings| {
            settings.approvals.rules = vec![rule];
            settings.approvals.default = Unmatched::Deny;
        });
    let bench = setup.open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_task(&id, TaskStatus::Blocked).await;
    let answers: Vec<_> = bench
        .world
        .asked()
        .into_iter()
        .filter_map(|asked| match asked {
            Asked::Answer(_, _, answer) => Some(answer),
            _ => None,
        })
        .collect();
    let [ToolAnswer::Allow, ToolAnswer::Deny { reason }] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    assert!(reason.starts_with("denied: no rule allows Bash"), "{reason}");
    let mut decided = Vec::new();
    let mut feed = bench.cortex.events(None);
    while decided.len() < 2 {
        let event: Arc<Event> = feed.next().await.unwrap().unwrap();
        if event.kind == EventKind::ApprovalDecided {
            decided.push(event.data["decided_by"].clone());
        }
    }
    assert_eq!(decided, ["rule:tests", "default"]);
}

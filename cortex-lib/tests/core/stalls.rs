//! Turns that say nothing, and agents that come back after them.

use cortex_lib::api::operator::PauseAgent;
use cortex_lib::api::tool::{SendMessage, StopAgent};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::approval::ApprovalStatus;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::ids::AgentId;
use cortex_lib::port::{Script, ScriptedRuntime};
use serde_json::json;

use crate::approvals::{allow, asks, deny, listed, pending, request};
use crate::bench::{Bench, Setup, pass, secs, spec};

fn silent(runtime: ScriptedRuntime) -> ScriptedRuntime {
    runtime.turn(|_| Script::new())
}

fn hello(agent: &AgentId) -> SendMessage {
    SendMessage { agent_id: agent.clone(), message: "hello".into() }
}

/// The causes of the turns that failed so far.
async fn causes(bench: &Bench) -> Vec<serde_json::Value> {
    let events = bench.agent_events().await.into_iter();
    events
        .filter(|event| event.kind == EventKind::SessionTurnFailed)
        .map(|event| event.data.get("cause").unwrap().clone())
        .collect()
}

/// H-45 for a turn that a person sent.
#[tokio::test(start_paused = true)]
async fn a_direct_turn_that_is_silent_for_the_stall_limit_ends_stalled() {
    let bench = Setup::new().runtime(silent).open().await;
    let agent = bench.ready("a").await;
    bench.call(hello(&agent)).await;
    pass(secs(595)).await;
    assert_eq!(causes(&bench).await, [json!(null); 0]);
    pass(secs(10)).await;
    assert_eq!(causes(&bench).await, ["stalled"]);
    let seen = bench.see(&agent).await;
    assert_eq!((seen.state, seen.current), (AgentStatus::Ready, None), "its session lives on");
    bench.call(hello(&agent)).await;
}

/// H-45: a turn that uses a tool, or says something now and then, has not stalled.
#[tokio::test(start_paused = true)]
async fn a_direct_turn_that_says_something_or_runs_a_tool_does_not_stall() {
    let script = Script::new().wait(secs(500)).say("hm").use_tool("build").wait(secs(3000));
    let runtime = |runtime: ScriptedRuntime| runtime.turn(move |_| script.clone().answer("built"));
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.ready("a").await;
    bench.call(hello(&agent)).await;
    pass(secs(3600)).await;
    assert_eq!(causes(&bench).await, [json!(null); 0]);
    assert_eq!(bench.see(&agent).await.current, None, "it has its result");
}

/// H-45: of two tools side by side one is denied, and the other one goes on in silence.
#[tokio::test(start_paused = true)]
async fn a_denial_does_not_make_the_silence_of_an_allowed_tool_a_stall() {
    for allowed_first in [true, false] {
        let script = Script::new().emit(request("one")).emit(request("two"));
        let setup = Setup::new().runtime(asks(script.wait(secs(900)).answer("built")));
        let bench = setup.open().await;
        bench.ready("a").await;
        let task = bench.one_task(spec("x", &[])).await;
        pending(&bench).await;
        pass(secs(1)).await;
        let waiting = listed(&bench, ApprovalStatus::Pending).await;
        let [one, two] = waiting.as_slice() else { panic!("{waiting:?}") };
        if allowed_first {
            bench.call(allow(&one.approval_id)).await;
            pass(secs(1)).await;
        }
        bench.call(deny(&two.approval_id)).await;
        if !allowed_first {
            pass(secs(1)).await;
            bench.call(allow(&one.approval_id)).await;
        }
        let done = bench.until_task(&task, TaskStatus::Blocked).await;
        assert_eq!(done.failure.unwrap().cause, "verification.missing", "{allowed_first}");
        assert_eq!(done.attempts.len(), 1);
    }
}

/// What a turn shows after an allowance counts, also when the runtime says only later that it took the answer.
#[tokio::test(start_paused = true)]
async fn silence_after_an_allowed_tool_is_a_stall_however_late_the_answer_counts_as_taken() {
    let script = Script::new().answers_taken_after(secs(5)).ask("Bash", json!({})).say("built");
    let bench = Setup::new().runtime(asks(script)).open().await;
    let agent = bench.ready("a").await;
    bench.call(hello(&agent)).await;
    bench.call(allow(&pending(&bench).await.approval_id)).await;
    pass(secs(590)).await;
    assert_eq!(causes(&bench).await, [json!(null); 0]);
    pass(secs(20)).await;
    assert_eq!(causes(&bench).await, ["stalled"]);
}

/// A program that reads nothing more is as good as silent: only a person is waited for without end.
#[tokio::test(start_paused = true)]
async fn a_turn_whose_session_does_not_take_an_answer_in_stalls() {
    for allows in [true, false] {
        let script = Script::new().answers_hang().ask("Bash", json!({}));
        let bench = Setup::new().runtime(asks(script)).open().await;
        let agent = bench.ready("a").await;
        bench.call(hello(&agent)).await;
        let id = pending(&bench).await.approval_id;
        pass(secs(1_000)).await;
        assert_eq!(causes(&bench).await, [json!(null); 0], "a person has time");
        if allows {
            bench.call(allow(&id)).await;
        } else {
            bench.call(deny(&id)).await;
        }
        pass(secs(590)).await;
        assert_eq!(causes(&bench).await, [json!(null); 0]);
        pass(secs(20)).await;
        assert_eq!(causes(&bench).await, ["stalled"]);
    }
}

/// A stall is nobody's wish: the agent comes back, on a new session, and is not left stopped.
#[tokio::test(start_paused = true)]
async fn an_agent_whose_direct_turn_stalls_and_hears_no_interrupt_comes_back() {
    for deaf in [true, false] {
        let runtime = move |runtime: ScriptedRuntime| {
            let runtime = runtime.turn(|_| Script::new().deaf());
            if deaf { runtime } else { silent(runtime).without(Capability::Interrupt) }
        };
        let bench = Setup::new().runtime(runtime).open().await;
        let agent = bench.ready("a").await;
        bench.call(hello(&agent)).await;
        pass(secs(700)).await;
        assert_eq!(causes(&bench).await, ["stalled"]);
        assert_eq!(bench.until_agent(&agent, AgentStatus::Ready).await.current, None);
        assert_eq!(bench.world.openings().len(), 2, "a session of its own");
    }
}

/// What a person paused does not take tasks again because its turn stalled.
#[tokio::test(start_paused = true)]
async fn a_paused_agent_whose_direct_turn_does_not_let_go_stays_down() {
    let bench = Setup::new().runtime(|r| r.turn(|_| Script::new().deaf())).open().await;
    let agent = bench.ready("a").await;
    bench.call(hello(&agent)).await;
    bench.call(PauseAgent { agent_id: agent.clone() }).await;
    bench.until_agent(&agent, AgentStatus::Stopped).await;
    pass(secs(100)).await;
    assert_eq!(bench.status(&agent).await, AgentStatus::Stopped);
    assert_eq!(causes(&bench).await, ["stalled"]);
}

/// S-136 for what no person asked for: the session ends, the agent is wanted as before.
#[tokio::test(start_paused = true)]
async fn an_agent_on_a_runtime_without_interrupt_comes_back_after_a_time_out_and_a_stall() {
    for timeout_secs in [Some(20), None] {
        let runtime = |runtime: ScriptedRuntime| {
            let runtime = runtime.turn(|turn| {
                let again =
                    turn.instruction.contains("stalled") || turn.instruction.contains("timed_out");
                if again { Script::new().answer("done") } else { Script::new() }
            });
            runtime.without(Capability::Interrupt)
        };
        let bench = Setup::new().runtime(runtime).open().await;
        let agent = bench.ready("a").await;
        let id = bench.one_task(TaskSpec { timeout_secs, ..spec("x", &[]) }).await;
        let task = bench.until_task(&id, TaskStatus::Blocked).await;
        assert_eq!(task.attempts.len(), 2, "nobody had to start the agent");
        assert_eq!(bench.status(&agent).await, AgentStatus::Ready);
        assert_eq!(bench.world.openings().len(), 2);
    }
}

/// Drivers tell that a program has ended also when it was told to: it has not died, and its agent comes back.
#[tokio::test(start_paused = true)]
async fn an_agent_comes_back_also_when_its_session_tells_its_end_while_it_is_closed() {
    let runtime = |runtime: ScriptedRuntime| silent(runtime).without(Capability::Interrupt);
    let bench = Setup::new().runtime(|r| runtime(r).close_takes(secs(5))).open().await;
    let agent = bench.ready("a").await;
    bench.call(hello(&agent)).await;
    bench.until_agent(&agent, AgentStatus::Stopping).await;
    bench.world.kill(&bench.world.session_of(&agent).unwrap(), "the program has ended").await;
    let back = bench.until_agent(&agent, AgentStatus::Ready).await;
    assert_eq!((back.last_failure, bench.world.openings().len()), (None, 2));
}

/// Who stops an agent while its session is ended only to begin a new one means the agent.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_stopped_on_its_way_back_stays_down() {
    let runtime = |runtime: ScriptedRuntime| silent(runtime).without(Capability::Interrupt);
    let bench = Setup::new().runtime(|r| runtime(r).close_takes(secs(5))).open().await;
    let agent = bench.ready("a").await;
    bench.call(hello(&agent)).await;
    bench.until_agent(&agent, AgentStatus::Stopping).await;
    let stopped = bench.call(StopAgent { agent_id: agent.clone() }).await.agent;
    assert!(matches!(stopped.state, AgentStatus::Stopping | AgentStatus::Stopped), "{stopped:?}");
    pass(secs(60)).await;
    assert_eq!(bench.status(&agent).await, AgentStatus::Stopped);
    assert_eq!(bench.world.openings().len(), 1);
}

/// Who stops an agent that has crashed does not want it back at the next start.
#[tokio::test(start_paused = true)]
async fn a_crashed_agent_that_is_stopped_is_not_started_by_the_next_core() {
    for (stop, state) in [(true, AgentStatus::Crashed), (false, AgentStatus::Ready)] {
        let mut setup = Setup::new();
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        bench.world.kill(&bench.world.session_of(&agent).unwrap(), "gone").await;
        bench.until_agent(&agent, AgentStatus::Crashed).await;
        if stop {
            bench.call(StopAgent { agent_id: agent.clone() }).await;
        }
        bench.cortex.shutdown().await.unwrap();
        let project = bench.project.clone();
        drop(bench);
        let bench = setup.reopen(&project).await;
        pass(secs(5)).await;
        assert_eq!(bench.status(&agent).await, state);
    }
}

/// An agent that a person stops has not failed, whatever its session tells meanwhile.
#[tokio::test(start_paused = true)]
async fn a_stopped_agent_has_no_failure_when_its_session_tells_its_end_while_it_is_closed() {
    let bench = Setup::new().runtime(|r| r.close_takes(secs(5))).open().await;
    let agent = bench.ready("a").await;
    let stop = StopAgent { agent_id: agent.clone() };
    let end = async {
        bench.until_agent(&agent, AgentStatus::Stopping).await;
        bench.world.kill(&bench.world.session_of(&agent).unwrap(), "the program has ended").await;
    };
    let (stopped, ()) = tokio::join!(bench.call(stop), end);
    assert_eq!((stopped.agent.state, stopped.agent.last_failure), (AgentStatus::Stopped, None));
}

/// An orderly stop asks direct turns to end, as it asks attempts.
#[tokio::test(start_paused = true)]
async fn an_orderly_stop_interrupts_direct_turns() {
    let mut setup = Setup::new().runtime(silent);
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    bench.call(hello(&agent)).await;
    bench.cortex.shutdown().await.unwrap();
    assert_eq!(bench.world.interrupts().len(), 1);
    let project = bench.project.clone();
    drop(bench);
    let bench = setup.reopen(&project).await;
    assert_eq!(causes(&bench).await, ["interrupted"], "its end is known");
    assert_eq!(bench.until_agent(&agent, AgentStatus::Ready).await.last_failure, None);
}

/// One that does not confirm it is not waited for longer than that, and its outcome is not known.
#[tokio::test(start_paused = true)]
async fn a_direct_turn_that_does_not_confirm_the_stop_has_an_unknown_outcome() {
    let mut setup = Setup::new().runtime(|r| r.turn(|_| Script::new().deaf()));
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    bench.call(hello(&agent)).await;
    let began = tokio::time::Instant::now();
    bench.cortex.shutdown().await.unwrap();
    assert!(began.elapsed() < secs(30), "{:?}", began.elapsed());
    let project = bench.project.clone();
    drop(bench);
    let bench = setup.reopen(&project).await;
    assert_eq!(causes(&bench).await, ["recovery.outcome_unknown"]);
}

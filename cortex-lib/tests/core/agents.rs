//! The lives of agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cortex_lib::api::operator::{PauseAgent, RemoveAgent, RestartAgent, ResumeAgent};
use cortex_lib::api::tool::{ListAgents, SendMessage, StartAgent, StopAgent, UpdateAgent};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::AgentId;
use cortex_lib::port::{Opening, Script, ScriptedRuntime};
use cortex_lib::store::AttemptStatus;

use crate::bench::{Bench, Setup, pass, secs, spec};

/// A core whose sessions open like that.
async fn opening(opening: Opening) -> Bench {
    Setup::new().runtime(|runtime| runtime.opening(move |_| opening.clone())).open().await
}

/// S-055.
#[tokio::test(start_paused = true)]
async fn a_start_waits_until_the_agent_is_ready() {
    let bench = opening(Opening::After(secs(20))).await;
    let agent = bench.agent("a").await;
    let began = tokio::time::Instant::now();
    let started = bench.call(StartAgent { agent_id: agent.clone() }).await.agent;
    assert_eq!(started.state, AgentStatus::Ready);
    assert!(began.elapsed() >= secs(20));
    let session = started.session.unwrap();
    assert!(session.native_session_id.is_some() && !session.resumed);
    let again = bench.call(StartAgent { agent_id: agent }).await.agent;
    assert_eq!(again.state, AgentStatus::Ready);
    assert_eq!(bench.world.openings().len(), 1, "a live agent stays as it is");
}

/// S-056.
#[tokio::test(start_paused = true)]
async fn a_start_that_fails_tells_why_and_leaves_nothing() {
    let error = Error::new(Code::RuntimeNotLoggedIn, "not logged in").remedy("Run `login`.");
    let bench = opening(Opening::Fail(secs(1), error)).await;
    let agent = bench.agent("a").await;
    let error = bench.refuse(StartAgent { agent_id: agent.clone() }).await;
    assert_eq!((error.code(), error.remediation()), (Code::RuntimeNotLoggedIn, "Run `login`."));
    let seen = bench.see(&agent).await;
    assert_eq!(seen.state, AgentStatus::Failed, "H-20");
    let failure = seen.last_failure.unwrap();
    assert_eq!((failure.code, failure.message.as_str()), (error.code(), "not logged in"));
    assert_eq!(Some(&failure.correlation_id), error.correlation_id());
    assert!(bench.world.processes().is_empty() && bench.world.scratch().is_empty());
}

/// S-057.
#[tokio::test(start_paused = true)]
async fn a_start_that_never_gets_ready_is_given_up_after_a_minute() {
    let bench = opening(Opening::Never).await;
    let agent = bench.agent("a").await;
    let began = tokio::time::Instant::now();
    let error = bench.refuse(StartAgent { agent_id: agent.clone() }).await;
    assert_eq!(error.code(), Code::RuntimeStartTimedOut, "H-21");
    assert!(began.elapsed() >= secs(60) && began.elapsed() < secs(62), "{:?}", began.elapsed());
    assert_eq!(bench.status(&agent).await, AgentStatus::Failed);
    assert!(bench.world.processes().is_empty(), "H-21: ended before the call returns");
}

#[tokio::test(start_paused = true)]
async fn a_start_can_be_stopped() {
    let bench = opening(Opening::Never).await;
    let agent = bench.agent("a").await;
    let start = bench.cx.call(StartAgent { agent_id: agent.clone() });
    let stop = async {
        bench.until_agent(&agent, AgentStatus::Starting).await;
        pass(secs(3)).await;
        bench.call(StopAgent { agent_id: agent.clone() }).await.agent
    };
    let (started, stopped) = tokio::join!(start, stop);
    assert_eq!(started.unwrap_err().code(), Code::AgentStartCancelled, "H-21");
    assert_eq!((stopped.state, stopped.last_failure), (AgentStatus::Stopped, None));
    assert!(bench.world.processes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_agent_starts_again_after_a_failed_start() {
    let count = Arc::new(AtomicUsize::new(0));
    let runtime = |runtime: ScriptedRuntime| {
        runtime.opening(move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => Opening::Fail(secs(0), Error::new(Code::RuntimeStartFailed, "no")),
            _ => Opening::AT_ONCE,
        })
    };
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.agent("a").await;
    bench.refuse(StartAgent { agent_id: agent.clone() }).await;
    let agent = bench.call(StartAgent { agent_id: agent }).await.agent;
    assert_eq!((agent.state, agent.last_failure), (AgentStatus::Ready, None));
}

#[tokio::test(start_paused = true)]
async fn an_agent_goes_on_with_its_native_session_or_begins_anew() {
    let count = Arc::new(AtomicUsize::new(0));
    let runtime = |runtime: ScriptedRuntime| {
        runtime.opening(move |spec| match count.fetch_add(1, Ordering::Relaxed) {
            2 if spec.resume.is_some() => {
                Opening::Fail(secs(0), Error::new(Code::RuntimeStartFailed, "no such session"))
            }
            _ => Opening::AT_ONCE,
        })
    };
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.ready("a").await;
    let first = bench.see(&agent).await.session.unwrap();
    bench.call(RestartAgent { agent_id: agent.clone() }).await;
    let second = bench.see(&agent).await.session.unwrap();
    assert_eq!(
        (second.native_session_id.as_ref(), second.resumed),
        (first.native_session_id.as_ref(), true)
    );
    bench.call(RestartAgent { agent_id: agent.clone() }).await;
    let third = bench.see(&agent).await.session.unwrap();
    assert!(!third.resumed && third.native_session_id != first.native_session_id);
    assert_eq!(bench.world.processes().len(), 1, "one session lives");
}

/// S-037, S-061, S-062.
#[tokio::test(start_paused = true)]
async fn no_more_sessions_live_than_may() {
    let bench = Setup::new().settings(|s| s.resources.max_active_processes = 1).open().await;
    let (first, second) = (bench.ready("a").await, bench.agent("b").await);
    let error = bench.refuse(StartAgent { agent_id: second.clone() }).await;
    assert_eq!(error.code(), Code::ResourceLimitReached, "H-22");
    assert_eq!(bench.status(&second).await, AgentStatus::Created, "H-20: nothing changed");
    bench.call(StopAgent { agent_id: first }).await;
    bench.call(StartAgent { agent_id: second }).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_dies_is_a_crash_and_its_task_is_tried_again() {
    let runtime = |runtime: ScriptedRuntime| {
        runtime.turn(|turn| {
            if turn.instruction.contains("crashed") {
                Script::new().answer("done")
            } else {
                Script::new().wait(secs(2)).crash("segmentation fault")
            }
        })
    };
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let seen = bench.until_agent(&agent, AgentStatus::Crashed).await;
    let failure = seen.last_failure.unwrap();
    assert_eq!(failure.code, Code::RuntimeSessionEnded);
    assert_eq!(failure.message, "segmentation fault");
    let task = bench.task(&id).await;
    assert_eq!(task.attempts[0].status, AttemptStatus::Failed);
    assert_eq!(task.attempts[0].cause.as_deref(), Some("crashed"));
    assert_eq!(task.status, TaskStatus::Ready);
    assert!(bench.world.processes().is_empty() && bench.world.scratch().is_empty());
    bench.call(StartAgent { agent_id: agent }).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 2);
    let again = &bench.world.turns()[1].instruction;
    assert!(again.contains("crashed: segmentation fault"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_lets_go_without_a_word_is_a_crash() {
    let runtime = |r: ScriptedRuntime| r.turn(|_| Script::new().wait(secs(1)).let_go());
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.ready("a").await;
    bench.one_task(spec("x", &[])).await;
    bench.until_agent(&agent, AgentStatus::Crashed).await;
}

/// What is tried in each state of an agent, in this order.
const CALLS: [&str; 6] = ["update", "message", "pause", "resume", "remove", "start"];

const CONFLICT: Option<Code> = Some(Code::AgentStateConflict);
const IN_TURN: Option<Code> = Some(Code::RuntimeTurnInProgress);
const NO_START: Option<Code> = Some(Code::RuntimeStartFailed);

/// What each of [`CALLS`] answers in each state.
const TRANSITIONS: [(&str, [Option<Code>; 6]); 7] = [
    ("created", [None, CONFLICT, CONFLICT, CONFLICT, None, None]),
    ("starting", [CONFLICT, CONFLICT, CONFLICT, CONFLICT, CONFLICT, None]),
    ("ready", [CONFLICT, None, None, None, CONFLICT, None]),
    ("in a turn", [CONFLICT, IN_TURN, None, None, CONFLICT, None]),
    ("busy", [CONFLICT, CONFLICT, CONFLICT, CONFLICT, CONFLICT, None]),
    ("paused", [CONFLICT, CONFLICT, None, None, CONFLICT, CONFLICT]),
    ("failed", [None, CONFLICT, CONFLICT, CONFLICT, None, NO_START]),
];

/// Creates an agent that will come into `state` when it is started.
async fn destined(bench: &Bench, name: &str, state: &str) -> AgentId {
    let id = bench.agent(name).await;
    let model = match state {
        "starting" => "slow",
        "failed" => "bad",
        _ => return id,
    };
    bench.call(with_model(&id, Some(model.to_owned()))).await;
    id
}

/// Brings a started agent into `state`.
async fn bring(bench: &Bench, id: &AgentId, state: &str) {
    match state {
        "created" => {}
        "starting" => drop(bench.until_agent(id, AgentStatus::Starting).await),
        "failed" => drop(bench.until_agent(id, AgentStatus::Failed).await),
        _ => drop(bench.until_agent(id, AgentStatus::Ready).await),
    }
    match state {
        "in a turn" => drop(bench.call(hello(id)).await),
        "paused" => drop(bench.call(PauseAgent { agent_id: id.clone() }).await),
        "busy" => {
            let pinned = TaskSpec { assigned_agent_id: Some(id.clone()), ..spec("x", &[]) };
            bench.one_task(pinned).await;
            bench.until_agent(id, AgentStatus::Busy).await;
        }
        _ => {}
    }
}

async fn answer(bench: &Bench, id: &AgentId, call: &str) -> Option<Code> {
    let (cx, agent_id) = (&bench.cx, id.clone());
    let answer = match call {
        "update" => cx.call(with_model(id, Some("m".into()))).await.map(drop),
        "message" => cx.call(hello(id)).await.map(drop),
        "pause" => cx.call(PauseAgent { agent_id }).await.map(drop),
        "resume" => cx.call(ResumeAgent { agent_id }).await.map(drop),
        "remove" => cx.call(RemoveAgent { agent_id }).await.map(drop),
        _ => cx.call(StartAgent { agent_id }).await.map(drop),
    };
    answer.err().map(|error| error.code())
}

/// S-051, S-052, S-058, S-059, S-072, S-075.
#[tokio::test(start_paused = true)]
async fn the_table_of_transitions_holds() {
    let runtime = |r: ScriptedRuntime| {
        r.turn(|_| Script::new()).opening(|spec| match spec.model.as_deref() {
            Some("slow") => Opening::After(secs(50)),
            Some("bad") => Opening::Fail(secs(0), Error::new(Code::RuntimeStartFailed, "bad")),
            _ => Opening::AT_ONCE,
        })
    };
    let bench = Setup::new().runtime(runtime).open().await;
    for (state, wanted) in TRANSITIONS {
        for (call, wanted) in CALLS.into_iter().zip(wanted) {
            let id = destined(&bench, &format!("{state} {call}"), state).await;
            let begin = async {
                if state != "created" {
                    drop(bench.cx.call(StartAgent { agent_id: id.clone() }).await);
                }
            };
            let try_it = async {
                bring(&bench, &id, state).await;
                assert_eq!(answer(&bench, &id, call).await, wanted, "{call} of a {state} agent");
            };
            tokio::join!(begin, try_it);
            // It makes room: sessions are limited.
            drop(bench.cx.call(StopAgent { agent_id: id.clone() }).await);
        }
    }
    for agent in bench.call(ListAgents { project_id: None }).await.agents {
        assert!(!agent.state.is_live(), "{} is {:?}", agent.name, agent.state);
    }
    assert!(bench.world.processes().is_empty());
}

fn hello(agent_id: &AgentId) -> SendMessage {
    SendMessage { agent_id: agent_id.clone(), message: "hi".into() }
}

fn with_model(agent_id: &AgentId, model: Option<String>) -> UpdateAgent {
    UpdateAgent {
        agent_id: agent_id.clone(),
        name: None,
        runtime_id: None,
        model: Some(model),
        instructions: None,
        skills: None,
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_being_stopped_is_left_to_it() {
    let runtime = |r: ScriptedRuntime| r.close_takes(secs(8));
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.ready("a").await;
    let stop = bench.cx.call(StopAgent { agent_id: agent.clone() });
    let others = async {
        bench.until_agent(&agent, AgentStatus::Stopping).await;
        let restart = bench.refuse(RestartAgent { agent_id: agent.clone() }).await;
        assert_eq!(restart.code(), Code::AgentStateConflict, "H-24");
        let start = bench.refuse(StartAgent { agent_id: agent.clone() }).await;
        assert_eq!(start.code(), Code::AgentStateConflict);
        let again = bench.call(StopAgent { agent_id: agent.clone() }).await.agent;
        assert_eq!(again.state, AgentStatus::Stopping, "its own caller waits");
    };
    let (stopped, ()) = tokio::join!(stop, others);
    assert_eq!(stopped.unwrap().agent.state, AgentStatus::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_removed_agent_is_gone_its_history_stays_and_its_name_is_free() {
    let bench = Setup::new().open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_task(&id, TaskStatus::Blocked).await;
    bench.call(StopAgent { agent_id: agent.clone() }).await;
    bench.call(RemoveAgent { agent_id: agent.clone() }).await;
    assert_eq!(bench.call(ListAgents { project_id: None }).await.agents, []);
    assert_eq!(bench.task(&id).await.attempts[0].agent_id, agent, "H-25");
    assert_ne!(bench.agent("a").await, agent);
}

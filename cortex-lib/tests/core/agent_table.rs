//! Every call on an agent in every state that it can be in, cell by cell.

use std::time::Duration;

use cortex_lib::Code;
use cortex_lib::api::Command;
use cortex_lib::api::operator::{PauseAgent, RemoveAgent, ResumeAgent};
use cortex_lib::api::tool::{
    CreateAgent, InterruptAgent, SendMessage, StartAgent, StopAgent, UpdateAgent,
};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::error::Error;
use cortex_lib::ids::AgentId;
use cortex_lib::port::{Opening, Script};

use crate::bench::{Bench, SCRIPTED, Setup, new_agent, pass, secs, spec};
use crate::lives::life;

/// Where the agent is when it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Created,
    Starting,
    Ready,
    InTurn,
    Busy,
    Paused,
    Stopping,
    Stopped,
    Failed,
    Crashed,
}

const COLUMNS: [At; 10] = [
    At::Created,
    At::Starting,
    At::Ready,
    At::InTurn,
    At::Busy,
    At::Paused,
    At::Stopping,
    At::Stopped,
    At::Failed,
    At::Crashed,
];

/// What is done to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Start,
    Stop,
    Update,
    Send,
    Interrupt,
    Pause,
    Resume,
    Remove,
    RemovePinned,
    Die,
}

/// Sessions open as the agent's model says, take 5 s to close, and their turns go on until they are interrupted.
fn setup() -> Setup {
    let opening = |spec: &cortex_lib::port::SessionSpec| match spec.model.as_deref() {
        Some("slow") => Opening::Fail(
            Duration::from_millis(500),
            Error::new(Code::RuntimeStartFailed, "it died while it started"),
        ),
        Some("broken") => Opening::Fail(secs(0), Error::new(Code::RuntimeStartFailed, "no")),
        _ => Opening::AT_ONCE,
    };
    let mut setup = Setup::new().runtime(move |runtime| {
        runtime.opening(opening).turn(|_| Script::new()).close_takes(secs(5))
    });
    setup.settings.agents.restore_on_open = false;
    setup
}

/// Asks and does not wait for the answer: what was asked stands.
async fn begin<C: Command<Output: std::fmt::Debug>>(bench: &Bench, call: C) {
    let answer = tokio::time::timeout(Duration::from_millis(5), bench.cx.call(call)).await;
    assert!(answer.is_err(), "it was answered at once: {answer:?}");
}

/// Makes an agent that is there.
async fn agent(bench: &Bench, at: At) -> AgentId {
    let model = match at {
        At::Starting => Some("slow".to_owned()),
        At::Failed => Some("broken".to_owned()),
        _ => None,
    };
    let create = CreateAgent { model, ..new_agent(&bench.project, "a", SCRIPTED) };
    let id = bench.call(create).await.agent.agent_id;
    let agent_id = id.clone();
    let start = StartAgent { agent_id: agent_id.clone() };
    match at {
        At::Created => {}
        At::Starting => begin(bench, start).await,
        At::Failed => drop(bench.refuse(start).await),
        _ => drop(bench.call(start).await),
    }
    match at {
        At::InTurn => {
            bench.call(SendMessage { agent_id, message: "go on".into() }).await;
        }
        At::Busy => {
            bench.one_task(spec("x", &[])).await;
            bench.until_turns(1).await;
        }
        At::Paused => drop(bench.call(PauseAgent { agent_id }).await),
        At::Stopping => begin(bench, StopAgent { agent_id }).await,
        At::Stopped => drop(bench.call(StopAgent { agent_id }).await),
        At::Crashed => {
            let session = bench.world.session_of(&id).unwrap();
            bench.world.kill(&session, "killed").await;
            bench.until_agent(&id, AgentStatus::Crashed).await;
        }
        At::Created | At::Starting | At::Ready | At::Failed => {}
    }
    let expected = match at {
        At::Created => AgentStatus::Created,
        At::Starting => AgentStatus::Starting,
        At::Ready | At::InTurn => AgentStatus::Ready,
        At::Busy => AgentStatus::Busy,
        At::Paused => AgentStatus::Paused,
        At::Stopping => AgentStatus::Stopping,
        At::Stopped => AgentStatus::Stopped,
        At::Failed => AgentStatus::Failed,
        At::Crashed => AgentStatus::Crashed,
    };
    assert_eq!(bench.status(&id).await, expected);
    id
}

/// What a call says of itself: nothing, or `x` for `agent.state_conflict`, or another code.
fn verdict<T>(answer: cortex_lib::Result<T>) -> String {
    match answer {
        Ok(_) => String::new(),
        Err(error) if error.code() == Code::AgentStateConflict => "x".to_owned(),
        Err(error) => error.code().to_string(),
    }
}

async fn make(bench: &Bench, id: &AgentId, call: Call) -> String {
    let (cx, agent_id) = (&bench.cx, id.clone());
    match call {
        Call::Start => verdict(cx.call(StartAgent { agent_id }).await),
        Call::Stop => verdict(cx.call(StopAgent { agent_id }).await),
        Call::Update => {
            let (runtime_id, model, instructions, skills) = (None, None, None, Some(false));
            let name = None;
            let change = UpdateAgent { agent_id, name, runtime_id, model, instructions, skills };
            verdict(cx.call(change).await)
        }
        Call::Send => verdict(cx.call(SendMessage { agent_id, message: "hi".into() }).await),
        Call::Interrupt => verdict(cx.call(InterruptAgent { agent_id }).await),
        Call::Pause => verdict(cx.call(PauseAgent { agent_id }).await),
        Call::Resume => verdict(cx.call(ResumeAgent { agent_id }).await),
        Call::Remove => verdict(cx.call(RemoveAgent { agent_id }).await),
        Call::RemovePinned => {
            let pinned = TaskSpec { assigned_agent_id: Some(id.clone()), ..spec("pinned", &["x"]) };
            bench.objective(vec![spec("x", &[]), pinned]).await;
            verdict(cx.call(RemoveAgent { agent_id }).await)
        }
        Call::Die => {
            // A session that is not open yet dies as its opening says.
            if let Some(session) = bench.world.session_of(id) {
                bench.world.kill(&session, "killed").await;
            }
            String::new()
        }
    }
}

/// What came of it, as the agent's events and its attempt tell: `=` for nothing.
async fn told(bench: &Bench, id: &AgentId, seen: u64) -> String {
    let mut told: Vec<String> = Vec::new();
    for event in bench.told_after(seen) {
        let field = |name: &str| event.data.get(name).cloned().unwrap_or_default();
        let word = |name: &str| field(name).as_str().unwrap_or_default().to_owned();
        match event.kind {
            EventKind::AgentStateChanged => told.push(format!(">{}", word("to"))),
            EventKind::AgentUpdated => told.push("updated".to_owned()),
            EventKind::AgentRemoved => told.push("removed".to_owned()),
            EventKind::SessionTurnCompleted => told.push("turn done".to_owned()),
            EventKind::SessionTurnFailed => told.push(format!("turn {}", word("cause"))),
            EventKind::AttemptChanged if field("ended") == true => {
                told.push(format!("attempt {} {}", word("status"), word("cause")));
            }
            _ => {}
        }
    }
    let current = bench.cx.call(cortex_lib::api::tool::GetAgentStatus { agent_id: id.clone() });
    if let Ok(seen) = current.await
        && seen.agent.current.is_some_and(|current| current.turn_id.is_some())
    {
        told.push("+turn".to_owned());
    }
    if told.is_empty() { "=".to_owned() } else { told.join(" ") }
}

async fn cell(call: Call, at: At) -> String {
    let bench = setup().open().await;
    let id = agent(&bench, at).await;
    let seen = bench.cortex.newest_event().unwrap();
    let refused = make(&bench, &id, call).await;
    if !refused.is_empty() {
        return refused;
    }
    // A session that died is closed before its agent is told, so that nothing of it lives on.
    pass(if call == Call::Die { secs(6) } else { secs(1) }).await;
    told(&bench, &id, seen).await
}

async fn row(call: Call, cells: [&str; 10]) {
    for (at, wanted) in COLUMNS.into_iter().zip(cells) {
        if wanted != "-" {
            assert_eq!(cell(call, at).await, wanted, "{call:?} at {at:?}");
        }
    }
}

const STARTS: &str = ">STARTING >READY";
const STOPS: &str = ">STOPPING >STOPPED";
const TURN_IN_PROGRESS: &str = "runtime.turn_in_progress";

// Each row: CREATED, STARTING, READY, READY with a turn, BUSY, PAUSED, STOPPING, STOPPED, FAILED, CRASHED.

/// S-055, S-058, S-059
#[tokio::test(start_paused = true)]
async fn start() {
    // The one that failed fails again: its runtime is as it was.
    let again = "runtime.start_failed";
    row(Call::Start, [STARTS, "-", "=", "+turn", "=", "x", "x", STARTS, again, STARTS]).await;
    let bench = setup().open().await;
    let id = agent(&bench, At::Starting).await;
    let seen = bench.cortex.newest_event().unwrap();
    let answer = bench.call(StartAgent { agent_id: id }).await.agent;
    assert_eq!(answer.state, AgentStatus::Starting, "it is returned as it is");
    assert_eq!(bench.cortex.newest_event().unwrap(), seen);
}

/// S-073, S-074, S-075
#[tokio::test(start_paused = true)]
async fn stop() {
    let turn = ">STOPPING turn interrupted >STOPPED";
    let busy = ">STOPPING attempt CANCELLED agent.stopped turn agent.stopped >STOPPED";
    row(Call::Stop, ["=", STOPS, STOPS, turn, busy, STOPS, "=", "=", "=", "="]).await;
}

/// S-051, S-052
#[tokio::test(start_paused = true)]
async fn update() {
    let ok = "updated";
    row(Call::Update, [ok, "x", "x", "x", "x", "x", "x", ok, ok, ok]).await;
}

/// S-064, S-065, S-068
#[tokio::test(start_paused = true)]
async fn send_message() {
    let cells = ["x", "x", "+turn", TURN_IN_PROGRESS, "x", "x", "x", "x", "x", "x"];
    row(Call::Send, cells).await;
}

/// S-065, S-069, S-072
#[tokio::test(start_paused = true)]
async fn interrupt() {
    let ends = "turn interrupted";
    row(Call::Interrupt, ["x", "x", "=", ends, "x", "x", "x", "x", "x", "x"]).await;
}

#[tokio::test(start_paused = true)]
async fn pause() {
    let goes_on = ">PAUSED +turn";
    row(Call::Pause, ["x", "x", ">PAUSED", goes_on, "x", "=", "x", "x", "x", "x"]).await;
}

#[tokio::test(start_paused = true)]
async fn resume() {
    row(Call::Resume, ["x", "x", "=", "+turn", "x", ">READY", "x", "x", "x", "x"]).await;
}

#[tokio::test(start_paused = true)]
async fn remove() {
    let gone = "removed";
    row(Call::Remove, [gone, "x", "x", "x", "x", "x", "x", gone, gone, gone]).await;
    let used = "agent.in_use";
    row(Call::RemovePinned, [used, "x", "x", "x", "x", "x", "x", used, used, used]).await;
}

#[tokio::test(start_paused = true)]
async fn its_session_dies() {
    let turn = ">CRASHED turn crashed";
    let busy = ">CRASHED attempt FAILED crashed turn crashed";
    let dies = ">CRASHED";
    let cells = ["-", ">FAILED", dies, turn, busy, dies, ">STOPPED", "-", "-", "-"];
    row(Call::Die, cells).await;
}

#[test]
fn the_core_restarts() {
    let lost = "recovery.outcome_unknown";
    for (at, wanted, loses) in [
        (At::Created, "=".to_owned(), false),
        (At::Starting, ">STOPPED".to_owned(), false),
        (At::Ready, ">STOPPED".to_owned(), false),
        (At::InTurn, format!(">STOPPED turn {lost}"), true),
        (At::Busy, format!(">STOPPED attempt LOST {lost} turn {lost}"), true),
        (At::Paused, ">STOPPED".to_owned(), false),
        (At::Stopping, ">STOPPED".to_owned(), false),
        (At::Stopped, "=".to_owned(), false),
        (At::Failed, "=".to_owned(), true),
        (At::Crashed, "=".to_owned(), true),
    ] {
        let mut setup = setup();
        let (project, id, seen) = life(async {
            let bench = setup.open().await;
            let id = agent(&bench, at).await;
            let seen = bench.cortex.newest_event().unwrap();
            setup.world.lose_core();
            (bench.project.clone(), id, seen)
        });
        life(async {
            let bench = setup.reopen(&project).await;
            assert_eq!(told(&bench, &id, seen).await, wanted, "{at:?}");
            let failure = bench.see(&id).await.last_failure;
            assert_eq!(failure.is_some(), loses, "{at:?}: {failure:?}");
        });
    }
}

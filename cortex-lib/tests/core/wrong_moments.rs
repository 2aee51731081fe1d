//! What the engine does when things come at the wrong moment.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::bench::{Bench, SCRIPTED, Setup, pass, secs, spec};
use async_trait::async_trait;
use cortex_lib::Code;
use cortex_lib::api::tool::{CancelTask, InterruptAgent, SendMessage, StartAgent, StopAgent};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::engine::CoreState;
use cortex_lib::error::Result;
use cortex_lib::ids::TurnId;
use cortex_lib::port::{
    Asked, HealthReport, Opened, Opening, Runtime, RuntimeInfo, Script, ScriptedRuntime, Session,
    SessionSpec, ToolAnswer, Turn, Verdict,
};
use cortex_lib::store::{AttemptStatus, Fate, Faults};

fn cancel(task: &cortex_lib::ids::TaskId) -> CancelTask {
    CancelTask { task_id: task.clone(), reason: None }
}

/// Waits for the next event of a kind.
async fn heard(bench: &Bench, after: u64, kind: EventKind) {
    let mut feed = bench.cortex.events(Some(after));
    while feed.next().await.unwrap().unwrap().kind != kind {}
}

/// The commit of an assignment and the sending of its turn are two steps of the engine.
#[tokio::test(start_paused = true)]
async fn a_task_cancelled_between_its_assignment_and_its_turn_leaves_its_agent_at_once() {
    let bench = Setup::new().open().await;
    let agent = bench.ready("a").await;
    let newest = bench.cortex.newest_event().unwrap();
    let begun = tokio::time::Instant::now();
    let (task, ()) = tokio::join!(
        bench.one_task(spec("x", &[])),
        heard(&bench, newest, EventKind::AttemptChanged)
    );
    bench.call(cancel(&task)).await;
    let ended = bench.until("the end", async || {
        Some(bench.task(&task).await).filter(|task| task.attempts[0].ended_at.is_some())
    });
    assert_eq!(ended.await.attempts[0].status, AttemptStatus::Cancelled);
    assert_eq!(bench.world.turns(), [], "the turn was never sent");
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready);
    assert!(begun.elapsed() < secs(1), "nobody was waited for: {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_message_interrupted_before_it_was_sent_is_not_delivered_and_leaves_its_agent_at_once() {
    let bench = Setup::new().runtime(|runtime| runtime.turn(|_| Script::new())).open().await;
    let agent = bench.ready("a").await;
    let send = bench.cx.call(SendMessage { agent_id: agent.clone(), message: "do".into() });
    let interrupt = bench.cx.call(InterruptAgent { agent_id: agent.clone() });
    let (delivered, interrupted) = tokio::join!(send, interrupt);
    let error = delivered.unwrap_err();
    assert_eq!(error.code(), Code::AgentStateConflict);
    assert_eq!(error.message(), "it was interrupted before it was sent");
    interrupted.unwrap();
    let idle = bench.until("the end of the turn", async || {
        Some(bench.see(&agent).await).filter(|agent| agent.current.is_none())
    });
    assert_eq!(idle.await.state, AgentStatus::Ready);
}

/// Only one verification may run, so the second one waits; nobody runs it when it is cancelled.
#[tokio::test(start_paused = true)]
async fn a_verification_cancelled_before_it_began_ends() {
    let bench = Setup::new()
        .host(|host| host.verify(|_| Verdict::Never))
        .settings(|settings| settings.resources.max_verifications = 1)
        .open()
        .await;
    bench.ready("a").await;
    bench.ready("b").await;
    let first = bench.one_task(spec("x", &[])).await;
    bench.until_task(&first, TaskStatus::Verifying).await;
    let second = bench.one_task(spec("y", &[])).await;
    bench.until_task(&second, TaskStatus::Verifying).await;
    bench.call(cancel(&second)).await;
    bench
        .until("the end of the attempt", async || {
            bench.task(&second).await.attempts[0].ended_at.map(drop)
        })
        .await;
    assert_eq!(bench.world.verifications().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn silence_after_a_tool_is_a_stall() {
    let silent = Script::new().use_tool("build").wait(secs(5)).say("built");
    let bench =
        Setup::new().runtime(move |runtime| runtime.turn(move |_| silent.clone())).open().await;
    bench.ready("a").await;
    let begun = tokio::time::Instant::now();
    let task = bench.one_task(spec("x", &[])).await;
    bench
        .until("the end of the attempt", async || {
            bench.task(&task).await.attempts.first()?.ended_at.map(drop)
        })
        .await;
    let attempt = bench.task(&task).await.attempts.remove(0);
    assert_eq!(attempt.cause.as_deref(), Some("stalled"));
    assert!(begun.elapsed() < secs(2 * 600 + 60), "H-45: {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_start_that_cannot_resume_takes_no_longer_than_any_other() {
    let slow = |spec: &SessionSpec| match spec.resume {
        Some(_) => {
            let error = cortex_lib::Error::new(Code::RuntimeStartFailed, "no such session");
            Opening::Fail(secs(50), error)
        }
        None => Opening::After(secs(50)),
    };
    let bench = Setup::new().runtime(|runtime| runtime.opening(slow)).open().await;
    let agent = bench.ready("a").await;
    bench.call(StopAgent { agent_id: agent.clone() }).await;
    let begun = tokio::time::Instant::now();
    let error = bench.refuse(StartAgent { agent_id: agent.clone() }).await;
    assert_eq!(error.code(), Code::RuntimeStartTimedOut);
    assert!(begun.elapsed() < secs(61), "S-057: {:?}", begun.elapsed());
    assert_eq!(bench.status(&agent).await, AgentStatus::Failed);
}

/// Another program holds the file, such as a backup.
#[derive(Debug, Default)]
struct Held(AtomicBool);

impl Faults for Held {
    fn at_commit(&self) -> Fate {
        if self.0.load(Ordering::Relaxed) { Fate::Locked } else { Fate::Commit }
    }
}

#[tokio::test(start_paused = true)]
async fn a_locked_store_is_waited_out_and_loses_nothing() {
    let held = Arc::new(Held::default());
    let mut setup = Setup::new()
        .runtime(|runtime| runtime.turn(|_| Script::new().wait(secs(5)).answer("done")));
    setup.faults = held.clone();
    let bench = setup.open().await;
    bench.ready("a").await;
    let task = bench.one_task(spec("x", &[])).await;
    bench.until_task(&task, TaskStatus::Running).await;

    held.0.store(true, Ordering::Relaxed);
    // The turn ends while nothing can be written.
    pass(secs(15)).await;
    assert_eq!(bench.task(&task).await.status, TaskStatus::Running);
    let refused = bench.cx.call(cancel(&task)).await;
    assert_eq!(refused.unwrap_err().code(), Code::StoreFailed);
    held.0.store(false, Ordering::Relaxed);

    bench.until_task(&task, TaskStatus::Blocked).await;
    assert_eq!(bench.cortex.state(), CoreState::Ready);
    assert_eq!(bench.world.turns().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_locked_fails_the_core() {
    let held = Arc::new(Held::default());
    let mut setup = Setup::new()
        .runtime(|runtime| runtime.turn(|_| Script::new().wait(secs(5)).answer("done")));
    setup.faults = held.clone();
    let bench = setup.open().await;
    bench.ready("a").await;
    let task = bench.one_task(spec("x", &[])).await;
    bench.until_task(&task, TaskStatus::Running).await;

    held.0.store(true, Ordering::Relaxed);
    pass(secs(120)).await;
    assert_eq!(bench.cortex.state(), CoreState::Failed);
    assert!(bench.world.processes().is_empty());
}

/// What happens once the store has failed cannot be kept, so nothing goes on that would have to be.
#[tokio::test(start_paused = true)]
async fn a_failed_store_ends_the_sessions() {
    let bench = Setup::new().runtime(|runtime| runtime.turn(|_| Script::new())).open().await;
    let agent = bench.ready("a").await;
    bench.call(SendMessage { agent_id: agent, message: "go on for ever".into() }).await;
    let broken = bench.store.write(|_| -> Result<()> { panic!("a write panics, on purpose") });
    assert_eq!(broken.await.unwrap_err().code(), Code::StoreFailed);
    bench
        .until("the end of every process", async || {
            bench.world.processes().is_empty().then_some(())
        })
        .await;
    assert_eq!(bench.cortex.state(), CoreState::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_store() {
    let bench = Setup::new().runtime(|runtime| runtime.opening(|_| Opening::Never)).open().await;
    let agent = bench.agent("a").await;
    let begun = tokio::time::Instant::now();
    let start = bench.cx.call(StartAgent { agent_id: agent });
    let fail = async {
        pass(secs(1)).await;
        let broken = bench.store.write(|_| -> Result<()> { panic!("a write panics, on purpose") });
        broken.await.unwrap_err()
    };
    let (started, _) = tokio::join!(start, fail);
    assert_eq!(started.unwrap_err().code(), Code::StoreFailed);
    assert!(begun.elapsed() < secs(2), "{:?}", begun.elapsed());
}

/// What an earlier life left is ended before its rows say so.
#[tokio::test(start_paused = true)]
async fn what_an_earlier_life_left_is_ended_before_it_is_forgotten() {
    let mut setup = Setup::new().runtime(|runtime| runtime.turn(|_| Script::new()));
    let bench = setup.open().await;
    bench.ready("a").await;
    let left = bench.world.processes();
    bench.world.lose_core();
    let project = bench.project.clone();
    drop(bench);

    let reopened = setup.reopen(&project).await;
    let asked = reopened.world.asked();
    let swept = asked.iter().find_map(|asked| match asked {
        Asked::Sweep(markers) => Some(markers.clone()),
        _ => None,
    });
    assert_eq!(swept.unwrap(), left.into_iter().collect::<Vec<_>>());
}

/// A driver with the faults that a driver can have.
#[derive(Debug)]
struct Faulty {
    scripted: ScriptedRuntime,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    PanicsInOpen,
    PanicsInClose,
    NeverCloses,
}

#[async_trait]
impl Runtime for Faulty {
    fn info(&self) -> &RuntimeInfo {
        self.scripted.info()
    }

    async fn check(&self) -> HealthReport {
        self.scripted.check().await
    }

    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        assert_ne!(self.fault, Fault::PanicsInOpen, "on purpose");
        let opened = self.scripted.open(spec).await?;
        let session = Arc::new(FaultySession(opened.session, self.fault));
        Ok(Opened { session, ..opened })
    }
}

#[derive(Debug)]
struct FaultySession(Arc<dyn Session>, Fault);

#[async_trait]
impl Session for FaultySession {
    async fn send(&self, turn: Turn) -> Result<()> {
        self.0.send(turn).await
    }

    async fn interrupt(&self, turn: &TurnId) -> Result<()> {
        self.0.interrupt(turn).await
    }

    async fn answer(&self, request_id: &str, answer: ToolAnswer) -> Result<()> {
        self.0.answer(request_id, answer).await
    }

    async fn close(&self, _: Duration) {
        assert_ne!(self.1, Fault::PanicsInClose, "on purpose");
        std::future::pending::<()>().await;
    }
}

async fn faulty(fault: Fault) -> Bench {
    let setup = Setup::new();
    let scripted = ScriptedRuntime::new(SCRIPTED).in_world(&setup.world);
    setup.open_with(vec![Arc::new(Faulty { scripted, fault })]).await
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_panics_fails_the_start() {
    let bench = faulty(Fault::PanicsInOpen).await;
    let agent = bench.agent("a").await;
    let started = bench.cx.call(StartAgent { agent_id: agent.clone() }).await;
    assert_eq!(started.unwrap_err().code(), Code::Defect);
    assert_eq!(bench.status(&agent).await, AgentStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_does_not_close_its_session_holds_nothing_up() {
    for fault in [Fault::NeverCloses, Fault::PanicsInClose] {
        let bench = faulty(fault).await;
        let agent = bench.ready("a").await;
        let stopped = bench.call(StopAgent { agent_id: agent.clone() }).await.agent;
        assert_eq!(stopped.state, AgentStatus::Stopped, "{fault:?}");
        assert!(bench.world.processes().is_empty(), "its processes were ended without it");
        bench.ready("b").await;
        tokio::time::timeout(secs(60), bench.cortex.shutdown()).await.unwrap().unwrap();
    }
}

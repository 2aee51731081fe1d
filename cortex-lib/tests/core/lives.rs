//! Several lives of a core on one disk.

use std::sync::Arc;

use cortex_lib::Code;
use cortex_lib::api::operator::CoreStatus;
use cortex_lib::api::tool::{ListAgents, RetryTask, SendMessage, StopAgent};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::engine::CoreState;
use cortex_lib::ids::{AgentId, ProjectId, TaskId};
use cortex_lib::port::{Asked, Script, ScriptedRuntime, Verdict};
use cortex_lib::store::{AttemptStatus, Fate, Faults, NoFaults};

use crate::bench::{Bench, Setup, pass, secs, spec};

/// One life of a core. When it is over without a farewell, everything in it stops on the spot.
pub fn life<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(work)
}

fn endless(runtime: ScriptedRuntime) -> ScriptedRuntime {
    runtime.turn(|_| Script::new())
}

/// A life that ends by a power cut in the middle of a task.
fn killed_in_a_task(setup: &Setup) -> (ProjectId, AgentId, TaskId) {
    let ids = life(async {
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        let id = bench.one_task(spec("x", &[])).await;
        bench.until_turns(1).await;
        bench.until_task(&id, TaskStatus::Running).await;
        setup.world.lose_core();
        (bench.project.clone(), agent, id)
    });
    assert_eq!(setup.world.processes().len(), 1, "the process of the session lives on");
    ids
}

#[test]
fn an_orderly_end_leaves_nothing_to_decide_and_agents_come_back() {
    let mut setup = Setup::new().runtime(endless);
    let (project, agent, id) = life(async {
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        let stopped = bench.ready("b").await;
        bench.call(StopAgent { agent_id: stopped }).await;
        let id = bench.one_task(spec("x", &[])).await;
        bench.until_turns(1).await;
        bench.cortex.shutdown().await.unwrap();
        assert_eq!(bench.cortex.state(), CoreState::Stopped);
        let error = bench.cx.call(CoreStatus {}).await.unwrap_err();
        assert_eq!(error.code(), Code::CoreStopped);
        (bench.project.clone(), agent, id)
    });
    assert!(setup.world.processes().is_empty() && setup.world.scratch().is_empty());
    life(async {
        let bench = setup.reopen(&project).await;
        bench.until_turns(2).await;
        let task = bench.task(&id).await;
        assert_eq!(task.status, TaskStatus::Running, "nobody had to decide");
        assert_eq!(task.attempts[0].cause.as_deref(), Some("core.stopping"));
        let states: Vec<_> = bench
            .call(ListAgents { project_id: None })
            .await
            .agents
            .into_iter()
            .map(|agent| agent.state)
            .collect();
        assert_eq!(states, [AgentStatus::Busy, AgentStatus::Stopped], "as they were meant to be");
        assert!(bench.see(&agent).await.session.unwrap().resumed);
        let sweeps = bench.world.asked().into_iter().filter(|a| matches!(a, Asked::Sweep(_)));
        assert_eq!(sweeps.count(), 0, "nothing was left to sweep");
    });
}

#[test]
fn an_agent_whose_runtime_cannot_interrupt_comes_back_too() {
    let mut setup = Setup::new().runtime(|r| endless(r).without(Capability::Interrupt));
    let (project, agent, id) = life(async {
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        let id = bench.one_task(spec("x", &[])).await;
        bench.until_turns(1).await;
        bench.cortex.shutdown().await.unwrap();
        (bench.project.clone(), agent, id)
    });
    assert!(setup.world.processes().is_empty());
    life(async {
        let bench = setup.reopen(&project).await;
        bench.until_agent(&agent, AgentStatus::Ready).await;
        let task = bench.task(&id).await;
        assert_eq!(task.attempts[0].status, AttemptStatus::Lost, "nobody confirmed its end");
        assert_eq!(task.status, TaskStatus::Blocked);
    });
}

#[test]
fn a_deaf_turn_does_not_hold_up_the_end() {
    let setup = Setup::new().runtime(|r| r.turn(|_| Script::new().deaf()).close_takes(secs(99)));
    life(async {
        let bench = setup.open().await;
        bench.ready("a").await;
        bench.one_task(spec("x", &[])).await;
        bench.until_turns(1).await;
        let began = tokio::time::Instant::now();
        bench.cortex.shutdown().await.unwrap();
        assert!(began.elapsed() <= secs(25), "{:?}", began.elapsed());
    });
    assert!(setup.world.processes().is_empty());
}

#[test]
fn an_end_at_once_does_not_ask() {
    let setup = Setup::new().runtime(|r| r.turn(|_| Script::new().deaf()).close_takes(secs(99)));
    life(async {
        let bench = setup.open().await;
        bench.ready("a").await;
        bench.one_task(spec("x", &[])).await;
        bench.until_turns(1).await;
        let began = tokio::time::Instant::now();
        bench.cortex.shutdown_at_once().await.unwrap();
        assert!(began.elapsed() <= secs(1), "{:?}", began.elapsed());
    });
    assert!(setup.world.processes().is_empty());
}

#[test]
fn a_turn_that_a_crash_cut_is_decided_by_a_person() {
    let mut setup = Setup::new().runtime(endless);
    let (project, agent, id) = killed_in_a_task(&setup);
    setup = setup.runtime(|runtime| runtime.turn(|_| Script::new().answer("done")));
    life(async {
        let bench = setup.reopen(&project).await;
        let task = bench.task(&id).await;
        assert_eq!(task.attempts[0].status, AttemptStatus::Lost);
        assert_eq!(task.status, TaskStatus::Blocked, "H-39");
        assert_eq!(task.failure.unwrap().cause, "recovery.outcome_unknown");
        bench.until_agent(&agent, AgentStatus::Ready).await;
        assert_eq!(bench.world.processes().len(), 1, "the old session was ended");
        let swept: Vec<_> = bench
            .world
            .asked()
            .into_iter()
            .filter_map(|asked| match asked {
                Asked::Sweep(markers) => Some(markers),
                _ => None,
            })
            .collect();
        assert_eq!(swept, [[bench.world.openings()[0].session_id.to_string()]]);

        bench.call(RetryTask { task_id: id.clone(), execution_id: None, reason: None }).await;
        let look = async || Some(bench.task(&id).await).filter(|task| task.attempts.len() == 2);
        bench.until("the retry", look).await;
        let task = bench.until_task(&id, TaskStatus::Blocked).await;
        assert_eq!(task.failure.unwrap().cause, "verification.missing");
        let told = &bench.world.turns()[1].instruction;
        assert!(told.contains("It was interrupted by a crash"), "{told}");
    });
}

#[test]
fn a_crash_ends_direct_turns_and_says_so() {
    let mut setup = Setup::new().runtime(endless);
    let (project, agent) = life(async {
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        bench.call(SendMessage { agent_id: agent.clone(), message: "hi".into() }).await;
        setup.world.lose_core();
        (bench.project.clone(), agent)
    });
    setup.settings.agents.restore_on_open = false;
    life(async {
        let bench = setup.reopen(&project).await;
        let failed: Vec<_> = bench
            .agent_events()
            .await
            .into_iter()
            .filter(|event| event.kind == EventKind::SessionTurnFailed)
            .collect();
        assert_eq!(failed[0].data["cause"], "recovery.outcome_unknown");
        let seen = bench.see(&agent).await;
        assert_eq!(seen.state, AgentStatus::Stopped);
        assert_eq!(seen.last_failure.unwrap().code, Code::RuntimeSessionEnded);
    });
}

#[test]
fn a_verification_that_a_crash_cut_begins_anew() {
    let mut setup = Setup::new().host(|host| host.verify(|_| Verdict::Pass(secs(500))));
    let (project, id) = life(async {
        let bench = setup.open().await;
        bench.ready("a").await;
        let id = bench.one_task(spec("x", &[])).await;
        bench.until_task(&id, TaskStatus::Verifying).await;
        let look = async || (bench.world.verifications().len() == 1).then_some(());
        bench.until("the commands", look).await;
        setup.world.lose_core();
        (bench.project.clone(), id)
    });
    assert_eq!(setup.world.processes().len(), 2);
    setup.at_rest = true;
    life(async {
        let bench = setup.reopen(&project).await;
        pass(secs(600)).await;
        assert_eq!(bench.task(&id).await.status, TaskStatus::Verifying);
        assert_eq!(bench.world.verifications().len(), 1, "who only looks begins nothing");
        bench.cortex.shutdown().await.unwrap();
    });
    setup.at_rest = false;
    life(async {
        let bench = setup.reopen(&project).await;
        let task = bench.until_task(&id, TaskStatus::Completed).await;
        assert_eq!(task.attempts.len(), 1, "H-27: the result is durable");
        assert_eq!(bench.world.verifications().len(), 2);
        assert_eq!(bench.world.turns().len(), 1);
    });
}

#[test]
fn an_agent_whose_runtime_is_gone_says_so() {
    let mut setup = Setup::new();
    let (project, agent) = life(async {
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        bench.cortex.shutdown().await.unwrap();
        (bench.project.clone(), agent)
    });
    setup.runtimes.clear();
    life(async {
        let bench = setup.reopen(&project).await;
        let seen = bench.until_agent(&agent, AgentStatus::Failed).await;
        assert_eq!(seen.last_failure.unwrap().code, Code::RuntimeNotFound);
    });
}

#[test]
fn what_waits_goes_on_waiting_in_the_next_life() {
    let mut setup = Setup::new().runtime(|r| {
        r.turn(|turn| {
            if turn.instruction.contains("busy") {
                Script::new().answer("done")
            } else {
                Script::new().fail(cortex_lib::domain::attempt::Cause::Transient, "busy")
            }
        })
    });
    let (project, id) = life(async {
        let bench = setup.open().await;
        bench.ready("a").await;
        let id = bench.one_task(spec("x", &[])).await;
        bench.until_turns(1).await;
        bench.until_task(&id, TaskStatus::Ready).await;
        setup.world.lose_core();
        (bench.project.clone(), id)
    });
    life(async {
        let bench = setup.reopen(&project).await;
        let task = bench.until_task(&id, TaskStatus::Blocked).await;
        assert_eq!(task.attempts.len(), 2);
        assert_eq!(task.failure.unwrap().cause, "verification.missing");
    });
}

#[test]
fn a_core_whose_store_fails_ends_its_sessions() {
    let setup = Setup::new().runtime(endless);
    life(async {
        let bench: Bench = setup.open().await;
        bench.ready("a").await;
        let id = bench.one_task(TaskSpec { max_retries: Some(0), ..spec("x", &[]) }).await;
        bench.until_turns(1).await;
        let failed = bench.store.write(|_| -> cortex_lib::Result<()> { panic!("a defect") }).await;
        assert_eq!(failed.unwrap_err().code(), Code::StoreFailed);
        let mut states = bench.cortex.states();
        states.wait_for(|state| *state == CoreState::Failed).await.unwrap();
        let look = async || setup.world.processes().is_empty().then_some(());
        tokio::time::timeout(secs(5), bench.until("the end of sessions", look)).await.unwrap();
        let cancel = cortex_lib::api::tool::CancelTask { task_id: id, reason: None };
        assert_eq!(bench.cx.call(cancel).await.unwrap_err().code(), Code::StoreFailed);
        assert_eq!(bench.cortex.shutdown().await.unwrap_err().code(), Code::StoreFailed);
    });
}

#[test]
fn cores_live_side_by_side() {
    let (one, mut other) = (Setup::new(), Setup::new());
    other.seed = 8;
    life(async {
        let (one, other) = (one.open().await, other.open().await);
        let agent = one.ready("a").await;
        other.ready("a").await;
        assert_eq!(one.call(ListAgents { project_id: None }).await.agents.len(), 1);
        one.cortex.shutdown().await.unwrap();
        assert_eq!(other.cortex.state(), CoreState::Ready);
        let error = other.refuse(StopAgent { agent_id: agent }).await;
        assert_eq!(error.code(), Code::AgentNotFound);
    });
}

/// The power goes in the first commit, before or after it is on disk.
#[derive(Debug)]
struct PowerCut(Fate);

impl Faults for PowerCut {
    fn at_commit(&self) -> Fate {
        self.0
    }
}

#[test]
fn what_a_crash_left_is_ended_even_when_the_next_start_crashes_too() {
    for fate in [Fate::LoseBefore, Fate::LoseAfter] {
        let mut setup = Setup::new().runtime(endless);
        let (project, _, _) = killed_in_a_task(&setup);
        setup.settings.agents.restore_on_open = false;
        life(async {
            setup.faults = Arc::new(PowerCut(fate));
            tokio::select! { biased;
                _ = setup.open_bare() => panic!("it did not crash"),
                () = pass(secs(1)) => {}
            }
            setup.world.lose_core();
        });
        setup.faults = Arc::new(NoFaults);
        life(async {
            setup.reopen(&project).await;
            assert!(setup.world.processes().is_empty(), "{fate:?}");
            assert!(setup.world.scratch().is_empty(), "{fate:?}");
        });
    }
}

//! The disk or the power fails at the worst moment: the log decides what is true, and nobody is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cortex_lib::Code;
use cortex_lib::api::operator::PauseAgent;
use cortex_lib::api::tool::{CreateObjective, ListTasks, SendMessage};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::engine::CoreState;
use cortex_lib::error::Error;
use cortex_lib::ids::{AgentId, ProjectId, TaskId};
use cortex_lib::port::{Opening, Script};
use cortex_lib::store::{Fate, Faults, NoFaults};
use serde_json::json;

use crate::bench::{Bench, Setup, pass, secs, spec};
use crate::lives::life;

/// So many commits fail, from the moment when that is said.
#[derive(Debug)]
struct Failing {
    fate: Fate,
    left: AtomicU32,
}

impl Failing {
    fn new(fate: Fate) -> Arc<Self> {
        Arc::new(Self { fate, left: AtomicU32::new(0) })
    }

    fn fail(&self, times: u32) {
        self.left.store(times, Ordering::Relaxed);
    }

    fn are_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

impl Faults for Failing {
    fn at_commit(&self) -> Fate {
        let left =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if left.is_ok() { self.fate } else { Fate::Commit }
    }
}

/// When the core dies, counted from the failures of the write that ends the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    WithTheLastFailure,
    WhenItIsWritten,
}

/// A life in which the write that ends an attempt fails `times` times.
fn whose_end_fails(
    setup: &mut Setup,
    fate: Fate,
    times: u32,
    death: Death,
) -> (ProjectId, AgentId, TaskId) {
    let failing = Failing::new(fate);
    setup.faults = failing.clone();
    let ids = life(async {
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        let id = bench.one_task(spec("x", &[])).await;
        bench.until_task(&id, TaskStatus::Running).await;
        // The turn runs by now, and the next thing to write is how it ended.
        pass(secs(2)).await;
        failing.fail(times);
        bench.until("the failures", async || failing.are_over().then_some(())).await;
        if death == Death::WhenItIsWritten {
            bench.until_task(&id, TaskStatus::Blocked).await;
        }
        setup.world.lose_core();
        (bench.project.clone(), agent, id)
    });
    setup.faults = Arc::new(NoFaults);
    ids
}

/// What the log says last about the only attempt of a task.
fn logged(bench: &Bench) -> Option<serde_json::Value> {
    let changes = bench.told_after(0).into_iter().rev();
    let mut changes = changes.filter(|event| event.kind == EventKind::AttemptChanged);
    changes.next()?.data.get("status").cloned()
}

/// Claims: the write that ends an attempt fails k times → after a restart its state comes from the log, the agent is
/// free.
#[test]
fn when_the_write_that_ends_an_attempt_fails_k_times_the_log_tells_its_state_after_a_restart_and_the_agent_is_free()
 {
    let (unknown, done) = ("recovery.outcome_unknown", "verification.missing");
    let mut cases = vec![
        (Fate::FailCommit, 1, Death::WithTheLastFailure, unknown),
        (Fate::FailButKeep, 1, Death::WithTheLastFailure, done),
        (Fate::LoseBefore, 1, Death::WithTheLastFailure, unknown),
        (Fate::LoseAfter, 1, Death::WithTheLastFailure, done),
    ];
    for fate in [Fate::DiskFull, Fate::Locked] {
        for times in 1..=4 {
            cases.push((fate, times, Death::WithTheLastFailure, unknown));
            cases.push((fate, times, Death::WhenItIsWritten, done));
        }
    }
    for case in cases {
        let (fate, times, death, cause) = case;
        let mut setup = Setup::new()
            .runtime(|runtime| runtime.turn(|_| Script::new().wait(secs(5)).answer("done")));
        let (project, agent, id) = whose_end_fails(&mut setup, fate, times, death);
        life(async {
            let bench = setup.reopen(&project).await;
            let seen = bench.until_agent(&agent, AgentStatus::Ready).await;
            assert_eq!(seen.current, None, "{case:?}");
            let task = bench.task(&id).await;
            assert_eq!(task.status, TaskStatus::Blocked, "{case:?}");
            assert_eq!(task.failure.unwrap().cause, cause, "{case:?}");
            let attempt = &task.attempts[0];
            assert_eq!(logged(&bench), Some(json!(attempt.status)), "{case:?}");
            assert!(attempt.ended_at.is_some(), "{case:?}");
            // The agent takes the next one.
            let next = bench.one_task(spec("y", &[])).await;
            bench.until_task(&next, TaskStatus::Blocked).await;
            assert_eq!(bench.world.turns().len(), 2, "{case:?}: nothing was sent twice");
        });
    }
}

/// Storage: failed fsync → outcome unknown, core FAILED, settled at the next open.
#[test]
fn after_a_failed_fsync_the_outcome_is_unknown_the_core_has_failed_and_the_next_open_settles_it() {
    for (fate, kept) in [(Fate::FailCommit, 0), (Fate::FailButKeep, 1)] {
        let (mut setup, failing) = (Setup::new(), Failing::new(fate));
        setup.faults = failing.clone();
        let project = life(async {
            let bench = setup.open().await;
            bench.ready("a").await;
            failing.fail(1);
            let (project_id, title) = (bench.project.clone(), "o".to_owned());
            let call = CreateObjective { project_id, title, tasks: vec![spec("x", &[])] };
            let error = bench.cx.call(call).await.unwrap_err();
            assert_eq!(error.code(), Code::StoreFailed);
            bench.cortex.states().wait_for(|state| *state == CoreState::Failed).await.unwrap();
            let refused = bench.cx.call(PauseAgent { agent_id: AgentId::new("a1") }).await;
            assert_eq!(refused.unwrap_err().code(), Code::StoreFailed, "it takes nothing more");
            assert!(bench.world.turns().is_empty(), "what nobody can know is not acted upon");
            bench.project.clone()
        });
        setup.faults = Arc::new(NoFaults);
        life(async {
            let bench = setup.reopen(&project).await;
            assert_eq!(bench.cortex.state(), CoreState::Ready);
            assert_eq!(bench.call(ListTasks {}).await.objectives.len(), kept, "{fate:?}");
            bench.until_turns(kept).await;
        });
    }
}

/// What an agent does when its core dies.
#[derive(Clone, Copy, Debug)]
enum At {
    Ready,
    InTurn,
    Busy,
    Paused,
}

/// A life that ends by a power cut while its agent is there.
fn killed_with_an_agent(setup: &Setup, at: At) -> (ProjectId, AgentId) {
    life(async {
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        let agent_id = agent.clone();
        match at {
            At::Ready => {}
            At::InTurn => {
                bench.call(SendMessage { agent_id, message: "go on".into() }).await;
            }
            At::Busy => {
                bench.one_task(spec("x", &[])).await;
                bench.until_turns(1).await;
            }
            At::Paused => drop(bench.call(PauseAgent { agent_id }).await),
        }
        setup.world.lose_core();
        (bench.project.clone(), agent)
    })
}

/// Looks for longer than a start may take. At each look the row of the agent says what is so.
async fn is_backed(bench: &Bench, agent: &AgentId, case: &str) -> AgentStatus {
    let mut last = AgentStatus::Created;
    for second in 0..70 {
        last = bench.status(agent).await;
        let (session, opened) = (bench.world.session_of(agent), bench.world.openings().len());
        match last {
            // A session of this life is known once its runtime has answered.
            AgentStatus::Ready | AgentStatus::Busy | AgentStatus::Paused => {
                assert!(session.is_some() && opened >= 2, "{case}, {second} s: {last:?}");
                let lives = bench.world.processes();
                assert_eq!(lives.into_iter().collect::<Vec<_>>(), [session.unwrap().to_string()]);
            }
            AgentStatus::Stopped | AgentStatus::Crashed | AgentStatus::Failed => {
                assert_eq!(session, None, "{case}, {second} s: {last:?}");
                assert!(bench.world.processes().is_empty(), "{case}, {second} s: {last:?}");
            }
            // A start has its time; a stop is none that somebody asked for.
            AgentStatus::Starting => assert!(second < 65, "{case}: it starts for ever"),
            AgentStatus::Created | AgentStatus::Stopping => {
                assert_eq!(last, AgentStatus::Starting, "{case}, {second} s");
            }
        }
        pass(secs(1)).await;
    }
    last
}

/// Claims: after a restart each agent row is backed by a live session whose runtime answered, or says that it is down.
#[test]
fn after_a_restart_an_agent_is_backed_by_a_session_whose_runtime_answered_or_says_that_it_is_down()
{
    let no = || Error::new(Code::RuntimeStartFailed, "no");
    let openings = [
        (Opening::AT_ONCE, true),
        (Opening::After(secs(20)), true),
        (Opening::Fail(secs(0), no()), false),
        (Opening::Fail(secs(20), no()), false),
        (Opening::Never, false),
    ];
    for at in [At::Ready, At::InTurn, At::Busy, At::Paused] {
        for (opening, answers) in &openings {
            for restore in [true, false] {
                let mut setup = Setup::new().runtime(|runtime| runtime.turn(|_| Script::new()));
                let (project, agent) = killed_with_an_agent(&setup, at);
                let opening = opening.clone();
                let case = format!("{at:?}, {opening:?}, restore {restore}");
                setup = setup.runtime(|runtime| runtime.opening(move |_| opening.clone()));
                setup.settings.agents.restore_on_open = restore;
                life(async {
                    let bench = setup.reopen(&project).await;
                    let last = is_backed(&bench, &agent, &case).await;
                    let is_up = !matches!(
                        last,
                        AgentStatus::Stopped | AgentStatus::Crashed | AgentStatus::Failed
                    );
                    assert_eq!(is_up, restore && *answers, "{case}: {last:?}");
                });
            }
        }
    }
}

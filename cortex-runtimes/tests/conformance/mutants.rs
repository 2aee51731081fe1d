//! Drivers that do something wrong, made of the scripted runtime: the suite must see it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::TurnId;
use cortex_lib::limits::SESSION_QUEUE_MAX;
use cortex_lib::port::{
    HealthReport, Opened, Opening, Runtime, RuntimeInfo, Script, ScriptedRuntime, Session,
    SessionSpec, ToolAnswer, Turn,
};
use cortex_runtimes::conformance::{self, Ability, Scenario, Stage, Subject, Verdict};
use cortex_scripted::suite::Case;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::scripted;

/// Each mutant with the cases that must fail for it.
const MUTANTS: [(Mutant, &[&str]); 4] = [
    (Mutant::RefusesAll, REFUSED),
    (Mutant::NeverEnds, UNENDED),
    (Mutant::WaitsForAReader, &["a_close_waits_for_nobody_who_reads"]),
    (Mutant::Leaks, LEFT),
];

/// All that opens a session.
const REFUSED: &[&str] = &[
    "a_session_opens_with_its_facts",
    "a_start_that_is_dropped_leaves_nothing",
    "a_session_that_is_dropped_leaves_nothing",
    "two_sessions_do_not_know_each_other",
    "a_turn_returns_what_the_agent_says",
    "each_turn_ends_exactly_once",
    "an_interrupt_ends_a_silent_turn",
    "a_refused_login_is_refused",
    "a_close_may_be_called_again_and_at_once",
    "a_close_waits_for_nobody_who_reads",
    "a_closed_session_refuses_what_is_asked",
    "a_closed_session_goes_on_with_what_it_knows",
];

/// All that waits for the end of a turn.
const UNENDED: &[&str] = &[
    "two_sessions_do_not_know_each_other",
    "a_turn_returns_what_the_agent_says",
    "output_comes_line_by_line_with_its_turn",
    "each_turn_ends_exactly_once",
    "an_interrupt_ends_a_silent_turn",
    "an_interrupt_right_behind_the_send_is_not_lost",
    "a_broken_service_is_transient",
    "a_closed_session_goes_on_with_what_it_knows",
];

/// All that is given up on the way.
const LEFT: &[&str] =
    &["a_start_that_is_dropped_leaves_nothing", "a_session_that_is_dropped_leaves_nothing"];

/// A test for each mutant, and one that shows that it is the mutation that fails.
pub(crate) fn tests() -> Vec<Case> {
    let mut tests = vec![Case::new("mutants::what_is_not_mutated_passes", || {
        Box::pin(what_is_not_mutated_passes())
    })];
    for (mutant, must_fail) in MUTANTS {
        let name = format!("mutants::{}_is_seen", mutant.name());
        tests.push(Case::new(name, move || Box::pin(is_seen(mutant, must_fail))));
    }
    tests
}

async fn is_seen(mutant: Mutant, must_fail: &'static [&'static str]) {
    let verdicts = verdicts(mutant, must_fail).await;
    let missed: Vec<_> =
        verdicts.iter().filter(|(_, verdict)| !matches!(verdict, Verdict::Failed(_))).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// But for what the scripted runtime leaves behind by itself: it stands for a process, which does not hear of a drop.
async fn what_is_not_mutated_passes() {
    let own = "a_session_that_is_dropped_leaves_nothing";
    let all: BTreeSet<_> = MUTANTS.iter().flat_map(|(_, cases)| *cases).copied().collect();
    let all: Vec<_> = all.into_iter().filter(|name| *name != own).collect();
    let verdicts = verdicts(Mutant::None, &all).await;
    let failed: Vec<_> =
        verdicts.iter().filter(|(_, verdict)| !matches!(verdict, Verdict::Passed(_))).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

async fn verdicts(mutant: Mutant, names: &[&'static str]) -> Vec<(&'static str, Verdict)> {
    let info = conformance::begin(&mutant).await.unwrap().info;
    let mut verdicts = Vec::new();
    for name in names {
        let case = conformance::all().into_iter().find(|case| case.name == *name).unwrap();
        verdicts.push((*name, conformance::run_case(&mutant, &info, &case).await));
    }
    verdicts
}

/// What is wrong with a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// Nothing.
    None,
    /// No session opens.
    RefusesAll,
    /// Turns are accepted, and that is all.
    NeverEnds,
    /// A close waits until its last events have found room.
    WaitsForAReader,
    /// What was begun goes on, whoever drops it.
    Leaks,
}

#[async_trait]
impl Subject for Mutant {
    fn name(&self) -> &'static str {
        match self {
            Self::None => "a_whole_driver",
            Self::RefusesAll => "a_driver_that_refuses_all",
            Self::NeverEnds => "a_driver_whose_turns_never_end",
            Self::WaitsForAReader => "a_driver_that_waits_for_a_reader",
            Self::Leaks => "a_driver_that_leaks",
        }
    }

    fn abilities(&self) -> BTreeSet<Ability> {
        let abilities = [Ability::Memory, Ability::Instructions, Ability::Service];
        abilities.into_iter().chain([Ability::Program, Ability::Processes]).collect()
    }

    /// What must fail mostly fails by not coming.
    fn patience(&self) -> Duration {
        if *self == Self::None { Duration::from_mins(1) } else { Duration::from_secs(1) }
    }

    async fn stage(&self, scenario: &Scenario) -> Result<Box<dyn Stage>, String> {
        scripted::stage(scenario, |runtime| self.of(runtime))
    }
}

impl Mutant {
    fn of(self, runtime: ScriptedRuntime) -> Arc<dyn Runtime> {
        let error = || Error::new(Code::RuntimeStartFailed, "not today");
        match self {
            Self::None => Arc::new(runtime),
            Self::RefusesAll => {
                Arc::new(runtime.opening(move |_| Opening::Fail(Duration::ZERO, error())))
            }
            Self::NeverEnds => Arc::new(runtime.turn(|_| Script::new().deaf())),
            Self::WaitsForAReader => Arc::new(WaitsForAReader(runtime)),
            Self::Leaks => Arc::new(Leaks { runtime, held: Arc::default() }),
        }
    }
}

#[derive(Debug)]
struct WaitsForAReader(ScriptedRuntime);

#[async_trait]
impl Runtime for WaitsForAReader {
    fn info(&self) -> &RuntimeInfo {
        self.0.info()
    }

    async fn check(&self) -> HealthReport {
        self.0.check().await
    }

    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        let mut opened = self.0.open(spec).await?;
        let (sender, events) = mpsc::channel(SESSION_QUEUE_MAX);
        let mut said = std::mem::replace(&mut opened.events, events);
        let told = TaskTracker::new();
        told.spawn(async move {
            while let Some(event) = said.recv().await {
                sender.send(event).await.ok();
            }
        });
        told.close();
        opened.session = Arc::new(Telling { session: opened.session, told });
        Ok(opened)
    }
}

/// A session whose events go through one more hand.
#[derive(Debug)]
struct Telling {
    session: Arc<dyn Session>,
    told: TaskTracker,
}

#[async_trait]
impl Session for Telling {
    async fn send(&self, turn: Turn) -> Result<()> {
        self.session.send(turn).await
    }

    async fn interrupt(&self, turn: &TurnId) -> Result<()> {
        self.session.interrupt(turn).await
    }

    async fn answer(&self, request_id: &str, answer: ToolAnswer) -> Result<()> {
        self.session.answer(request_id, answer).await
    }

    async fn close(&self, grace: Duration) {
        self.session.close(grace).await;
        self.told.wait().await;
    }
}

#[derive(Debug)]
struct Leaks {
    runtime: ScriptedRuntime,
    held: Arc<Mutex<Vec<Arc<dyn Session>>>>,
}

#[async_trait]
impl Runtime for Leaks {
    fn info(&self) -> &RuntimeInfo {
        self.runtime.info()
    }

    async fn check(&self) -> HealthReport {
        self.runtime.check().await
    }

    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        let (runtime, held) = (self.runtime.clone(), Arc::clone(&self.held));
        let opening = TaskTracker::new().spawn(async move {
            let opened = runtime.open(spec).await?;
            held.lock().unwrap().push(Arc::clone(&opened.session));
            Ok(opened)
        });
        opening.await.unwrap()
    }
}

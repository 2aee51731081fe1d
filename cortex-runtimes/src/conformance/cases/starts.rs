//! How sessions start, and what is known then.

use std::time::Duration;

use cortex_lib::domain::agent::{Interaction, Role};
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::capability::Capability;
use cortex_lib::error::Code;
use cortex_lib::limits::HEALTH_CHECK_TIMEOUT;
use cortex_lib::port::{Health, SessionSpec, TurnOutcome};
use tokio::time::timeout;

use super::say;
use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::live::{Live, refused};
use crate::conformance::place::{Bench, Place, Sleep};
use crate::conformance::scenario::{Act, Scenario};
use crate::conformance::subject::Ability;
use crate::conformance::world;

pub(super) const CASES: &[Case] = cases!["Starting":
    what_it_says_about_itself_is_always_the_same [] [],
    a_check_finds_the_program_in_time [] [],
    a_session_opens_with_its_facts [StructuredSession] [],
    a_missing_folder_is_told [] [],
    a_start_that_is_dropped_leaves_nothing [] [],
    a_session_that_is_dropped_leaves_nothing [] [Processes],
    what_it_does_not_offer_is_refused [] [],
    two_sessions_do_not_know_each_other [] [],
];

async fn what_it_says_about_itself_is_always_the_same(bench: &Bench<'_>) -> Outcome {
    let (one, two) = (bench.stage(&Scenario::new()).await?, bench.stage(&Scenario::new()).await?);
    let (one, two) = (one.stage.runtime(), two.stage.runtime());
    ensure!(
        one.info() == one.info() && one.info() == two.info(),
        "{:?} and {:?}",
        one.info(),
        two.info()
    );
    let info = one.info();
    ensure!(
        !info.id.as_str().is_empty() && !info.name.trim().is_empty(),
        "it has no name: {info:?}"
    );
    let takes = |capability| info.capabilities.contains(&capability);
    ensure!(
        takes(Capability::StructuredSession) || takes(Capability::TerminalSession),
        "it takes no session: {:?}",
        info.capabilities
    );
    Ok(Seen::Held)
}

async fn a_check_finds_the_program_in_time(bench: &Bench<'_>) -> Outcome {
    let place = bench.stage(&Scenario::new()).await?;
    let report = timeout(HEALTH_CHECK_TIMEOUT, place.stage.runtime().check()).await;
    let Ok(report) = report else {
        return Err(Stop::Failed("the check does not return".to_owned()));
    };
    ensure!(report.health == Health::Healthy, "it is not healthy here: {report:?}");
    ensure!(report.logged_in != Some(false), "it is healthy without its login: {report:?}");
    if let Some(program) = &report.executable {
        ensure!(program.is_file(), "its program is no file: {}", program.display());
    }
    let mut live = place.open().await?;
    let (checked, runs) = (&report.version, &live.facts.version);
    ensure!(runs.is_none() || checked == runs, "checked {checked:?}, but {runs:?} runs");
    live.close().await?;
    Ok(Seen::Held)
}

async fn a_session_opens_with_its_facts(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    ensure!(!live.facts.resumed, "a fresh session says that it was resumed");
    ensure!(live.terminal.is_none(), "a structured session has a terminal");
    if let Some(pid) = live.facts.pid {
        ensure!(world::lives(pid), "its process {pid} does not live");
    }
    live.says(&hello, "hello").await?;
    let is_named = live.facts.native_session_id.is_some();
    ensure!(
        is_named == bench.claims(Capability::Resume),
        "a native session is named exactly when it can be resumed: {:?}",
        live.facts
    );
    live.close().await?;
    place.nothing_lives(&live.id)?;
    Ok(Seen::Held)
}

async fn a_missing_folder_is_told(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut spec = place.spec()?;
    spec.cwd = place.path("nobody-made-this");
    let id = spec.session_id.clone();
    match place.try_open(spec).await? {
        Err(error) => {
            let codes = [Code::ProjectInvalidRoot, Code::RuntimeStartFailed];
            ensure!(codes.contains(&error.code()), "{error} ({})", error.code());
        }
        // What starts a program for each turn finds out then.
        Ok(mut live) => {
            let end = live.run(&hello).await?;
            let told = matches!(&end.outcome, TurnOutcome::Failed(failure) if failure.cause == Cause::InvalidRoot);
            ensure!(told, "the turn does not say so: {:?}", end.outcome);
            live.close().await?;
        }
    }
    place.nothing_lives(&id)?;
    Ok(Seen::Held)
}

async fn a_start_that_is_dropped_leaves_nothing(bench: &Bench<'_>) -> Outcome {
    let place = bench.stage(&Scenario::new()).await?;
    let mut dropped = 0_u8;
    // Dropped once something lives, and again at moments of its own choice.
    for wait in [None, Some(5), Some(50), Some(200)] {
        let spec = place.spec()?;
        let id = spec.session_id.clone();
        let opening = place.try_open(spec);
        let begun = async {
            match wait {
                None => place
                    .until("a process", || (!place.stage.alive(&id).is_empty()).then_some(()))
                    .await
                    .is_ok(),
                Some(millis) => {
                    timeout(Duration::from_millis(millis), std::future::pending::<()>())
                        .await
                        .is_err()
                }
            }
        };
        tokio::select! {
            biased;
            opened = opening => {
                opened??.close().await?;
                continue;
            }
            _ = begun => dropped = dropped.saturating_add(1),
        }
        place.until_gone(&id).await?;
    }
    if dropped == 0 {
        return Err(Stop::NotShown("it opens too fast to be dropped on the way".to_owned()));
    }
    Ok(Seen::Held)
}

async fn a_session_that_is_dropped_leaves_nothing(bench: &Bench<'_>) -> Outcome {
    let (mut scenario, sleep) = (Scenario::new(), Sleep::new());
    let has_shell = bench.is_able(Ability::Shell);
    let works = scenario.prompt([if has_shell {
        Act::Run(format!("echo > ran; {}", sleep.0))
    } else {
        Act::Wait { gate: "never".to_owned() }
    }]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let id = live.id.clone();
    live.send(&works).await?;
    if has_shell {
        live.until_exists(&place.path("ran")).await?;
    }
    let lives = || (sleep.running() > 0 || !place.stage.alive(&id).is_empty()).then_some(());
    place.until("a process of the turn", lives).await?;
    drop(live);
    place.until_gone(&id).await?;
    let ended = || (sleep.running() == 0).then_some(());
    place.until("the end of what a tool started", ended).await?;
    Ok(Seen::Held)
}

type Ask = fn(&mut SessionSpec);

/// The core does not ask for what is not offered. A driver that did something else then would be trusted with more than
/// it can hold.
async fn what_it_does_not_offer_is_refused(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let asks: [(Capability, Ask); 5] = [
        (Capability::TerminalSession, |spec| spec.interaction = Interaction::Terminal),
        (Capability::Resume, |spec| {
            spec.resume = Some("11111111-2222-4333-8444-555555555555".to_owned());
        }),
        (Capability::OrchestratorRole, |spec| spec.role = Role::Orchestrator),
        (Capability::ReadOnlyTurn, |spec| spec.read_only = true),
        (Capability::ModelSelection, |spec| spec.model = Some("another".to_owned())),
    ];
    for (capability, ask) in asks.into_iter().filter(|(capability, _)| !bench.claims(*capability)) {
        let mut spec = place.spec()?;
        ask(&mut spec);
        let id = spec.session_id.clone();
        let error = refused(place.try_open(spec).await?, capability.as_str())?;
        ensure!(
            error.code() == Code::RuntimeCapabilityMissing,
            "{capability}: {error} ({})",
            error.code()
        );
        place.nothing_lives(&id)?;
    }
    if !bench.claims(Capability::InteractiveInput) {
        let mut live = place.open().await?;
        let turn = live.send(&hello).await?;
        let error =
            refused(live.session.steer(&turn, "more".to_owned()).await, "input during a turn")?;
        ensure!(error.code() == Code::RuntimeCapabilityMissing, "{error} ({})", error.code());
        live.ended(&turn).await?;
        live.close().await?;
    }
    Ok(Seen::Held)
}

async fn two_sessions_do_not_know_each_other(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let (one, two) = (scenario.prompt(say("one")), scenario.prompt(say("two")));
    let place = bench.stage(&scenario).await?;
    let (mut first, mut second) = opened_at_once(&place).await?;
    let (native, other) = (&first.facts.native_session_id, &second.facts.native_session_id);
    ensure!(native.is_none() || native != other, "both are {native:?}");
    let (said, also) = tokio::join!(first.says(&one, "one"), second.says(&two, "two"));
    said?;
    also?;
    first.close().await?;
    second.says(&one, "one").await?;
    second.close().await?;
    place.nothing_lives(&first.id)?;
    place.nothing_lives(&second.id)?;
    Ok(Seen::Held)
}

async fn opened_at_once(place: &Place) -> Result<(Live, Live), Stop> {
    let (first, second) = tokio::join!(place.open(), place.open());
    Ok((first?, second?))
}

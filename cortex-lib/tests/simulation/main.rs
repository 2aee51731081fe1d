//! The whole core from one seed. What must hold is in `sim/promises`; a run is a list of choices (`sim/plan.rs`).
//!
//! - `CORTEX_SIM_SEED=17 cargo test -p cortex-lib --test simulation -- --nocapture` repeats one seed and prints its
//!   log; with `CORTEX_SIM_KEEP=0,3,17-19` only with these of its choices. A failing seed prints that command.
//! - `CORTEX_SIM_SEEDS=1000` runs as many in the test, `CORTEX_SIM_FAULTS=1` every fault at every commit, and
//!   `CORTEX_SIM_ANSWERS=1` prints which command was answered what how often. For more, and optimised:
//!   `cargo run --release -p cortex-benches --bin simulate -- --seeds 100000`.
#![expect(clippy::unwrap_used, clippy::unreachable, reason = "a test may stop")]
#![expect(clippy::disallowed_methods, reason = "it reads its variables and lets virtual time pass")]

mod sim;

use std::collections::BTreeSet;
use std::time::Instant;

use cortex_lib::api::Catalogue;

use sim::crashes::{self, CRASHES, FAULTS};
use sim::defects::DEFECTS;
use sim::many::{first_broken, run_all, search};
use sim::plan::{Plan, parse_ranges, ranges};
use sim::shrink::{Failure, repeat};

/// Seeds of the normal test command.
const SEEDS: u64 = 200;
/// Every so many seeds one is run twice and must be the same.
const AGAIN_EVERY: u64 = 5;
/// Seeds that may be needed to find a planted defect.
const DEFECT_SEEDS: u64 = 200;

fn variable<T: std::str::FromStr<Err: std::fmt::Debug>>(name: &str) -> Option<T> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Stops with what a person needs to repeat a failure.
#[expect(clippy::panic, reason = "it says all there is to say, as it is")]
fn told(failure: Option<String>) {
    if let Some(failure) = failure {
        panic!("{failure}");
    }
}

/// The promises of the design, for 200 seeds; every fifth runs twice and is the same.
#[test]
#[expect(clippy::print_stderr, reason = "a person reads how it went")]
fn the_promises_hold_for_every_seed() {
    if let Some(seed) = variable("CORTEX_SIM_SEED") {
        let kept = variable::<String>("CORTEX_SIM_KEEP");
        let failure = repeat(seed, kept.as_deref(), |line| eprintln!("{line}"));
        return told(failure.map(|failure| failure.to_string()));
    }
    let (seeds, began) = (variable("CORTEX_SIM_SEEDS").unwrap_or(SEEDS), Instant::now());
    let seen = run_all(&|seed| (seed < seeds).then(|| Plan::of(seed)), AGAIN_EVERY);
    told(seen.failure);
    let (lives, commits, took) = (seen.lives, seen.commits, began.elapsed());
    eprintln!("{seeds} seeds: {lives} lives, {commits} commits, {took:?}");
    if variable::<u8>("CORTEX_SIM_ANSWERS").is_some() {
        seen.met.iter().for_each(|((name, answer), times)| eprintln!("{name} {answer} {times}"));
    }
    let ended_well = seen.met.keys().filter(|(_, answer)| *answer == "ok").map(|(name, _)| *name);
    let ended_well: BTreeSet<_> = ended_well.collect();
    let all: BTreeSet<_> = Catalogue::CORTEX.iter().map(|def| def.name).collect();
    if seeds >= SEEDS {
        let never: Vec<_> = all.difference(&ended_well).collect();
        assert!(never.is_empty(), "no caller of the simulation ever did {never:?} (`sim/acts`)");
        assert!(lives > seeds, "no run had a second life");
    }
}

/// Power that goes before, after and between commit and duty, at every commit of a history.
#[test]
#[expect(clippy::print_stderr, reason = "a person reads how it went")]
fn the_promises_hold_for_a_crash_at_every_commit() {
    let (all, began) = (variable::<u8>("CORTEX_SIM_FAULTS").is_some(), Instant::now());
    let plans = crashes::plans(if all { &FAULTS } else { &CRASHES }, all);
    assert!(plans.len() > 100, "the history has {} commits", plans.len() / CRASHES.len());
    let seen = run_all(&|nth| plans.get(usize::try_from(nth).unwrap()).cloned(), 0);
    told(seen.failure);
    eprintln!("{} crashes: {:?}", plans.len(), began.elapsed());
}

/// Each promise has defects that break it, and each of them is found.
#[test]
#[expect(clippy::print_stderr, reason = "a person reads what was found")]
fn every_planted_defect_is_found() {
    let mut missed = Vec::new();
    for (defect, found) in DEFECTS.iter().zip(search(DEFECTS, DEFECT_SEEDS)) {
        match found {
            Some((plan, run)) => {
                let found = run.broken.iter().find(|broken| broken.promise == defect.promise);
                eprintln!("{}: seed {}, {}", defect.name, plan.seed, found.unwrap());
            }
            None => missed.push(defect.name),
        }
    }
    assert!(missed.is_empty(), "no seed below {DEFECT_SEEDS} finds that {missed:?}");
}

/// A failing run is made small: what does not matter is left out.
#[test]
fn a_failure_shrinks_to_what_matters() {
    let defect = DEFECTS.iter().find(|defect| defect.name.starts_with("a cancelled task")).unwrap();
    let (plan, run) = first_broken((0..DEFECT_SEEDS).map(Plan::of), defect).unwrap();
    let failure = Failure::shrunk(&plan, Some(defect), run.broken);
    let kept = failure.plan.kept();
    assert!(kept.len() <= 6, "{failure}");
    let again = plan.keep(&parse_ranges(&ranges(&kept)));
    assert_eq!(sim::run::run(&again, Some(defect)).broken, failure.broken);
}

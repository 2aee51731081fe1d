//! The simulation of cortex-lib for longer than a test may take.
//!
//! ```text
//! cargo run --release -p cortex-benches --bin simulate -- --seeds 100000 [--from 0]
//! cargo run --release -p cortex-benches --bin simulate -- --seed 17 [--keep 0,3,17-19]
//! cargo run --release -p cortex-benches --bin simulate -- --crashes
//! cargo run --release -p cortex-benches --bin simulate -- --faults
//! cargo run --release -p cortex-benches --bin simulate -- --defects
//! ```
//!
//! It ends with exit code 1 when a promise is broken, and prints what repeats it.
#![expect(clippy::print_stdout, reason = "what it found is the product")]
#![expect(clippy::unwrap_used, clippy::unreachable, reason = "a simulation may stop")]

#[path = "../../../cortex-lib/tests/simulation/sim/mod.rs"]
mod sim;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use sim::crashes::{self, CRASHES, FAULTS};
use sim::defects::DEFECTS;
use sim::many::{Seen, run_all, search};
use sim::plan::Plan;
use sim::shrink::repeat;

const USE: &str =
    "Use --seeds N [--from N], --seed N [--keep N,N-N], --crashes, --faults or --defects.";

/// What to run.
enum Asked {
    Seeds {
        from: u64,
        count: u64,
    },
    Seed {
        seed: u64,
        keep: Option<String>,
    },
    /// A crash at every commit of a history, and another one in the start after it.
    Crashes,
    /// A fault of the disk or the power at every commit of a history.
    Faults,
    /// Whether every planted defect is found.
    Defects,
}

fn main() -> Result<ExitCode> {
    let began = Instant::now();
    let kept = match asked()? {
        Asked::Seeds { from, count } => {
            let seen = run_all(&|nth| (nth < count).then(|| Plan::of(from + nth)), 100);
            for ((command, answer), times) in &seen.met {
                println!("{times:>9} {command} {answer}");
            }
            told(&format!("seeds {from} to {}", from + count - 1), seen)
        }
        Asked::Seed { seed, keep } => {
            let failure = repeat(seed, keep.as_deref(), |line| println!("{line}"));
            if let Some(failure) = &failure {
                println!("{failure}");
            }
            failure.is_none()
        }
        Asked::Crashes => every(&crashes::plans(&CRASHES, true)),
        Asked::Faults => every(&crashes::plans(&FAULTS, false)),
        Asked::Defects => {
            let found = search(DEFECTS, 1000);
            for (defect, found) in DEFECTS.iter().zip(&found) {
                match found {
                    Some((plan, _)) => println!("{}: found by seed {}", defect.name, plan.seed),
                    None => println!("{}: NOT FOUND", defect.name),
                }
            }
            found.iter().all(Option::is_some)
        }
    };
    println!("took {:.1?}", began.elapsed());
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn every(plans: &[Plan]) -> bool {
    let seen = run_all(&|nth| plans.get(usize::try_from(nth).unwrap()).cloned(), 0);
    told("one history with one fault", seen)
}

/// Prints what was seen. Returns whether every promise was kept.
fn told(what: &str, seen: Seen) -> bool {
    let Seen { runs, lives, commits, failure, .. } = seen;
    println!("{what}: {runs} runs, {lives} lives, {commits} commits");
    if let Some(failure) = failure {
        println!("{failure}");
        return false;
    }
    println!("every promise was kept");
    true
}

fn asked() -> Result<Asked> {
    let mut arguments = std::env::args().skip(1);
    let (mut from, mut count, mut seed, mut keep) = (0, None, None, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        let mut number = || -> Result<u64> {
            let text = value()?;
            text.parse().with_context(|| format!("{text} is not a number"))
        };
        match argument.as_str() {
            "--seeds" => count = Some(number()?),
            "--from" => from = number()?,
            "--seed" => seed = Some(number()?),
            "--keep" => keep = Some(value()?),
            "--crashes" => return Ok(Asked::Crashes),
            "--faults" => return Ok(Asked::Faults),
            "--defects" => return Ok(Asked::Defects),
            other => bail!("what is {other}? {USE}"),
        }
    }
    match (seed, count) {
        (Some(seed), _) => Ok(Asked::Seed { seed, keep }),
        (None, Some(count)) => Ok(Asked::Seeds { from, count }),
        (None, None) => bail!(USE),
    }
}

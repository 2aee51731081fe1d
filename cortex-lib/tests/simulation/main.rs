//! The whole core from one seed: several lives on one disk, callers that race, agents that answer late, twice,
//! never or garbage, a disk that fills and power that goes. What must hold is in `promises.rs`.
//!
//! - 200 seeds, each run twice with identical logs, are part of the test command.
//! - `CORTEX_SIM_SEED=17 cargo test -p cortex-lib --test simulation` repeats one seed and prints its log.
//! - `CORTEX_SIM_SEEDS=10000 cargo test -p cortex-lib --test simulation --release` runs as many, once each.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::disallowed_methods, reason = "it reads its variables and lets virtual time pass")]

mod callers;
mod dice;
mod lives;
mod promises;
mod scripts;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lives::Run;

/// Seeds of the normal test command.
const SEEDS: u64 = 200;

/// Threads that share the seeds: each run has one of its own, so they do not disturb each other.
const THREADS: u64 = 2;

/// A seed that takes longer in real time hangs: its virtual time stands still.
const HANG: Duration = Duration::from_mins(1);

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Runs a seed and stops with what a person needs to repeat it.
fn run(seed: u64) -> Run {
    let run = lives::run(seed);
    assert!(
        run.broken.is_empty(),
        "seed {seed} breaks:\n{:#?}\nRepeat it: CORTEX_SIM_SEED={seed} cargo test -p cortex-lib --test simulation",
        run.broken
    );
    run
}

/// Runs every `THREADS`-th seed from `first`.
fn share(first: u64, end: u64, times: u32, now: &AtomicU64) -> (u64, usize) {
    let (mut lives, mut logged) = (0, 0);
    for seed in (first..end).step_by(usize::try_from(THREADS).unwrap()) {
        now.store(seed, Ordering::Relaxed);
        let one = run(seed);
        for _ in 1..times {
            let again = run(seed);
            let mut pairs = one.log.iter().zip(&again.log);
            let differs = pairs.find(|(one, again)| one != again);
            assert_eq!(differs, None, "seed {seed} differs from itself");
            assert_eq!(one.log.len(), again.log.len(), "seed {seed} differs from itself");
        }
        (lives, logged) = (lives + one.lives, logged + one.log.len());
    }
    now.store(u64::MAX, Ordering::Relaxed);
    (lives, logged)
}

#[test]
#[expect(clippy::print_stderr, reason = "a person reads how it went")]
fn the_promises_hold_for_every_seed() {
    if let Some(seed) = variable("CORTEX_SIM_SEED") {
        let run = lives::run(seed);
        run.log.iter().for_each(|line| eprintln!("{line}"));
        assert!(run.broken.is_empty(), "seed {seed} breaks:\n{:#?}", run.broken);
        return;
    }
    let (seeds, times) = variable("CORTEX_SIM_SEEDS").map_or((SEEDS, 2), |seeds| (seeds, 1));
    let began = std::time::Instant::now();
    let (mut lives, mut logged) = (0, 0);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS).map(|_| AtomicU64::new(u64::MAX)).collect();
        let running: &'static [AtomicU64] = Box::leak(running.into_boxed_slice());
        let threads: Vec<_> = (0..THREADS)
            .zip(running)
            .map(|(first, now)| scope.spawn(move || share(first, seeds, times, now)))
            .collect();
        std::thread::spawn(|| running.iter().for_each(watch));
        for thread in threads {
            let more = thread.join().unwrap_or_else(|why| std::panic::resume_unwind(why));
            (lives, logged) = (lives + more.0, logged + more.1);
        }
    });
    let took = began.elapsed();
    eprintln!("{seeds} seeds x {times}: {lives} lives, {logged} lines of log, {took:?}");
    assert!(lives > seeds, "no run had a second life");
}

/// Ends the test when a seed hangs.
#[expect(clippy::print_stderr, reason = "a person reads which seed it was")]
fn watch(now: &'static AtomicU64) {
    std::thread::spawn(move || {
        let (mut seed, mut since) = (u64::MAX, std::time::Instant::now());
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let current = now.load(Ordering::Relaxed);
            if current != seed || current == u64::MAX {
                (seed, since) = (current, std::time::Instant::now());
            } else if since.elapsed() > HANG {
                eprintln!(
                    "seed {seed} hangs. Repeat it: CORTEX_SIM_SEED={seed} cargo test -p cortex-lib --test simulation"
                );
                std::process::abort();
            }
        }
    });
}

//! Many seeds on several threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use super::defects::Defect;
use super::plan::Plan;
use super::run::{Run, run};
use super::shrink::Failure;

/// A run that takes longer in real time hangs: its virtual time stands still.
const HANG: Duration = Duration::from_mins(1);

/// What came of many runs.
#[derive(Default)]
pub struct Seen {
    pub runs: u64,
    pub lives: u64,
    pub commits: u64,
    /// Every command with every answer it had.
    pub met: BTreeMap<(&'static str, &'static str), u64>,
    /// The first run that broke a promise or differed from itself.
    pub failure: Option<String>,
}

impl Seen {
    fn add(&mut self, run: Run) {
        self.runs += 1;
        self.lives += run.lives;
        self.commits += run.commits.iter().sum::<u64>();
        for (what, times) in run.met {
            *self.met.entry(what).or_default() += times;
        }
    }

    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.lives += other.lives;
        self.commits += other.commits;
        for (what, times) in other.met {
            *self.met.entry(what).or_default() += times;
        }
        self.failure = self.failure.take().or(other.failure);
    }
}

/// What threads share: each run has one of its own, so they do not disturb each other.
struct Share<'a> {
    plans: &'a (dyn Fn(u64) -> Option<Plan> + Sync),
    next: AtomicU64,
    stop: AtomicBool,
    /// Every so many runs, one is run again and must be the same.
    again_every: u64,
}

/// Runs `plans(0)`, `plans(1)` and so on until there is none, or one breaks a promise.
pub fn run_all(plans: &(dyn Fn(u64) -> Option<Plan> + Sync), again_every: u64) -> Seen {
    let threads = available_parallelism().map_or(2, usize::from);
    let share = Share { plans, next: AtomicU64::new(0), stop: AtomicBool::new(false), again_every };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| share.work())).collect();
        let mut seen = Seen::default();
        for thread in running {
            seen.merge(thread.join().unwrap_or_else(|why| std::panic::resume_unwind(why)));
        }
        seen
    })
}

impl Share<'_> {
    fn work(&self) -> Seen {
        let mut seen = Seen::default();
        while !self.stop.load(Ordering::Relaxed) {
            let nth = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(plan) = (self.plans)(nth) else { break };
            let one = guarded(&plan);
            seen.failure = if one.broken.is_empty() {
                let twice = self.again_every > 0 && nth.is_multiple_of(self.again_every);
                twice.then(|| differs(&plan, &one)).flatten()
            } else {
                Some(Failure::shrunk(&plan, None, one.broken.clone()).to_string())
            };
            if seen.failure.is_some() {
                self.stop.store(true, Ordering::Relaxed);
            }
            seen.add(one);
        }
        seen
    }
}

/// A run must be the same every time.
fn differs(plan: &Plan, one: &Run) -> Option<String> {
    let again = guarded(plan);
    let mut pairs = one.log.iter().zip(&again.log);
    let first = pairs.find(|(one, again)| one != again);
    (first.is_some() || one.log.len() != again.log.len())
        .then(|| format!("seed {} differs from itself: {first:?}", plan.seed))
}

/// Runs a plan; ends the program when it hangs, because nothing else could.
#[expect(clippy::print_stderr, reason = "a person reads which seed it was")]
fn guarded(plan: &Plan) -> Run {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let guard = scope.spawn(|| {
            let began = Instant::now();
            while !done.load(Ordering::Relaxed) {
                std::thread::park_timeout(HANG);
                if began.elapsed() >= HANG && !done.load(Ordering::Relaxed) {
                    eprintln!("a run hangs: CORTEX_SIM_SEED={}\n{plan}", plan.seed);
                    std::process::abort();
                }
            }
        });
        let run = run(plan, None);
        done.store(true, Ordering::Relaxed);
        guard.thread().unpark();
        run
    })
}

/// Whether each of many defects is found, several at once. Answers in the order of the defects.
pub fn search(defects: &'static [Defect], seeds: u64) -> Vec<Option<(Plan, Run)>> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut found = Vec::new();
        while let nth = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap()
            && let Some(defect) = defects.get(nth)
        {
            found.push((nth, first_broken((0..seeds).map(Plan::of), defect)));
        }
        found
    };
    let threads = available_parallelism().map_or(2, usize::from);
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    found.sort_by_key(|(nth, _)| *nth);
    found.into_iter().map(|(_, found)| found).collect()
}

/// Whether some plan breaks a promise with a planted defect. Returns the first that does.
pub fn first_broken(plans: impl Iterator<Item = Plan>, defect: &Defect) -> Option<(Plan, Run)> {
    plans.map(|plan| (run(&plan, Some(defect)), plan)).find_map(|(run, plan)| {
        run.broken.iter().any(|broken| broken.promise == defect.promise).then_some((plan, run))
    })
}

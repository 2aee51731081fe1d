//! The fewest choices of a run that still break a promise, found by leaving out what is not needed.

use super::defects::Defect;
use super::plan::{Plan, parse_ranges, ranges};
use super::promises::{Broken, Promise};
use super::run::run;

/// Runs that a search may take.
const RUNS_MAX: u32 = 400;

/// A run that breaks a promise, and what a person needs to repeat it.
pub struct Failure {
    pub plan: Plan,
    pub broken: Vec<Broken>,
    /// How many choices the run had before.
    of: usize,
}

impl Failure {
    /// Shrinks a run that breaks a promise (delta debugging; Zeller and Hildebrandt 2002).
    pub fn shrunk(plan: &Plan, defect: Option<&Defect>, broken: Vec<Broken>) -> Self {
        let of = plan.kept().len();
        let Some(promise) = broken.first().map(|broken| broken.promise) else {
            return Self { plan: plan.clone(), broken, of };
        };
        let mut search = Search { defect, promise, runs: 0, best: (plan.clone(), broken) };
        let mut chunk = of.div_ceil(2);
        while chunk > 0 && search.runs < RUNS_MAX {
            if !search.leave_out(chunk) || chunk > 1 {
                chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
            }
        }
        let (plan, broken) = search.best;
        Self { plan, broken, of }
    }

    /// The command that repeats it.
    pub fn command(&self) -> String {
        let (seed, kept) = (self.plan.seed, ranges(&self.plan.kept()));
        format!(
            "CORTEX_SIM_SEED={seed} CORTEX_SIM_KEEP={kept} cargo test -p cortex-lib --test simulation -- --nocapture"
        )
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seed, kept) = (self.plan.seed, self.plan.kept().len());
        writeln!(f, "seed {seed} breaks a promise, also with {kept} of its {} choices:", self.of)?;
        write!(f, "{}", self.plan)?;
        for broken in &self.broken {
            writeln!(f, "{broken}")?;
        }
        writeln!(f, "Repeat it:\n  {}", self.command())?;
        write!(f, "The whole seed: CORTEX_SIM_SEED={seed}")
    }
}

/// Repeats a seed, or those of its choices that somebody kept, and tells its log.
pub fn repeat(seed: u64, kept: Option<&str>, tell: impl Fn(&str)) -> Option<Failure> {
    let plan = Plan::of(seed);
    let plan = kept.map_or_else(|| plan.clone(), |kept| plan.keep(&parse_ranges(kept)));
    let run = run(&plan, None);
    tell(&plan.to_string());
    for line in &run.log {
        tell(line);
    }
    (!run.broken.is_empty()).then(|| Failure::shrunk(&plan, None, run.broken))
}

struct Search<'a> {
    defect: Option<&'a Defect>,
    promise: Promise,
    runs: u32,
    best: (Plan, Vec<Broken>),
}

impl Search<'_> {
    /// Leaves out one part after the other, `chunk` choices each. Returns whether any could be left out.
    fn leave_out(&mut self, chunk: usize) -> bool {
        let mut shrunk = false;
        // From the end: what comes later depends on what comes before.
        let mut end = self.best.0.kept().len();
        while end > 0 && self.runs < RUNS_MAX {
            let begin = end.saturating_sub(chunk);
            let kept = self.best.0.kept();
            let without = kept.iter().take(begin).chain(kept.iter().skip(end));
            let plan = self.best.0.keep(&without.copied().collect::<Vec<_>>());
            self.runs += 1;
            let broken = run(&plan, self.defect).broken;
            if broken.iter().any(|broken| broken.promise == self.promise) {
                self.best = (plan, broken);
                shrunk = true;
            }
            end = begin;
        }
        shrunk
    }
}

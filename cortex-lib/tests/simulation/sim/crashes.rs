//! One small history, with a crash at every commit: before it, after it, and after it was answered but before
//! anything that it owes is begun.

use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::port::Verdict;
use cortex_lib::store::Fate;

use super::acts;
use super::plan::{Choice, Ending, Event, Plan, Quirk, Setting};
use super::run::run;

/// The ways in which power can go.
pub const CRASHES: [Fate; 3] = [Fate::LoseBefore, Fate::LoseAfter, Fate::LoseAnswered];
/// Those, and the ways in which a disk can fail.
pub const FAULTS: [Fate; 7] = [
    Fate::LoseBefore,
    Fate::LoseAfter,
    Fate::LoseAnswered,
    Fate::DiskFull,
    Fate::Locked,
    Fate::FailCommit,
    Fate::FailButKeep,
];

/// The seed of the arguments in the history: one with which most of its calls succeed.
const SEED: u64 = 1;

/// A life in which most of what there is happens once: objectives, retries, verification, a direct turn, an
/// interrupt, a stop, a death.
fn history() -> Vec<Choice> {
    let acts = [
        "start_agent",
        "create_objective",
        "start_agent",
        "create_objective",
        "send_message",
        "interrupt_agent",
        "answer_approvals",
        "cancel_task",
        "retry_task",
        "approve_task",
        "pause_agent",
        "resume_agent",
        "create_objective",
        "stop_agent",
        "update_agent",
        "start_agent",
        "restart_agent",
        "retry_task",
        "remove_agent",
        "answer_approvals",
    ];
    let steps = acts.iter().zip(1..).map(|(name, nth)| Choice::Step {
        life: 1,
        caller: 1,
        after: Duration::from_secs(2),
        act: acts::named(name),
        dice: SEED + nth,
    });
    let more = [
        Choice::Setting(1, Setting::CloseTakes(Duration::from_secs(2))),
        Choice::Setting(1, Setting::AskPeople),
        Choice::Turn(1, 0, Quirk::Ends(Ending::Failed(Cause::Transient))),
        Choice::Turn(1, 1, Quirk::Takes(Duration::from_secs(20))),
        Choice::Turn(1, 2, Quirk::Asks),
        Choice::Turn(1, 3, Quirk::Ends(Ending::Crash)),
        Choice::Verdict(1, 0, Verdict::Fail(Duration::from_secs(3), "it does not hold".into())),
        Choice::Verdict(1, 1, Verdict::Unavailable(Duration::from_secs(3), "not there".into())),
        Choice::Event(1, Duration::from_secs(25), Event::SessionDies),
    ];
    [Choice::Life(1)].into_iter().chain(steps).chain(more).collect()
}

/// The history, with one fault in each plan: every one of `fates` at every commit of its first life. `twice`:
/// also a second crash at each of the first commits of the life after it.
pub fn plans(fates: &[Fate], twice: bool) -> Vec<Plan> {
    let whole = run(&Plan::written(SEED, history()), None);
    assert_eq!(whole.broken, [], "the history breaks a promise without any crash");
    let commits = whole.commits.first().copied().unwrap_or_default();
    let mut plans = Vec::new();
    for fate in fates {
        for commit in 0..commits {
            let crash = [Choice::Fault(1, commit, *fate)];
            plans.push(Plan::written(SEED, history().into_iter().chain(crash.clone())));
            if twice {
                // What a start settles takes a few commits, whatever came before.
                plans.extend((0..6).map(|second| {
                    let again = [Choice::Life(2), Choice::Fault(2, second, Fate::LoseAfter)];
                    Plan::written(SEED, history().into_iter().chain(crash.clone()).chain(again))
                }));
            }
        }
    }
    plans
}

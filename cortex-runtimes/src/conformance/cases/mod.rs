//! The cases, by what they are about.

mod confinement;
mod endings;
mod failures;
mod interrupts;
mod processes;
mod resuming;
mod starts;
mod terminals;
mod texts;
mod tools;
mod turns;

use super::case::Case;

/// Every case, in the order of a session's life.
pub(super) fn all() -> Vec<Case> {
    [
        starts::CASES,
        turns::CASES,
        texts::CASES,
        interrupts::CASES,
        tools::CASES,
        failures::CASES,
        confinement::CASES,
        processes::CASES,
        endings::CASES,
        resuming::CASES,
        terminals::CASES,
    ]
    .concat()
}

/// The acts of an agent that only says something.
fn say(text: &str) -> [super::Act; 1] {
    [super::Act::Say(text.to_owned())]
}

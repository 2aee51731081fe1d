//! What the core does, seen through its public doors: real rules, real store, scripted agents, no real time.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod agents;
mod bench;
mod cancelling;
mod changed_files;
mod codes;
mod edges;
mod events;
mod integrating;
mod isolated_lives;
mod isolation;
mod lives;
mod once;
mod refusals;
mod tasks;
mod turns;
mod verifying;
mod waiting;
mod wrong_moments;

//! What the core does, seen through its public doors: real rules, real store, scripted agents, no real time.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod bench;
mod tasks;

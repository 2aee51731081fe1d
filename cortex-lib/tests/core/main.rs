//! What the core does, seen through its public doors: real rules, real store, scripted agents, no real time.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod access;
mod accidents;
mod agent_table;
mod agents;
mod bench;
mod cancelling;
mod codes;
mod data_dirs;
mod edges;
mod events;
mod failures;
mod fencing;
mod inbox;
mod lists;
mod lives;
mod message_lives;
mod messages;
mod once;
mod pausing;
mod planning;
mod projects;
mod proposal_races;
mod proposals;
mod quotas;
mod reading;
mod reassigning;
mod refusals;
mod secrets;
mod stalls;
mod task_table;
mod tasks;
mod turns;
mod verifying;
mod waiting;
mod wrong_moments;

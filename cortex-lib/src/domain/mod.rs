//! Rules: pure, total functions over state. No input or output, no clock, no ids made up inside.
//!
//! A lifecycle is a [`Machine`]: it says what an input does to a state, and what the world owes a row
//! while it is in a state. Whatever has to happen outside is such a duty, read from stored state; so
//! a crash forgets what was done, never what is owed.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod agent;
pub mod approval;
pub mod attempt;
mod board;
pub mod capability;
mod claim;
pub mod connection;
pub mod event;
pub mod graph;
pub mod hold;
pub mod instruction;
#[cfg(test)]
mod lifecycles;
pub mod machine;
pub mod message;
pub mod objective;
pub mod plan;
pub mod planned;
pub mod planning;
pub mod proposal;
pub mod proposed;
pub mod retry;
pub mod schedule;
pub mod steer;
pub mod task;
pub mod terminal;
pub mod text;
pub mod turn;
pub mod usage;
pub mod verification;
pub mod waiting;
pub mod workspace;

pub use machine::{Machine, Refusal, Step};

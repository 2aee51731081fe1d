//! The only place with tasks, timers and processes: it makes the world do what rows owe.
//!
//! The engine is one loop. It wakes when the store has committed, when something happened in a session or
//! when something is due, and then looks at the rows: what the world is owed and nobody does yet is begun as
//! a job; what a job brought is written as an input; what may start is assigned. It remembers only which jobs
//! run and which sessions live. So a start after a crash is no special case: with nothing remembered,
//! everything that is owed is begun again, after `recover` has settled what
//! died with the earlier life.

mod approvals;
mod core;
mod git;
mod health;
mod host;
mod incoming;
mod jobs;
mod live;
mod opening;
mod output;
mod plan_turn;
mod rows;
mod run;
mod sending;
mod sessions;
mod shutdown;
mod steering;
mod supervisor;
mod terminals;
mod verify;
mod wake;
mod workspaces;

pub use self::core::{Core, CoreState};
pub use git::GitProgram;
pub use health::KnownHealth;
pub use output::{Output, OutputFeed};
pub use verify::ProcessVerifier;
pub use wake::Stop;

pub(crate) use self::core::Parts;
pub(crate) use host::SystemHost;
#[cfg(feature = "mcp")]
pub(crate) use supervisor::Supervisor;

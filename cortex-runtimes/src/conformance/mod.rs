//! The conformance suite for drivers: one set of behaviours, run over any driver. It is what the contract of
//! [`cortex_lib::port`] says, as cases.
//!
//! A driver's author implements [`Subject`] and [`Stage`]: a runtime, a folder, and an agent that does what a
//! [`Scenario`] asks for. [`run`] answers with a [`Report`]. A case that takes a capability which the driver does not claim is
//! not offered; one that takes a capability which it claims must pass, and a claim that no case shows is a failure.
//!
//! On Linux it is also seen in `/proc` that nothing is left behind. For that the first line of the test's `main` calls
//! [`cortex_lib::process::init`], as every program that embeds drivers does.

mod case;
mod cases;
mod endpoint;
mod live;
mod place;
mod report;
mod scenario;
mod subject;
mod suite;
mod world;

pub use case::{Case, Verdict};
pub use report::Report;
pub use scenario::{Act, Attempt, Fault, Prompt, Reply, Scenario, marked_word};
pub use subject::{Ability, Heard, Stage, Subject};
pub use suite::{all, begin, run, run_case};
pub use world::processes_with;

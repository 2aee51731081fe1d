//! The program as people and scripts use it: the real binary, each test in a home of its own.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]

mod approvals;
mod attach;
mod bridge;
mod client_config;
mod configuration;
mod connections;
mod doctor;
mod home;
mod message;
mod objective;
mod official_clients;
mod one_shot;
mod output;
#[path = "../../../cortex-lib/tests/official/programs.rs"]
mod programs;
#[path = "../../../cortex-lib/tests/official/sdk.rs"]
mod sdk;
mod serving;
mod task;
#[path = "../shared/wait.rs"]
mod wait;

fn command(program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    std::process::Command::new(program)
}

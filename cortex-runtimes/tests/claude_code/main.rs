//! The driver against the pinned Claude Code and a scripted model: what the core may rely on.
//!
//! Linux only: there it can be seen in `/proc` that nothing is left behind.
#![cfg_attr(target_os = "linux", expect(clippy::unwrap_used, reason = "a test may stop"))]
#![cfg_attr(
    target_os = "linux",
    expect(clippy::panic, reason = "a test may stop, with what it saw")
)]

#[cfg(target_os = "linux")]
#[path = "../shared/dead_endpoints.rs"]
mod dead_endpoints;
#[cfg(target_os = "linux")]
#[path = "../shared/endpoint.rs"]
mod endpoint;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
#[path = "../shared/live.rs"]
mod live;
#[cfg(target_os = "linux")]
mod orchestrator;
#[cfg(target_os = "linux")]
mod ownership;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod planner;
#[cfg(target_os = "linux")]
mod pretend;
#[cfg(target_os = "linux")]
#[path = "../shared/processes.rs"]
mod processes;
#[cfg(target_os = "linux")]
mod questions;
#[cfg(target_os = "linux")]
mod sessions;
#[cfg(target_os = "linux")]
#[path = "../shared/spec.rs"]
mod spec;
#[cfg(target_os = "linux")]
mod steering;
#[cfg(target_os = "linux")]
mod streams;
mod terminal;
#[cfg(target_os = "linux")]
#[path = "../shared/terminals.rs"]
mod terminals;
#[cfg(target_os = "linux")]
mod tools;
#[cfg(target_os = "linux")]
mod trust;
#[cfg(target_os = "linux")]
mod turns;

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use cortex_scripted::{cli, offline, suite};

    cortex_lib::process::init();
    if cli::require(cli::claude_code()).is_none() {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(
        &[
            sessions::all(),
            turns::all(),
            tools::all(),
            questions::all(),
            trust::all(),
            orchestrator::all(),
            ownership::all(),
            steering::all(),
            streams::all(),
            limits::all(),
            planner::all(),
            terminal::all(),
        ]
        .concat(),
    )
}

//! The driver against the pinned OpenCode and a scripted model: what the core may rely on.
//!
//! Linux only: there it can be seen in `/proc` that nothing is left behind.
#![cfg_attr(target_os = "linux", expect(clippy::unwrap_used, reason = "a test may stop"))]
#![cfg_attr(
    target_os = "linux",
    expect(clippy::panic, reason = "a test may stop, with what it saw")
)]

#[cfg(target_os = "linux")]
mod between;
#[cfg(target_os = "linux")]
#[path = "../shared/endpoint.rs"]
mod endpoint;
#[cfg(target_os = "linux")]
mod failures;
#[cfg(target_os = "linux")]
#[path = "../shared/live.rs"]
mod live;
#[cfg(target_os = "linux")]
mod lossy;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
#[path = "../shared/processes.rs"]
mod processes;
#[cfg(target_os = "linux")]
mod rights;
#[cfg(target_os = "linux")]
mod servers;
#[cfg(target_os = "linux")]
#[path = "../shared/spec.rs"]
mod spec;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
#[path = "../shared/terminals.rs"]
mod terminals;
#[cfg(target_os = "linux")]
mod tools;
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
    if cli::require(cli::opencode()).is_none() {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    let cases = [
        turns::all(),
        tools::all(),
        rights::all(),
        failures::all(),
        servers::all(),
        lossy::all(),
        terminal::all(),
    ]
    .concat();
    if std::env::args().any(|argument| argument == "--list") {
        return suite::run(&cases);
    }
    // A server takes seconds to start and half a gigabyte, so most cases share one, with all their scripts.
    let shared = place::Shared::start();
    let ended = suite::run(&cases);
    shared.end();
    ended
}

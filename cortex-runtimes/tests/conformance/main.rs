//! The conformance suite over every driver of this crate, and over the scripted runtime that stands for them in the core's
//! tests. The table of results is `docs/runtimes.md`.
//!
//! With `CORTEX_LIVE_TESTS=1` the same suite runs over the CLIs of this machine with the logins of this person.
//!
//! Linux only: there it can be seen in `/proc` that nothing is left behind.
#![cfg_attr(target_os = "linux", expect(clippy::unwrap_used, reason = "a test may stop"))]
#![cfg_attr(
    target_os = "linux",
    expect(clippy::panic, reason = "a test may stop, with what it saw")
)]

#[cfg(target_os = "linux")]
mod claude_code;
#[cfg(target_os = "linux")]
mod codex;
#[cfg(target_os = "linux")]
mod command;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod model;
#[cfg(target_os = "linux")]
mod mutants;
#[cfg(target_os = "linux")]
mod opencode;
#[cfg(target_os = "linux")]
mod page;
#[cfg(target_os = "linux")]
mod results;
#[cfg(target_os = "linux")]
mod scripted;
#[cfg(target_os = "linux")]
#[path = "../shared/spec.rs"]
mod spec;

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use std::sync::Arc;

    use cortex_scripted::{cli, offline, suite};

    cortex_lib::process::init();
    if live::is_asked() {
        return suite::run(&live::results().tests());
    }
    let claude_code = cli::require(cli::claude_code());
    let codex = cli::require(cli::codex());
    let opencode = cli::require(cli::opencode());
    if let Some(ended) = offline::enter() {
        return ended;
    }
    let mut results = results::Results::default();
    results.subject(Arc::new(scripted::Scripted));
    results.subject(Arc::new(command::Command));
    match claude_code {
        Some(program) => results.subject(Arc::new(claude_code::ClaudeCodeSubject::new(program))),
        None => results.lack_one(),
    }
    match codex {
        Some(program) => results.subject(Arc::new(codex::CodexSubject::new(program))),
        None => results.lack_one(),
    }
    match opencode {
        Some(program) => results.subject(Arc::new(opencode::OpenCodeSubject::new(program))),
        None => results.lack_one(),
    }
    suite::run(&[mutants::tests(), results.tests()].concat())
}

/// What whoever runs this has set.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the one who runs the tests says how")]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

/// Makes the folder a repository of git.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "nobody owns what is over at once")]
fn repository(folder: &std::path::Path) -> std::io::Result<()> {
    std::process::Command::new("git").args(["init", "-q"]).arg(folder).status().map(drop)
}

//! The real program is killed and stopped in the middle of an objective on the real CLIs, and goes on.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::panic, reason = "a test may stop, with what it saw")]

mod claude_code;
mod others;
mod place;
mod world;

use std::process::ExitCode;

use cortex_scripted::{cli, offline, suite};

fn main() -> ExitCode {
    let claude_code = cli::require(cli::claude_code());
    let codex = cli::require(cli::codex());
    let opencode = cli::require(cli::opencode());
    if let Some(ended) = offline::enter() {
        return ended;
    }
    let cases = [
        claude_code.map(|_| claude_code::all()),
        codex.map(|_| others::codex()),
        opencode.map(|_| others::opencode()),
    ];
    suite::run(&cases.into_iter().flatten().flatten().collect::<Vec<_>>())
}

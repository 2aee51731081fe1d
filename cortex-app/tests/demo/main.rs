//! `cortex demo` as a person runs it: the real program on the real CLIs, without a network.
#![cfg_attr(target_os = "linux", expect(clippy::unwrap_used, reason = "a test may stop"))]

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
#[path = "../shared/wait.rs"]
mod wait;

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    cases::main()
}

//! B5: what a turn costs through Cortex beside the bare CLI, in time and in memory, on a scripted model.
//!
//! ```text
//! cargo run --release -p cortex-benches --bin turns -- [--cli claude-code]… [--rounds 60] [--only latency|core|memory|parse]
//!     [--disk FOLDER] [--peer PYTHON]
//! ```
//!
//! The bare CLI is driven by the least loop that can do it, with the arguments, the environment and the messages that
//! the driver was seen to use. Bare, driver and core have a process of the CLI each and take turns one after the other, so that
//! a machine whose mood changes is in the same mood for all of them; compared is within a round. `--disk` is where the
//! core writes (default: the system's temporary folder); the same core also runs in memory, which shows what the commits wait
//! for. `--peer` is a Python with the package `claude-agent-sdk`, whose client takes part as well.
#![expect(clippy::print_stdout, reason = "the table is the product")]
#![cfg_attr(
    target_os = "linux",
    expect(clippy::indexing_slicing, reason = "a field that a JSON value does not have is null")
)]

#[cfg(target_os = "linux")]
mod alone;
#[cfg(target_os = "linux")]
mod bare;
#[cfg(target_os = "linux")]
mod cli;
#[cfg(target_os = "linux")]
mod cortex;
#[cfg(target_os = "linux")]
mod flood;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod opencode;
#[cfg(target_os = "linux")]
mod peer;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod seen;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<std::process::ExitCode> {
    run::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("This looks at processes as Linux shows them, so it runs there alone.");
}

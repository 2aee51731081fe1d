//! B3: what a tool call over MCP costs the server, beside bare hyper with the same bytes and beside the official SDKs.
//!
//! ```text
//! cargo run --release -p cortex-benches --bin requests -- [--rounds 5] [--python PYTHON] [--node FOLDER]
//! ```
//!
//! Each server is a process of its own and answers the same two calls, `list_tasks` and `cancel_task`, over
//! connections that stay open. The servers take turns; what counts is the processor time that the server's process
//! takes for a request. `--python` is a Python with the package `mcp`, `--node` a folder whose `node_modules` has
//! `@modelcontextprotocol/sdk`; `cargo test -p cortex-lib --test official` fetches both into `target/clients`.
#![expect(clippy::print_stdout, reason = "the table is the product")]

#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<std::process::ExitCode> {
    run::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("This reads processor times as Linux shows them, so it runs there alone.");
}

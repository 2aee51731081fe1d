//! How fast a driver reads: a program that speaks Claude Code's protocol prints 20 MB in one turn.
//!
//! The real CLI would be the slower one. What is measured is everything between the pipe and the core: the reading of
//! lines, their parsing, what they mean and the events; beside it the reading of the same lines alone.

use std::io::{BufRead as _, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use cortex_lib::process::Lines;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::bare::Seat as _;
use crate::cli::Cli;
use crate::cortex::ByDriver;
use crate::place::Place;

/// Names what is printed, and so makes this program the CLI.
const FLOOD: &str = "TURNS_FLOOD";
/// How much is printed.
const BYTES: usize = 20 * 1024 * 1024;
/// What the driver is to read in a second.
const GOAL_MB: f64 = 500.0;
/// How often it is printed.
const ROUNDS: usize = 9;

/// Whether this process is to be the CLI.
pub(crate) fn is_asked() -> bool {
    std::env::var_os(FLOOD).is_some()
}

/// One line of each sort. What comes in numbers are pieces of text; what comes in bytes are results of tools.
fn line(sort: &str) -> Value {
    match sort {
        "pieces of text" => json!({
            "type": "stream_event", "session_id": "s", "parent_tool_use_id": null, "uuid": "u",
            "event": {
                "type": "content_block_delta", "index": 0,
                "delta": { "type": "text_delta", "text": "one more piece of text, as models stream it" },
            },
        }),
        "results of tools" => json!({
            "type": "user", "session_id": "s", "parent_tool_use_id": null, "uuid": "u",
            "message": { "role": "user", "content": [{
                "type": "tool_result", "tool_use_id": "t", "content": "a line of a file\n".repeat(512),
            }] },
            "tool_use_result": { "stdout": "a line of a file\n".repeat(512) },
        }),
        _ => json!({
            "type": "user", "session_id": "s", "parent_tool_use_id": null, "uuid": "u",
            "message": { "role": "user", "content": [{
                "type": "tool_result", "tool_use_id": "t", "content": "x".repeat(BYTES),
            }] },
        }),
    }
}

/// The sorts of lines.
const SORTS: [&str; 3] = ["pieces of text", "results of tools", "one line of 20 MB"];

/// The same line again and again.
fn flood(sort: &str) -> Vec<u8> {
    let line = format!("{}\n", line(sort));
    line.repeat((BYTES / line.len()).max(1)).into_bytes()
}

/// Is the CLI: answers what the driver asks, and floods each turn.
pub(crate) fn play() -> Result<()> {
    let sort = std::env::var(FLOOD)?;
    let flood = flood(&sort);
    let mut out = std::io::stdout().lock();
    // Reading the lines alone: no protocol.
    if std::env::args().nth(1).as_deref() == Some("--alone") {
        writeln!(out)?;
        return Ok(out.write_all(&flood)?);
    }
    for heard in std::io::stdin().lock().lines() {
        let heard: Value = serde_json::from_str(&heard?)?;
        if heard["type"] == "control_request" {
            let answer = match heard["request"]["subtype"].as_str() {
                Some("get_settings") => {
                    json!({ "effective": { "permissions": {} }, "applied": { "model": "m" } })
                }
                _ => json!({}),
            };
            let response = json!({
                "subtype": "success", "request_id": heard["request_id"], "response": answer,
            });
            writeln!(out, "{}", json!({ "type": "control_response", "response": response }))?;
        } else {
            let state = |state: &str| {
                json!({
                    "type": "system", "subtype": "session_state_changed", "state": state,
                })
            };
            writeln!(out, "{}", state("running"))?;
            out.write_all(&flood)?;
            let result = json!({
                "type": "result", "subtype": "success", "is_error": false, "result": "done",
            });
            writeln!(out, "{result}\n{}", state("idle"))?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Measures each sort and prints it.
pub(crate) async fn measure() -> Result<()> {
    println!(
        "\n== claude-code: 20 MB in one turn, MB/s: the driver (goal: {GOAL_MB}), and reading the lines alone"
    );
    let place = Place::new(Cli::ClaudeCode)?;
    for sort in SORTS {
        let mut env = place.env();
        env.insert(FLOOD.to_owned(), sort.to_owned());
        let driver = place.cli.driver(std::env::current_exe()?, env);
        let mut session = ByDriver::open(&place, &*driver).await?;
        let size = flood(sort).len();
        let (mut of_driver, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            of_driver.push(rate(size, session.turn("flood").await?.whole));
            alone.push(rate(size, lines_alone(sort).await?));
        }
        session.close().await;
        let (of_driver, alone) = (median(of_driver), median(alone));
        let met = if of_driver >= GOAL_MB { "met" } else { "MISSED" };
        println!("  {sort:<20} {of_driver:8.0} {met:<7} {alone:8.0}");
    }
    Ok(())
}

/// The same bytes over a pipe, as lines that nobody looks at.
async fn lines_alone(sort: &str) -> Result<Duration> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--alone")
        .env(FLOOD, sort)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = Lines::new(child.stdout.take().context("no output")?);
    // From an empty line on: the start of a program is not what is measured.
    lines.next_line().await?;
    let began = Instant::now();
    while lines.next_line().await?.is_some() {}
    let took = began.elapsed();
    child.wait().await?;
    Ok(took)
}

fn rate(bytes: usize, took: Duration) -> f64 {
    let megabytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / (1024.0 * 1024.0);
    megabytes / took.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

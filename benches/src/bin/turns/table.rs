//! Turns side by side, and what is printed of them.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::bare::{BareClaude, BareCodex, OfCore, Seat, Took};
use crate::cli::{Cli, USE_A_TOOL};
use crate::cortex::{ByDriver, Core};
use crate::opencode::BareOpenCode;
use crate::peer::Peer;
use crate::place::Place;
use crate::run::Asked;
use crate::seen::Seen;

/// What a turn may cost more through Cortex.
const GOAL_MS: f64 = 2.0;
/// Turns before those that count: programs load what they need, and caches fill.
pub(crate) const WARM_UP: usize = 3;
/// A folder whose files are in memory.
pub(crate) const MEMORY: &str = "/dev/shm";

/// Everybody who takes turns, by name.
struct Seats(Vec<(&'static str, Box<dyn Seat>)>);

/// What was measured of one of them.
#[derive(Default)]
struct Measured {
    took: Vec<Took>,
}

/// Runs turns of one CLI and prints the table.
pub(crate) async fn latency(cli: Cli, asked: &Asked) -> Result<()> {
    let place = Place::new(cli)?;
    println!("\n== {} {}: {} rounds", cli.name(), place.version, asked.rounds);
    let driver = place.driver();
    let by_driver = ByDriver::open(&place, &*driver).await?;
    let seen = match by_driver.pid() {
        Some(pid) => Seen::process(pid)?,
        None => anyhow::bail!("the driver names no process"),
    };
    let bare = bare(cli, &place, seen).await?;
    let (disk, memory) = (tempfile::tempdir_in(&asked.disk)?, tempfile::tempdir_in(MEMORY)?);
    let on_disk = Core::open(&place, disk.path()).await?;
    let in_memory = Core::open(&place, memory.path()).await?;
    let mut seats = Seats(vec![
        ("bare", bare),
        ("driver", Box::new(by_driver)),
        ("core, data in memory", Box::new(in_memory.agent("ada").await?)),
        ("core, data on disk", Box::new(on_disk.agent("ada").await?)),
    ]);
    if let (Some(python), Cli::ClaudeCode) = (&asked.peer, cli) {
        seats.0.push(("claude-agent-sdk", Box::new(Peer::start(python, &place).await?)));
    }
    for (what, text) in [("a turn of one answer", "say a word"), ("a turn with a tool", USE_A_TOOL)]
    {
        let (measured, fsync) = seats.run(text, asked.rounds, disk.path()).await?;
        seats.print(what, &measured, &fsync);
    }
    drop(seats);
    on_disk.close().await?;
    in_memory.close().await
}

async fn bare(cli: Cli, place: &Place, seen: Seen) -> Result<Box<dyn Seat>> {
    Ok(match cli {
        Cli::ClaudeCode => Box::new(BareClaude::start(&seen).await?),
        Cli::Codex => Box::new(BareCodex::start(&seen.listen(place).await?).await?),
        Cli::OpenCode => Box::new(BareOpenCode::start(&seen, place).await?),
    })
}

/// The seats in the order of a round: over as many rounds as there are orders, each comes behind each as often.
fn order(round: usize, count: usize) -> Vec<usize> {
    let (mut left, mut rest): (Vec<_>, _) = ((0..count).collect(), round);
    let mut order = Vec::new();
    while !left.is_empty() {
        order.push(left.remove(rest % left.len()));
        rest /= left.len().saturating_add(1);
    }
    order
}

impl Seats {
    /// Everybody in each round, each round in another order: whoever comes behind a CLI that still tidies up is not
    /// always the same.
    async fn run(
        &mut self,
        text: &str,
        rounds: usize,
        disk: &Path,
    ) -> Result<(Vec<Measured>, Vec<Duration>)> {
        let count = self.0.len();
        let mut measured: Vec<_> = self.0.iter().map(|_| Measured::default()).collect();
        let (mut fsyncs, mut file) = (Vec::new(), fs_err::File::create(disk.join("fsync"))?);
        for round in 0..rounds + WARM_UP {
            for at in order(round, count) {
                let (Some((_, seat)), Some(one)) = (self.0.get_mut(at), measured.get_mut(at))
                else {
                    continue;
                };
                let took = seat.turn(text).await?;
                if round >= WARM_UP {
                    one.took.push(took);
                }
            }
            let began = Instant::now();
            file.write_all(&[7; 8192])?;
            file.sync_all()?;
            fsyncs.push(began.elapsed());
        }
        Ok((measured, fsyncs))
    }

    fn print(&self, what: &str, measured: &[Measured], fsyncs: &[Duration]) {
        println!("\n{what}, ms: median (quarter, three quarters, 95 of 100)");
        let Some(bare) = measured.first() else { return };
        for ((name, _), one) in self.0.iter().zip(measured) {
            let whole = Spread::of(one.took.iter().map(|took| took.whole));
            println!("  {name:<22} {whole}");
            if one.took.iter().any(|took| took.result < took.whole) {
                println!(
                    "  {:<22} {}",
                    "  until its result",
                    Spread::of(one.took.iter().map(|took| took.result))
                );
            }
        }
        println!("more than bare in the same round (goal: {GOAL_MS} ms):");
        for ((name, _), one) in self.0.iter().zip(measured).skip(1) {
            let pairs = one.took.iter().zip(&bare.took);
            let more = pairs.map(|(one, bare)| ms(one.whole) - ms(bare.whole));
            let more = Spread::of_ms(more.collect());
            let met = if more.median <= GOAL_MS { "met" } else { "MISSED" };
            println!("  {name:<22} {more}  {met}");
        }
        println!("what a core does by itself:");
        for ((name, _), one) in self.0.iter().zip(measured) {
            let parts: Vec<OfCore> = one.took.iter().filter_map(|took| took.core).collect();
            if parts.is_empty() {
                continue;
            }
            for (part, spread) in [
                ("before the driver", Spread::of(parts.iter().map(|of| of.before))),
                ("answering requests", Spread::of(parts.iter().map(|of| of.answering))),
                ("after the driver", Spread::of(parts.iter().map(|of| of.after))),
                ("in all", Spread::of(parts.iter().map(|of| of.before + of.answering + of.after))),
            ] {
                println!("  {name:<22} {part:<20} {spread}");
            }
        }
        println!("  {:<43} {}", "the disk's own fsync", Spread::of(fsyncs.iter().copied()));
    }
}

/// Where the values lie.
pub(crate) struct Spread {
    median: f64,
    quarter: f64,
    three_quarters: f64,
    most: f64,
}

impl Spread {
    pub(crate) fn of(times: impl Iterator<Item = Duration>) -> Self {
        Self::of_ms(times.map(ms).collect())
    }

    fn of_ms(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |percent: usize| {
            let place = values.len().saturating_sub(1) * percent / 100;
            values.get(place).copied().unwrap_or(f64::NAN)
        };
        Self { median: at(50), quarter: at(25), three_quarters: at(75), most: at(95) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { median, quarter, three_quarters, most } = self;
        write!(f, "{median:7.2} ({quarter:.2}, {three_quarters:.2}, {most:.2})")
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

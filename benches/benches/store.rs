//! What a durable write costs, beside what the disk itself asks for.
//!
//! `cargo bench -p cortex-benches --bench store [-- FOLDER]`. Everything runs on one disk in one go,
//! in turns, so that a change of the disk's mood meets all alike; what counts is the ratios. FOLDER
//! chooses the disk (default: the system's temporary folder). With `--test` each part runs once.
#![expect(clippy::print_stdout, reason = "the table is the product")]

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use cortex_lib::domain::event::EventKind;
use cortex_lib::env::SystemEnv;
use cortex_lib::ids::ProjectId;
use cortex_lib::store::{DataDir, NewEvent, Store, StoreOptions};
use rusqlite::{Connection, params};
use serde_json::json;

/// Callers at once in the crowded case.
const CROWD: usize = 32;
/// Turns that every part gets.
const ROUNDS: usize = 5;

/// How long every operation of a part took, and all of them together.
#[derive(Default)]
struct Seen {
    took: Vec<Duration>,
    total: Duration,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.took.extend(other.took);
        self.total += other.total;
    }

    fn rate(&self) -> f64 {
        f64::from(u32::try_from(self.took.len()).unwrap_or(u32::MAX)) / self.total.as_secs_f64()
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
    }
}

/// Runs `operation` for `span` and once at least.
fn repeat(span: Duration, mut operation: impl FnMut() -> Result<()>) -> Result<Seen> {
    let (began, mut took) = (Instant::now(), Vec::new());
    while took.is_empty() || began.elapsed() < span {
        let at = Instant::now();
        operation()?;
        took.push(at.elapsed());
    }
    Ok(Seen { took, total: began.elapsed() })
}

/// What a commit of one small row writes to a write-ahead log, two frames, and an fsync.
fn raw_fsync(folder: &Path, span: Duration) -> Result<Seen> {
    const FRAME: usize = 24 + 4096;
    const LOG: u64 = 4 * 1024 * 1024;
    let mut file =
        File::options().create(true).truncate(false).write(true).open(folder.join("raw.log"))?;
    let frames = vec![7; 2 * FRAME];
    repeat(span, || {
        if file.stream_position()? > LOG {
            file.seek(SeekFrom::Start(0))?;
        }
        file.write_all(&frames)?;
        Ok(file.sync_all()?)
    })
}

/// SQLite alone: the same row, one transaction each, as durable.
fn raw_sqlite(folder: &Path, span: Duration) -> Result<Seen> {
    let conn = Connection::open(folder.join("raw.db"))?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
        CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,
            at INTEGER NOT NULL, project_id TEXT, agent_id TEXT, for_agents INTEGER NOT NULL,
            data TEXT NOT NULL) STRICT;",
    )?;
    let mut insert = conn.prepare(
        "INSERT INTO event (kind, at, project_id, for_agents, data) VALUES (?1, ?2, ?3, 0, ?4)",
    )?;
    let data = json!({ "name": "a project", "n": 12 }).to_string();
    repeat(span, || {
        insert.execute(params!["project.updated", 1_790_000_000_000_i64, "p1", data])?;
        Ok(())
    })
}

async fn write(store: &Store) -> Result<()> {
    let event = NewEvent {
        kind: EventKind::ProjectUpdated,
        project_id: Some(ProjectId::new("p1")),
        agent_id: None,
        data: json!({ "name": "a project", "n": 12 }),
    };
    Ok(store.write(move |tx| tx.emit(event)).await?)
}

/// Cortex: `callers` at once, each writes again as soon as it is answered.
async fn cortex(store: &Store, callers: usize, span: Duration) -> Result<Seen> {
    let began = Instant::now();
    let crowd: Vec<_> = (0..callers)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut took = Vec::new();
                while took.is_empty() || began.elapsed() < span {
                    let at = Instant::now();
                    write(&store).await?;
                    took.push(at.elapsed());
                }
                anyhow::Ok(took)
            })
        })
        .collect();
    let mut seen = Seen::default();
    for caller in crowd {
        seen.took.extend(caller.await??);
    }
    seen.total = began.elapsed();
    Ok(seen)
}

fn line(name: &str, seen: &Seen, limit: &Seen) {
    println!(
        "| {name:<34} | {:>9.0} | {:>9.1?} | {:>9.1?} | {:>7.2} |",
        seen.rate(),
        seen.percentile(50),
        seen.percentile(99),
        seen.rate() / limit.rate(),
    );
}

fn verdict(goal: &str, reached: bool) {
    println!("{} {goal}", if reached { "reached:    " } else { "NOT reached:" });
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let span =
        Duration::from_millis(if arguments.iter().any(|a| a == "--test") { 0 } else { 1000 });
    let place = arguments.iter().find(|argument| !argument.starts_with("--"));
    let place = place.map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::Builder::new().tempdir_in(&place).context("no temporary folder")?;
    let dir = DataDir::open(folder.path().join("data"))?;
    let options = StoreOptions { env: Arc::new(SystemEnv::new()), events_kept: 100_000 };
    let store = Store::open(&dir, options)?;

    let mut seen: [Seen; 4] = Default::default();
    let [fsync, sqlite, one, crowd] = &mut seen;
    for _ in 0..ROUNDS {
        fsync.add(raw_fsync(folder.path(), span)?);
        sqlite.add(raw_sqlite(folder.path(), span)?);
        one.add(cortex(&store, 1, span).await?);
        crowd.add(cortex(&store, CROWD, span).await?);
    }
    let commits = *store.changes().borrow();
    let writes = one.took.len() + crowd.took.len();
    store.close().await?;

    println!("Durable writes on {}, {ROUNDS} rounds of {span:?}\n", place.display());
    println!(
        "| what                               |  writes/s |       p50 |       p99 | x fsync |"
    );
    println!(
        "| ---------------------------------- | --------: | --------: | --------: | ------: |"
    );
    line("fsync of two frames", fsync, fsync);
    line("SQLite, one row per commit", sqlite, fsync);
    line("Cortex, one caller", one, fsync);
    line(&format!("Cortex, {CROWD} callers"), crowd, fsync);
    println!("\nCortex: {writes} writes in {commits} commits\n");

    let over = one.percentile(50).saturating_sub(fsync.percentile(50));
    verdict(
        &format!("one caller at most 150 µs over the fsync: {over:.1?}"),
        over.as_micros() <= 150,
    );
    let times = crowd.rate() / one.rate();
    verdict(&format!("{CROWD} callers at least 10 times one caller: {times:.1}"), times >= 10.0);
    if fsync.percentile(50) >= Duration::from_millis(1) {
        let share = 100.0 * one.rate() / fsync.rate();
        verdict(&format!("one caller at least 90 % of the disk: {share:.0} %"), share >= 90.0);
    }
    Ok(())
}

//! What a durable write costs, beside what the disk itself asks for.
//!
//! `cargo bench -p cortex-benches --bench store [-- FOLDER]`. FOLDER chooses the disk (default: the
//! system's temporary folder); with `--test` each part runs once.
//!
//! A disk that others use changes its mood by the second, by more than Cortex costs. So the bare
//! fsync, `SQLite` and one caller take turns operation by operation and are compared in pairs, and a
//! result that cannot be, a commit cheaper than the fsync inside it, is called noise, not success.
//! That each commit has its fsync is seen with `strace -f -y -e trace=fsync,fdatasync`.
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
/// Turns of the pairs, each followed by one of the crowd.
const ROUNDS: usize = 40;

/// How long every operation of a part took, and how long the part had.
#[derive(Default)]
struct Seen {
    took: Vec<Duration>,
    total: Duration,
}

impl Seen {
    fn add(&mut self, took: Duration) {
        self.took.push(took);
        self.total += took;
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What a commit of one small row writes to a write-ahead log, two frames, and an fsync.
fn raw_fsync(log: &mut File) -> Result<Duration> {
    const LOG: u64 = 4 * 1024 * 1024;
    if log.stream_position()? > LOG {
        log.seek(SeekFrom::Start(0))?;
    }
    let at = Instant::now();
    log.write_all(&[7; 2 * (24 + 4096)])?;
    log.sync_all()?;
    Ok(at.elapsed())
}

/// `SQLite` alone, as durable.
fn open_sqlite(path: &Path) -> Result<Connection> {
    let conn = Connection::open(path)?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
        CREATE TABLE event (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,
            at INTEGER NOT NULL, project_id TEXT, agent_id TEXT, for_agents INTEGER NOT NULL,
            data TEXT NOT NULL) STRICT;",
    )?;
    Ok(conn)
}

/// The same row in a transaction of its own.
fn raw_sqlite(conn: &Connection) -> Result<Duration> {
    let at = Instant::now();
    let mut insert = conn.prepare_cached(
        "INSERT INTO event (kind, at, project_id, for_agents, data) VALUES (?1, ?2, ?3, 0, ?4)",
    )?;
    let data = json!({ "name": "a project", "n": 12 }).to_string();
    insert.execute(params!["project.updated", 1_790_000_000_000_i64, "p1", data])?;
    Ok(at.elapsed())
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

/// Many callers at once, each writes again as soon as it is answered.
async fn crowded(store: &Store, span: Duration) -> Result<Seen> {
    let began = Instant::now();
    let crowd: Vec<_> = (0..CROWD)
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

fn verdict(goal: &str, reached: bool, possible: bool) {
    let word = match (possible, reached) {
        (false, _) => "CANNOT TELL:",
        (true, true) => "reached:    ",
        (true, false) => "NOT reached:",
    };
    println!("{word} {goal}");
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let test = arguments.iter().any(|argument| argument == "--test");
    let (rounds, span) =
        if test { (1, Duration::ZERO) } else { (ROUNDS, Duration::from_millis(250)) };
    let place = arguments.iter().find(|argument| !argument.starts_with("--"));
    let place = place.map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::Builder::new().tempdir_in(&place).context("no temporary folder")?;
    let mut log = File::create(folder.path().join("raw.log"))?;
    let conn = open_sqlite(&folder.path().join("raw.db"))?;
    let dir = DataDir::open(folder.path().join("data"))?;
    let options = StoreOptions { env: Arc::new(SystemEnv::new()), events_kept: 100_000 };
    let store = Store::open(&dir, options)?;

    let mut seen: [Seen; 4] = Default::default();
    let [fsync, sqlite, one, crowd] = &mut seen;
    let (mut over, mut times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (began, mut round) = (Instant::now(), Seen::default());
        while round.took.is_empty() || began.elapsed() < span {
            let bare = raw_fsync(&mut log)?;
            sqlite.add(raw_sqlite(&conn)?);
            let at = Instant::now();
            write(&store).await?;
            let took = at.elapsed();
            fsync.add(bare);
            one.add(took);
            round.add(took);
            over.push(1e6 * (took.as_secs_f64() - bare.as_secs_f64()));
        }
        let many = crowded(&store, span).await?;
        times.push(many.rate() / round.rate());
        crowd.took.extend(many.took);
        crowd.total += many.total;
    }
    let commits = *store.changes().borrow();
    let writes = one.took.len() + crowd.took.len();
    store.close().await?;

    println!("Durable writes on {}, {rounds} rounds\n", place.display());
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

    let over = median(over);
    verdict(
        &format!("one caller at most 150 µs over the fsync: {over:+.0} µs"),
        over <= 150.0,
        over > 0.0,
    );
    let times = median(times);
    verdict(
        &format!("{CROWD} callers at least 10 times one caller: {times:.1}"),
        times >= 10.0,
        true,
    );
    if fsync.percentile(50) >= Duration::from_millis(1) {
        let share = 100.0 * one.rate() / fsync.rate();
        let goal = format!("one caller at least 90 % of the disk: {share:.0} %");
        verdict(&goal, share >= 90.0, share <= 100.0);
    }
    Ok(())
}

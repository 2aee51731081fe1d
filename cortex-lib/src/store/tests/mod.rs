//! What the store promises, shown on real files.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside: threads, files and processes as others have"
)]

mod approvals;
mod commit;
mod files;
mod inline;
mod log;
mod readers;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::{OptionalExtension as _, params};
use serde_json::json;
use tempfile::TempDir;

use std::path::Path;
use std::sync::{Arc, mpsc};

use tokio::sync::oneshot;

use super::*;
use crate::domain::event::EventKind;
use crate::env::Env;
use crate::error::Result;
use crate::ids::{AgentId, ProjectId};
use crate::limits::WRITE_QUEUE_MAX;
use crate::time::Timestamp;

/// A world whose clocks stand still until they are set.
#[derive(Debug)]
struct TestEnv {
    wall: AtomicI64,
    monotonic: AtomicU64,
    next: AtomicU64,
    minted: AtomicU64,
}

/// 2026-09-21T14:13:20Z.
const EPOCH: i64 = 1_790_000_000_000;

impl TestEnv {
    fn at(wall: i64) -> Arc<Self> {
        Arc::new(Self { wall: wall.into(), monotonic: 0.into(), next: 0.into(), minted: 0.into() })
    }
}

impl Env for TestEnv {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic.load(Ordering::Relaxed))
    }

    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.next.fetch_add(1, Ordering::Relaxed).to_le_bytes()[0];
        }
    }

    fn minted(&self) -> &AtomicU64 {
        &self.minted
    }
}

/// A data directory that goes away with the test.
struct Home {
    dir: DataDir,
    _folder: TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        Self { dir: DataDir::open(folder.path().join("data")).unwrap(), _folder: folder }
    }

    fn open(&self) -> Store {
        self.keep(100_000)
    }

    fn keep(&self, events_kept: u64) -> Store {
        self.try_open(events_kept).unwrap()
    }

    fn try_open(&self, events_kept: u64) -> Result<Store> {
        Store::open(&self.dir, StoreOptions { env: TestEnv::at(EPOCH), events_kept })
    }
}

fn project_event(n: u64) -> NewEvent {
    event(EventKind::ProjectUpdated, "p1", None, n)
}

fn event(kind: EventKind, project: &str, agent: Option<&str>, n: u64) -> NewEvent {
    NewEvent {
        kind,
        project_id: Some(ProjectId::new(project)),
        agent_id: agent.map(AgentId::new),
        data: json!({ "n": n }),
    }
}

/// A table of the test's own beside those of the store.
async fn make_table(store: &Store) {
    store
        .write(|tx| {
            let table = "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, body TEXT NOT NULL UNIQUE) STRICT";
            tx.conn().execute_batch(table).map_err(sql)
        })
        .await
        .unwrap();
}

/// Puts a row and tells of it.
async fn put(store: &Store, id: i64, body: &str) -> Result<i64> {
    let body = body.to_owned();
    store
        .write(move |tx| {
            tx.emit(project_event(id.unsigned_abs()))?;
            let mut insert = tx
                .conn()
                .prepare_cached("INSERT INTO t (id, body) VALUES (?1, ?2)")
                .map_err(sql)?;
            insert.execute(params![id, body]).map_err(sql)?;
            Ok(id)
        })
        .await
}

fn ids(store: &Store) -> Vec<i64> {
    store
        .read(|tx| {
            let mut query =
                tx.conn().prepare_cached("SELECT id FROM t ORDER BY id").map_err(sql)?;
            let rows = query.query_map([], |row| row.get(0)).map_err(sql)?;
            rows.map(|row| row.map_err(sql)).collect()
        })
        .unwrap()
}

/// The `n` of every event in the log, and a check that numbers have no gaps.
fn logged(store: &Store) -> Vec<u64> {
    let events = store.read(|tx| tx.events_after(None, usize::MAX)).unwrap();
    assert!(events.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1), "a gap: {events:?}");
    events.iter().map(|event| event.data["n"].as_u64().unwrap()).collect()
}

fn integrity(store: &Store) -> String {
    store
        .read(|tx| {
            tx.conn()
                .query_row("PRAGMA integrity_check", [], |row| row.get(0))
                .optional()
                .map_err(sql)
                .map(Option::unwrap_or_default)
        })
        .unwrap()
}

/// Runs this test again in another process, below `wrapper` if there is one, with `role` set.
fn again(test: &str, role: &str, wrapper: &[&str]) -> std::process::Command {
    let me = std::env::current_exe().unwrap();
    let (program, rest) = match wrapper.split_first() {
        Some((program, rest)) => (std::path::Path::new(program), rest),
        None => (me.as_path(), wrapper),
    };
    let mut command = std::process::Command::new(program);
    command.args(rest);
    if !wrapper.is_empty() {
        command.arg(&me);
    }
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command
}

const ROLE: &str = "CORTEX_TEST_ROLE";

fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

#[tokio::test]
async fn a_write_is_read_back_and_survives_a_close() {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    assert_eq!(put(&store, 1, "x").await, Ok(1));
    assert_eq!(ids(&store), [1]);
    store.close().await.unwrap();
    assert!(!home.dir.path().join("cortex.db-wal").exists(), "the log is not empty");
    assert_eq!(put(&store, 2, "y").await.unwrap_err().code(), Code::CoreStopped);
    assert_eq!(store.read(|_| Ok(())).unwrap_err().code(), Code::CoreStopped);

    let store = home.open();
    assert_eq!((ids(&store), logged(&store)), (vec![1], vec![1]));
    assert_eq!(integrity(&store), "ok");
}

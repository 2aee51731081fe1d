//! The store of a simulation: the same protocol, with a disk and a power that fail on demand.

use std::sync::atomic::AtomicUsize;

use futures_util::poll;

use super::*;

/// Lets the first commits through; the next one has this fate, and all after it commit.
#[derive(Debug)]
struct Plan {
    fate: Fate,
    through: AtomicUsize,
}

impl Faults for Plan {
    fn at_commit(&self) -> Fate {
        match self
            .through
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        {
            Ok(1) => self.fate,
            Ok(_) | Err(_) => Fate::Commit,
        }
    }
}

struct Sim {
    folder: TempDir,
}

impl Sim {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    /// Opens the disk; the commit after `through` others has this fate.
    fn open(&self, fate: Fate, through: usize) -> Store {
        let options = StoreOptions { env: TestEnv::at(EPOCH), events_kept: 1000 };
        let faults = Arc::new(Plan { fate, through: AtomicUsize::new(through + 1) });
        Store::open_inline(&self.folder.path().join("sim.db"), options, faults).unwrap()
    }
}

#[tokio::test]
async fn an_inline_store_keeps_the_same_promises() {
    let sim = Sim::new();
    let store = sim.open(Fate::Commit, 0);
    make_table(&store).await;
    let mut feed = store.follow(None);
    assert_eq!(put(&store, 1, "x").await, Ok(1));
    assert_eq!(put(&store, 2, "x").await.unwrap_err().code(), Code::Defect);
    assert_eq!(put(&store, 3, "y").await, Ok(3));
    assert_eq!(feed.next().await.unwrap().unwrap().data["n"], 1);
    assert_eq!(feed.next().await.unwrap().unwrap().data["n"], 3);
    assert_eq!((ids(&store), logged(&store)), (vec![1, 3], vec![1, 3]));
    store.close().await.unwrap();
    assert_eq!(put(&store, 4, "z").await.unwrap_err().code(), Code::CoreStopped);
    assert_eq!(ids(&sim.open(Fate::Commit, 0)), [1, 3]);
}

#[tokio::test]
async fn a_power_cut_answers_nobody_and_keeps_what_was_committed() {
    for (fate, kept) in [(Fate::LoseBefore, vec![1]), (Fate::LoseAfter, vec![1, 2])] {
        let sim = Sim::new();
        let store = sim.open(fate, 2);
        make_table(&store).await;
        put(&store, 1, "x").await.unwrap();
        let mut lost = Box::pin(put(&store, 2, "y"));
        assert!(poll!(&mut lost).is_pending());
        store.crashed().await;
        let mut later = Box::pin(put(&store, 3, "z"));
        for _ in 0..3 {
            assert!(poll!(&mut lost).is_pending() && poll!(&mut later).is_pending());
        }
        assert!(store.read(|_| Ok(())).is_err(), "nothing is read without power");
        assert_eq!(store.failed(), None);
        drop((lost, later));
        drop(store);

        let store = sim.open(Fate::Commit, 0);
        let told: Vec<u64> = kept.iter().map(|id: &i64| id.unsigned_abs()).collect();
        assert_eq!((ids(&store), logged(&store)), (kept, told), "{fate:?}");
        put(&store, 4, "after").await.unwrap();
        assert_eq!(integrity(&store), "ok");
    }
}

#[tokio::test]
async fn a_full_disk_keeps_nothing_and_the_inline_store_goes_on() {
    let sim = Sim::new();
    let store = sim.open(Fate::DiskFull, 1);
    make_table(&store).await;
    assert_eq!(put(&store, 1, "x").await.unwrap_err().code(), Code::StoreDiskFull);
    assert_eq!(put(&store, 2, "x").await, Ok(2));
    assert_eq!((ids(&store), logged(&store), store.failed()), (vec![2], vec![2], None));
}

/// Storage: failed fsync → outcome unknown, settled at the next open.
#[tokio::test]
async fn a_failed_commit_is_settled_by_the_next_open() {
    for (fate, kept) in [(Fate::FailCommit, vec![]), (Fate::FailButKeep, vec![1])] {
        let sim = Sim::new();
        let store = sim.open(fate, 1);
        make_table(&store).await;
        assert_eq!(put(&store, 1, "x").await.unwrap_err().code(), Code::StoreFailed);
        assert_eq!(put(&store, 2, "y").await.unwrap_err().code(), Code::StoreFailed);
        assert_eq!(store.wait_failed().await.code(), Code::StoreFailed);
        drop(store);
        assert_eq!(ids(&sim.open(Fate::Commit, 0)), kept, "{fate:?}");
    }
}

#[tokio::test]
async fn a_panic_poisons_an_inline_store_too() {
    let sim = Sim::new();
    let store = sim.open(Fate::Commit, 0);
    let told = store.write::<()>(|_| panic!("a bug")).await;
    assert_eq!(told.unwrap_err().code(), Code::StoreFailed);
    assert!(store.failed().is_some());
}

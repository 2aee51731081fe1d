//! Reading while others write.

use std::sync::atomic::{AtomicBool, AtomicUsize};

use super::*;

fn count(tx: &ReadTx<'_>) -> Result<i64> {
    tx.conn().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).map_err(sql)
}

/// Storage: one writer, 50 readers, a 2 s read transaction → no busy error reaches anyone.
#[tokio::test]
async fn one_writer_fifty_readers_and_a_read_of_two_seconds_meet_no_busy_error_and_do_not_wait() {
    const WRITES: i64 = 400;
    const LONG: Duration = Duration::from_secs(2);
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    put(&store, 0, "first").await.unwrap();
    let (done, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let long = std::thread::spawn({
        let (store, done) = (store.clone(), Arc::clone(&done));
        move || {
            store.read(|tx| {
                let first = count(tx)?;
                while !done.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok((first, count(tx)?))
            })
        }
    });
    let readers: Vec<_> = (0..50)
        .map(|_| {
            let (store, done, reads) = (store.clone(), Arc::clone(&done), Arc::clone(&reads));
            std::thread::spawn(move || -> Result<()> {
                let mut seen = 0;
                while !done.load(Ordering::Acquire) {
                    let now = store.read(count)?;
                    assert!(now >= seen, "a later read sees less");
                    seen = now;
                    reads.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
                Ok(())
            })
        })
        .collect();
    let padding = "p".repeat(20_000); // more than one automatic checkpoint happens meanwhile
    let (mut id, begun) = (0, std::time::Instant::now());
    while id < WRITES || begun.elapsed() < LONG {
        id += 1;
        put(&store, id, &format!("{id}{padding}")).await.unwrap();
        assert_eq!(store.read(count), Ok(id + 1), "an answered write is seen by the next read");
    }
    done.store(true, Ordering::Release);
    for reader in readers {
        assert_eq!(reader.join().unwrap(), Ok(()));
    }
    let (before, after) = long.join().unwrap().unwrap();
    assert_eq!(before, after, "one read, one snapshot");
    assert!(after <= id && reads.load(Ordering::Relaxed) > 50);
}

#[tokio::test]
async fn a_read_cannot_write() {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    let written = store.read(|tx| tx.conn().execute("DELETE FROM t", []).map_err(sql));
    assert_eq!(written.unwrap_err().code(), Code::StoreFailed);
}

#[tokio::test]
async fn a_read_that_runs_does_not_hold_up_the_close() {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    put(&store, 1, "x").await.unwrap();
    let (begins, began) = std::sync::mpsc::channel();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let reading = std::thread::spawn({
        let store = store.clone();
        move || {
            store.read(|tx| {
                let first = count(tx)?;
                begins.send(()).unwrap();
                held.recv().unwrap_err(); // until it is dropped
                Ok((first, count(tx)?))
            })
        }
    });
    began.recv().unwrap();
    store.close().await.unwrap();
    drop(release);
    assert_eq!(reading.join().unwrap(), Ok((1, 1)));
    assert_eq!(ids(&home.open()), [1]);
}

#[tokio::test]
async fn what_was_read_is_known_until_the_next_commit_or_its_own_end() {
    let (home, env) = (Home::new(), TestEnv::at(EPOCH));
    let options = StoreOptions { env: Arc::clone(&env) as _, events_kept: 100 };
    let store = Store::open(&home.dir, options).unwrap();
    make_table(&store).await;
    let reads = AtomicUsize::new(0);
    let read = |asked: &str, until: Option<Timestamp>| {
        let count = |tx: &ReadTx<'_>| {
            reads.fetch_add(1, Ordering::Relaxed);
            Ok((count(tx)?, until))
        };
        store
            .read_once(asked.to_owned(), count)
            .map(|count| (*count, reads.load(Ordering::Relaxed)))
    };
    assert_eq!(read("all", None), Ok((0, 1)));
    assert_eq!(read("all", None), Ok((0, 1)));
    put(&store, 1, "one").await.unwrap();
    assert_eq!(read("all", None), Ok((1, 2)), "after a commit");
    let soon = Some(Timestamp::from_millis(EPOCH + 5));
    assert_eq!(read("soon", soon), Ok((1, 3)), "asked for something else");
    env.monotonic.store(4, Ordering::Relaxed);
    assert_eq!(read("soon", soon), Ok((1, 3)));
    env.monotonic.store(5, Ordering::Relaxed);
    assert_eq!(read("soon", None), Ok((1, 4)), "when its time has come");
    assert_eq!(read("all", None), Ok((1, 4)));
    store.close().await.unwrap();
    assert_eq!(read("all", None).unwrap_err().code(), Code::CoreStopped);
}

//! How writes are committed together, and what becomes of them when something fails.

use std::pin::Pin;

use futures_util::future::join_all;
use futures_util::poll;
use proptest::prelude::*;

use super::*;

type Writing<'a> = Pin<Box<dyn Future<Output = Result<i64>> + 'a>>;

/// Holds the writer until it is dropped, so that what is queued meanwhile is one batch.
async fn hold(store: &Store) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel::<()>();
    let (began, begins) = oneshot::channel();
    let holding = store.clone();
    tokio::spawn(async move {
        let held_write = holding.write(move |_| {
            began.send(()).unwrap();
            held.recv().unwrap_err(); // until it is dropped
            Ok(())
        });
        held_write.await.unwrap();
    });
    begins.await.unwrap();
    release
}

async fn in_one_batch(store: &Store, writes: Vec<Writing<'_>>) -> Vec<Result<i64>> {
    let held = hold(store).await;
    let mut all = Box::pin(join_all(writes));
    assert!(poll!(&mut all).is_pending(), "nothing is answered before it runs");
    drop(held);
    all.await
}

fn codes(results: &[Result<i64>]) -> Vec<Option<Code>> {
    results.iter().map(|result| result.as_ref().err().map(Error::code)).collect()
}

#[tokio::test]
async fn a_refused_write_is_undone_alone() {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    let writes: Vec<Writing<'_>> = vec![
        Box::pin(put(&store, 1, "x")),
        Box::pin(put(&store, 2, "x")), // the body must be unique
        Box::pin(put(&store, 3, "y")),
    ];
    let results = in_one_batch(&store, writes).await;
    assert_eq!(codes(&results), [None, Some(Code::Defect), None]);
    assert_eq!((ids(&store), logged(&store)), (vec![1, 3], vec![1, 3]));
    assert_eq!(store.failed(), None);
}

#[tokio::test]
async fn a_batch_is_one_commit_and_its_writes_see_each_other() {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    let before = *store.changes().borrow();
    let count = store.write(|tx| {
        tx.conn().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).map_err(sql)
    });
    let writes: Vec<Writing<'_>> =
        vec![Box::pin(put(&store, 1, "x")), Box::pin(count), Box::pin(put(&store, 2, "y"))];
    assert_eq!(in_one_batch(&store, writes).await, [Ok(1), Ok(1), Ok(2)]);
    assert_eq!(*store.changes().borrow(), before + 1);
}

#[tokio::test]
async fn nobody_hears_anything_before_the_commit() {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    let mut feed = store.follow(None);
    let held = hold(&store).await;
    let mut first = Box::pin(put(&store, 1, "x"));
    let mut refused = Box::pin(put(&store, 2, "x"));
    assert!(poll!(&mut first).is_pending() && poll!(&mut refused).is_pending());
    let holding = Box::pin(hold(&store));
    let release = {
        // Queued behind the two and in the same batch; when it runs, their closures have run.
        let mut holding = holding;
        assert!(poll!(&mut holding).is_pending());
        tokio::task::yield_now().await; // lets the holder queue its write
        drop(held);
        holding.await
    };
    assert!(poll!(&mut first).is_pending() && poll!(&mut refused).is_pending());
    assert!(poll!(Box::pin(feed.next())).is_pending() && ids(&store).is_empty());
    drop(release);
    assert_eq!(first.await, Ok(1));
    assert_eq!(refused.await.unwrap_err().code(), Code::Defect);
    assert_eq!(feed.next().await.unwrap().unwrap().data["n"], 1);
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_undo_its_write() {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    let held = hold(&store).await;
    let mut gone = Box::pin(put(&store, 1, "x"));
    assert!(poll!(&mut gone).is_pending());
    drop((gone, held));
    put(&store, 2, "y").await.unwrap();
    assert_eq!(ids(&store), [1, 2]);
}

#[tokio::test]
async fn what_is_queued_commits_before_the_store_closes() {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    let held = hold(&store).await;
    let mut queued = Box::pin(put(&store, 1, "x"));
    let (mut one, mut two) = (Box::pin(store.close()), Box::pin(store.close()));
    assert!(poll!(&mut queued).is_pending());
    assert!(poll!(&mut one).is_pending() && poll!(&mut two).is_pending());
    drop(held);
    assert_eq!((queued.await, one.await, two.await), (Ok(1), Ok(()), Ok(())));
    assert_eq!(ids(&home.open()), [1]);
}

#[tokio::test]
async fn more_writes_than_the_queue_holds_wait_and_all_commit() {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    let many = i64::try_from(WRITE_QUEUE_MAX).unwrap() + 300;
    let writes: Vec<Writing<'_>> = (0..many)
        .map(|id| {
            let store = store.clone();
            Box::pin(async move { put(&store, id, &id.to_string()).await }) as Writing<'_>
        })
        .collect();
    let results = in_one_batch(&store, writes).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(logged(&store).len(), results.len());
}

/// Lets the file grow by `pages` and no more, as a small disk would. Zero lets it grow again.
async fn limit_growth(store: &Store, pages: i64) {
    store
        .write(move |tx| {
            let count: i64 =
                tx.conn().query_row("PRAGMA page_count", [], |row| row.get(0)).map_err(sql)?;
            let limit = if pages == 0 { 1_000_000 } else { count + pages };
            let statement = format!("PRAGMA max_page_count = {limit}");
            tx.conn().query_row(&statement, [], |_| Ok(())).map_err(sql)
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_full_store_fails_the_whole_batch_and_goes_on() {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    limit_growth(&store, 8).await;
    let (before, big) = (*store.changes().borrow(), "b".repeat(100_000));
    let writes: Vec<Writing<'_>> = vec![
        Box::pin(put(&store, 1, "small")),
        Box::pin(put(&store, 2, &big)),
        Box::pin(put(&store, 3, "small too")),
    ];
    let results = in_one_batch(&store, writes).await;
    assert_eq!(codes(&results), [Some(Code::StoreDiskFull); 3]);
    assert_eq!((ids(&store), logged(&store)), (vec![], vec![]));
    assert_eq!((store.failed(), *store.changes().borrow()), (None, before));
    limit_growth(&store, 0).await;
    put(&store, 4, &big).await.unwrap();
    assert_eq!((ids(&store), logged(&store)), (vec![4], vec![4]));
    assert_eq!(integrity(&store), "ok");
}

/// Storage: full disk → `store.disk_full` for the whole batch, nothing published, the store goes on.
#[test]
fn a_full_disk_fails_the_whole_batch_and_the_store_goes_on() {
    const NAME: &str =
        "store::tests::commit::a_full_disk_fails_the_whole_batch_and_the_store_goes_on";
    if let Some(disk) = role() {
        return on_a_small_disk(std::path::Path::new(&disk));
    }
    if !cfg!(target_os = "linux") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let disk = folder.path().to_str().unwrap();
    // A file system of 1 MB that only this process sees and that ends with it.
    let script = r#"mount -t tmpfs -o size=1m tmpfs "$0" 2>/dev/null || exit 77; exec "$@""#;
    let wrapper = ["unshare", "--map-root-user", "--user", "--mount", "sh", "-c", script, disk];
    let ran = again(NAME, disk, &wrapper).output();
    match ran {
        Ok(output) if output.status.code() == Some(77) => skipped("mounting is not permitted"),
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(told.contains("unshare"), "{told}{}", String::from_utf8_lossy(&output.stdout));
            skipped("a namespace of its own is not permitted");
        }
        Err(_) => skipped("there is no unshare"),
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test is said aloud")]
fn skipped(why: &str) {
    eprintln!("SKIPPED, {why}; the full store by page count is tested all the same");
}

#[tokio::main(flavor = "current_thread")]
async fn on_a_small_disk(disk: &std::path::Path) {
    let dir = DataDir::open(disk.join("data")).unwrap();
    let options = || StoreOptions { env: TestEnv::at(EPOCH), events_kept: 100_000 };
    let store = Store::open(&dir, options()).unwrap();
    make_table(&store).await;
    put(&store, 1, "before").await.unwrap();
    std::fs::write(disk.join("ballast"), vec![0; 600_000]).unwrap();

    // Fits into memory and does not fit onto the disk: COMMIT fails.
    let big = "b".repeat(500_000);
    let writes: Vec<Writing<'_>> = vec![
        Box::pin(put(&store, 10, "small")),
        Box::pin(put(&store, 11, &big)),
        Box::pin(put(&store, 12, "small too")),
    ];
    let results = in_one_batch(&store, writes).await;
    assert_eq!(codes(&results), [Some(Code::StoreDiskFull); 3]);

    // Does not fit into memory either: a statement in the middle of the batch fails.
    let bodies: Vec<String> = (0..8).map(|n| format!("{n}{}", "c".repeat(900_000))).collect();
    let writes: Vec<Writing<'_>> = (20..)
        .zip(&bodies)
        .map(|(id, body)| Box::pin(put(&store, id, body)) as Writing<'_>)
        .collect();
    let results = in_one_batch(&store, writes).await;
    assert_eq!(codes(&results), [Some(Code::StoreDiskFull); 8]);
    assert_eq!((ids(&store), logged(&store), store.failed()), (vec![1], vec![1], None));

    std::fs::remove_file(disk.join("ballast")).unwrap();
    put(&store, 13, "again").await.unwrap();
    store.close().await.unwrap();
    let store = Store::open(&dir, options()).unwrap();
    assert_eq!((ids(&store), logged(&store)), (vec![1, 13], vec![1, 13]));
    assert_eq!(integrity(&store), "ok");
}

/// A batch of which `bad` is one; then the same file opened again.
async fn poisoned_by(
    bad: impl FnOnce(&mut WriteTx<'_>) -> Result<i64> + Send + 'static,
) -> (Vec<Option<Code>>, Store, Home) {
    let home = Home::new();
    let store = home.open();
    make_table(&store).await;
    put(&store, 1, "before").await.unwrap();
    let writes: Vec<Writing<'_>> = vec![
        Box::pin(put(&store, 2, "x")),
        Box::pin(store.write(bad)),
        Box::pin(put(&store, 3, "y")),
    ];
    let results = in_one_batch(&store, writes).await;
    assert_eq!(store.wait_failed().await.code(), Code::StoreFailed);
    let later = put(&store, 4, "later").await;
    assert_eq!(later.unwrap_err().code(), Code::StoreFailed);
    assert_eq!((ids(&store), logged(&store)), (vec![1], vec![1]), "reads go on");
    assert_eq!(store.close().await.unwrap_err().code(), Code::StoreFailed);
    let store = home.open();
    assert_eq!(integrity(&store), "ok");
    (codes(&results), store, home)
}

#[tokio::test]
async fn a_panic_poisons_the_store_until_it_is_opened_again() {
    let (codes, store, _home) = poisoned_by(|_| panic!("a bug")).await;
    assert_eq!(codes, [Some(Code::StoreFailed); 3]);
    put(&store, 5, "after").await.unwrap();
    assert_eq!((ids(&store), logged(&store)), (vec![1, 5], vec![1, 5]));
}

#[tokio::test]
async fn a_commit_that_fails_poisons_the_store() {
    let (codes, store, _home) = poisoned_by(|tx| {
        // A rule that is checked by COMMIT alone, and broken.
        let broken = "CREATE TABLE child (
                parent INTEGER REFERENCES t DEFERRABLE INITIALLY DEFERRED) STRICT;
            INSERT INTO child (parent) VALUES (99);";
        tx.conn().execute_batch(broken).map_err(sql)?;
        Ok(0)
    })
    .await;
    assert_eq!(codes, [Some(Code::StoreFailed); 3]);
    assert_eq!((ids(&store), logged(&store)), (vec![1], vec![1]));
}

#[tokio::test]
async fn a_write_that_ends_the_transaction_poisons_the_store() {
    let (codes, store, _home) = poisoned_by(|tx| {
        tx.conn().execute_batch("ROLLBACK").map_err(sql)?;
        Ok(0)
    })
    .await;
    assert_eq!(codes, [Some(Code::StoreFailed); 3]);
    assert_eq!((ids(&store), logged(&store)), (vec![1], vec![1]));
}

#[tokio::test]
async fn a_clock_that_is_set_back_changes_nothing_that_is_due() {
    let home = Home::new();
    let env = TestEnv::at(EPOCH);
    let options = StoreOptions { env: Arc::<TestEnv>::clone(&env), events_kept: 10 };
    let store = Store::open(&home.dir, options).unwrap();
    env.wall.store(EPOCH - 3_600_000, Ordering::Relaxed);
    env.monotonic.store(5_000, Ordering::Relaxed);
    let times = store.write(|tx| Ok((tx.now().as_millis(), tx.steady().as_millis()))).await;
    assert_eq!(times, Ok((EPOCH - 3_600_000, EPOCH + 5_000)));
    assert_eq!(store.steady().as_millis(), EPOCH + 5_000);
}

/// What a closure of the property does, besides telling of it `events` times.
#[derive(Clone, Copy, Debug)]
struct Move {
    events: u64,
    refused: bool,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_mix_of_writes_keeps_numbers_without_a_gap(
        moves in prop::collection::vec(
            (0..4u64, any::<bool>()).prop_map(|(events, refused)| Move { events, refused }), 1..40),
        together in 1..12usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (told, kept) = runtime.block_on(async {
            let folder = TempDir::new().unwrap();
            let options = StoreOptions { env: TestEnv::at(EPOCH), events_kept: 1000 };
            let dir = DataDir::open(folder.path().join("data")).unwrap();
            let store = Store::open(&dir, options).unwrap();
            let mut feed = store.follow(None);
            let numbered: Vec<_> = (0..).zip(&moves).map(|(n, m)| (n, *m)).collect();
            for batch in numbered.chunks(together) {
                let writes: Vec<_> = batch.iter().map(|(n, m)| {
                    let (n, m) = (*n, *m);
                    store.write(move |tx| {
                        for _ in 0..m.events {
                            tx.emit(project_event(n))?;
                        }
                        if m.refused { Err(Error::new(Code::PermissionDenied, "no")) } else { Ok(n) }
                    })
                }).collect();
                for (result, (n, m)) in join_all(writes).await.into_iter().zip(batch) {
                    prop_assert_eq!(result.ok(), (!m.refused).then_some(*n));
                }
            }
            let kept = logged(&store);
            let mut told = Vec::new();
            while told.len() < kept.len() {
                told.push(feed.next().await.unwrap().unwrap().data["n"].as_u64().unwrap());
            }
            store.close().await.unwrap();
            Ok((told, kept))
        })?;
        let accepted: Vec<u64> = (0..).zip(&moves)
            .filter(|(_, m)| !m.refused)
            .flat_map(|(n, m)| std::iter::repeat_n(n, usize::try_from(m.events).unwrap()))
            .collect();
        prop_assert_eq!(&kept, &accepted);
        prop_assert_eq!(told, kept);
    }
}

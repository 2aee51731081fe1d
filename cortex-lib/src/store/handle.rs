//! The handle to an open store, and the two places where its closures run: a thread, or the caller.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(any(test, feature = "testing"))]
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use tokio::sync::{Semaphore, oneshot, watch};

#[cfg(any(test, feature = "testing"))]
use super::faults::Faults;
use super::memo::Memo;
use super::migrate::{self, Sync};
use super::reader::Readers;
use super::writer::{self, Life, Message, Shared, Writer};
use super::{DataDir, Feed, ReadTx, WriteTx};
use crate::env::Env;
use crate::error::{Code, Error, Result};
use crate::limits::WRITE_QUEUE_MAX;
use crate::time::Timestamp;

/// What a store needs to know.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Time and randomness.
    pub env: Arc<dyn Env>,
    /// How many of the newest events the log keeps; one at least.
    pub events_kept: u64,
}

/// The open store. Clones are handles to the same one.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    writer: Mode,
    readers: Readers,
    memo: Memo,
    shared: Arc<Shared>,
}

/// Where closures run.
enum Mode {
    Thread {
        queue: mpsc::Sender<Message>,
        /// Free places in the queue.
        places: Arc<Semaphore>,
        /// A lock, because of several callers that close only one can join.
        thread: Mutex<Option<JoinHandle<()>>>,
    },
    /// In the caller. A lock, because there is no thread to own the writer; it is never contended in
    /// a simulation, which has one thread. Absent once the store is closed.
    #[cfg(any(test, feature = "testing"))]
    Inline(Mutex<Option<Writer>>),
}

impl Store {
    /// Opens the store of a data directory, makes it if there is none, and starts its writer.
    ///
    /// Fails with `store.corrupt` when the file is not a store, and with `store.newer_version` when a
    /// newer Cortex wrote it. Such a file is left as it is.
    pub fn open(dir: &DataDir, options: StoreOptions) -> Result<Self> {
        let path = dir.store_path();
        let conn = migrate::open(&path, Sync::Full, options.env.now())?;
        let shared = Arc::new(Shared::new(options.env));
        let dir = Some(dir.clone());
        let writer = Writer::new(conn, options.events_kept, Arc::clone(&shared), dir)?;
        let (queue, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("cortex-writer".to_owned())
            .spawn(move || write_until_closed(writer, &inbox))
            .map_err(|error| {
                Error::new(Code::StoreFailed, format!("the writer cannot be started: {error}"))
            })?;
        let places = Arc::new(Semaphore::new(WRITE_QUEUE_MAX));
        let writer = Mode::Thread { queue, places, thread: Mutex::new(Some(thread)) };
        let (readers, memo) = (Readers::new(path), Memo::default());
        Ok(Self { inner: Arc::new(Inner { writer, readers, memo, shared }) })
    }

    /// Opens the store at `path` for a simulation: closures run in [`Store::write`], by the same
    /// commit protocol, and `faults` decides what becomes of each commit. The disk is not waited for.
    #[cfg(any(test, feature = "testing"))]
    pub fn open_inline(
        path: &Path,
        options: StoreOptions,
        faults: Arc<dyn Faults>,
    ) -> Result<Self> {
        let conn = migrate::open(path, Sync::Off, options.env.now())?;
        let shared = Arc::new(Shared::new(options.env));
        let writer = Writer::new(conn, options.events_kept, Arc::clone(&shared), None)?;
        let writer = Mode::Inline(Mutex::new(Some(writer.with_faults(faults))));
        let (readers, memo) = (Readers::new(path.to_owned()), Memo::default());
        Ok(Self { inner: Arc::new(Inner { writer, readers, memo, shared }) })
    }

    /// Runs `f` in the next commit and answers when that is on disk.
    ///
    /// An error of `f` undoes `f` alone. A caller that goes away does not undo a queued write. Fails
    /// with `store.disk_full` when nothing of the commit was kept, with `store.failed` when the store
    /// is poisoned, and with `core.stopped` when it is closed.
    pub async fn write<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut WriteTx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (job, answer) = writer::job(f);
        match &self.inner.writer {
            Mode::Thread { queue, places, .. } => {
                // A full queue slows callers down; it never refuses.
                let Ok(place) = Arc::clone(places).acquire_owned().await else {
                    return Err(self.why_unanswered().await);
                };
                // A writer that has ended drops the job, and with it the answer.
                drop(queue.send(Message::Write(job, place)));
            }
            #[cfg(any(test, feature = "testing"))]
            Mode::Inline(writer) => {
                match &mut *lock(writer) {
                    Some(writer) => writer.commit(vec![job]),
                    // Without an answer the caller hears that the store is closed.
                    None => drop(job),
                }
                // Others run between a commit and its answer, as they do beside a thread.
                tokio::task::yield_now().await;
            }
        }
        match answer.await {
            Ok(value) => value,
            Err(oneshot::error::RecvError { .. }) => Err(self.why_unanswered().await),
        }
    }

    /// Reads one consistent snapshot. It never waits for the writer, and the writer never for it.
    pub fn read<T>(&self, f: impl FnOnce(&ReadTx<'_>) -> Result<T>) -> Result<T> {
        #[cfg(any(test, feature = "testing"))]
        if *self.inner.shared.crashed.borrow() {
            return Err(Error::new(Code::StoreFailed, "the power is gone"));
        }
        self.inner.readers.read(f)
    }

    /// Whether a read would be answered.
    pub(super) fn can_be_read(&self) -> bool {
        #[cfg(any(test, feature = "testing"))]
        if *self.inner.shared.crashed.borrow() {
            return false;
        }
        *self.inner.shared.life.borrow() == Life::Open
    }

    pub(super) fn memo(&self) -> &Memo {
        &self.inner.memo
    }

    /// The number of commits so far that changed something.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.shared.commits.subscribe()
    }

    /// The committed events behind `after`, from the log and then live, in order and without a gap.
    /// Without `after`: from the oldest kept.
    pub fn follow(&self, after: Option<u64>) -> Feed {
        Feed::new(self.clone(), self.inner.shared.live.subscribe(), after)
    }

    /// The time by which things are due, see [`WriteTx::steady`].
    pub fn steady(&self) -> Timestamp {
        self.inner.shared.steady()
    }

    /// What poisoned the store.
    pub fn failed(&self) -> Option<Error> {
        self.inner.shared.failed.borrow().clone()
    }

    /// Waits until the store is poisoned. The core has failed then.
    pub async fn wait_failed(&self) -> Error {
        let mut failed = self.inner.shared.failed.subscribe();
        loop {
            if let Some(why) = &*failed.borrow_and_update() {
                return why.clone();
            }
            if failed.changed().await.is_err() {
                // Not before this handle is gone, and with it the wait.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until nothing can be written any more, and says why: the store is poisoned or closed.
    pub async fn wait_over(&self) -> Error {
        tokio::select! { biased;
            why = self.wait_failed() => why,
            () = self.closed() => Error::new(Code::CoreStopped, "the core has stopped"),
        }
    }

    /// Waits until a fault has cut the power. Writes are never answered any more: drop the runtime
    /// and open the file again.
    #[cfg(any(test, feature = "testing"))]
    pub async fn crashed(&self) {
        let mut crashed = self.inner.shared.crashed.subscribe();
        if crashed.wait_for(|crashed| *crashed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Commits what is queued, ends the writer, empties the write-ahead log and closes every connection.
    /// Later calls fail with `core.stopped`.
    ///
    /// # Errors
    ///
    /// What poisoned the store, if something did; it is closed all the same.
    pub async fn close(&self) -> Result<()> {
        let Inner { writer, readers, shared, memo: _ } = &*self.inner;
        shared.life.send_if_modified(|life| {
            let open = *life == Life::Open;
            if open {
                *life = Life::Closing;
            }
            open
        });
        readers.close();
        match writer {
            Mode::Thread { queue, places, thread } => {
                places.close();
                drop(queue.send(Message::Close));
                self.closed().await;
                let thread = lock(thread).take();
                if thread.is_some_and(|thread| thread.join().is_err()) {
                    tracing::error!("the writer panicked");
                }
            }
            #[cfg(any(test, feature = "testing"))]
            Mode::Inline(writer) => {
                let writer = lock(writer).take();
                if let Some(writer) = writer {
                    writer.end();
                }
            }
        }
        self.failed().map_or(Ok(()), Err)
    }

    pub(super) fn life(&self) -> watch::Receiver<Life> {
        self.inner.shared.life.subscribe()
    }

    async fn closed(&self) {
        // The sender lives as long as this handle, so the wait ends with the store.
        drop(self.life().wait_for(|life| *life == Life::Closed).await);
    }

    /// Why a write has no answer: it panicked, or the store was closed before its turn came.
    async fn why_unanswered(&self) -> Error {
        #[cfg(any(test, feature = "testing"))]
        if *self.inner.shared.crashed.borrow() {
            std::future::pending::<()>().await;
        }
        tokio::select! { biased;
            why = self.wait_failed() => why,
            () = self.closed() => self.failed().unwrap_or_else(|| {
                Error::new(Code::CoreStopped, "the store is closed; this write was not made")
            }),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("life", &*self.inner.shared.life.borrow())
            .finish_non_exhaustive()
    }
}

fn write_until_closed(mut writer: Writer, inbox: &mpsc::Receiver<Message>) {
    if catch_unwind(AssertUnwindSafe(|| writer.run(inbox))).is_err() {
        writer.poison(Error::new(Code::StoreFailed, "the writer panicked"));
    }
    writer.end();
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

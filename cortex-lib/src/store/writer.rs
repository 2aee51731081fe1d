//! The writer: one thread that takes queued closures and commits them in groups.
//!
//! [`Writer::commit`] is the whole commit protocol. The thread feeds it with batches; a simulation
//! feeds it with single closures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::{OwnedSemaphorePermit, broadcast, oneshot, watch};

use super::data_dir::DataDir;
use super::event_log::{self, Bounds, Event};
use super::exec;
#[cfg(any(test, feature = "testing"))]
use super::faults::{Fate, Faults};
use super::tx::WriteTx;
use crate::env::Env;
use crate::error::{Code, Error, Result};
use crate::limits::{BATCH_MAX, EVENT_LAG_MAX, GATHER_MAX};
use crate::time::Timestamp;

/// Told once, when the fate of the commit is known.
type Answer = Box<dyn FnOnce(Result<()>) + Send>;
/// Runs in the transaction, or hears why there is none.
pub(super) type Job = Box<dyn FnOnce(Result<&mut WriteTx<'_>>) -> (Result<()>, Answer) + Send>;

/// What the thread is told.
pub(super) enum Message {
    /// Run this, and free its place in the queue when it is taken.
    Write(Job, OwnedSemaphorePermit),
    /// Commit what is queued, then end.
    Close,
}

/// The life of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    Closing,
    Closed,
}

/// What the writer and the handles share.
#[derive(Debug)]
pub(super) struct Shared {
    env: Arc<dyn Env>,
    /// Both clocks when the store was opened.
    opened: (Timestamp, Duration),
    pub(super) life: watch::Sender<Life>,
    pub(super) failed: watch::Sender<Option<Error>>,
    pub(super) commits: watch::Sender<u64>,
    pub(super) live: broadcast::Sender<Arc<Event>>,
    /// A fault has cut the power: nobody hears anything any more.
    #[cfg(any(test, feature = "testing"))]
    pub(super) crashed: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn new(env: Arc<dyn Env>) -> Self {
        Self {
            opened: (env.now(), env.monotonic()),
            env,
            life: watch::Sender::new(Life::Open),
            failed: watch::Sender::new(None),
            commits: watch::Sender::new(0),
            live: broadcast::Sender::new(EVENT_LAG_MAX),
            #[cfg(any(test, feature = "testing"))]
            crashed: watch::Sender::new(false),
        }
    }

    pub(super) fn env(&self) -> &dyn Env {
        &*self.env
    }

    pub(super) fn steady(&self) -> Timestamp {
        let (wall, monotonic) = self.opened;
        wall.after(self.env.monotonic().saturating_sub(monotonic))
    }

    /// Remembers the first failure and tells those who wait for one.
    fn fail(&self, why: &Error) {
        let first = self.failed.send_if_modified(|failed| {
            let first = failed.is_none();
            failed.get_or_insert_with(|| why.clone());
            first
        });
        if first {
            tracing::error!(code = %why.code(), "{}", why.message());
        }
    }

    fn publish(&self, events: Vec<Arc<Event>>) {
        // Counted first: who hears of an event must not be answered what was read before it.
        self.commits.send_modify(|commits| *commits = commits.saturating_add(1));
        for event in events {
            // Nobody may be listening; the log has it.
            drop(self.live.send(event));
        }
    }
}

/// Why a commit did not come about.
enum Lost {
    /// Nothing of it was kept. The store goes on.
    Undone(Error),
    /// Only the next open can tell what was kept. The store takes nothing more.
    Poison(Error),
    /// The power is gone.
    #[cfg(any(test, feature = "testing"))]
    Power,
    /// The power goes when everybody was told that all is kept.
    #[cfg(any(test, feature = "testing"))]
    PowerWhenTold,
}

/// A full disk is known to have kept nothing. Any other failure is settled by the next open: after a
/// failed fsync the frames may be on disk or not.
fn lost(why: Error) -> Lost {
    match why.code() {
        Code::StoreDiskFull => Lost::Undone(why),
        Code::StoreCorrupt => Lost::Poison(why),
        _ => Lost::Poison(Error::new(Code::StoreFailed, why.message())),
    }
}

/// A commit in the making.
#[derive(Default)]
struct Batch {
    events: Vec<Arc<Event>>,
    answers: Vec<Answer>,
    /// Whether a closure that was not refused changed a row.
    changed: bool,
}

/// The connection that writes, and what it knows.
pub(super) struct Writer {
    conn: Connection,
    bounds: Bounds,
    shared: Arc<Shared>,
    poison: Option<Error>,
    #[cfg(any(test, feature = "testing"))]
    faults: Arc<dyn Faults>,
    /// Keeps others out of the folder for as long as this writes into it.
    _dir: Option<DataDir>,
}

impl Writer {
    pub(super) fn new(
        conn: Connection,
        events_kept: u64,
        shared: Arc<Shared>,
        dir: Option<DataDir>,
    ) -> Result<Self> {
        let bounds = Bounds::read(&conn, events_kept)?;
        Ok(Self {
            conn,
            bounds,
            shared,
            poison: None,
            #[cfg(any(test, feature = "testing"))]
            faults: Arc::new(super::faults::NoFaults),
            _dir: dir,
        })
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn with_faults(mut self, faults: Arc<dyn Faults>) -> Self {
        self.faults = faults;
        self
    }

    /// The thread: gathers, commits and answers until it is told to close or the last handle is gone.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long the disk takes is measured, not decided"
    )]
    pub(super) fn run(&mut self, inbox: &Receiver<Message>) {
        let (mut last_len, mut last_took) = (1, Duration::ZERO);
        let mut open = true;
        while open && let Ok(Message::Write(first, place)) = inbox.recv() {
            drop(place);
            // The callers of the last commit were answered a moment ago and mostly come again. Waiting
            // for as many, at most an eighth of a commit, halves the commits under load; a lone caller
            // never waits.
            let until = Instant::now() + (last_took / 8).min(GATHER_MAX);
            let mut batch = vec![first];
            while open && batch.len() < BATCH_MAX {
                let left = if batch.len() < last_len {
                    until.saturating_duration_since(Instant::now())
                } else {
                    Duration::ZERO
                };
                match inbox.recv_timeout(left) {
                    Ok(Message::Write(job, _)) => batch.push(job),
                    Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => open = false,
                    Err(RecvTimeoutError::Timeout) => break,
                }
            }
            let began = Instant::now();
            last_len = batch.len();
            self.commit(batch);
            last_took = began.elapsed();
        }
        // Those who came in while the store was being closed.
        let late = inbox.try_iter().filter_map(|message| match message {
            Message::Write(job, _) => Some(job),
            Message::Close => None,
        });
        let late: Vec<_> = late.collect();
        if !late.is_empty() {
            self.commit(late);
        }
    }

    /// Commits a batch, publishes its events, then answers its callers.
    pub(super) fn commit(&mut self, jobs: Vec<Job>) {
        #[cfg(any(test, feature = "testing"))]
        if *self.shared.crashed.borrow() {
            return;
        }
        let mut batch = Batch::default();
        let mut jobs = jobs.into_iter();
        let outcome = match &self.poison {
            Some(why) => Err(Lost::Poison(why.clone())),
            None => self.try_commit(&mut jobs, &mut batch),
        };
        let why = match outcome {
            Ok(()) => return self.tell(batch),
            #[cfg(any(test, feature = "testing"))]
            Err(Lost::Power) => return self.lose_power(),
            #[cfg(any(test, feature = "testing"))]
            Err(Lost::PowerWhenTold) => {
                self.tell(batch);
                return self.lose_power();
            }
            Err(Lost::Poison(why)) => {
                self.poison = Some(why.clone());
                why
            }
            Err(Lost::Undone(why)) => why,
        };
        // A failed COMMIT may leave the transaction open. If it cannot be closed, nothing is sure any more.
        if let Err(error) = self.rollback() {
            self.poison = Some(error);
        }
        if let Some(poison) = &self.poison {
            self.shared.fail(poison);
        }
        for answer in batch.answers {
            answer(Err(why.clone()));
        }
        // Those whose turn did not come.
        for job in jobs {
            let (_, answer) = job(Err(why.clone()));
            answer(Err(why.clone()));
        }
    }

    /// It is kept: tells everybody, first what happened and then that it did.
    fn tell(&mut self, batch: Batch) {
        let Batch { events, answers, changed } = batch;
        self.bounds = self.bounds.after(events.len());
        if changed {
            self.shared.publish(events);
        }
        for answer in answers {
            answer(Ok(()));
        }
    }

    fn try_commit(
        &self,
        jobs: &mut std::vec::IntoIter<Job>,
        batch: &mut Batch,
    ) -> Result<(), Lost> {
        // An error here leaves everything as it was.
        self.exec("BEGIN IMMEDIATE").map_err(Lost::Undone)?;
        for job in jobs {
            self.run_job(job, batch)?;
        }
        let after = self.bounds.after(batch.events.len());
        if after.oldest > self.bounds.oldest {
            event_log::prune(&self.conn, after.oldest).map_err(lost)?;
        }
        #[cfg(any(test, feature = "testing"))]
        return self.commit_with_faults();
        #[cfg(not(any(test, feature = "testing")))]
        self.exec("COMMIT").map_err(lost)
    }

    fn run_job(&self, job: Job, batch: &mut Batch) -> Result<(), Lost> {
        self.exec("SAVEPOINT one").map_err(lost)?;
        let (mark, rows) = (batch.events.len(), self.conn.total_changes());
        let mut tx = WriteTx::new(&self.conn, &mut batch.events, self.bounds.next, &self.shared);
        let ran = catch_unwind(AssertUnwindSafe(|| job(Ok(&mut tx))));
        let Ok((verdict, answer)) = ran else {
            return Err(Lost::Poison(Error::new(Code::StoreFailed, "a write panicked")));
        };
        batch.answers.push(answer);
        // SQLite ends the whole transaction by itself on some errors (full disk, IO): then all is gone.
        if self.conn.is_autocommit() {
            let ended =
                || Error::new(Code::StoreFailed, "a write ended the transaction of its batch");
            return Err(lost(verdict.err().unwrap_or_else(ended)));
        }
        if verdict.is_err() {
            self.exec("ROLLBACK TO one").map_err(lost)?;
            batch.events.truncate(mark);
        } else if self.conn.total_changes() != rows {
            batch.changed = true;
        }
        self.exec("RELEASE one").map_err(lost)
    }

    fn exec(&self, statement: &'static str) -> Result<()> {
        exec(&self.conn, statement)
    }

    fn rollback(&self) -> Result<()> {
        if self.conn.is_autocommit() { Ok(()) } else { self.exec("ROLLBACK") }
    }

    /// Takes nothing more.
    pub(super) fn poison(&mut self, why: Error) {
        self.shared.fail(&why);
        self.poison = Some(why);
    }

    /// Closes the connection. What poisoned the store is left on disk as it is, for the next open.
    pub(super) fn end(self) {
        let Self { conn, shared, poison, .. } = self;
        let closed = if poison.is_some() {
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
        } else {
            // A reader that is still busy must not hold the end up: then the log stays for the next open.
            conn.busy_timeout(Duration::ZERO)
                .and_then(|()| conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
        };
        if let Err(error) = closed.and_then(|()| conn.close().map_err(|(_, error)| error)) {
            tracing::warn!("the store was not closed cleanly, the next start settles it: {error}");
        }
        shared.life.send_replace(Life::Closed);
    }
}

#[cfg(any(test, feature = "testing"))]
impl Writer {
    fn commit_with_faults(&self) -> Result<(), Lost> {
        let failed =
            || Lost::Poison(Error::new(Code::StoreFailed, "the commit failed: disk I/O error"));
        match self.faults.at_commit() {
            Fate::Commit => self.exec("COMMIT").map_err(lost),
            Fate::LoseBefore => Err(Lost::Power),
            Fate::LoseAfter => self.exec("COMMIT").map_err(lost).and(Err(Lost::Power)),
            Fate::DiskFull => Err(Lost::Undone(Error::new(
                Code::StoreDiskFull,
                "the disk is full: database or disk is full",
            ))),
            Fate::Locked => Err(Lost::Undone(Error::new(
                Code::StoreFailed,
                "the store failed: database is locked",
            ))),
            Fate::FailCommit => Err(failed()),
            Fate::FailButKeep => self.exec("COMMIT").map_err(lost).and(Err(failed())),
            Fate::LoseAnswered => self.exec("COMMIT").map_err(lost).and(Err(Lost::PowerWhenTold)),
            Fate::Forget => self.exec("ROLLBACK").map_err(lost),
        }
    }

    /// What a power cut leaves: what was committed.
    fn lose_power(&mut self) {
        let gone = Error::new(Code::StoreFailed, "the power is gone");
        self.poison = Some(self.rollback().err().unwrap_or(gone));
        self.shared.crashed.send_replace(true);
    }
}

/// Wraps a closure so that its value is sent when, and only when, the fate of its commit is known.
pub(super) fn job<T: Send + 'static>(
    f: impl FnOnce(&mut WriteTx<'_>) -> Result<T> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T>>) {
    let (reply, answer) = oneshot::channel();
    let job: Job = Box::new(move |tx| {
        let value = tx.and_then(f);
        let verdict = value.as_ref().map(drop).map_err(Clone::clone);
        // A caller that went away does not undo its write.
        (verdict, Box::new(move |commit: Result<()>| drop(reply.send(commit.and(value)))))
    });
    (job, answer)
}

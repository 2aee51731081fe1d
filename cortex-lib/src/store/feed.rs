//! A subscription to the event log: from the log first, then live, without a gap.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::Store;
use super::event_log::Event;
use super::writer::Life;
use crate::error::{Code, Result};
use crate::limits::EVENT_PAGE;

/// Committed events in order. A feed that lags behind reads on from the log; nothing waits for it.
pub struct Feed {
    store: Store,
    live: Receiver<Arc<Event>>,
    /// The last event that was handed out, or looked past.
    cursor: Option<u64>,
    ready: VecDeque<Arc<Event>>,
    /// The log may hold events behind the cursor that will not come live.
    behind: bool,
    lost: u64,
}

impl Feed {
    pub(super) fn new(store: Store, live: Receiver<Arc<Event>>, after: Option<u64>) -> Self {
        Self { store, live, cursor: after, ready: VecDeque::new(), behind: true, lost: 0 }
    }

    /// The next event; waits for it. `None` when the store is closed. Dropping the wait loses nothing.
    pub async fn next(&mut self) -> Result<Option<Arc<Event>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                // Numbers have no gaps, so what is missing was pruned before it was read.
                let expected = self.cursor.map_or(event.seq, |cursor| cursor.saturating_add(1));
                self.lost = self.lost.saturating_add(event.seq.saturating_sub(expected));
                self.cursor = Some(event.seq);
                return Ok(Some(event));
            }
            if self.behind && !self.read_log()? {
                return Ok(None);
            }
            if self.ready.is_empty() && !self.hear().await {
                return Ok(None);
            }
        }
    }

    /// Events behind the cursor that were pruned before this feed read them.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Reads a page of the log. False when the store is closed.
    fn read_log(&mut self) -> Result<bool> {
        let after = self.cursor;
        let page =
            self.store.read(|tx| Ok((tx.events_after(after, EVENT_PAGE)?, tx.newest_seq()?)));
        let (events, newest) = match page {
            Ok(page) => page,
            Err(error) if error.code() == Code::CoreStopped => return Ok(false),
            Err(error) => return Err(error),
        };
        // A cursor above the newest event is not of this log: go on with what comes.
        self.cursor = self.cursor.map(|cursor| cursor.min(newest));
        self.behind = events.len() == EVENT_PAGE;
        self.ready.extend(events.into_iter().map(Arc::new));
        Ok(true)
    }

    /// Waits for a live event. False when the store is closed.
    async fn hear(&mut self) -> bool {
        let mut life = self.store.life();
        let heard = tokio::select! { biased;
            heard = self.live.recv() => heard,
            _ = life.wait_for(|life| *life == Life::Closed) => return false,
        };
        match heard {
            Ok(event) => match self.cursor {
                // The log had it already.
                Some(cursor) if event.seq <= cursor => {}
                Some(cursor) if event.seq == cursor.saturating_add(1) => {
                    self.ready.push_back(event);
                }
                Some(_) | None => self.behind = true,
            },
            Err(RecvError::Lagged(_)) => self.behind = true,
            Err(RecvError::Closed) => return false,
        }
        true
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

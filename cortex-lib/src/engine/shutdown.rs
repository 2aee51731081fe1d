//! Ending in order: turns are interrupted, sessions closed, and what is left is killed.
//!
//! Agents stay wanted, so that the next start brings them back. A turn that confirms its interrupt ends
//! CANCELLED and runs again then; one that does not is LOST, exactly as after a power cut.

use std::time::Duration;

use super::run::Engine;
use super::wake::{Job, Stop};
use crate::error::{Code, Result};
use crate::limits::{CLOSE_GRACE, INTERRUPT_GRACE};
use crate::store::ReadTx;

/// How far the end has come.
#[derive(Debug)]
pub(super) struct Shutdown {
    how: Stop,
    /// By the monotonic clock: turns that have not let go by then are not waited for.
    interrupts_until: Duration,
    told: bool,
    closing: bool,
    over: bool,
}

impl Shutdown {
    /// Whether nothing runs any more.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// How long a session has to close politely.
    pub(super) fn close_grace(&self) -> Duration {
        match self.how {
            Stop::InOrder => CLOSE_GRACE,
            Stop::AtOnce => Duration::ZERO,
        }
    }

    /// How long until turns are not waited for any more. None: sessions are being closed.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        (!self.closing).then(|| self.interrupts_until.saturating_sub(now))
    }
}

impl Engine {
    /// The core is told to end; told again, at once.
    pub(super) fn begin_shutdown(&mut self, how: Stop) {
        let until = match how {
            Stop::InOrder => self.core.env().monotonic().saturating_add(INTERRUPT_GRACE),
            Stop::AtOnce => Duration::ZERO,
        };
        match &mut self.shutdown {
            None => {
                self.shutdown = Some(Shutdown {
                    how,
                    interrupts_until: until,
                    told: false,
                    closing: false,
                    over: false,
                });
            }
            Some(shutdown) if how == Stop::AtOnce => {
                (shutdown.how, shutdown.interrupts_until) = (how, until);
            }
            Some(_) => {}
        }
    }

    /// One more look at how far the end has come.
    pub(super) async fn go_on_with_shutdown(&mut self) -> Result<()> {
        let now = self.core.env().monotonic();
        let Some(shutdown) = &mut self.shutdown else { return Ok(()) };
        if !shutdown.told {
            shutdown.told = true;
            let settings = self.core.settings();
            let told = self.record(move |tx| tx.end_attempts_for_shutdown(&settings)).await;
            match told {
                // Turns that cannot be told are not waited for: they are LOST, as after a power cut.
                Err(error) if error.code() == Code::StoreDiskFull => {
                    tracing::warn!("turns are not interrupted: {}", error.message());
                    if let Some(shutdown) = &mut self.shutdown {
                        shutdown.interrupts_until = Duration::ZERO;
                    }
                }
                other => other?,
            }
        }
        let Some(shutdown) = &mut self.shutdown else { return Ok(()) };
        let waits = shutdown.interrupts_until > now;
        let turns = self.core.store().read(|tx: &ReadTx<'_>| {
            Ok(tx.live_attempts()?.iter().any(|attempt| attempt.state.holds_agent()))
        })?;
        if shutdown.closing || !turns || !waits {
            shutdown.closing = true;
            self.close_everything();
        }
        let closing = self.shutdown.as_ref().is_some_and(|shutdown| shutdown.closing);
        if let Some(shutdown) = &mut self.shutdown {
            shutdown.over = closing
                && self.live.is_empty()
                && !self
                    .begun
                    .iter()
                    .any(|(job, begun)| matches!(job, Job::Open(_)) && !begun.finished);
        }
        Ok(())
    }

    fn close_everything(&mut self) {
        for (job, begun) in &self.begun {
            if matches!(job, Job::Open(_) | Job::Verify(_)) {
                begun.token.cancel();
            }
        }
        let sessions: Vec<_> = self.live.keys().cloned().collect();
        for session in sessions {
            if let Some(live) = self.live.get_mut(&session) {
                live.end.get_or_insert(crate::progress::SessionEnd::CoreGone);
            }
            let job = Job::Close(session);
            if !self.begun.contains_key(&job) {
                self.begin(job);
            }
        }
    }

    /// The store has failed: sessions are ended, and the next start settles the rest.
    pub(super) async fn abandon(&mut self) {
        for live in std::mem::take(&mut self.live).into_values() {
            live.session.close(Duration::ZERO).await;
        }
        self.begun.values().for_each(|begun| begun.token.cancel());
    }
}

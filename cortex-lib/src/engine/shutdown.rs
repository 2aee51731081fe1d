//! Ending in order: turns are interrupted, sessions closed, and what is left is killed.
//!
//! Agents stay wanted, so that the next start brings them back. A turn that confirms its interrupt ends
//! CANCELLED and runs again then; one that does not is LOST, exactly as after a power cut.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::run::Engine;
use super::wake::{Job, Stop};
use crate::error::{Code, Error, Result};
use crate::ids::SessionId;
use crate::limits::{CLOSE_GRACE, CLOSE_OVERRUN_MAX, INTERRUPT_GRACE};
use crate::port::{Host, Session};
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
                self.end_what_closes_politely();
            }
            Some(_) => {}
        }
    }

    /// Sessions that were asked to close have their grace still; what runs in them does not get it any more.
    fn end_what_closes_politely(&self) {
        let markers: Vec<_> = self.live.keys().map(ToString::to_string).collect();
        let host = std::sync::Arc::clone(self.core.host());
        self.core.supervisor().spawn(async move {
            let ended = host.sweep(markers).await;
            tracing::info!(processes = ended, "ended what was closing politely");
        });
    }

    /// One more look at how far the end has come.
    pub(super) async fn go_on_with_shutdown(&mut self) -> Result<()> {
        let now = self.core.env().monotonic();
        let Some(shutdown) = &mut self.shutdown else { return Ok(()) };
        if !shutdown.told {
            shutdown.told = true;
            let settings = self.core.settings();
            let told = self
                .record(move |tx| {
                    tx.end_attempts_for_shutdown(&settings)?;
                    tx.end_direct_turns_for_shutdown()
                })
                .await;
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
            Ok(tx.live_attempts()?.iter().any(|attempt| attempt.state.holds_agent())
                || !tx.live_direct_turns()?.is_empty())
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

    /// The engine cannot go on: sessions are ended, and the next start settles the rest.
    pub(super) async fn abandon(&mut self, why: &Error) {
        tracing::error!(code = %why.code(), "the engine cannot go on: {}", why.message());
        self.core.fail();
        // First, so that no session waits for room to tell something while it is being closed.
        self.deafen();
        self.begun.values().for_each(|begun| begun.token.cancel());
        let sessions = std::mem::take(&mut self.live);
        let closing = sessions.into_iter().map(|(id, live)| self.closing(id, live.session));
        futures_util::future::join_all(closing).await;
    }

    /// Ends one session at once.
    fn closing(
        &self,
        id: SessionId,
        session: Arc<dyn Session>,
    ) -> impl Future<Output = ()> + use<> {
        close_within(Arc::clone(self.core.host()), id, session, Duration::ZERO)
    }
}

/// Closes a session. A driver that does not come to an end is not waited for: what carries the marker of its
/// session is ended without it.
pub(super) async fn close_within(
    host: Arc<dyn Host>,
    id: SessionId,
    session: Arc<dyn Session>,
    grace: Duration,
) {
    let limit = grace.saturating_add(CLOSE_OVERRUN_MAX);
    let close = AssertUnwindSafe(session.close(grace)).catch_unwind();
    let fault = match tokio::time::timeout(limit, close).await {
        Ok(Ok(())) => return,
        Ok(Err(_)) => "panicked while it closed it",
        Err(_) => "did not close it in time",
    };
    let ended = host.sweep(vec![id.to_string()]).await;
    tracing::error!(session = %id, processes = ended, "the driver of a session {fault}");
}

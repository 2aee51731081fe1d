//! The loop of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::core::{Core, CoreState};
use super::jobs::close_unheard;
use super::live::Live;
use super::rows::Rows;
use super::shutdown::Shutdown;
use super::wake::{Job, Wake};
use crate::domain::Machine as _;
use crate::domain::attempt::{AttemptDuty, AttemptInput, AttemptState, EndReason};
use crate::domain::schedule;
use crate::error::{Code, Error, Result};
use crate::ids::{AttemptId, SessionId};
use crate::limits::{ENGINE_PASSES_MAX, ENGINE_RETRY_WAIT, STORE_RETRIES_MAX, STORE_RETRY_WAIT};
use crate::progress::{AttemptReport, BoardFacts};
use crate::store::{Attempt, DirectTurn, Timer, WriteTx};
use crate::time::Timestamp;

/// The engine: which jobs run, which sessions live, and nothing else that a row does not say.
pub(super) struct Engine {
    pub(super) core: Core,
    heard: mpsc::Receiver<Wake>,
    pub(super) live: BTreeMap<SessionId, Live>,
    /// Jobs that were begun. One stays until it is finished and its row owes it no more, so that nothing is
    /// done twice, and nothing is closed while it still opens.
    pub(super) begun: BTreeMap<Job, Begun>,
    pub(super) shutdown: Option<Shutdown>,
    /// Why a fact could not be kept however often it was tried.
    given_up: OnceLock<Error>,
}

/// A job that was begun.
#[derive(Debug)]
pub(super) struct Begun {
    /// Ends it, if it is of a kind that can be ended.
    pub(super) token: CancellationToken,
    pub(super) finished: bool,
}

impl Engine {
    pub(super) fn new(core: Core, heard: mpsc::Receiver<Wake>) -> Self {
        Self {
            core,
            heard,
            live: BTreeMap::new(),
            begun: BTreeMap::new(),
            shutdown: None,
            given_up: OnceLock::new(),
        }
    }

    /// Runs until the core is told to end and nothing runs any more, or its store has failed.
    pub(super) async fn run(mut self) {
        let store = self.core.store().clone();
        let mut changes = store.changes();
        let mut waiting: Vec<oneshot::Sender<()>> = Vec::new();
        loop {
            changes.mark_unchanged();
            let settled = match store.failed().or_else(|| self.given_up.get().cloned()) {
                Some(why) => Err(why),
                None => self.settle().await,
            };
            let due = match settled {
                Ok(due) => due,
                Err(error) if self.is_at_its_end(error.code()) => {
                    self.abandon(&error).await;
                    break;
                }
                Err(error) => {
                    tracing::error!(code = %error.code(), "the engine tries again: {}", error.message());
                    Some(self.core.store().steady().after(ENGINE_RETRY_WAIT))
                }
            };
            if self.shutdown.as_ref().is_some_and(Shutdown::is_over) {
                break;
            }
            let wait =
                due.map_or(Duration::from_hours(1), |due| due.since(self.core.store().steady()));
            tokio::select! { biased;
                wake = self.heard.recv() => match wake {
                    Some(Wake::Stop(how, answer)) => {
                        waiting.push(answer);
                        self.begin_shutdown(how);
                    }
                    Some(Wake::Session(id, event)) => self.in_session(&id, event).await,
                    Some(Wake::Done(job, done)) => self.job_done(job, done).await,
                    // The core holds a sender for as long as the engine runs.
                    None => break,
                },
                // Nothing commits any more, so nothing else would wake it; and what happens cannot be kept.
                why = store.wait_over() => {
                    self.abandon(&why).await;
                    break;
                }
                more = changes.changed() => if more.is_err() { break },
                () = pause(wait) => {}
            }
        }
        self.hear_out(&mut waiting).await;
        for answer in waiting {
            ended(answer);
        }
    }

    /// Hears nothing new.
    pub(super) fn deafen(&mut self) {
        self.heard.close();
    }

    /// What came after the last look: stops are over too, and a session that opened must not live on.
    async fn hear_out(&mut self, waiting: &mut Vec<oneshot::Sender<()>>) {
        self.deafen();
        while let Some(wake) = self.heard.recv().await {
            match wake {
                Wake::Stop(_, answer) => waiting.push(answer),
                other => close_unheard(Arc::clone(self.core.host()), other).await,
            }
        }
    }

    /// Does what is due and owed until nothing more comes of it. Returns when to look again by time alone.
    async fn settle(&mut self) -> Result<Option<Timestamp>> {
        let mut next_due = None;
        for _ in 0..ENGINE_PASSES_MAX {
            let before = self.commits();
            let passed = self.pass().await;
            if self.shutdown.is_some() {
                // Whatever cannot be written now, the end comes.
                self.go_on_with_shutdown().await?;
            }
            next_due = self.next_due(&passed?);
            if self.commits() == before {
                break;
            }
        }
        Ok(next_due)
    }

    fn commits(&self) -> u64 {
        *self.core.store().changes().borrow()
    }

    /// Looks once, and does what is due and owed by what it sees.
    async fn pass(&mut self) -> Result<Rows> {
        let dying =
            self.live.iter().filter(|(_, live)| live.end.is_some()).map(|(id, _)| id.clone());
        let facts = BoardFacts { dying: dying.collect(), ..self.core.board_facts() };
        let steady = self.core.store().steady();
        let rows = self.core.store().read(|tx| Rows::look(tx, &facts, steady))?;
        let before = self.commits();
        if self.end_what_is_over(&rows).await? && self.commits() != before {
            // Nothing begins by rows that are out of date.
            return Ok(rows);
        }
        self.begin_jobs(&rows);
        // What has begun comes to its runtime before anything else is done here.
        tokio::task::yield_now().await;
        if self.shutdown.is_none() && !rows.plan.starts.is_empty() {
            self.start_tasks(facts).await?;
        }
        Ok(rows)
    }

    /// When something changes by time alone.
    fn next_due(&self, rows: &Rows) -> Option<Timestamp> {
        let steady = self.core.store().steady();
        let now = self.core.env().monotonic();
        let limit = self.core.settings().stall_limit();
        let attempts = self.running_attempts(rows).map(|(_, live)| live);
        let pulses = attempts.chain(self.running_direct_turns(rows).map(|(_, live)| live));
        let stalls = pulses.map(|live| live.pulse.look_again_at(limit, now));
        let stall = stalls.min().map(|at| steady.after(at.saturating_sub(now)));
        let held = if self.shutdown.is_none() { rows.plan.next_due } else { None };
        let shutdown = self.shutdown.as_ref().and_then(|shutdown| shutdown.left(now));
        let shutdown = shutdown.map(|left| steady.after(left));
        [rows.next_timer, held, stall, shutdown].into_iter().flatten().min()
    }

    /// Rings timers, and ends what is silent for too long or has nobody to report its end. Returns whether anything was.
    async fn end_what_is_over(&mut self, rows: &Rows) -> Result<bool> {
        let (now, limit) = (self.core.env().monotonic(), self.core.settings().stall_limit());
        let stalls = |live: &Live| live.pulse.stalls_at(limit).is_some_and(|at| at <= now);
        let attempts = self.running_attempts(rows).filter(|(_, live)| stalls(live));
        let attempts: Vec<_> = attempts.map(|(attempt, _)| &attempt.id).collect();
        let turns = self.running_direct_turns(rows).filter(|(_, live)| stalls(live));
        let turns: Vec<_> = turns.map(|(turn, _)| turn.id.clone()).collect();
        let halted: Vec<_> = self.unverified_halts(rows).collect();
        let any =
            !(rows.due.is_empty() && attempts.is_empty() && turns.is_empty() && halted.is_empty());
        for timer in &rows.due {
            self.ring(timer.clone()).await?;
        }
        for id in attempts {
            let message = Some(format!("it said nothing for {} s", limit.as_secs()));
            let report = AttemptReport { message, ..AttemptReport::default() };
            self.tell_attempt(id, AttemptInput::End(EndReason::Stalled), report).await?;
        }
        for turn in turns {
            self.record(move |tx| tx.stall_direct_turn(&turn)).await?;
        }
        for id in halted {
            self.verification_ended(id).await?;
        }
        Ok(any)
    }

    async fn ring(&self, timer: Timer) -> Result<()> {
        let settings = self.core.settings();
        self.record(move |tx| {
            tx.clear_timer(&timer)?;
            match &timer {
                Timer::AttemptDeadline(id) => {
                    let limit = AttemptReport {
                        message: Some("its time was over".to_owned()),
                        ..AttemptReport::default()
                    };
                    let end = AttemptInput::End(EndReason::TimedOut);
                    stale_is_fine(tx.attempt_input(id, end, &limit, &settings))
                }
                Timer::AttemptGrace(id) => {
                    let report = AttemptReport::default();
                    stale_is_fine(tx.attempt_input(id, AttemptInput::GraceOver, &report, &settings))
                }
                Timer::TurnGrace(id) => tx.give_up_direct_turn(id, &settings),
                Timer::ApprovalDue(id) => tx.approval_timed_out(id, &settings),
                Timer::ConnectionDue(id) => tx.connection_timed_out(id),
                Timer::MessagesDue => tx.expire_due_messages(),
            }
        })
        .await
    }

    /// Attempts whose turn went to a session of this life, accepted or not, and has not ended. Those that wait for a person
    /// are left out: their silence is not theirs (H-45).
    fn running_attempts<'a>(
        &'a self,
        rows: &'a Rows,
    ) -> impl Iterator<Item = (&'a Attempt, &'a Live)> {
        let running = rows.attempts.iter().filter(|attempt| {
            matches!(attempt.state, AttemptState::Starting | AttemptState::Running)
                && !self.is_asking(&attempt.session_id, rows)
        });
        running
            .filter_map(|attempt| self.live.get(&attempt.session_id).map(|live| (attempt, live)))
            .filter(|(attempt, live)| live.pulse.works_on(&attempt.turn_id))
    }

    /// Direct turns that went to a session of this life and have not ended or been told to, and do not wait for a person.
    fn running_direct_turns<'a>(
        &'a self,
        rows: &'a Rows,
    ) -> impl Iterator<Item = (&'a DirectTurn, &'a Live)> {
        let running = rows
            .turns
            .iter()
            .filter(|turn| turn.state.may_act() && !self.is_asking(&turn.session_id, rows));
        running
            .filter_map(|turn| self.live.get(&turn.session_id).map(|live| (turn, live)))
            .filter(|(turn, live)| live.pulse.works_on(&turn.id))
    }

    /// Whether a session waits for a person, or for us: an answer that is on its way counts no more.
    fn is_asking(&self, session: &SessionId, rows: &Rows) -> bool {
        let mut open = rows.approvals.iter().filter(|open| open.session_id == *session);
        open.any(|open| !self.begun.contains_key(&Job::Answer(open.id.clone())))
    }

    /// A verification that was cancelled before its commands were begun has nobody to report its end.
    fn unverified_halts<'a>(&'a self, rows: &'a Rows) -> impl Iterator<Item = &'a AttemptId> {
        let attempts = rows.attempts.iter();
        attempts
            .filter(|attempt| attempt.state.owes() == Some(AttemptDuty::HaltVerification))
            .map(|attempt| &attempt.id)
            .filter(|id| !self.runs(&Job::Verify((*id).clone())))
    }

    /// Begins what rows owe and nobody does yet; forgets what they owe no more.
    fn begin_jobs(&mut self, rows: &Rows) {
        // Sessions that ended by themselves are closed too, so that nothing of them lives on.
        let over = self.live.iter().filter(|(_, live)| live.end.is_some());
        let closes = over.map(|(id, _)| Job::Close(id.clone()));
        let owed: BTreeSet<_> = rows.owed.iter().cloned().chain(closes).collect();
        self.begun.retain(|job, begun| {
            let wanted = owed.contains(job);
            if !wanted {
                begun.token.cancel();
            }
            wanted || !begun.finished
        });
        for job in owed {
            if !self.begun.contains_key(&job) && self.may_begin(&job) {
                self.begin(job);
            }
        }
    }

    fn may_begin(&self, job: &Job) -> bool {
        match job {
            Job::Open(_) | Job::SendDirect(_) | Job::Steer(..) | Job::Prepare(_) => {
                self.shutdown.is_none()
            }
            Job::Gather(_) | Job::Point(_) => self.shutdown.is_none() && !self.core.is_at_rest(),
            // Nothing else may be at work in a worktree that goes.
            Job::Save(id) | Job::Remove(id) => {
                let before = [Job::Prepare, Job::Gather, Job::Verify, Job::Save];
                let alone = before.iter().all(|kind| !self.runs(&kind(id.clone())));
                alone && self.shutdown.is_none() && !self.core.is_at_rest()
            }
            // A person waits for it. Two at once would only find each other's lock.
            Job::Squash(_) => {
                let one_runs =
                    |(job, begun): (&Job, &Begun)| matches!(job, Job::Squash(_)) && !begun.finished;
                self.shutdown.is_none() && !self.begun.iter().any(one_runs)
            }
            Job::Verify(_) => {
                let running = self
                    .begun
                    .iter()
                    .filter(|(job, begun)| matches!(job, Job::Verify(_)) && !begun.finished)
                    .count();
                let max = self.core.settings().resources.max_verifications;
                let room = u32::try_from(running).is_ok_and(|running| running < max);
                room && self.shutdown.is_none() && !self.core.is_at_rest()
            }
            Job::Close(id) => !self.runs(&Job::Open(id.clone())),
            Job::SendTurn(_) | Job::InterruptTurn(_) | Job::InterruptDirect(_) | Job::Answer(_) => {
                true
            }
        }
    }

    fn runs(&self, job: &Job) -> bool {
        self.begun.get(job).is_some_and(|begun| !begun.finished)
    }

    /// Assigns what may start. The plan is made again inside the transaction: nothing can come between.
    async fn start_tasks(&self, facts: BoardFacts) -> Result<()> {
        self.record(move |tx| {
            for (task, agent) in schedule::plan(&tx.board(&facts)?, tx.steady()).starts {
                tx.assign(&task, &agent, &facts.worktrees)?;
            }
            Ok(())
        })
        .await
    }

    /// Writes something that has happened. A full disk, or another program that holds the file, is waited
    /// out: the fact stays true meanwhile.
    pub(super) async fn record<T: Send + 'static>(
        &self,
        fact: impl Fn(&mut WriteTx<'_>) -> Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        let mut tries = 0_u32;
        loop {
            let again = fact.clone();
            match self.core.store().write(move |tx| again(tx)).await {
                Err(error) if self.may_pass(&error) => {
                    // A person can free a disk at any time; nothing else takes that long to pass.
                    tries = tries.saturating_add(u32::from(error.code() != Code::StoreDiskFull));
                    if tries > STORE_RETRIES_MAX {
                        return Err(self.given_up.get_or_init(|| error).clone());
                    }
                    let wait = STORE_RETRY_WAIT.as_secs();
                    tracing::warn!(code = %error.code(), "{}; trying again in {wait} s", error.message());
                    pause(STORE_RETRY_WAIT).await;
                }
                other => return other,
            }
        }
    }

    /// Whether a write that failed may be tried again: nothing of it was kept, and nobody waits for the end.
    fn may_pass(&self, error: &Error) -> bool {
        matches!(error.code(), Code::StoreDiskFull | Code::StoreFailed)
            && self.core.store().failed().is_none()
            && self.core.state() != CoreState::Stopping
    }

    /// Whether an error is one that only the next open can settle. A store that failed once and is not
    /// poisoned is tried again: it kept nothing of that.
    fn is_at_its_end(&self, code: Code) -> bool {
        match code {
            Code::StoreFailed => {
                self.core.store().failed().is_some() || self.given_up.get().is_some()
            }
            Code::StoreCorrupt | Code::CoreStopped => true,
            _ => false,
        }
    }
}

/// Tells that nothing runs any more. Whoever asked may have gone.
fn ended(answer: oneshot::Sender<()>) {
    if answer.send(()).is_err() {
        tracing::debug!("nobody waits for the end");
    }
}

/// Waits by the engine's own clock. Not a sleep of a rule: what is due stands in rows.
#[expect(clippy::disallowed_methods, reason = "the one place where the engine waits")]
pub(super) async fn pause(wait: Duration) {
    tokio::time::sleep(wait).await;
}

/// What comes too late changes nothing.
pub(super) fn stale_is_fine<T>(result: Result<T>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Code::AttemptStale => Ok(()),
        Err(error) => Err(error),
    }
}

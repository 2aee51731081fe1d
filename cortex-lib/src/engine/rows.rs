//! What the engine sees of the rows in one look: what is due, what runs, and what the world is owed.

use std::collections::BTreeSet;

use super::steering::owed_to_steers;
use super::wake::Job;
use crate::domain::approval::ApprovalDuty;
use crate::domain::attempt::AttemptDuty;
use crate::domain::schedule::{self, Schedule};
use crate::domain::turn::TurnDuty;
use crate::domain::workspace::WorkspaceDuty;
use crate::domain::{Machine as _, agent::AgentDuty};
use crate::error::Result;
use crate::progress::BoardFacts;
use crate::store::{Approval, Attempt, DirectTurn, ReadTx, Timer};
use crate::time::Timestamp;

/// One look at the rows, which are of one snapshot.
#[derive(Debug)]
pub(super) struct Rows {
    /// Timers that are due.
    pub(super) due: Vec<Timer>,
    /// When the next timer is due, or was.
    pub(super) next_timer: Option<Timestamp>,
    /// Attempts that are not over.
    pub(super) attempts: Vec<Attempt>,
    /// Direct turns that are not over.
    pub(super) turns: Vec<DirectTurn>,
    /// Tool requests that are not answered.
    pub(super) approvals: Vec<Approval>,
    /// What the world is owed.
    pub(super) owed: BTreeSet<Job>,
    /// What starts now.
    pub(super) plan: Schedule,
}

impl Rows {
    /// Looks, at the time `steady`.
    pub(super) fn look(tx: &ReadTx<'_>, facts: &BoardFacts, steady: Timestamp) -> Result<Self> {
        let (next_timer, attempts) = (tx.next_timer()?, tx.live_attempts()?);
        let rings = next_timer.is_some_and(|due| due <= steady);
        let mut rows = Self {
            due: if rings { tx.due_timers(steady)? } else { Vec::new() },
            next_timer,
            plan: schedule::plan(&tx.board_with(&attempts, facts)?, steady),
            attempts,
            turns: tx.live_direct_turns()?,
            approvals: tx.open_approvals()?,
            owed: BTreeSet::new(),
        };
        rows.owed = rows.owed_jobs(tx)?;
        Ok(rows)
    }

    fn owed_jobs(&self, tx: &ReadTx<'_>) -> Result<BTreeSet<Job>> {
        let agents =
            tx.agents_in_motion()?.into_iter().filter_map(|agent| match agent.state.owes()? {
                AgentDuty::OpenSession(id) => Some(Job::Open(id)),
                AgentDuty::CloseSession(id) => Some(Job::Close(id)),
            });
        let mut owed = BTreeSet::new();
        for attempt in &self.attempts {
            owed.extend(match attempt.state.owes() {
                Some(AttemptDuty::Prepare) => Some(Job::Prepare(attempt.id.clone())),
                Some(AttemptDuty::OpenSession) => Some(Job::Open(attempt.session_id.clone())),
                Some(AttemptDuty::SendTurn) => Some(Job::SendTurn(attempt.id.clone())),
                Some(AttemptDuty::InterruptTurn) => Some(Job::InterruptTurn(attempt.id.clone())),
                Some(AttemptDuty::EndSession) => Some(Job::Close(attempt.session_id.clone())),
                // What lives in a worktree would change it under the hands of git.
                Some(AttemptDuty::Gather) if attempt.is_isolated() && is_live(tx, attempt)? => None,
                Some(AttemptDuty::Gather) => Some(Job::Gather(attempt.id.clone())),
                Some(AttemptDuty::Verify) => Some(Job::Verify(attempt.id.clone())),
                // Ending a verification is to stop its job, which reports back.
                Some(AttemptDuty::HaltVerification) | None => None,
            });
        }
        owed.extend(sessions_to_close(tx)?);
        owed.extend(owed_to_worktrees(tx)?);
        let turns = self.turns.iter().filter_map(|turn| match turn.state.owes()? {
            TurnDuty::Send => Some(Job::SendDirect(turn.id.clone())),
            TurnDuty::Interrupt => Some(Job::InterruptDirect(turn.id.clone())),
        });
        let answers = self.approvals.iter().filter_map(|approval| {
            approval.state.owes().map(|ApprovalDuty::Answer| Job::Answer(approval.id.clone()))
        });
        owed.extend(agents.chain(turns).chain(answers));
        owed.extend(owed_to_steers(tx)?);
        Ok(owed)
    }
}

/// Whether the session of an attempt may live.
fn is_live(tx: &ReadTx<'_>, attempt: &Attempt) -> Result<bool> {
    Ok(tx.session(&attempt.session_id)?.is_some_and(|session| session.ended_at.is_none()))
}

/// Sessions that were for one attempt alone, whose turn is over.
fn sessions_to_close(tx: &ReadTx<'_>) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for session in tx.live_sessions_of_attempts()? {
        let Some(attempt) = &session.attempt_id else { continue };
        if tx.attempt(attempt)?.is_none_or(|attempt| !attempt.state.holds_agent()) {
            jobs.push(Job::Close(session.id));
        }
    }
    Ok(jobs)
}

/// What the worktrees of attempts are owed, once nothing lives in them.
fn owed_to_worktrees(tx: &ReadTx<'_>) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for workspace in tx.workspaces_owed()? {
        let Some(attempt) = tx.attempt(&workspace.attempt_id)? else { continue };
        let live = is_live(tx, &attempt)?;
        jobs.extend(match workspace.state.owes() {
            Some(WorkspaceDuty::Save) if !live => Some(Job::Save(attempt.id)),
            Some(WorkspaceDuty::Remove) if !live => Some(Job::Remove(attempt.id)),
            Some(WorkspaceDuty::Point) => Some(Job::Point(attempt.id)),
            Some(WorkspaceDuty::Squash) => Some(Job::Squash(attempt.id)),
            Some(WorkspaceDuty::Save | WorkspaceDuty::Remove) | None => None,
        });
    }
    Ok(jobs)
}

//! Giving a turn that runs more to go on.

use std::collections::BTreeSet;

use super::jobs::{Outcome, gone};
use super::run::Engine;
use super::wake::{Done, Job};
use crate::domain::Machine as _;
use crate::domain::instruction;
use crate::domain::turn::TurnState;
use crate::error::Result;
use crate::ids::TurnId;
use crate::port::Steered;
use crate::store::ReadTx;

impl Engine {
    /// Hands a message to the turn that runs, under the rules of a turn of its own.
    pub(super) fn steer(&self, id: &TurnId, turn: &TurnId) -> Result<Outcome> {
        let steady = self.core.store().steady();
        let (steer, inbox) = self.core.store().read(|tx| {
            let steer = tx.steer(id)?.ok_or_else(gone)?;
            let inbox = tx.inbox_count(&steer.agent_id, steady)?;
            Ok((steer, inbox))
        })?;
        let (session, turn) = (self.session(&steer.session_id)?, turn.clone());
        let text = instruction::with_inbox(steer.text, inbox);
        Ok(Box::pin(async move { Done::Steered(session.steer(&turn, text).await) }))
    }

    /// Writes down whether the turn heard it.
    pub(super) async fn steered(&mut self, id: &TurnId, steered: Result<Steered>) -> Result<()> {
        let id = id.clone();
        self.record(move |tx| match &steered {
            Ok(Steered::Taken) => tx.steer_taken(&id),
            Ok(Steered::TurnOver) => tx.steer_missed(&id),
            Err(error) => tx.steer_failed(&id, error),
        })
        .await
    }
}

/// What is owed to turns that run: one message at a time for each, in the order in which they came.
pub(super) fn owed_to_steers(tx: &ReadTx<'_>) -> Result<Vec<Job>> {
    let (mut jobs, mut turns) = (Vec::new(), BTreeSet::new());
    for steer in tx.open_steers()? {
        if !turns.insert(steer.turn_id.clone()) || steer.state.owes().is_none() {
            continue;
        }
        // Before the runtime has accepted the turn there is nothing that could hear it.
        let turn = tx.direct_turn(&steer.turn_id)?;
        if turn.is_none_or(|turn| turn.state != TurnState::Sending) {
            jobs.push(Job::Steer(steer.id, steer.turn_id));
        }
    }
    Ok(jobs)
}

//! Giving a turn that runs more to go on.

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::jobs::{Outcome, gone, panicked};
use super::run::Engine;
use super::wake::{Done, Job};
use crate::domain::instruction;
use crate::error::{Code, Result};
use crate::ids::TurnId;
use crate::limits::STEER_TIMEOUT;
use crate::port::Steered;
use crate::progress::not_known;
use crate::store::ReadTx;

impl Engine {
    /// Hands a message to the turn that runs, under the rules of a turn of its own. A driver that does not say in time
    /// what becomes of it does not hold up those behind it; it is not ended half way, in the middle of a line.
    pub(super) fn steer(&self, id: &TurnId, turn: &TurnId) -> Result<Outcome> {
        let steady = self.core.store().steady();
        let (sent, inbox) = self.core.store().read(|tx| {
            let sent = tx.steer(id)?.ok_or_else(gone)?.sent;
            let inbox = tx.inbox_count(&sent.agent_id, steady)?;
            Ok((sent, inbox))
        })?;
        let (session, turn) = (self.session(&sent.session_id)?, turn.clone());
        let text = instruction::with_inbox(sent.text, inbox);
        let (supervisor, stop) =
            (self.core.supervisor().clone(), self.core.supervisor().stopping());
        Ok(Box::pin(async move {
            let (tell, told) = oneshot::channel();
            supervisor.spawn(async move {
                tokio::select! { biased;
                    () = stop.cancelled() => {}
                    // Whoever waited may have given up.
                    steered = session.steer(&turn, text) => drop(tell.send(steered)),
                }
            });
            Done::Steered(match timeout(STEER_TIMEOUT, told).await {
                Ok(Ok(steered)) => steered,
                Ok(Err(_)) => Err(panicked()),
                Err(_) => Err(not_known(Code::RuntimeProtocol, "it did not say so in time")),
            })
        }))
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

/// What is owed to turns that run.
pub(super) fn owed_to_steers(tx: &ReadTx<'_>) -> Result<Vec<Job>> {
    let steers = tx.steers_on_their_way()?.into_iter();
    Ok(steers.map(|steer| Job::Steer(steer.sent.id, steer.turn_id)).collect())
}

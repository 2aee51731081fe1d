//! Turns on their way to a session: an interrupt never comes there before its turn.

use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::Result;
use crate::ids::TurnId;
use crate::port::{Session, Turn};

/// Sends a turn. `handed` is dropped as soon as the driver has begun to, or never will.
pub(super) async fn send(session: Arc<dyn Session>, turn: Turn, handed: DropGuard) -> Result<()> {
    let (mut sending, mut handed) = (session.send(turn), Some(handed));
    std::future::poll_fn(|cx| {
        let sent = sending.as_mut().poll(cx);
        drop(handed.take());
        sent
    })
    .await
}

/// Interrupts a turn once the driver has begun to send it. Before that the driver would not know it and say that
/// all is well: the turn would run, told to end by nobody.
pub(super) async fn interrupt(
    session: Arc<dyn Session>,
    turn: TurnId,
    handed: CancellationToken,
) -> Result<()> {
    handed.cancelled().await;
    session.interrupt(&turn).await
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;

    use super::*;
    use crate::ids::SessionId;
    use crate::port::{Asked, Runtime as _, Script, ScriptedRuntime, SessionSpec};

    /// A session, and a turn for it.
    async fn opened() -> (ScriptedRuntime, Arc<dyn Session>, Turn) {
        let runtime = ScriptedRuntime::new("scripted").turn(|_| Script::new());
        let spec = SessionSpec::new(SessionId::new("s"), "/p".into(), "/s".into());
        let session = runtime.open(spec).await.unwrap().session;
        let id = TurnId::new("t");
        (runtime, session, Turn { id, attempt_id: None, instruction: "Go.".to_owned() })
    }

    /// Two jobs of the engine run beside each other, and the later one may come first.
    #[tokio::test]
    async fn an_interrupt_that_runs_before_its_send_comes_to_the_driver_behind_it() {
        let (runtime, session, turn) = opened().await;
        let handed = CancellationToken::new();
        let (guard, id) = (handed.clone().drop_guard(), turn.id.clone());
        let sending = send(Arc::clone(&session), turn, guard);
        let (interrupted, sent) = join(interrupt(session, id, handed), sending).await;
        assert!(interrupted.is_ok() && sent.is_ok());
        let asked = runtime.world().asked();
        assert!(
            matches!(asked.as_slice(), [Asked::Open(_), Asked::Turn(..), Asked::Interrupt(..)]),
            "{asked:?}"
        );
    }

    /// A send that the end of the core takes away holds nobody up.
    #[tokio::test]
    async fn a_send_that_is_dropped_before_it_ran_lets_its_interrupt_go_on() {
        let (_, session, turn) = opened().await;
        let handed = CancellationToken::new();
        let (guard, id) = (handed.clone().drop_guard(), turn.id.clone());
        drop(send(Arc::clone(&session), turn, guard));
        assert!(interrupt(session, id, handed).await.is_ok());
    }
}

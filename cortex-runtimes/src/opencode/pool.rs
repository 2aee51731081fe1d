//! The servers that run: one for all sessions of the same trust, started by the first and ended with the last.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cortex_lib::error::{Code, Error, Result};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::server::Server;

/// The servers of one runtime.
#[derive(Debug, Default)]
pub(super) struct Pool {
    // Held to look something up, never over an await.
    slots: Mutex<BTreeMap<bool, Weak<Slot>>>,
}

#[derive(Debug, Default)]
struct Slot {
    server: OnceCell<Server>,
}

/// A hold on a server.
#[derive(Debug)]
pub(super) struct Lease {
    slot: Arc<Slot>,
}

/// The server of a lease. It has started before there is a lease.
impl Deref for Lease {
    type Target = Server;

    #[expect(clippy::expect_used, reason = "a lease is made after its server")]
    fn deref(&self) -> &Server {
        self.slot.server.get().expect("the server of a lease has started")
    }
}

impl Pool {
    /// The server for sessions that are `trusted` or not. Whoever comes first starts it; the others wait.
    pub(super) async fn lease(
        &self,
        trusted: bool,
        start: impl Future<Output = Result<Server>>,
    ) -> Result<Lease> {
        let slot = self.slot(trusted);
        slot.server.get_or_try_init(|| start).await?;
        Ok(Lease { slot })
    }

    fn slot(&self, trusted: bool) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = |slot: &Arc<Slot>| slot.server.get().is_none_or(|server| server.end().is_none());
        if let Some(slot) = slots.get(&trusted).and_then(Weak::upgrade).filter(runs) {
            return slot;
        }
        let slot = Arc::new(Slot::default());
        slots.insert(trusted, Arc::downgrade(&slot));
        slot
    }
}

impl Lease {
    /// A server for one session alone.
    pub(super) async fn alone(start: impl Future<Output = Result<Server>>) -> Result<Self> {
        let slot = Arc::new(Slot::default());
        slot.server.get_or_try_init(|| start).await?;
        Ok(Self { slot })
    }

    /// Lets go of the server. When nobody else holds it, it returns once nothing of it lives. After `by` it is ended by
    /// force.
    pub(super) async fn release(self, by: Instant) {
        let mut gone = self.watch();
        let last = Arc::into_inner(self.slot).and_then(|slot| slot.server.into_inner());
        let was_last = last.map(|server| server.stop(by)).is_some();
        // An error means that the loop of the server was dropped, which only a stopped runtime does.
        if was_last && gone.wait_for(Option::is_some).await.is_err() {
            tracing::debug!("the loop of a server was dropped");
        }
    }

    /// The error of a server that does not answer.
    pub(super) fn protocol(&self, what: &str, why: &impl std::fmt::Display) -> Error {
        let why = self.end().unwrap_or_else(|| why.to_string());
        Error::new(Code::RuntimeProtocol, format!("OpenCode did not {what}: {why}"))
    }
}

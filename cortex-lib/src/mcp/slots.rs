//! Who holds a connection to the endpoint, and who makes room for whom.
//!
//! A connection is a stranger's until a request over it has shown a good credential. Strangers have a pool of their own,
//! in which the oldest makes room for the newest: holding connections open keeps nobody out. A connection of
//! somebody who is known is never closed for another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::api::Caller;
use crate::error::{Code, Error, Result};
use crate::ids::SessionId;
use crate::limits::{
    MCP_CONNECTIONS_MAX, MCP_CONNECTIONS_OF_SESSION_MAX, MCP_CONNECTIONS_OF_SESSIONS_MAX,
    MCP_STRANGERS_MAX,
};

/// The connections that are open. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    // Taken for a look at two small maps, by connections that come and go on every thread.
    table: Arc<Mutex<Table>>,
}

/// The place of one connection. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    number: u64,
    lost: CancellationToken,
    is_known: AtomicBool,
    slots: Slots,
}

impl Slots {
    /// A place for a connection that just came.
    pub(super) fn arrive(&self) -> Slot {
        let (number, lost) = self.table().arrive();
        Slot { number, lost, is_known: AtomicBool::new(false), slots: self.clone() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Ends when the connection must make room.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Whether a request over the connection has shown a credential.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// The connection is one of `caller`, who has shown a credential. From then on it makes room for nobody.
    ///
    /// # Errors
    ///
    /// `http.too_many_connections`.
    pub(super) fn recognise(&self, caller: &Caller) -> Result<()> {
        if !self.is_known() {
            let session = caller.session().map(|session| &session.session_id);
            self.slots.table().recognise(self.number, session)?;
            self.is_known.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.table().leave(self.number);
    }
}

/// The rule. Connections are numbered as they come, so the first of a map is the oldest.
#[derive(Debug, Default)]
struct Table {
    next: u64,
    strangers: BTreeMap<u64, CancellationToken>,
    /// Whose they are: a session's, or none for the user's.
    known: BTreeMap<u64, Option<SessionId>>,
}

impl Table {
    fn arrive(&mut self) -> (u64, CancellationToken) {
        if self.strangers.len() >= MCP_STRANGERS_MAX
            && let Some((_, lost)) = self.strangers.pop_first()
        {
            lost.cancel();
        }
        let (number, lost) = (self.next, CancellationToken::new());
        self.next = number.saturating_add(1);
        self.strangers.insert(number, lost.clone());
        (number, lost)
    }

    fn recognise(&mut self, number: u64, session: Option<&SessionId>) -> Result<()> {
        self.room(session)?;
        // One that just lost its place is closed before its answer is written.
        if self.strangers.remove(&number).is_some() {
            self.known.insert(number, session.cloned());
        }
        Ok(())
    }

    /// Whether one more connection may be known: no session takes the others' share, nor all of them the user's.
    fn room(&self, session: Option<&SessionId>) -> Result<()> {
        let full = |most: usize, whose: &str| {
            let message = format!("{most} connections{whose} are open, and that is the most");
            Err(Error::new(Code::HttpTooManyConnections, message))
        };
        if self.known.len() >= MCP_CONNECTIONS_MAX {
            return full(MCP_CONNECTIONS_MAX, "");
        }
        let Some(session) = session else { return Ok(()) };
        let of_sessions = self.known.values().flatten();
        if of_sessions.clone().count() >= MCP_CONNECTIONS_OF_SESSIONS_MAX {
            return full(MCP_CONNECTIONS_OF_SESSIONS_MAX, " of sessions");
        }
        if of_sessions.filter(|known| *known == session).count() >= MCP_CONNECTIONS_OF_SESSION_MAX {
            return full(MCP_CONNECTIONS_OF_SESSION_MAX, " of this session");
        }
        Ok(())
    }

    fn leave(&mut self, number: u64) {
        self.strangers.remove(&number);
        self.known.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn session(name: u8) -> SessionId {
        SessionId::new(format!("s-{name}"))
    }

    /// Makes so many connections known; how many of them were.
    fn known(table: &mut Table, whose: Option<u8>, wanted: usize) -> usize {
        let session = whose.map(session);
        let mut recognise = || {
            let (number, _) = table.arrive();
            table.recognise(number, session.as_ref()).is_ok()
        };
        (0..wanted).filter(|_| recognise()).count()
    }

    #[test]
    fn the_oldest_stranger_makes_room() {
        let mut table = Table::default();
        let all: Vec<_> = (0..=MCP_STRANGERS_MAX).map(|_| table.arrive().1).collect();
        let lost: Vec<_> = all.iter().map(CancellationToken::is_cancelled).collect();
        assert!(lost[0]);
        assert!(!lost[1..].contains(&true));
    }

    #[test]
    fn strangers_take_nothing_from_who_is_known() {
        let mut table = Table::default();
        let (number, lost) = table.arrive();
        table.recognise(number, None).unwrap();
        for _ in 0..MCP_STRANGERS_MAX * 3 {
            table.arrive();
        }
        assert!(!lost.is_cancelled());
        assert_eq!(known(&mut table, None, MCP_CONNECTIONS_MAX), MCP_CONNECTIONS_MAX - 1);
    }

    #[test]
    fn sessions_leave_room_for_each_other_and_for_the_user() {
        let mut table = Table::default();
        let many = MCP_CONNECTIONS_MAX * 2;
        assert_eq!(known(&mut table, Some(0), many), MCP_CONNECTIONS_OF_SESSION_MAX);
        let others: usize = (1..9).map(|name| known(&mut table, Some(name), many)).sum();
        assert_eq!(others, MCP_CONNECTIONS_OF_SESSIONS_MAX - MCP_CONNECTIONS_OF_SESSION_MAX);
        let left = MCP_CONNECTIONS_MAX - MCP_CONNECTIONS_OF_SESSIONS_MAX;
        assert_eq!(known(&mut table, None, many), left);
    }

    #[test]
    fn who_lost_a_place_gets_none_by_a_credential() {
        let mut table = Table::default();
        let (number, _) = table.arrive();
        for _ in 0..MCP_STRANGERS_MAX {
            table.arrive();
        }
        table.recognise(number, None).unwrap();
        assert_eq!(table.known.len(), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arrive,
        /// The connection, counted from the newest, and whose it is.
        Recognise(usize, Option<u8>),
        Leave(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let which = 0..MCP_STRANGERS_MAX * 2;
        prop_oneof![
            4 => Just(Step::Arrive),
            3 => (which.clone(), proptest::option::of(0..5_u8)).prop_map(|(n, of)| Step::Recognise(n, of)),
            1 => which.prop_map(Step::Leave),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn bounds_hold_and_only_the_oldest_strangers_lose(steps in vec(step(), 0..800)) {
            let mut table = Table::default();
            let mut all = Vec::new();
            for step in steps {
                let of = |back: usize| (all.len() as u64).checked_sub(back as u64 + 1);
                match step {
                    Step::Arrive => all.push(table.arrive().1),
                    Step::Recognise(back, whose) => {
                        let session = whose.map(session);
                        let Some(number) = of(back) else { continue };
                        let was = table.known.contains_key(&number);
                        let taken = table.recognise(number, session.as_ref());
                        prop_assert!(taken.is_ok() || table.known.contains_key(&number) == was);
                    }
                    Step::Leave(back) => if let Some(number) = of(back) { table.leave(number) },
                }
                prop_assert!(table.strangers.len() <= MCP_STRANGERS_MAX);
                prop_assert!(table.known.len() <= MCP_CONNECTIONS_MAX);
                prop_assert!(table.known.values().flatten().count() <= MCP_CONNECTIONS_OF_SESSIONS_MAX);
                // Nobody who is known ever lost, and no stranger before an older one.
                let is_lost = |number: u64| all.get(usize::try_from(number).unwrap()).is_some_and(CancellationToken::is_cancelled);
                prop_assert!(!table.known.keys().any(|number| is_lost(*number)));
                prop_assert!(!table.strangers.keys().any(|number| is_lost(*number)));
                let newest_lost = (0..all.len() as u64).rfind(|number| is_lost(*number));
                prop_assert!(table.strangers.keys().all(|number| Some(*number) > newest_lost));
            }
        }
    }
}

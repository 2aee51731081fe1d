//! Who hears what: the events of a session, and of those below it, go to the loop of that session.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::wire::{Event, Told};

/// Events on their way to a session. One that takes none is told to look again later, so that the others go on.
const EVENTS_MAX: usize = 4096;

/// What a session hears.
#[derive(Debug)]
pub(super) enum Heard {
    /// An event.
    Told(Box<Told>),
    /// Events may be missing.
    Gap,
}

/// Where the events of one session come out.
#[derive(Debug)]
pub(super) struct Ears {
    pub(super) events: mpsc::Receiver<Heard>,
    missed: Arc<AtomicBool>,
}

impl Ears {
    /// Whether events were dropped since the last time it was asked.
    pub(super) fn missed(&self) -> bool {
        self.missed.swap(false, Ordering::AcqRel)
    }
}

#[derive(Clone, Debug)]
struct Route {
    root: String,
    events: mpsc::Sender<Heard>,
    missed: Arc<AtomicBool>,
}

/// The sessions of one server that somebody listens to.
#[derive(Debug, Default)]
pub(super) struct Routes {
    // Written when sessions open and close and read for each event; never held over an await.
    by_session: Mutex<BTreeMap<String, Route>>,
}

impl Routes {
    /// Listens to a session.
    pub(super) fn open(&self, session: &str) -> Ears {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let missed = Arc::new(AtomicBool::new(false));
        let route = Route { root: session.to_owned(), events: sender, missed: Arc::clone(&missed) };
        self.locked().insert(session.to_owned(), route);
        Ears { events, missed }
    }

    /// Listens no longer to a session and those below it.
    pub(super) fn close(&self, session: &str) {
        self.locked().retain(|_, route| route.root != session);
    }

    /// Listens to a session below one that is listened to.
    pub(super) fn open_below(&self, root: &str, session: &str) {
        let mut routes = self.locked();
        if let Some(above) = routes.get(root).cloned() {
            routes.insert(session.to_owned(), above);
        }
    }

    /// Listens no longer to the sessions below one.
    pub(super) fn close_below(&self, root: &str) {
        self.locked().retain(|session, route| route.root != root || session == root);
    }

    /// Passes an event on.
    pub(super) fn tell(&self, told: Told) {
        let Some(session) = &told.session else { return };
        let mut routes = self.locked();
        if let Event::Created { parent: Some(parent) } = &told.event
            && let Some(above) = routes.get(parent).cloned()
        {
            routes.insert(session.clone(), above);
        }
        let Some(route) = routes.get(session) else { return };
        if route.events.try_send(Heard::Told(Box::new(told))).is_err() {
            route.missed.store(true, Ordering::Release);
        }
    }

    /// Tells everybody that events may be missing.
    pub(super) fn gap(&self) {
        for route in self.locked().values() {
            if route.events.try_send(Heard::Gap).is_err() {
                route.missed.store(true, Ordering::Release);
            }
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Route>> {
        self.by_session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(session: &str, event: Event) -> Told {
        Told { session: Some(session.to_owned()), event }
    }

    fn heard(ears: &mut Ears) -> Vec<String> {
        std::iter::from_fn(|| match ears.events.try_recv().ok()? {
            Heard::Told(told) => told.session,
            Heard::Gap => Some("gap".to_owned()),
        })
        .collect()
    }

    #[test]
    fn a_session_hears_itself_and_those_below_it() {
        let routes = Routes::default();
        let (mut one, mut two) = (routes.open("ses_1"), routes.open("ses_2"));
        let below = |parent: &str| Event::Created { parent: Some(parent.to_owned()) };
        routes.tell(told("ses_3", below("ses_1")));
        routes.tell(told("ses_4", below("ses_3")));
        routes.tell(told("ses_4", Event::Idle));
        routes.tell(told("ses_2", Event::Idle));
        routes.tell(told("ses_9", Event::Idle));
        routes.gap();
        assert_eq!(heard(&mut two), ["ses_2", "gap"]);
        assert_eq!(heard(&mut one)[..3], ["ses_3", "ses_4", "ses_4"]);
        routes.close("ses_1");
        routes.tell(told("ses_4", Event::Idle));
        assert!(heard(&mut one).is_empty());
    }

    #[test]
    fn a_session_below_can_be_listened_to_late_and_is_let_go_alone() {
        let routes = Routes::default();
        let mut ears = routes.open("ses_1");
        routes.open_below("ses_1", "ses_2");
        routes.open_below("ses_9", "ses_3");
        for session in ["ses_2", "ses_3"] {
            routes.tell(told(session, Event::Idle));
        }
        assert_eq!(heard(&mut ears), ["ses_2"]);
        routes.close_below("ses_1");
        for session in ["ses_2", "ses_1"] {
            routes.tell(told(session, Event::Idle));
        }
        assert_eq!(heard(&mut ears), ["ses_1"]);
    }

    /// Streams: a slow reader.
    #[test]
    fn a_session_that_takes_no_events_is_told_to_look_again() {
        let routes = Routes::default();
        let (slow, mut other) = (routes.open("ses_1"), routes.open("ses_2"));
        for _ in 0..=EVENTS_MAX {
            routes.tell(told("ses_1", Event::Idle));
        }
        routes.tell(told("ses_2", Event::Idle));
        assert!(slow.missed() && !slow.missed() && !other.missed());
        assert_eq!(heard(&mut other), ["ses_2"]);
    }
}

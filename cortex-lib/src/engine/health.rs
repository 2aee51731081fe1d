//! What is known of the runtimes' health. Asking never waits; what is old is looked at behind the answer.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;

use super::incoming;
use super::supervisor::Supervisor;
use crate::env::Env;
use crate::ids::RuntimeId;
use crate::limits::{HEALTH_CHECK_TIMEOUT, HEALTH_TTL};
use crate::port::{Health, HealthReport, Runtime};
use crate::time::Timestamp;

/// What is known of one runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHealth {
    /// How it is.
    pub health: Health,
    /// The last report, if there is one.
    pub report: Option<HealthReport>,
    /// When that was.
    pub checked_at: Option<Timestamp>,
}

/// The report of a check that brought none.
fn unhealthy(message: String, remediation: &str) -> HealthReport {
    HealthReport {
        health: Health::Unhealthy,
        version: None,
        executable: None,
        logged_in: None,
        message: Some(message),
        remediation: Some(remediation.to_owned()),
    }
}

/// A lock, because callers read it beside the checks that write it; it is never held over a wait.
#[derive(Clone, Debug)]
pub(crate) struct HealthBoard {
    entries: Arc<Mutex<BTreeMap<RuntimeId, Entry>>>,
    env: Arc<dyn Env>,
    supervisor: Supervisor,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    last: Option<(HealthReport, Timestamp, std::time::Duration)>,
    checking: bool,
}

impl HealthBoard {
    pub(crate) fn new(env: Arc<dyn Env>, supervisor: Supervisor) -> Self {
        Self { entries: Arc::default(), env, supervisor }
    }

    /// What is known now. Starts a check when that is too old.
    pub(crate) fn look(&self, runtime: &Arc<dyn Runtime>) -> KnownHealth {
        let now = self.env.monotonic();
        let mut entries = self.lock();
        let entry = entries.entry(runtime.info().id.clone()).or_default();
        let fresh =
            entry.last.as_ref().is_some_and(|(_, _, at)| now.saturating_sub(*at) < HEALTH_TTL);
        let known = KnownHealth {
            health: match &entry.last {
                Some((report, _, _)) if fresh => report.health,
                _ if entry.checking => Health::Checking,
                _ => Health::Unknown,
            },
            report: entry.last.as_ref().map(|(report, _, _)| report.clone()),
            checked_at: entry.last.as_ref().map(|(_, at, _)| *at),
        };
        if !fresh && !entry.checking {
            entry.checking = true;
            drop(entries);
            let (board, runtime) = (self.clone(), Arc::clone(runtime));
            self.supervisor.spawn(async move { board.check(&runtime).await.map_or((), drop) });
        }
        known
    }

    /// Looks now and waits for the answer, at most as long as a check may take. None: the core stops.
    pub(crate) async fn check(&self, runtime: &Arc<dyn Runtime>) -> Option<KnownHealth> {
        let stop = self.supervisor.stopping();
        let check = AssertUnwindSafe(runtime.check()).catch_unwind();
        let report = tokio::select! { biased;
            () = stop.cancelled() => return None,
            report = tokio::time::timeout(HEALTH_CHECK_TIMEOUT, check) => match report {
                Ok(Ok(report)) => report,
                Ok(Err(_)) => unhealthy(
                    "the driver panicked while it looked".to_owned(),
                    "Report it with the log; agents of this runtime may work all the same.",
                ),
                Err(_) => unhealthy(
                    format!("the check did not end within {} s", HEALTH_CHECK_TIMEOUT.as_secs()),
                    "Run the program by hand and see why it hangs.",
                ),
            },
        };
        let report = incoming::report(report);
        let at = self.env.now();
        let known = KnownHealth {
            health: report.health,
            report: Some(report.clone()),
            checked_at: Some(at),
        };
        let entry = Entry { last: Some((report, at, self.env.monotonic())), checking: false };
        self.lock().insert(runtime.info().id.clone(), entry);
        Some(known)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RuntimeId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

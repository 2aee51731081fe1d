//! Everything that runs beside the callers: spawned here, so that a shutdown can wait for it.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Spawns and joins. Clones share what they supervise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supervisor {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Supervisor {
    /// Runs `work` beside its caller.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.tasks.spawn(work));
    }

    /// Ends when the core is told to end: for work that has no end of its own.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Tells all work to end and waits for it, at most `grace`. Returns whether all of it ended.
    pub(crate) async fn join(&self, grace: Duration) -> bool {
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(grace, self.tasks.wait()).await.is_ok()
    }
}

//! What lives, and waiting for it.

use std::time::Duration;

use cortex_lib::env::{Env, SystemEnv};
use cortex_lib::ids::SessionId;
use cortex_lib::process::MARKER;
use cortex_runtimes::conformance::processes_with;
use tokio::time::{interval, timeout};

/// Nothing that a test waits for takes longer, even on a machine with better things to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// How often the world is looked at while a test waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A mark that nothing carries yet.
pub(crate) fn marker() -> SessionId {
    let env: &dyn Env = &SystemEnv::new();
    SessionId::new(env.mint())
}

/// What the processes that carry the marker run.
pub(crate) fn alive(marker: &str) -> Vec<String> {
    processes_with(&format!("{MARKER}={marker}"))
}

/// The `sleep`s that carry the marker.
pub(crate) fn sleeping(marker: &str) -> Vec<String> {
    alive(marker).into_iter().filter(|command| command.starts_with("sleep ")).collect()
}

/// Ends a process as nobody else would.
pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Waits for something of the world.
pub(crate) async fn until<T>(look: impl Fn() -> Option<T>) -> T {
    in_time(look).await.unwrap()
}

/// Waits for something of the world, which may never come.
pub(crate) async fn in_time<T>(look: impl Fn() -> Option<T>) -> Option<T> {
    let waiting = async {
        let mut ticks = interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            if let Some(found) = look() {
                return found;
            }
        }
    };
    timeout(PATIENCE, waiting).await.ok()
}

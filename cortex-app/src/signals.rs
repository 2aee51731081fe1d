//! What tells a program to stop: Ctrl-C, and the system's own ways.

use std::io;

/// Requests to stop, as they come.
#[derive(Debug)]
pub struct StopRequests {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
    #[cfg(windows)]
    terminate: tokio::signal::windows::CtrlShutdown,
}

impl StopRequests {
    /// Hears them from now on; from then on they no longer end the process by themselves.
    ///
    /// # Errors
    ///
    /// What the system says.
    #[cfg(unix)]
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Hears them from now on; from then on they no longer end the process by themselves.
    ///
    /// # Errors
    ///
    /// What the system says.
    #[cfg(windows)]
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::windows::{ctrl_c, ctrl_shutdown};
        Ok(Self { interrupt: ctrl_c()?, terminate: ctrl_shutdown()? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

//! What tells a program to stop: Ctrl-C, and the system's own ways.

use cortex_lib::error::{Code, Error, Result};

/// Requests to stop, as they come.
#[derive(Debug)]
pub struct StopRequests {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    /// The terminal was closed.
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
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
    /// `core.defect` when the system does not tell of them.
    #[cfg(unix)]
    pub fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(deaf)?,
            terminate: signal(SignalKind::terminate()).map_err(deaf)?,
            hangup: signal(SignalKind::hangup()).map_err(deaf)?,
        })
    }

    /// Hears them from now on; from then on they no longer end the process by themselves.
    ///
    /// # Errors
    ///
    /// `core.defect` when the system does not tell of them.
    #[cfg(windows)]
    pub fn listen() -> Result<Self> {
        use tokio::signal::windows::{ctrl_c, ctrl_shutdown};
        Ok(Self { interrupt: ctrl_c().map_err(deaf)?, terminate: ctrl_shutdown().map_err(deaf)? })
    }

    /// Waits for the next one.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }

    /// Waits for the next one.
    #[cfg(windows)]
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what an error is mapped with")]
fn deaf(error: std::io::Error) -> Error {
    Error::new(Code::Defect, format!("requests to stop cannot be heard: {error}"))
}

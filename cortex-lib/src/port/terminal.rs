//! The terminal of a session in terminal mode: a person sees and types what the program shows and reads.

use std::fmt::Debug;

use async_trait::async_trait;
use tokio::sync::mpsc;

pub use crate::domain::terminal::TerminalSize;
use crate::error::Result;

/// A terminal that people attach to. Any number may watch; all of them type into the same program.
#[async_trait]
pub trait Terminal: Debug + Send + Sync {
    /// What it shows now, and everything it shows from then on.
    fn attach(&self) -> Attached;

    /// Types.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended`.
    async fn write(&self, bytes: Vec<u8>) -> Result<()>;

    /// Gives it another size; the program hears of it.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended`.
    fn resize(&self, size: TerminalSize) -> Result<()>;
}

/// What somebody who attaches sees.
#[derive(Debug)]
pub struct Attached {
    /// The size of the terminal.
    pub size: TerminalSize,
    /// Draws what it shows now on an empty terminal of that size, as escape sequences.
    pub screen: Vec<u8>,
    /// What is printed from then on. It ends with the session, or when the one who attached is too slow.
    pub output: mpsc::Receiver<Vec<u8>>,
}

//! The terminal of a session in terminal mode: a person sees and types what the program shows and reads.

use std::fmt::Debug;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::picture::Picture;
pub use crate::domain::terminal::TerminalSize;
use crate::error::Result;

/// A terminal that people attach to. Any number may watch; all of them type into the same program.
#[async_trait]
pub trait Terminal: Debug + Send + Sync {
    /// What it shows now, and everything it shows from then on.
    fn attach(&self) -> Attached;

    /// What it shows now, character by character, for whoever paints it.
    fn picture(&self) -> Picture;

    /// Whether who worked at it has left: the program has ended by itself, and with success.
    fn was_left(&self) -> bool;

    /// Types. It waits while the program does not read.
    ///
    /// # Errors
    ///
    /// `runtime.session_ended`.
    async fn write(&self, bytes: Vec<u8>) -> Result<()>;

    /// Gives it another size, within [`TerminalSize::MIN`] and [`TerminalSize::MAX`]; the program hears of it.
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
    /// Draws what it shows now on an empty terminal of that size, as escape sequences, with the lines that have
    /// left it at the top.
    pub screen: Vec<u8>,
    /// What is printed from then on. It ends with the session, or when the one who attached is too slow: who
    /// attaches again sees all there is.
    pub output: mpsc::Receiver<Vec<u8>>,
}

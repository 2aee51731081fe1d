//! Programs that Cortex runs, and the certainty that nothing of them is left behind.
//!
//! A [`Program`] is started with pipes and becomes an [`Owned`]: a handle to the program and to everything
//! that it starts. The tree ends with the handle, with the program, and with this process, also by
//! `kill -9`.
//!
//! How well that holds depends on the platform:
//!
//! - **Linux, when main calls [`init`] first: exactly.** Each program runs under a small process of our own,
//!   its *owner*: this executable started once more. It inherits every orphan of the tree (subreaper) and
//!   nothing else, holds on to this process and to the program by pidfd, and ends everything below it when
//!   either is gone. Tools that leave their process group or session, fork twice or clear their environment
//!   change nothing about it.
//! - **Linux without it: nearly.** This process looks for the tree itself: below the program, in its process
//!   group, and by the marker in the environment. A process whose parents have ended, that is in a
//!   session of its own, and that cleared its environment is not found. What a `kill -9` of this process
//!   leaves is found by [`sweep`] at the next start.
//! - **Other Unix: the process group.** What leaves the group is not found, and a `kill -9` of this process
//!   ends nothing.
//! - **Windows: exactly**, by a job that ends with its last handle.
//!
//! A process is known by its pid *and* its start time, never by its name.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

mod lines;
mod owned;
mod program;
mod tail;
#[cfg(feature = "terminal")]
mod terminal;

#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(not(target_os = "linux"))]
use other as platform;

pub use lines::{Line, Lines};
pub use owned::{Exit, Owned, Signal};
pub use program::Program;
pub use tail::Tail;
#[cfg(feature = "terminal")]
pub use terminal::Pty;

/// The variable that marks a program and all below it: its value is [`Program::marker`].
pub const MARKER: &str = "CORTEX_OWNER";

/// The variable that tells trees of the same marker apart. It means nothing to anybody else.
const TREE: &str = "CORTEX_OWNER_TREE";

/// Lets this executable own the programs it starts. Call it as the first line of main.
///
/// When this process was started as an owner, it does that work and never returns. Otherwise it returns
/// at once. Elsewhere than on Linux it does nothing.
pub fn init() {
    platform::init();
}

/// Ends what an earlier life of this process left behind: every process that carries one of the markers, and
/// everything below it. Returns how many there were.
///
/// Elsewhere than on Linux it finds nothing: on Windows nothing is left, on other systems it cannot be told.
pub async fn sweep(markers: impl IntoIterator<Item = String> + Send) -> usize {
    platform::sweep(markers.into_iter().collect()).await
}

//! Sessions in a terminal that a person works at, for any program.
//!
//! A driver makes the [`Program`](cortex_lib::process::Program) of its CLI's interactive form and calls [`open`]. The program runs on a
//! pseudo-terminal and is owned like every other. What it shows is kept as a screen, so that people may attach,
//! leave and attach again; what it asks its terminal is answered from there, also while nobody watches.
//!
//! Output goes `scan` (whole pieces) → `sift` (for whom) → `screen` (kept, passed on); `draw` makes a
//! screen of it again and `picture` cells, `answer` speaks for the terminal and `session` sees to the program.

mod answer;
mod draw;
mod picture;
mod scan;
mod screen;
mod session;
mod sift;

pub use session::open;

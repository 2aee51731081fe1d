//! Git on real repositories.
#![cfg(unix)]

mod bench;
mod hostile;
mod kills;
mod places;
mod proofs;
mod refusals;
mod snapshots;
mod squashes;
mod worktrees;

//! Git on real repositories.

mod bench;
mod worktrees;

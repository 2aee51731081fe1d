//! The whole core from one seed: several lives on one disk, callers that race, agents that answer late, twice,
//! never or garbage, a disk that fills and power that goes.
//!
//! | file | what it is |
//! | --- | --- |
//! | `dice` | randomness from a seed |
//! | `plan` | a run as a list of choices, made from a seed; any of them can be left out |
//! | `world` | how agents, verifications, the disk and the power follow a plan |
//! | `git` | git of a life, whose calls may be slow or fail |
//! | `acts` | what callers do: one entry for each command |
//! | `hand` | one caller: calls, checks the answer, and remembers what it was told |
//! | `run` | the lives of one run |
//! | `promises` | what must hold, each a function of its own |
//! | `shrink` | the fewest choices of a run that still break a promise |
//! | `crashes` | one small history, with a crash at every commit |
//! | `defects` | planted defects, each of which must be found |
//! | `lying_git` | the defects of git |
//! | `many` | many seeds on several threads |

pub mod acts;
pub mod crashes;
pub mod defects;
mod dice;
mod git;
mod hand;
mod lying_git;
pub mod many;
pub mod plan;
pub mod promises;
pub mod run;
pub mod shrink;
mod world;

//! Drivers that let Cortex run coding agents.
#![warn(missing_docs, missing_debug_implementations, unreachable_pub)]

mod command;

pub use command::{CommandConfig, CommandRuntime};

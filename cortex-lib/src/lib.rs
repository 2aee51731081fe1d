//! Cortex: an embeddable orchestrator of coding agents.
#![warn(missing_docs, missing_debug_implementations, unreachable_pub)]

pub mod api;
pub mod domain;
pub mod engine;
pub mod env;
pub mod error;
pub mod ids;
pub mod limits;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod port;
pub mod process;
pub mod progress;
pub mod secret;
pub mod settings;
pub mod store;
pub mod time;

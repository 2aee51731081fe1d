//! Drivers: what lets Cortex run coding agents. Each implements [`cortex_lib::port::Runtime`].
#![warn(missing_docs, missing_debug_implementations, unreachable_pub)]

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

mod claude_code;
mod codex;
mod command;
#[cfg(feature = "conformance")]
pub mod conformance;
mod opencode;
#[cfg(feature = "terminal")]
pub mod terminal;

pub use claude_code::{ClaudeCode, ClaudeCodeConfig};
pub use codex::{Codex, CodexConfig, ProcessUse, Sandbox};
pub use command::{CommandConfig, CommandRuntime};
pub use opencode::{OpenCode, OpenCodeConfig};

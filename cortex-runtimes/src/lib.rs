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
mod line;
mod opencode;
mod own_folder;
mod process_use;
#[cfg(feature = "terminal")]
pub mod terminal;

pub use claude_code::{ClaudeCode, ClaudeCodeConfig};
pub use codex::{Codex, CodexConfig, Sandbox};
pub use command::{CommandConfig, CommandRuntime};
pub use opencode::{OpenCode, OpenCodeConfig};
pub use process_use::ProcessUse;

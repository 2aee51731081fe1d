//! Cortex: an embeddable orchestrator of coding agents.
//!
//! A program opens a core with [`Cortex::builder`], gives it the runtimes that its agents run on, and acts
//! through the door of a caller: a call is a struct. What is acknowledged is on disk; what agents do is
//! followed through [`Cortex::events`].
//!
//! Modules in the order of their layers; each may use only those before it:
//!
//! - words: [`ids`], [`time`], [`limits`], [`error`], [`secret`], [`env`](mod@env)
//! - rules: [`domain`], [`settings`]
//! - memory and ports: [`store`], [`port`], [`process`]
//! - `progress`: what one change entails
//! - [`engine`]: makes the world do what rows owe
//! - [`api`]: the commands
//! - `mcp`, `local`: ways in
#![warn(missing_docs, missing_debug_implementations)]
// Without the feature, what is public for tests only cannot be reached.
#![cfg_attr(feature = "testing", warn(unreachable_pub))]

pub mod env;
pub mod error;
pub mod ids;
pub mod limits;
pub mod secret;
pub mod time;

pub mod domain;
pub mod settings;

pub mod port;
pub mod process;
pub mod store;

#[cfg(feature = "testing")]
pub mod progress;
#[cfg(not(feature = "testing"))]
mod progress;

pub mod engine;

pub mod api;

#[cfg(feature = "mcp")]
pub mod mcp;

#[cfg(feature = "local-socket")]
pub mod local;

mod cortex;

pub use api::{Caller, Cx};
pub use cortex::{Builder, Cortex};
pub use error::{Code, Error, Kind, Result};
pub use settings::Settings;

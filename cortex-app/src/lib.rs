//! Cortex as a program: what the command line, the server and a window share.
#![warn(missing_docs, missing_debug_implementations, unreachable_pub)]

pub mod boot;
mod bridge;
pub mod cli;
pub mod config;
mod demo;
pub mod door;
mod log;
mod program;
mod run;
pub mod signals;
mod stdout;

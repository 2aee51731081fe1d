//! The commands of Cortex. A command is a struct of arguments that knows how to run.
//!
//! A [`Tool`] is a command that models may see: it is in [`TOOLS`], in the file `tool/<name>.rs`. What is
//! only for the person who runs Cortex is in [`OPERATOR`] and never on MCP. Everything else about a
//! command is derived from its struct: schemas, argument errors, reference, permission check.
//!
//! Rust callers use [`Cx::call`] with the struct, all others [`Cx::call_json`] with a name and JSON. Both
//! doors check the same things and refuse with the same errors.

mod access;
mod arguments;
mod command;
mod cx;
pub mod operator;
pub mod reference;
mod schema;
pub mod tool;

pub use access::{Access, Caller, SessionCaller, SessionKind};
pub use arguments::{one_of, present};
pub use command::{Command, CommandDef, Effect, Reply, Tool, ToolDef};
pub use cx::{Catalogue, Cx, Granted};

/// Every tool, in the order in which callers see them.
pub static TOOLS: [ToolDef; 0] = [];

/// Every command that only the person may give, in the order of the reference.
pub static OPERATOR: [CommandDef; 0] = [];

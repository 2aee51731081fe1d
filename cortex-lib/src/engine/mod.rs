//! The engine: what the core does on its own.

mod verify;

pub use verify::ProcessVerifier;

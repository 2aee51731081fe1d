//! A runtime and a machine that follow a script: for tests of the core and of programs that embed it.
//!
//! Nothing here takes real time: waits are those of tokio's clock, which a test pauses. What would live
//! outside of the core (the processes of sessions and verifications) stands in a [`ScriptedWorld`]. It goes on
//! when a core is dropped without a farewell, exactly as processes do, until somebody sweeps it.
//!
//! ```
//! use std::time::Duration;
//!
//! use cortex_lib::domain::attempt::Cause;
//! use cortex_lib::port::{Script, ScriptedRuntime};
//!
//! let runtime = ScriptedRuntime::new("scripted").turn(|turn| {
//!     if turn.instruction.contains("fail") {
//!         Script::new().fail(Cause::Transient, "the service was overloaded")
//!     } else {
//!         Script::new().wait(Duration::from_secs(5)).say("thinking").answer("done")
//!     }
//! });
//! assert!(runtime.world().turns().is_empty());
//! ```

mod git;
mod host;
mod repository;
mod runtime;
mod script;
mod session;
mod world;

pub use git::GitFate;
pub use host::{ScriptedHost, Verdict};
pub use runtime::ScriptedRuntime;
pub use script::{Opening, Script};
pub use world::{Asked, ScriptedWorld};

/// Waits by tokio's clock.
#[expect(clippy::disallowed_methods, reason = "a script has no rows; its waits are its own")]
async fn wait(time: std::time::Duration) {
    // A wait of no time is no wait: what follows comes at once, as from a program that has it ready.
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

//! Scripted model servers on 127.0.0.1: they drive the real coding CLIs without a login, a token or a
//! network, in tests, in `cortex demo`, and as the program `cortex-scripted`.
//!
//! A test writes a [`Script`], starts [`ScriptedAnthropic`] or [`ScriptedChat`] with it, gives the CLI a fresh
//! [`CliHome`] whose environment points at that server, and asks the server afterwards what it was
//! sent. [`cli`] provides the pinned CLIs, [`first_use`] what else comes from a registry, [`offline`] a
//! network without a way out and [`suite`] the main function that such a test needs.
//!
//! # Examples
//!
//! ```
//! use cortex_scripted::{Answer, Script, ScriptedAnthropic, When};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let script = Script::new()
//!     .on(When::last_user("list the files"), Answer::tool("Bash", serde_json::json!({"command": "ls"})))
//!     .on(When::tool_result(""), Answer::text("There they are."))
//!     .otherwise(Answer::text("Hello."));
//! let server = ScriptedAnthropic::start(script).await?;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! # Ok(())
//! # }
//! ```

mod anthropic;
mod api;
mod chat;
mod choose;
pub mod cli;
pub mod first_use;
mod home;
pub mod offline;
mod record;
pub mod reference;
mod reply;
mod responses;
mod script;
mod server;
pub mod suite;

pub use anthropic::ScriptedAnthropic;
pub use api::Api;
pub use chat::ScriptedChat;
pub use home::{CliHome, OPENCODE_MODEL};
pub use record::{AnsweredBy, NeverCame, Other, Progress, Request, Text, ToolResult};
pub use responses::ScriptedResponses;
pub use script::{Answer, Block, Fault, Pace, Quota, Rule, Script, Take, Times, Usage, When};
pub use server::ScriptedServer;

//! The official clients and suites of the protocol find the endpoint as it is meant.
//!
//! They are fetched on first use, in the versions that the files beside this one pin. Without Node.js or Python
//! these tests are skipped, loudly; with `CORTEX_REQUIRE_CLIS=1` they fail.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod bearer;
mod clients;
mod programs;
mod suites;
mod wire;

use std::process::Command;
use std::sync::Arc;

use cortex_lib::Cortex;
use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{CreateAgent, StartAgent};
use cortex_lib::ids::AgentId;
use cortex_lib::mcp::{self, McpOptions, McpServer, UserToken};
use cortex_lib::port::ScriptedRuntime;
use cortex_lib::secret::Secret;

const SCRIPTED: &str = "scripted";

/// A core with one project and one agent that is ready, and its endpoint.
struct Served {
    cortex: Cortex,
    server: McpServer,
    token: Secret,
    agent: AgentId,
    _dir: tempfile::TempDir,
}

impl Served {
    async fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runtime = Arc::new(ScriptedRuntime::new(SCRIPTED));
        let cortex =
            Cortex::builder(dir.path().join("data")).runtime(runtime).open().await.unwrap();
        let place = UserToken::of(cortex.data_dir());
        let token = place.load_or_create(&**cortex.core().env()).unwrap();
        let options = McpOptions { port: 0, token: token.clone() };
        let server = mcp::serve(&cortex, options).await.unwrap();
        let user = cortex.as_user();
        let root = dir.path().to_owned();
        let add = AddProject { name: "p".to_owned(), root, verification: None };
        let project = user.call(add).await.unwrap().project.project_id;
        let create = CreateAgent::new(&project, "a", SCRIPTED);
        let agent = user.call(create).await.unwrap().agent.agent_id;
        user.call(StartAgent { agent_id: agent.clone() }).await.unwrap();
        Self { cortex, server, token, agent, _dir: dir }
    }

    async fn close(self) {
        self.server.stop().await;
        self.cortex.shutdown().await.unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test runs a program, which ends by itself")]
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    // Nothing between it and the endpoint.
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    command
}

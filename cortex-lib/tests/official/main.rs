//! The official clients and suites of the protocol find the endpoint as it is meant.
//!
//! They are fetched on first use, in the versions that the files beside this one pin. Without Node.js or Python
//! these tests are skipped, loudly; with `CORTEX_REQUIRE_CLIS=1` they fail.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod bearer;
mod clients;
mod programs;
#[cfg(feature = "oauth")]
mod remote;
mod sdk;
mod slow;
mod suites;
mod wire;

use std::process::Command;
use std::sync::Arc;

use cortex_lib::Cortex;
use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{CreateAgent, StartAgent};
use cortex_lib::ids::{AgentId, ProjectId, RuntimeId};
use cortex_lib::mcp::{self, McpOptions, McpServer, UserToken};
use cortex_lib::port::ScriptedRuntime;
use cortex_lib::secret::Secret;
use cortex_lib::settings::Settings;
use serde_json::Value;
use tokio::task::JoinSet;

const SCRIPTED: &str = "scripted";

/// A core with one project and one agent that is ready, and its endpoint.
struct Served {
    cortex: Cortex,
    server: McpServer,
    token: Secret,
    project: ProjectId,
    agent: AgentId,
    _dir: tempfile::TempDir,
}

impl Served {
    async fn open() -> Self {
        Self::open_on(ScriptedRuntime::new(SCRIPTED)).await
    }

    async fn open_on(runtime: ScriptedRuntime) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.planner.runtime_id = RuntimeId::new(SCRIPTED);
        let builder = Cortex::builder(dir.path().join("data")).settings(settings);
        let cortex = builder.runtime(Arc::new(runtime)).open().await.unwrap();
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
        Self { cortex, server, token, project, agent, _dir: dir }
    }

    /// What clients say who all talk at once, in their order.
    async fn talk(&self, clients: impl IntoIterator<Item = Command>) -> Vec<Value> {
        let mut talks = JoinSet::new();
        for (at, mut client) in clients.into_iter().enumerate() {
            client.env("CORTEX_MCP_URL", self.server.url());
            client.env("CORTEX_MCP_TOKEN", self.token.expose());
            client.env("PROJECT_ID", self.project.as_str());
            client.env("AGENT_ID", self.agent.as_str());
            talks.spawn_blocking(move || {
                let ran = client.output().unwrap();
                let said = String::from_utf8_lossy(&ran.stderr);
                assert!(ran.status.success(), "{said}");
                (at, serde_json::from_slice(&ran.stdout).unwrap())
            });
        }
        let mut said: Vec<(usize, Value)> = talks.join_all().await;
        said.sort_by_key(|(at, _)| *at);
        said.into_iter().map(|(_, said)| said).collect()
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

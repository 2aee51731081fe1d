//! The models, the homes of the CLIs and the core.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cortex_lib::api::tool::SendMessage;
use cortex_lib::domain::approval::{Decide, Rule};
use cortex_lib::domain::event::EventKind;
use cortex_lib::ids::AgentId;
use cortex_lib::mcp::{self, McpServer};
use cortex_lib::port::Runtime;
use cortex_lib::secret::Secret;
use cortex_lib::store::Event;
use cortex_lib::{Cortex, Settings};
use cortex_runtimes::{ClaudeCode, ClaudeCodeConfig, Codex, CodexConfig, OpenCode, OpenCodeConfig};
use cortex_scripted::{
    Answer, CliHome, Script, ScriptedAnthropic, ScriptedChat, ScriptedResponses, ScriptedServer,
    cli,
};
use serde_json::{Value, json};

/// How one CLI names tools.
pub struct Words {
    /// A tool of Cortex.
    pub cortex: fn(&str) -> String,
    /// A shell command.
    pub shell: fn(&str) -> (String, Value),
}

pub const CLAUDE: Words = Words {
    cortex: |tool| format!("mcp__cortex__{tool}"),
    shell: |command| ("Bash".to_owned(), json!({"command": command, "description": "writes"})),
};
pub const CODEX: Words = Words {
    cortex: |tool| format!("mcp__cortex__{tool}"),
    shell: |command| ("exec_command".to_owned(), json!({"cmd": command, "yield_time_ms": 20_000})),
};
pub const OPENCODE: Words = Words {
    cortex: |tool| format!("*_{tool}"),
    shell: |command| ("bash".to_owned(), json!({"command": command, "description": "writes"})),
};

impl Words {
    pub fn call(&self, tool: &str, input: Value) -> Answer {
        Answer::tool((self.cortex)(tool), input)
    }
}

/// The models, the homes of the CLIs and the core.
pub struct Place {
    pub claude: ScriptedAnthropic,
    codex: ScriptedResponses,
    opencode: ScriptedChat,
    homes: Vec<CliHome>,
    folders: [tempfile::TempDir; 2],
}

fn env(home: &CliHome) -> BTreeMap<String, String> {
    let vars = home.vars().into_iter();
    vars.map(|(name, value)| (name.to_owned(), value.into_string().unwrap())).collect()
}

impl Place {
    /// With what each of the models says.
    pub async fn new([claude, codex, opencode]: [Script; 3]) -> Self {
        let otherwise = |script: Script| script.otherwise(Answer::text("fine"));
        let claude = ScriptedAnthropic::start(otherwise(claude)).await.unwrap();
        let codex = ScriptedResponses::start(otherwise(codex)).await.unwrap();
        let opencode = ScriptedChat::start(otherwise(opencode)).await.unwrap();
        let servers: [&ScriptedServer; 3] = [&claude, &codex, &opencode];
        let homes: Vec<_> =
            servers.into_iter().map(|server| CliHome::new(server).unwrap()).collect();
        homes.last().unwrap().configure_opencode().unwrap();
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        Self { claude, codex, opencode, homes, folders }
    }

    pub fn servers(&self) -> [&ScriptedServer; 3] {
        [&self.claude, &self.codex, &self.opencode]
    }

    pub fn root(&self) -> PathBuf {
        fs_err::canonicalize(self.folders[1].path()).unwrap()
    }

    fn runtimes(&self) -> Vec<Arc<dyn Runtime>> {
        let [claude, codex, opencode] = self.homes.as_slice() else { return Vec::new() };
        let config = ClaudeCodeConfig { executable: cli::claude_code().ok(), env: env(claude) };
        let claude = ClaudeCode::new(config);
        let codex = Codex::new(CodexConfig {
            executable: cli::codex().ok(),
            env: env(codex),
            ..CodexConfig::default()
        });
        let opencode = OpenCode::new(OpenCodeConfig {
            executable: cli::opencode().ok(),
            env: env(opencode),
            ..OpenCodeConfig::default()
        });
        vec![Arc::new(claude), Arc::new(codex), Arc::new(opencode)]
    }

    /// A core with its endpoint; its rules allow every tool.
    pub async fn open(&self, more: Vec<Arc<dyn Runtime>>) -> (Cortex, McpServer) {
        let mut settings = Settings::default();
        settings.approvals.rules = vec![Rule {
            id: "everything".into(),
            tool: "*".into(),
            input: None,
            agent: None,
            decide: Decide::Allow,
        }];
        let socket = mcp::bind(0).await.unwrap();
        let mut builder =
            Cortex::builder(self.folders[0].path()).settings(settings).endpoint(socket.url());
        for runtime in self.runtimes().into_iter().chain(more) {
            builder = builder.runtime(runtime);
        }
        let cortex = builder.open().await.unwrap();
        let server = socket.serve(&cortex, &Secret::new("cortex_user_0"));
        (cortex, server)
    }

    /// Ends the core; nothing but the scripted models was asked.
    pub async fn close(&self, cortex: Cortex, endpoint: McpServer) {
        cortex.shutdown().await.unwrap();
        endpoint.stop().await;
        for server in self.servers() {
            let mut strangers = server.strangers();
            // OpenCode looks for the package of its own plugins, whatever it is told.
            strangers.retain(|one| one.target != "registry.npmjs.org:443");
            assert_eq!(strangers, [], "nothing but the scripted servers was asked");
        }
    }
}

/// Sends what the user says, and waits for the event with which the turn ends.
pub async fn say(cortex: &Cortex, agent: &AgentId, message: String) -> Arc<Event> {
    let mut events = cortex.events(Some(cortex.newest_event().unwrap()));
    let send = SendMessage { agent_id: agent.clone(), message };
    cortex.as_user().call(send).await.unwrap();
    loop {
        let event = events.next().await.unwrap().unwrap();
        let ended =
            matches!(event.kind, EventKind::SessionTurnCompleted | EventKind::SessionTurnFailed);
        if ended && event.agent_id.as_ref() == Some(agent) {
            return event;
        }
    }
}

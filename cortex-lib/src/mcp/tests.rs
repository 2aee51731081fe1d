//! What only shows with tools and sessions of a test's own: who is who, and what becomes of a call whose caller
//! leaves or whose tool breaks.

mod progress;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::*;
use crate::api::{Access, Command, Effect, Granted, TOOLS, Tool, ToolDef, Wait};
use crate::domain::agent::{AgentState, Interaction, Role, Wanted};
use crate::domain::usage::Usage;
use crate::ids::{AgentId, ProjectId, RuntimeId, SessionId};
use crate::store::{Agent, Project};

/// Where a tool is, seen from its test.
struct Stage {
    begun: Semaphore,
    may_go_on: Semaphore,
    ended: Semaphore,
}

impl Stage {
    const fn new() -> Self {
        Self {
            begun: Semaphore::const_new(0),
            may_go_on: Semaphore::const_new(0),
            ended: Semaphore::const_new(0),
        }
    }
}

async fn pass(gate: &Semaphore) {
    let permit = tokio::time::timeout(Duration::from_secs(30), gate.acquire()).await;
    permit.expect("the gate opens").unwrap().forget();
}

/// Opens a gate when it is dropped, however that comes.
struct Tells(&'static Semaphore);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

/// What the tools of these tests answer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Done {}

macro_rules! tool {
    ($(#[doc = $doc:literal])+ $name:ident = $wire:literal, $effect:ident, $does:expr) => {
        $(#[doc = $doc])+
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        struct $name {}

        impl Command for $name {
            type Output = Done;
            const NAME: &'static str = $wire;
            const ACCESS: Access = Access::USER;
            const EFFECT: Effect = Effect::$effect;
            const ERRORS: &'static [Code] = &[];

            async fn call(self, _: Granted<'_>) -> Result<Done> {
                $does.await;
                Ok(Done {})
            }
        }

        impl Tool for $name {
            const WAIT: Option<Wait> =
                Some(Wait { what: "It works", at_most: Duration::from_mins(1) });
        }
    };
}

static READ: Stage = Stage::new();
static CHANGE: Stage = Stage::new();
static PLAN: Stage = Stage::new();
static STUDY: Stage = Stage::new();
static WEAVE: Stage = Stage::new();
static MUSE: Stage = Stage::new();

async fn play(stage: &'static Stage) {
    let _tells = Tells(&stage.ended);
    stage.begun.add_permits(1);
    pass(&stage.may_go_on).await;
}

tool!(
    /// Reads until it may go on.
    Watch = "watch", Reads, play(&READ)
);
tool!(
    /// Changes something, when it may go on.
    Build = "build", Writes, play(&CHANGE)
);
tool!(
    /// Thinks until it may go on, and would change something then.
    Ponder = "ponder", WritesLast, play(&PLAN)
);
tool!(
    /// Breaks while it reads.
    Stumble = "stumble", Reads, async { panic!("it stumbles") }
);
tool!(
    /// Breaks while it changes something.
    Crash = "crash", Writes, async { panic!("it crashes") }
);

tool!(
    /// Reads until it may go on, while its caller is told.
    Study = "study", Reads, play(&STUDY)
);
tool!(
    /// Changes something when it may go on, while its caller is told.
    Weave = "weave", Writes, play(&WEAVE)
);

tool!(
    /// Thinks until it may go on, while its caller is told.
    Muse = "muse", WritesLast, play(&MUSE)
);

static TEST_TOOLS: [ToolDef; 8] = [
    ToolDef::of::<Watch>(),
    ToolDef::of::<Build>(),
    ToolDef::of::<Ponder>(),
    ToolDef::of::<Stumble>(),
    ToolDef::of::<Crash>(),
    ToolDef::of::<Study>(),
    ToolDef::of::<Weave>(),
    ToolDef::of::<Muse>(),
];

const TEST_CATALOGUE: Catalogue = Catalogue { tools: &TEST_TOOLS, operator: &[] };
const USER: &str = "cortex_user_test";

struct Served {
    cortex: Cortex,
    server: McpServer,
    dir: tempfile::TempDir,
}

async fn serve_tools(catalogue: Catalogue) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let cortex = Cortex::builder(dir.path().join("data")).open().await.unwrap();
    let socket = bind(0).await.unwrap();
    let server = socket.serve_catalogue(&cortex, Owner::fixed(&Secret::new(USER)), catalogue);
    Served { cortex, server, dir }
}

impl Served {
    /// Sends a request and leaves the rest to the test.
    async fn begin(&self, token: &str, method: &str, params: Value) -> TcpStream {
        self.begin_accepting("*/*", token, method, params).await
    }

    async fn begin_accepting(
        &self,
        accept: &str,
        token: &str,
        method: &str,
        params: Value,
    ) -> TcpStream {
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Accept: {accept}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.server.port(),
            body.len(),
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.server.port())).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn ask(&self, token: &str, method: &str, params: Value) -> Value {
        answer(self.begin(token, method, params).await).await
    }

    async fn call(&self, token: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.ask(token, "tools/call", params).await["result"]["structuredContent"].take()
    }

    async fn tools(&self, token: &str) -> Vec<String> {
        let answer = self.ask(token, "tools/list", json!({})).await;
        let names = answer["result"]["tools"].as_array().unwrap().iter();
        names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// A live session of a new agent; the answer is its credential.
    async fn session(&self, role: Role) -> (SessionId, Secret) {
        let root = self.dir.path().to_owned();
        let (id, token) =
            (SessionId::new(format!("s-{role:?}")), format!("cortex_session_{role:?}"));
        let (session, token) = (id.clone(), Secret::new(token));
        let (hash, hook) = (token.hash(), Secret::new("cortex_hook_0").hash());
        let write = self.cortex.core().store().write(move |tx| {
            let now = tx.now();
            let project = ProjectId::new(format!("p-{role:?}"));
            tx.insert_project(&Project {
                id: project.clone(),
                name: format!("{role:?}"),
                root: root.join(format!("{role:?}")),
                is_git: false,
                verification: None,
                trusted: false,
                created_at: now,
            })?;
            let agent = Agent {
                id: AgentId::new(format!("a-{role:?}")),
                project_id: project,
                name: "Ada".into(),
                runtime_id: RuntimeId::new("test"),
                model: None,
                role,
                interaction: Interaction::Structured,
                instructions: None,
                skills: false,
                state: AgentState::Created,
                wanted: Wanted::Stopped,
                last_failure: None,
                native_session_id: None,
                usage: Usage::default(),
                idle_since: now,
                created_at: now,
                updated_at: now,
            };
            tx.insert_agent(&agent)?;
            tx.insert_session(&session, &agent.id, &agent.runtime_id, None)?;
            tx.set_session_tokens(&session, &hash, &hook)
        });
        write.await.unwrap();
        (id, token)
    }
}

async fn answer(mut stream: TcpStream) -> Value {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

#[tokio::test]
async fn a_caller_sees_the_tools_it_may_call_in_the_order_of_the_catalogue() {
    let served = serve_tools(Catalogue::CORTEX).await;
    let allowed = |may: fn(Access) -> bool| -> Vec<_> {
        TOOLS.iter().filter(|tool| may(tool.access)).map(|tool| tool.name.to_owned()).collect()
    };
    let (_, worker) = served.session(Role::Worker).await;
    let (_, orchestrator) = served.session(Role::Orchestrator).await;
    assert_eq!(served.tools(USER).await, allowed(|access| access.user));
    assert_eq!(served.tools(worker.expose()).await, allowed(|access| access.agent));
    assert_eq!(served.tools(orchestrator.expose()).await, allowed(|access| access.orchestrator));
    assert!(!allowed(|access| access.agent).contains(&"stop_agent".to_owned()));
}

#[tokio::test]
async fn a_session_is_held_to_its_role_and_its_project() {
    let served = serve_tools(Catalogue::CORTEX).await;
    let (_, worker) = served.session(Role::Worker).await;
    served.session(Role::Orchestrator).await;
    let projects = served.call(worker.expose(), "list_projects", json!({})).await;
    let names: Vec<_> =
        projects["projects"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["Worker"]);
    // It exists, so that is what the session reads: not that there is no such tool.
    let refused =
        served.call(worker.expose(), "stop_agent", json!({ "agent_id": "a-Worker" })).await;
    assert_eq!(refused["error"]["code"], "permission.denied");
}

#[tokio::test]
async fn a_credential_ends_with_its_session() {
    let served = serve_tools(Catalogue::CORTEX).await;
    let (id, token) = served.session(Role::Worker).await;
    assert!(!served.tools(token.expose()).await.is_empty());
    served.cortex.core().store().write(move |tx| tx.end_session(&id)).await.unwrap();
    let refused = served.ask(token.expose(), "tools/list", json!({})).await;
    assert_eq!(refused["error"]["code"], "auth.invalid");
}

#[tokio::test]
async fn a_read_ends_with_its_caller_and_with_the_endpoint() {
    let served = serve_tools(TEST_CATALOGUE).await;
    let watch = json!({ "name": "watch" });
    let left = served.begin(USER, "tools/call", watch.clone()).await;
    pass(&READ.begun).await;
    drop(left);
    pass(&READ.ended).await;

    let stays = served.begin(USER, "tools/call", watch).await;
    pass(&READ.begun).await;
    served.server.stop().await;
    pass(&READ.ended).await;
    let error = &answer(stays).await["result"]["structuredContent"]["error"];
    assert_eq!(error["code"], "core.stopped");
}

#[tokio::test]
async fn a_change_runs_to_its_end_without_its_caller() {
    let served = serve_tools(TEST_CATALOGUE).await;
    let left = served.begin(USER, "tools/call", json!({ "name": "build" })).await;
    pass(&CHANGE.begun).await;
    drop(left);
    // The endpoint is gone before the change goes on: nothing of it is needed any more.
    served.server.stop().await;
    assert_eq!(CHANGE.ended.available_permits(), 0);
    CHANGE.may_go_on.add_permits(1);
    pass(&CHANGE.ended).await;
    served.cortex.shutdown().await.unwrap();
}

/// S-099
#[tokio::test]
async fn work_that_changes_something_only_at_its_end_ends_with_its_caller() {
    let served = serve_tools(TEST_CATALOGUE).await;
    let left = served.begin(USER, "tools/call", json!({ "name": "ponder" })).await;
    pass(&PLAN.begun).await;
    drop(left);
    pass(&PLAN.ended).await;
    served.cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_tool_that_panics_answers() {
    let served = serve_tools(TEST_CATALOGUE).await;
    for tool in ["stumble", "crash"] {
        let error = served.call(USER, tool, json!({})).await["error"].take();
        assert_eq!(
            (error["kind"].as_str(), error["code"].as_str()),
            (Some("internal"), Some("core.defect"))
        );
        assert!(error["correlation_id"].is_string());
    }
}

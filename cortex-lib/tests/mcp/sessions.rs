//! Sessions of agents at the endpoint: each with the credential that it was handed, and with no more than it may.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{
    CancelTask, CreateAgent, CreateObjective, GetAgentStatus, GetTaskStatus, PostMessage,
    SendMessage, StartAgent, StopAgent,
};
use cortex_lib::api::{Caller, TOOLS};
use cortex_lib::domain::agent::{AgentStatus, Role};
use cortex_lib::domain::message::{Addressee, Channel};
use cortex_lib::domain::plan::{Requirement, TaskSpec};
use cortex_lib::env::SystemEnv;
use cortex_lib::ids::{AgentId, AttemptId, ProjectId, SessionId, TaskId};
use cortex_lib::mcp::{self, McpServer, McpSocket};
use cortex_lib::port::{McpAccess, Script, ScriptedHost, ScriptedRuntime, ScriptedWorld};
use cortex_lib::secret::Secret;
use cortex_lib::store::{NoFaults, Store, StoreOptions};
use cortex_lib::{Code, Cortex};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::http::{self, Answer, Request};

pub const SCRIPTED: &str = "scripted";
pub const USER: &str = "cortex_user_0";

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A core with scripted agents, one project and an endpoint that its sessions know.
pub struct Place {
    pub cortex: Cortex,
    pub server: McpServer,
    world: ScriptedWorld,
    pub project: ProjectId,
}

/// What a core is opened on, again and again.
pub struct Ground {
    world: ScriptedWorld,
    dir: tempfile::TempDir,
}

impl Ground {
    pub fn new() -> Self {
        Self { world: ScriptedWorld::new(), dir: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> std::path::PathBuf {
        dunce::canonicalize(self.dir.path()).unwrap()
    }

    /// Opens a core whose sessions are told of `socket`. Their turns go on for ever, also when they are told to end.
    async fn open(&self, socket: Option<&McpSocket>) -> Cortex {
        let env: Arc<dyn cortex_lib::env::Env> = Arc::new(SystemEnv::new());
        let options = StoreOptions { env: Arc::clone(&env), events_kept: 10_000 };
        let path = self.dir.path().join("cortex.db");
        let store = Store::open_inline(&path, options, Arc::new(NoFaults)).unwrap();
        let runtime =
            ScriptedRuntime::new(SCRIPTED).in_world(&self.world).turn(|_| Script::new().deaf());
        let mut builder =
            Cortex::builder(self.dir.path().join("data")).env(env).runtime(Arc::new(runtime));
        if let Some(socket) = socket {
            builder = builder.endpoint(socket.url());
        }
        builder.open_on(store, Arc::new(ScriptedHost::new(&self.world))).await.unwrap()
    }
}

pub async fn add_project(cortex: &Cortex, name: &str, root: &Path) -> ProjectId {
    let add = AddProject { name: name.to_owned(), root: root.to_owned(), verification: None };
    cortex.as_user().call(add).await.unwrap().project.project_id
}

impl Place {
    pub async fn open(ground: &Ground) -> Self {
        let socket = mcp::bind(0).await.unwrap();
        let cortex = ground.open(Some(&socket)).await;
        let server = socket.serve(&cortex, &Secret::new(USER));
        let project = add_project(&cortex, "p", ground.dir.path()).await;
        Self { cortex, server, world: ground.world.clone(), project }
    }

    async fn create(&self, name: &str, role: Role) -> AgentId {
        let create = CreateAgent { role, ..CreateAgent::new(&self.project, name, SCRIPTED) };
        self.cortex.as_user().call(create).await.unwrap().agent.agent_id
    }

    async fn start(&self, agent_id: &AgentId) {
        let start = StartAgent { agent_id: agent_id.clone() };
        assert_eq!(
            self.cortex.as_user().call(start).await.unwrap().agent.state,
            AgentStatus::Ready
        );
    }

    pub async fn ready(&self, name: &str, role: Role) -> AgentId {
        let id = self.create(name, role).await;
        self.start(&id).await;
        id
    }

    async fn status(&self, agent_id: &AgentId) -> AgentStatus {
        let get = GetAgentStatus { agent_id: agent_id.clone() };
        self.cortex.as_user().call(get).await.unwrap().agent.state
    }

    /// What the newest session of an agent was handed.
    pub fn access(&self, agent: &AgentId) -> (SessionId, McpAccess) {
        access(&self.world, agent)
    }

    async fn send(&self, token: &Secret, method: &str, params: Value) -> Answer {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let port = self.server.port();
        Request::post(port, token.expose(), message.to_string()).send(port).await
    }

    /// What a tool answers to the holder of a credential.
    pub async fn call(&self, token: &Secret, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.send(token, "tools/call", params).await;
        assert_eq!(answer.status, 200, "{tool}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()["result"]["structuredContent"].take()
    }

    pub async fn tools(&self, token: &Secret) -> Vec<String> {
        let answer = self.send(token, "tools/list", json!({})).await.json();
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// A task that runs in a worktree of its own, and its attempt.
    async fn isolated(&self) -> (TaskId, AttemptId) {
        let requirements = vec![Requirement::WorkspaceIsolation];
        let task = TaskSpec { requirements, ..TaskSpec::new("x", "Do x.") };
        let (project_id, title) = (self.project.clone(), "o".to_owned());
        let create = CreateObjective { project_id, title, tasks: vec![task] };
        let made = self.cortex.as_user().call(create).await.unwrap().objective;
        let task_id = made.tasks[0].task_id.clone();
        until(&self.cortex, "a turn", async || !self.world.turns().is_empty()).await;
        let get = GetTaskStatus { task_id: task_id.clone() };
        let task = self.cortex.as_user().call(get).await.unwrap().task;
        (task_id, task.attempts[0].execution_id.clone())
    }
}

/// Waits until `look` sees it, looking again at every event.
async fn until(cortex: &Cortex, what: &str, mut look: impl AsyncFnMut() -> bool) {
    let mut events = cortex.events(None);
    let search = async {
        while !look().await {
            events.next().await.unwrap();
        }
    };
    let found = tokio::time::timeout(PATIENCE, search).await;
    assert!(found.is_ok(), "{what} did not come");
}

fn access(world: &ScriptedWorld, agent: &AgentId) -> (SessionId, McpAccess) {
    let openings = world.openings().into_iter().rev();
    let spec = openings.into_iter().find(|spec| spec.agent_id.as_ref() == Some(agent)).unwrap();
    (spec.session_id, spec.mcp.unwrap())
}

pub fn code(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or_default()
}

/// S-230, S-232, S-234, S-236.
#[tokio::test]
async fn an_orchestrator_makes_and_starts_workers_of_its_project_and_no_more() {
    let (ground, elsewhere) = (Ground::new(), tempfile::tempdir().unwrap());
    let place = Place::open(&ground).await;
    let boss = place.ready("boss", Role::Orchestrator).await;
    let (_, access) = place.access(&boss);
    assert_eq!(access.url, place.server.url());
    let token = &access.token;

    let may = |access: cortex_lib::api::Access| access.orchestrator;
    let allowed: Vec<_> =
        TOOLS.iter().filter(|tool| may(tool.access)).map(|tool| tool.name.to_owned()).collect();
    assert_eq!(place.tools(token).await, allowed);

    let new = json!({ "project_id": place.project, "name": "w", "runtime_id": SCRIPTED });
    let made = place.call(token, "create_agent", new.clone()).await;
    let worker = made["agent"]["agent_id"].clone();
    assert_eq!(made["agent"]["role"], "worker", "{made}");
    let started = place.call(token, "start_agent", json!({ "agent_id": worker })).await;
    assert_eq!(started["agent"]["state"], "READY", "{started}");

    let other = add_project(&place.cortex, "other", elsewhere.path()).await;
    let user = place.cortex.as_user();
    let foreign = user.call(CreateAgent::new(&other, "f", SCRIPTED)).await.unwrap().agent;
    let foreign = json!({ "agent_id": foreign.agent_id });
    assert_eq!(code(&place.call(token, "start_agent", foreign.clone()).await), "agent.not_found");
    assert_eq!(code(&place.call(token, "get_agent_status", foreign).await), "agent.not_found");
    let mut there = new;
    there["project_id"] = json!(other);
    assert_eq!(code(&place.call(token, "create_agent", there).await), "project.not_found");

    for tool in TOOLS.iter().filter(|tool| !may(tool.access)) {
        let answer = place.call(token, tool.name, json!({})).await;
        assert_eq!(code(&answer), "permission.denied", "{}", tool.name);
        assert_eq!(answer["error"]["kind"], "authorization_error");
    }
    // Its work comes by the user's messages, never as a task.
    let agent_id = boss.clone();
    let sent = user.call(SendMessage { agent_id, message: "Plan the week.".into() }).await;
    assert!(sent.unwrap().delivered);
}

/// S-235.
#[tokio::test]
async fn without_an_endpoint_workers_start_without_tools_and_orchestrators_do_not() {
    let ground = Ground::new();
    let cortex = ground.open(None).await;
    let project = add_project(&cortex, "p", ground.dir.path()).await;
    let user = cortex.as_user();
    let worker = CreateAgent::new(&project, "w", SCRIPTED);
    let boss =
        CreateAgent { role: Role::Orchestrator, ..CreateAgent::new(&project, "b", SCRIPTED) };
    let worker = user.call(worker).await.unwrap().agent.agent_id;
    user.call(StartAgent { agent_id: worker }).await.unwrap();
    assert!(ground.world.openings()[0].mcp.is_none());

    let agent_id = user.call(boss).await.unwrap().agent.agent_id;
    let error = user.call(StartAgent { agent_id: agent_id.clone() }).await.unwrap_err();
    assert_eq!(error.code(), Code::McpDisabled);
    assert!(error.remediation().contains("mcp.enabled"), "{error}");
    let boss = user.call(GetAgentStatus { agent_id }).await.unwrap().agent;
    assert_eq!(boss.state, AgentStatus::Failed, "H-20");
    assert_eq!(boss.last_failure.unwrap().code, Code::McpDisabled);
    assert_eq!(ground.world.openings().len(), 1, "its runtime was not asked");
}

/// S-237.
#[tokio::test]
async fn a_worker_has_the_rights_of_a_worker() {
    let ground = Ground::new();
    let place = Place::open(&ground).await;
    let worker = place.ready("w", Role::Worker).await;
    let (_, McpAccess { token, .. }) = place.access(&worker);
    let allowed: Vec<_> =
        TOOLS.iter().filter(|tool| tool.access.agent).map(|tool| tool.name.to_owned()).collect();
    assert_eq!(place.tools(&token).await, allowed);
    let new = json!({ "project_id": place.project, "name": "x", "runtime_id": SCRIPTED });
    let made = place.call(&token, "create_agent", new).await;
    assert_eq!(made["agent"]["state"], "CREATED");
    let start = json!({ "agent_id": made["agent"]["agent_id"] });
    assert_eq!(code(&place.call(&token, "start_agent", start).await), "permission.denied");
}

/// A credential lives as long as its session, and not longer: it is gone when the end is told.
#[tokio::test]
async fn the_credential_of_a_session_that_is_over_is_nobodys() {
    let ground = Ground::new();
    let place = Place::open(&ground).await;
    let agent = place.ready("a", Role::Worker).await;
    let (first, McpAccess { token: old, .. }) = place.access(&agent);
    assert!(!place.tools(&old).await.is_empty());
    let stop = StopAgent { agent_id: agent.clone() };
    place.cortex.as_user().call(stop).await.unwrap();
    let refused = place.send(&old, "tools/list", json!({})).await;
    assert_eq!((refused.status, code(&refused.json())), (401, "auth.invalid"));

    place.start(&agent).await;
    let (second, McpAccess { token: new, .. }) = place.access(&agent);
    assert_ne!((&first, &old), (&second, &new), "each session has its own");
    assert!(!place.tools(&new).await.is_empty());
    assert_eq!(place.send(&old, "tools/list", json!({})).await.status, 401);
    place.world.kill(&second, "it crashed").await;
    let crashed = async || place.status(&agent).await == AgentStatus::Crashed;
    until(&place.cortex, "the crash", crashed).await;
    assert_eq!(place.send(&new, "tools/list", json!({})).await.status, 401);
}

/// H-31: an isolated attempt has a session of its own beside that of its agent.
#[tokio::test]
async fn two_sessions_of_one_agent_have_a_credential_each_and_are_the_same_sender() {
    let ground = Ground::new();
    ground.world.make_repository(ground.root(), [("a.txt", "a")]);
    let place = Place::open(&ground).await;
    let reader = place.create("reader", Role::Worker).await;
    let agent = place.ready("a", Role::Worker).await;
    let (own_session, own) = place.access(&agent);
    let (_, execution) = place.isolated().await;
    let (attempt_session, of_attempt) = place.access(&agent);
    assert_ne!(own_session, attempt_session);
    assert_ne!(own.token, of_attempt.token);

    let channel = Channel::Project(place.project.clone());
    let note = PostMessage::new(channel, Addressee::Attempt(execution.clone()), "mind the tests");
    place.cortex.as_user().call(note).await.unwrap();
    for token in [&own.token, &of_attempt.token] {
        let post = json!({ "project_id": place.project, "to_agent_id": reader, "body": "hi" });
        let posted = place.call(token, "post_message", post).await;
        assert_eq!(posted["message"]["from"]["agent_id"], json!(agent), "{posted}");
        let inbox = place.call(token, "read_messages", json!({})).await;
        assert_eq!(inbox["messages"][0]["to_execution_id"], json!(execution), "{inbox}");
    }
}

/// Claims: late tool call of attempt 1 while it lets go → `attempt.stale`, nothing changes.
#[tokio::test]
async fn what_the_session_of_an_attempt_says_after_its_end_counts_no_more() {
    let ground = Ground::new();
    ground.world.make_repository(ground.root(), [("a.txt", "a")]);
    let place = Place::open(&ground).await;
    let agent = place.ready("a", Role::Worker).await;
    let (_, own) = place.access(&agent);
    let (task_id, execution) = place.isolated().await;
    let (_, of_attempt) = place.access(&agent);
    let new = |name| json!({ "project_id": place.project, "name": name, "runtime_id": SCRIPTED });
    let made = place.call(&of_attempt.token, "create_agent", new("helper")).await;
    assert_eq!(made["agent"]["name"], "helper");

    place.cortex.as_user().call(CancelTask { task_id, reason: None }).await.unwrap();
    for (tool, arguments) in [("create_agent", new("late")), ("list_tasks", json!({}))] {
        let answer = place.call(&of_attempt.token, tool, arguments.clone()).await;
        assert_eq!(code(&answer), "attempt.stale", "{tool}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(execution.as_str()));
        // The conversation of the agent itself goes on.
        let answer = place.call(&own.token, tool, arguments).await;
        assert_eq!(code(&answer), "", "{tool}: {answer}");
    }
}

/// A restored agent connects before anybody could serve: its CLI waits, and is answered.
#[tokio::test]
async fn agents_that_are_started_again_know_the_endpoint_and_wait_for_it() {
    let ground = Ground::new();
    let (agent, old) = {
        let place = Place::open(&ground).await;
        let agent = place.ready("a", Role::Orchestrator).await;
        place.cortex.shutdown().await.unwrap();
        let (_, access) = place.access(&agent);
        (agent, access.token)
    };
    let socket = mcp::bind(0).await.unwrap();
    let port = socket.port();
    let cortex = ground.open(Some(&socket)).await;
    let get = || GetAgentStatus { agent_id: agent.clone() };
    let ready =
        async || cortex.as_user().call(get()).await.unwrap().agent.state == AgentStatus::Ready;
    until(&cortex, "the agent", ready).await;
    let (_, access) = access(&ground.world, &agent);
    assert_eq!(access.url, socket.url());

    let mut early = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let ask = Request::post(port, access.token.expose(), crate::PING);
    early.write_all(&ask.bytes()).await.unwrap();
    let _server = socket.serve(&cortex, &Secret::new(USER));
    assert_eq!(http::read(early).await.status, 200);
    let stale = Request::post(port, old.expose(), crate::PING).send(port).await;
    assert_eq!(stale.status, 401, "what an earlier life handed out counts no more");
    let caller = Caller::User;
    assert!(cortex.as_caller(caller).call(get()).await.is_ok());
}

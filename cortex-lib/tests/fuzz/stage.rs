//! A core to try inputs on: real rules and a real store, scripted agents, a clock that only moves when all wait.
//!
//! Each stage is the same as the one before it, down to its ids, so that an input does again what it did. Making one takes
//! longer than most inputs, so it is kept as long as inputs change nothing.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::path::Path;
use std::sync::{Arc, Once};
use std::time::Duration;

use cortex_lib::api::{Caller, Cx, SessionCaller, SessionKind};
use cortex_lib::domain::attempt::Cause;
use cortex_lib::env::{Env, SimEnv};
use cortex_lib::ids::{AgentId, ProjectId, RuntimeId};
use cortex_lib::mcp::{self, McpServer, McpSocket};
use cortex_lib::port::{Script, ScriptedHost, ScriptedRuntime, ScriptedWorld, SessionSpec, Turn};
use cortex_lib::secret::Secret;
use cortex_lib::store::{NoFaults, Store, StoreOptions};
use cortex_lib::time::Timestamp;
use cortex_lib::{Cortex, Settings};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// The name of the project that no session of the stage may see, and of the agent in it.
pub const ELSEWHERE: &str = "elsewhere-c41f";
/// The user's credential.
pub const USER_TOKEN: &str = "cortex_user_9d1c7f0e";

/// 2026-09-21T14:13:20Z.
const EPOCH: i64 = 1_790_000_000_000;
/// A stage is left after so many inputs even if none changed it: its clock has moved.
const INPUTS_MAX: u32 = 500;

thread_local! {
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// A core with two projects, agents in them, and an endpoint.
#[derive(Debug)]
pub struct Stage {
    pub cortex: Cortex,
    pub callers: Callers,
    pub names: Names,
    /// Until it is served, on first use: calls need no endpoint, and it takes as long as they do.
    socket: Option<McpSocket>,
    server: Option<McpServer>,
    disk: Disk,
    // It ends what runs on it before the folder goes.
    runtime: Runtime,
    _dir: TempDir,
}

/// Who may call.
#[derive(Clone, Debug)]
pub struct Callers {
    pub worker: Caller,
    pub orchestrator: Caller,
    pub hook: Caller,
}

/// What an input can name, as `<name>`: ids and credentials that nobody can write down beforehand.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<String, String>);

impl Names {
    fn put(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Remembers each id in an answer by the name of its field.
    pub fn learn(&mut self, answer: &Value) {
        match answer {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        Value::String(id) if name.ends_with("_id") => self.put(name, id),
                        below => self.learn(below),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            _ => {}
        }
    }

    /// What is known by `name`.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value)
    }

    /// `text` with each `<name>` replaced.
    pub fn fill(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some((first, behind)) = rest.split_first() {
            let end = behind.iter().take(32).position(|byte| *byte == b'>');
            let name = end.and_then(|end| std::str::from_utf8(behind.get(..end)?).ok());
            let value = name.filter(|_| *first == b'<').and_then(|name| self.0.get(name));
            if let (Some(value), Some(end)) = (value, end) {
                out.extend(value.as_bytes());
                rest = behind.get(end + 1..).unwrap_or_default();
            } else {
                out.push(*first);
                rest = behind;
            }
        }
        out
    }
}

/// The stage that inputs are tried on, one after the other.
#[derive(Debug, Default)]
pub struct Stages {
    current: Option<Stage>,
    inputs: u32,
}

impl Stages {
    /// The stage for the next input: the last one, if nothing changed it.
    pub fn next(&mut self) -> &mut Stage {
        note_panics();
        self.inputs += 1;
        if self.inputs > INPUTS_MAX {
            self.current = None;
        }
        if self.current.is_none() {
            self.inputs = 0;
        }
        self.current.get_or_insert_with(Stage::new)
    }

    /// The last input changed the stage.
    pub fn leave(&mut self) {
        self.current = None;
    }
}

/// Makes a panic anywhere on this thread known, also one that a task of tokio swallows.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.set(true);
            earlier(panic);
        }));
    });
}

/// Whether nothing panicked on this thread so far.
pub fn no_panic() -> Result<(), String> {
    if PANICKED.get() { Err("something panicked".to_owned()) } else { Ok(()) }
}

impl Stage {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let runtime =
            Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (cortex, socket, callers, names) = runtime.block_on(set_up(dir.path()));
        let disk = Disk::open(&dir.path().join("cortex.db"));
        let (socket, server) = (Some(socket), None);
        Self { cortex, callers, names, socket, server, disk, runtime, _dir: dir }
    }

    /// Runs `work` on the stage.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// The port at which the endpoint is served.
    pub fn port(&mut self) -> u16 {
        if let Some(socket) = self.socket.take() {
            let serve = async { socket.serve(&self.cortex, &Secret::new(USER_TOKEN)) };
            self.server = Some(self.runtime.block_on(serve));
        }
        self.server.as_ref().unwrap().port()
    }

    /// What is on disk, as a number.
    pub fn content(&mut self) -> u64 {
        self.disk.content()
    }
}

/// The store as another program sees it: what counts is what is there, not what the code that is tried says.
#[derive(Debug)]
struct Disk {
    file: Connection,
    tables: Vec<String>,
    /// What was there at the last look, and the version of the file at that time.
    seen: Option<(i64, u64)>,
}

impl Disk {
    fn open(path: &Path) -> Self {
        let file = Connection::open(path).unwrap();
        let tables = {
            let query = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
            let mut names = file.prepare(query).unwrap();
            names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        Self { file, tables, seen: None }
    }

    fn content(&mut self) -> u64 {
        let version = self.file.pragma_query_value(None, "data_version", |row| row.get(0)).unwrap();
        if let Some((_, content)) = self.seen.filter(|(seen, _)| *seen == version) {
            return content;
        }
        let mut all = DefaultHasher::new();
        for table in &self.tables {
            let mut query = self.file.prepare_cached(&format!("SELECT * FROM {table}")).unwrap();
            let width = query.column_count();
            let mut rows = query.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                for at in 0..width {
                    hash(row.get_ref(at).unwrap(), &mut all);
                }
            }
            table.hash(&mut all);
        }
        let content = all.finish();
        self.seen = Some((version, content));
        content
    }
}

fn hash(value: ValueRef<'_>, into: &mut impl Hasher) {
    match value {
        ValueRef::Null => 0_u8.hash(into),
        ValueRef::Integer(number) => number.hash(into),
        ValueRef::Real(number) => number.to_bits().hash(into),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.hash(into),
    }
}

/// Waits until everybody waits.
#[expect(clippy::disallowed_methods, reason = "the clock is paused: this takes no time")]
pub async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn set_up(dir: &Path) -> (Cortex, McpSocket, Callers, Names) {
    for folder in ["root", "far"] {
        fs_err::create_dir(dir.join(folder)).unwrap();
    }
    let root = dunce::canonicalize(dir.join("root")).unwrap();
    let world = ScriptedWorld::new();
    world.make_repository(root.clone(), [("a.txt", "a")]);
    let socket = mcp::bind(0).await.unwrap();
    let cortex = open(dir, &world, socket.url()).await;
    let mut names = Names::default();
    names.put("port", socket.port().to_string());
    names.put("root", root.to_str().unwrap());
    names.put("key", USER_TOKEN);
    people(&cortex.as_user(), dir, &mut names).await;
    work(&cortex.as_user(), &mut names).await;
    settle().await;

    let openings = world.openings();
    let opening = |agent: &str| {
        let of =
            |spec: &&SessionSpec| spec.agent_id.as_ref().is_some_and(|id| id.as_str() == agent);
        openings.iter().find(of).unwrap()
    };
    for name in ["worker", "orchestrator", "far"] {
        let access = opening(names.get(name)).mcp.as_ref().unwrap();
        names.put(&format!("key-{name}"), access.token.expose());
        names.put(&format!("key-hook-{name}"), access.hook_token.expose());
    }
    let session = |kind: SessionKind, name: &str| {
        Caller::Session(SessionCaller {
            kind,
            agent_id: AgentId::new(names.get(name)),
            project_id: ProjectId::new(names.get("project")),
            session_id: opening(names.get(name)).session_id.clone(),
        })
    };
    let callers = Callers {
        worker: session(SessionKind::Agent, "worker"),
        orchestrator: session(SessionKind::Orchestrator, "orchestrator"),
        hook: session(SessionKind::Hook, "worker"),
    };
    (cortex, socket, callers, names)
}

/// Two projects, and agents in them of which one does not run.
async fn people(user: &Cx, dir: &Path, names: &mut Names) {
    for (name, title, folder) in [("project", "near", "root"), ("other", ELSEWHERE, "far")] {
        let args = json!({ "name": title, "root": dir.join(folder) });
        let id = make(user, "add_project", args).await;
        names.put(name, id);
    }
    for (name, title, project, role) in [
        ("worker", "ada", "project", "worker"),
        ("orchestrator", "olga", "project", "orchestrator"),
        ("far", ELSEWHERE, "other", "worker"),
        ("idle", "ian", "project", "worker"),
    ] {
        let project = names.get(project);
        let args = json!({
            "project_id": project, "name": title, "role": role, "runtime_id": "scripted",
        });
        let id = make(user, "create_agent", args).await;
        if name != "idle" {
            user.call_json("start_agent", json!({ "agent_id": id })).await.unwrap();
        }
        names.put(name, id);
    }
}

/// A task that waits for a person and one that waits for its agent, a plan and a message that wait.
async fn work(user: &Cx, names: &mut Names) {
    let (project, worker) = (names.get("project").to_owned(), names.get("worker").to_owned());
    let goal = json!({ "project_id": project, "goal": "Count." });
    names.learn(&user.call_json("propose_objective", goal).await.unwrap());
    let note = json!({ "project_id": project, "to_agent_id": worker, "body": "look" });
    names.learn(&user.call_json("post_message", note).await.unwrap());
    let tasks = json!([
        { "key": "done", "description": "Say done.", "assigned_agent_id": worker },
        { "key": "waits", "description": "Wait.", "assigned_agent_id": names.get("idle") },
    ]);
    let objective = json!({ "project_id": project, "title": "o", "tasks": tasks });
    let answer = user.call_json("create_objective", objective).await.unwrap();
    names.learn(&answer);
    for (at, name) in ["done", "waits"].into_iter().enumerate() {
        let task = answer.pointer(&format!("/objective/tasks/{at}/task_id"));
        names.put(name, task.and_then(Value::as_str).unwrap());
    }
}

async fn open(dir: &Path, world: &ScriptedWorld, endpoint: String) -> Cortex {
    let env: Arc<dyn Env> = Arc::new(SimEnv::new(7, Timestamp::from_millis(EPOCH)));
    let options = StoreOptions { env: Arc::clone(&env), events_kept: 1_000 };
    let store = Store::open_inline(&dir.join("cortex.db"), options, Arc::new(NoFaults)).unwrap();
    let mut settings = Settings::default();
    settings.planner.runtime_id = RuntimeId::new("scripted");
    let runtime = ScriptedRuntime::new("scripted").in_world(world).turn(play);
    Cortex::builder(dir.join("data"))
        .settings(settings)
        .env(env)
        .endpoint(endpoint)
        .runtime(Arc::new(runtime))
        .open_on(store, Arc::new(ScriptedHost::new(world)))
        .await
        .unwrap()
}

/// What a turn does: what its instruction says. The planner's, which has the goal in a fence, never goes on for ever: the
/// keep-alive of a stream of events goes by the clock of the machine, and a stage's is ahead of it.
fn play(turn: &Turn) -> Script {
    let says = |word: &str| turn.instruction.contains(word);
    let mut task = json!({ "key": "count", "title": "Count", "description": "Count." });
    if says("estimate") {
        task["estimate"] = json!("small");
    }
    let plan = json!({ "title": "Count", "tasks": [task] }).to_string();
    let script = Script::new();
    match () {
        () if says("LINGER") && !says("```") => script,
        () if says("ASK") => script.ask("Bash", json!({ "command": "make" })).answer(plan),
        () if says("FAIL") => script.fail(Cause::Transient, "overloaded"),
        () if says("CRASH") => script.crash("killed"),
        () if says("WRITE") => script.write("b.txt", "b").answer("wrote"),
        () => script.answer(plan),
    }
}

/// Makes a project or an agent; the answer is its id.
async fn make(user: &Cx, command: &str, args: Value) -> String {
    let answer = user.call_operator_json(command, args).await.unwrap();
    let made = answer.as_object().and_then(|answer| answer.values().next()).unwrap();
    let id = if command == "add_project" { "project_id" } else { "agent_id" };
    made[id].as_str().unwrap().to_owned()
}

//! A core to try things on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{
    CreateAgent, CreateObjective, GetAgentStatus, GetTaskStatus, ListTasks, PollAgentEvents,
    StartAgent,
};
use cortex_lib::api::view::{AgentView, ObjectiveView, TaskView};
use cortex_lib::api::{Caller, Command, Cx, SessionCaller, SessionKind};
use cortex_lib::domain::agent::{AgentStatus, Role};
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::verification::{Verification, VerificationCommand};
use cortex_lib::env::{Env, SimEnv};
use cortex_lib::error::Error;
use cortex_lib::ids::{AgentId, ObjectiveId, ProjectId, RuntimeId, SessionId, TaskId};
use cortex_lib::port::{Runtime, ScriptedHost, ScriptedRuntime, ScriptedWorld};
use cortex_lib::settings::Settings;
use cortex_lib::store::{Event, Faults, NoFaults, Store, StoreOptions};
use cortex_lib::time::Timestamp;
use cortex_lib::{Cortex, Kind};
use tempfile::TempDir;

/// 2026-09-21T14:13:20Z.
pub const EPOCH: i64 = 1_790_000_000_000;

/// The name of the runtime that [`Setup::runtime`] changes.
pub const SCRIPTED: &str = "scripted";

/// Longer than anything that ends by itself.
const PATIENCE: Duration = Duration::from_hours(48);

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A core before it is opened. It can be opened again and again on the same disk.
pub struct Setup {
    pub world: ScriptedWorld,
    pub runtimes: Vec<ScriptedRuntime>,
    pub host: ScriptedHost,
    pub settings: Settings,
    pub verification: bool,
    pub epoch: i64,
    pub seed: u64,
    pub at_rest: bool,
    /// Whether its sessions are told of an endpoint. Nobody listens there.
    pub endpoint: bool,
    pub faults: Arc<dyn Faults>,
    pub dir: Arc<TempDir>,
}

impl Setup {
    pub fn new() -> Self {
        let world = ScriptedWorld::new();
        Self {
            runtimes: vec![ScriptedRuntime::new(SCRIPTED).in_world(&world)],
            host: ScriptedHost::new(&world),
            world,
            settings: Settings::default(),
            verification: false,
            epoch: EPOCH,
            seed: 7,
            at_rest: false,
            endpoint: false,
            faults: Arc::new(NoFaults),
            dir: Arc::new(TempDir::new().unwrap()),
        }
    }

    /// Changes the scripted runtime.
    pub fn runtime(mut self, change: impl FnOnce(ScriptedRuntime) -> ScriptedRuntime) -> Self {
        let first = self.runtimes.remove(0);
        self.runtimes.insert(0, change(first));
        self
    }

    /// Adds a runtime in the same world.
    pub fn another(mut self, runtime: ScriptedRuntime) -> Self {
        self.runtimes.push(runtime.in_world(&self.world));
        self
    }

    pub fn host(mut self, change: impl FnOnce(ScriptedHost) -> ScriptedHost) -> Self {
        self.host = change(self.host);
        self.verification = true;
        self
    }

    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    pub fn root(&self) -> PathBuf {
        dunce::canonicalize(self.dir.path()).unwrap()
    }

    /// Opens the core without adding anything to it.
    pub async fn open_bare(&self) -> (Cortex, Store) {
        let scripted =
            self.runtimes.iter().map(|runtime| Arc::new(runtime.clone()) as Arc<dyn Runtime>);
        self.open_on(scripted.collect()).await
    }

    async fn open_on(&self, runtimes: Vec<Arc<dyn Runtime>>) -> (Cortex, Store) {
        let env: Arc<dyn Env> =
            Arc::new(SimEnv::new(self.seed, Timestamp::from_millis(self.epoch)));
        let options =
            StoreOptions { env: Arc::clone(&env), events_kept: self.settings.events.kept };
        let path = self.dir.path().join("cortex.db");
        let store = Store::open_inline(&path, options, Arc::clone(&self.faults)).unwrap();
        let mut builder =
            Cortex::builder(self.dir.path().join("data")).settings(self.settings.clone()).env(env);
        if self.at_rest {
            builder = builder.at_rest();
        }
        if self.endpoint {
            builder = builder.endpoint("http://127.0.0.1:1/mcp");
        }
        for runtime in runtimes {
            builder = builder.runtime(runtime);
        }
        let cortex = builder.open_on(store.clone(), Arc::new(self.host.clone())).await.unwrap();
        (cortex, store)
    }

    /// Opens the core with one project.
    pub async fn open(&self) -> Bench {
        self.with_project(self.open_bare().await).await
    }

    /// Opens the core with one project and these runtimes alone.
    pub async fn open_with(&self, runtimes: Vec<Arc<dyn Runtime>>) -> Bench {
        self.with_project(self.open_on(runtimes).await).await
    }

    async fn with_project(&self, (cortex, store): (Cortex, Store)) -> Bench {
        let cx = cortex.as_user();
        let verification = self.verification.then(checks);
        let project = cx
            .call(AddProject { name: "p".into(), root: self.dir.path().to_owned(), verification })
            .await
            .unwrap()
            .project
            .project_id;
        Bench { cortex, cx, store, world: self.world.clone(), project }
    }

    /// Opens the core again on what it has on disk, some time later.
    pub async fn reopen(&mut self, project: &ProjectId) -> Bench {
        (self.epoch, self.seed) = (self.epoch + 3_600_000, self.seed + 1);
        let (cortex, store) = self.open_bare().await;
        Bench {
            cx: cortex.as_user(),
            cortex,
            store,
            world: self.world.clone(),
            project: project.clone(),
        }
    }
}

/// One command that verifies.
pub fn checks() -> Verification {
    let command = VerificationCommand { argv: vec!["check".into()], name: None };
    Verification { commands: vec![command], timeout_secs: 600 }
}

/// An open core with one project.
pub struct Bench {
    pub cortex: Cortex,
    pub cx: Cx,
    pub store: Store,
    pub world: ScriptedWorld,
    pub project: ProjectId,
}

impl Bench {
    pub async fn call<C: Command>(&self, command: C) -> C::Output {
        self.cx.call(command).await.unwrap()
    }

    pub async fn refuse<C: Command<Output: std::fmt::Debug>>(&self, command: C) -> Error {
        let error = self.cx.call(command).await.unwrap_err();
        assert!(error.correlation_id().is_some(), "every error is tied to the log");
        assert_ne!(error.code().kind(), Kind::Internal, "{error:?}");
        error
    }

    /// Creates an agent on the scripted runtime.
    pub async fn agent(&self, name: &str) -> AgentId {
        self.agent_on(name, SCRIPTED).await
    }

    pub async fn agent_on(&self, name: &str, runtime: &str) -> AgentId {
        self.call(new_agent(&self.project, name, runtime)).await.agent.agent_id
    }

    /// Creates an agent and starts it.
    pub async fn ready(&self, name: &str) -> AgentId {
        let id = self.agent(name).await;
        let agent = self.call(StartAgent { agent_id: id.clone() }).await.agent;
        assert_eq!(agent.agent_id, id);
        id
    }

    pub async fn objective(&self, tasks: Vec<TaskSpec>) -> ObjectiveView {
        let title = "o".to_owned();
        let call = CreateObjective { project_id: self.project.clone(), title, tasks };
        self.call(call).await.objective
    }

    /// Creates an objective of one task.
    pub async fn one_task(&self, spec: TaskSpec) -> TaskId {
        self.objective(vec![spec]).await.tasks.remove(0).task_id
    }

    /// An objective as the list shows it.
    pub async fn listed(&self, id: &ObjectiveId) -> ObjectiveView {
        let all = self.call(ListTasks {}).await.objectives;
        all.into_iter().find(|objective| objective.objective_id == *id).unwrap()
    }

    /// Everything that was told after an event.
    pub fn told_after(&self, seq: u64) -> Vec<Event> {
        self.store.read(|tx| tx.events_after(Some(seq), 500)).unwrap()
    }

    /// A door for a session of the project.
    pub fn session(&self, kind: SessionKind) -> Cx {
        self.cortex.as_caller(Caller::Session(SessionCaller {
            kind,
            agent_id: AgentId::new("a1"),
            project_id: self.project.clone(),
            session_id: SessionId::new("s1"),
        }))
    }

    pub async fn task(&self, id: &TaskId) -> TaskView {
        self.call(GetTaskStatus { task_id: id.clone() }).await.task
    }

    pub async fn see(&self, id: &AgentId) -> AgentView {
        self.call(GetAgentStatus { agent_id: id.clone() }).await.agent
    }

    pub async fn status(&self, id: &AgentId) -> AgentStatus {
        self.see(id).await.state
    }

    /// Waits until `look` finds something.
    pub async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let began = tokio::time::Instant::now();
        let mut step = Duration::from_millis(1);
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "{what} did not come");
            pass(step).await;
            step = (step * 2).min(secs(1));
        }
    }

    /// Waits until a task stands there.
    pub async fn until_task(&self, id: &TaskId, status: TaskStatus) -> TaskView {
        let look = async || Some(self.task(id).await).filter(|task| task.status == status);
        self.until(&format!("{status:?} of {:?}", self.task(id).await), look).await
    }

    /// Waits until an agent stands there.
    pub async fn until_agent(&self, id: &AgentId, state: AgentStatus) -> AgentView {
        let look = async || Some(self.see(id).await).filter(|agent| agent.state == state);
        self.until(state.as_str(), look).await
    }

    /// Waits until this many turns were sent.
    pub async fn until_turns(&self, count: usize) {
        let look = async || (self.world.turns().len() >= count).then_some(());
        self.until("a turn", look).await;
    }

    /// Every agent event so far.
    pub async fn agent_events(&self) -> Vec<Event> {
        let all = PollAgentEvents { after: None, limit: 500, agent_id: None, wait_ms: 0 };
        self.call(all).await.events
    }
}

pub fn new_agent(project: &ProjectId, name: &str, runtime: &str) -> CreateAgent {
    CreateAgent {
        project_id: project.clone(),
        name: name.to_owned(),
        runtime_id: RuntimeId::new(runtime),
        model: None,
        role: Role::Worker,
        instructions: None,
        skills: true,
    }
}

/// A task that does what its key says.
pub fn spec(key: &str, depends_on: &[&str]) -> TaskSpec {
    TaskSpec {
        key: key.to_owned(),
        description: format!("Do {key}."),
        depends_on: depends_on.iter().map(|key| (*key).to_owned()).collect(),
        ..TaskSpec::default()
    }
}

/// Lets time pass.
#[expect(clippy::disallowed_methods, reason = "the clock of a test is paused: this takes no time")]
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

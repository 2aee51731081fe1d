//! Bad input: each is a typed error that names the field or the thing and the next step, and nothing is half done.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::api::operator::{
    AddProject, PauseAgent, RemoveAgent, RemoveProject, RestartAgent, ResumeAgent, UpdateProject,
};
use cortex_lib::api::tool::{
    ApproveTask, CancelTask, CreateAgent, CreateObjective, GetAgentStatus, GetTaskStatus,
    InterruptAgent, ListAgents, ListTasks, PollAgentEvents, RetryTask, SendMessage, StartAgent,
    StopAgent, UpdateAgent,
};
use cortex_lib::api::view::TaskView;
use cortex_lib::api::{Caller, Command, Cx, SessionCaller, SessionKind};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::{AgentId, ProjectId, SessionId, TaskId};
use cortex_lib::port::{Opening, Script, ScriptedRuntime};
use cortex_lib::{Cortex, Settings};
use rusqlite::{Connection, types::Value as Cell};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Nothing that a test waits for takes longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A real core with a project, an agent that is READY and a task that nobody may run.
struct Place {
    dir: TempDir,
    cortex: Cortex,
    user: Cx,
    project: ProjectId,
    agent: AgentId,
    task: TaskId,
}

/// What a refusal must say.
#[derive(Clone, Copy, Debug)]
struct Want<'a> {
    code: Code,
    /// The fields it names, in order.
    fields: &'a [&'a str],
    /// Words of its message.
    says: &'a str,
}

fn want<'a>(code: Code, fields: &'a [&'a str], says: &'a str) -> Want<'a> {
    Want { code, fields, says }
}

/// Wrong arguments.
fn wrong<'a>(fields: &'a [&'a str], says: &'a str) -> Want<'a> {
    want(Code::InvalidArguments, fields, says)
}

impl Want<'_> {
    fn check(&self, what: &str, error: &Error) {
        assert_eq!(error.code(), self.code, "{what}: {error:?}");
        let fields: Vec<_> = error.problems().iter().map(|one| one.path.as_str()).collect();
        assert_eq!(fields, self.fields, "{what}: {error:?}");
        assert!(error.message().contains(self.says), "{what}: {error:?}");
        assert!(
            error.remediation().ends_with('.'),
            "{what}: the next step is a sentence: {error:?}"
        );
        assert!(error.correlation_id().is_some(), "{what} is tied to the log: {error:?}");
    }
}

impl Place {
    async fn new() -> Self {
        Self::with(|runtime| runtime).await
    }

    /// The runtime `scripted` is as `change` makes it; `poor` lacks what it can lack.
    async fn with(change: impl FnOnce(ScriptedRuntime) -> ScriptedRuntime) -> Self {
        let dir = TempDir::new().unwrap();
        fs_err::create_dir(dir.path().join("root")).unwrap();
        let poor = ScriptedRuntime::new("poor")
            .without(Capability::ModelSelection)
            .without(Capability::OrchestratorRole);
        let cortex = Cortex::builder(dir.path().join("data"))
            .settings(Settings::default())
            .runtime(Arc::new(change(ScriptedRuntime::new("scripted"))))
            .runtime(Arc::new(poor))
            .open()
            .await
            .unwrap();
        let user = cortex.as_user();
        let add =
            AddProject { name: "p".into(), root: dir.path().join("root"), verification: None };
        let project = user.call(add).await.unwrap().project.project_id;
        let new = CreateAgent::new(&project, "ada", "scripted");
        let agent = user.call(new).await.unwrap().agent.agent_id;
        let idle = user.call(CreateAgent::new(&project, "idle", "poor")).await.unwrap().agent;
        let spec =
            TaskSpec { assigned_agent_id: Some(idle.agent_id), ..TaskSpec::new("x", "Do x.") };
        let create =
            CreateObjective { project_id: project.clone(), title: "o".into(), tasks: vec![spec] };
        let mut objective = user.call(create).await.unwrap().objective;
        let task = objective.tasks.remove(0).task_id;
        Self { dir, cortex, user, project, agent, task }
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("root")
    }

    /// Every row of every table, events too.
    fn rows(&self) -> Vec<(String, Vec<Cell>)> {
        let conn = Connection::open(self.dir.path().join("data/cortex.db")).unwrap();
        let mut names =
            conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
        let names: Vec<String> =
            names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert!(names.iter().any(|name| name == "event"), "{names:?}");
        let mut rows = Vec::new();
        for name in names {
            let mut query = conn.prepare(&format!("SELECT * FROM {name}")).unwrap();
            let width = query.column_count();
            let found = query.query_map([], |row| (0..width).map(|at| row.get(at)).collect());
            rows.extend(found.unwrap().map(|row| (name.clone(), row.unwrap())));
        }
        rows
    }

    /// Asks by every door that can say it; each refuses in the same words and leaves no trace.
    async fn refuses<C>(&self, args: Value, want: Want<'_>)
    where
        C: Command<Output: Debug> + Clone,
    {
        self.refuses_to::<C>(&self.user, args, want).await;
    }

    async fn refuses_to<C>(&self, cx: &Cx, args: Value, want: Want<'_>) -> Error
    where
        C: Command<Output: Debug> + Clone,
    {
        let what =
            format!("{} {}", C::NAME, args.to_string().chars().take(200).collect::<String>());
        let before = self.rows();
        let by_json = match cx.caller() {
            Caller::User => cx.call_operator_json(C::NAME, args.clone()).await,
            Caller::Session(_) => cx.call_json(C::NAME, args.clone()).await,
        };
        let error = by_json.unwrap_err();
        want.check(&what, &error);
        // serde reads a list as a struct, too.
        if args.is_object()
            && let Ok(command) = serde_json::from_value::<C>(args)
        {
            let typed = cx.call(command).await.unwrap_err();
            want.check(&what, &typed);
            assert_eq!(anonymous(&typed), anonymous(&error), "{what}: both doors say the same");
        }
        let after = self.rows();
        assert_eq!(after, before, "{what}: something was kept of it");
        error
    }

    fn session(&self, kind: SessionKind, project: &ProjectId) -> Cx {
        self.cortex.as_caller(Caller::Session(SessionCaller {
            kind,
            agent_id: self.agent.clone(),
            project_id: project.clone(),
            session_id: SessionId::new("s"),
        }))
    }

    async fn until_task(&self, id: &TaskId, status: TaskStatus) -> TaskView {
        let mut events = self.cortex.events(None);
        let search = async {
            loop {
                let task =
                    self.user.call(GetTaskStatus { task_id: id.clone() }).await.unwrap().task;
                if task.status == status {
                    return task;
                }
                events.next().await.unwrap().unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, search).await.unwrap()
    }
}

/// An error without the id that ties it to the log.
fn anonymous(error: &Error) -> Value {
    let mut wire = error.to_wire();
    wire.as_object_mut().unwrap().remove("correlation_id").unwrap();
    wire
}

/// S-032, S-097.
#[tokio::test]
async fn unknown_fields_are_named() {
    let place = Place::new().await;
    let project = &place.project;
    let args =
        json!({"project_id": project, "name": "b", "runtime_id": "scripted", "colour": "red"});
    place.refuses::<CreateAgent>(args, wrong(&["colour"], "is not a known property")).await;
    let argv = json!([{"argv": ["make"], "shell": true}]);
    let args = json!({"name": "q", "root": place.root(), "verification": {"commands": argv}});
    let want = wrong(&["verification.commands[0].shell"], "is not a known property");
    place.refuses::<AddProject>(args, want).await;
    let tasks =
        json!([{"key": "a", "description": "d"}, {"key": "b", "description": "d", "needs": []}]);
    let args = json!({"project_id": project, "title": "t", "tasks": tasks});
    let want = wrong(&["tasks[1].needs"], "is not a known property");
    place.refuses::<CreateObjective>(args, want).await;
    place.refuses::<ListTasks>(json!({"all": true}), wrong(&["all"], "is not a known")).await;
}

/// S-031.
#[tokio::test]
async fn wrong_types_are_named() {
    let place = Place::new().await;
    let (project, agent, task) = (&place.project, &place.agent, &place.task);
    let args = json!({"project_id": project, "name": 5, "runtime_id": "scripted"});
    place.refuses::<CreateAgent>(args, wrong(&["name"], "must be a string")).await;
    let args =
        json!({"project_id": project, "name": "b", "runtime_id": "scripted", "role": "boss"});
    place.refuses::<CreateAgent>(args, wrong(&["role"], "orchestrator")).await;
    let tasks = json!([{"key": "a", "description": "d", "depends_on": "b"}]);
    let args = json!({"project_id": project, "title": "t", "tasks": tasks});
    place.refuses::<CreateObjective>(args, wrong(&["tasks[0].depends_on"], "must be a")).await;
    let tasks = json!([{"key": "a", "description": "d", "requirements": ["telepathy"]}]);
    let args = json!({"project_id": project, "title": "t", "tasks": tasks});
    let want = wrong(&["tasks[0].requirements[0]"], "must be one of");
    place.refuses::<CreateObjective>(args, want).await;
    place.refuses::<StartAgent>(json!({"agent_id": [agent]}), wrong(&["agent_id"], "string")).await;
    place.refuses::<CancelTask>(json!({"task_id": null}), wrong(&["task_id"], "must be")).await;
    let args = json!({"task_id": task, "reason": {}});
    place.refuses::<CancelTask>(args, wrong(&["reason"], "must be a string")).await;
    let args = json!({"agent_id": agent, "name": null, "skills": "no"});
    place.refuses::<UpdateAgent>(args, wrong(&["skills"], "must be a boolean")).await;
    let args = json!({"after": -1});
    place.refuses::<PollAgentEvents>(args, wrong(&["after"], "must be")).await;
    place.refuses::<ListTasks>(json!([]), wrong(&[""], "must be an object")).await;
    place.refuses::<ListTasks>(json!("all"), wrong(&[""], "must be an object")).await;
}

#[tokio::test]
async fn missing_fields_are_named_all_at_once() {
    let place = Place::new().await;
    let want = wrong(&["project_id", "name", "runtime_id"], "is missing");
    place.refuses::<CreateAgent>(json!({}), want).await;
    place.refuses::<CreateAgent>(Value::Null, want).await;
    let args = json!({"project_id": place.project, "title": "t"});
    place.refuses::<CreateObjective>(args, wrong(&["tasks"], "is missing")).await;
    let args = json!({"project_id": place.project, "title": "t", "tasks": [{"key": "a"}]});
    let want = wrong(&["tasks[0].description"], "is missing");
    place.refuses::<CreateObjective>(args, want).await;
    let args = json!({"agent_id": place.agent});
    place.refuses::<SendMessage>(args.clone(), wrong(&["message"], "is missing")).await;
    place.refuses::<UpdateAgent>(args, wrong(&[""], "give at least one of `name`")).await;
    let args = json!({"project_id": place.project});
    place.refuses::<UpdateProject>(args, wrong(&[""], "give at least one of `name`")).await;
    let args = json!({"name": "q", "root": place.root(), "verification": {}});
    let want = wrong(&["verification.commands"], "is missing");
    place.refuses::<AddProject>(args, want).await;
}

#[tokio::test]
async fn too_long_too_short_too_many_and_out_of_range_are_named() {
    let place = Place::new().await;
    let (project, agent, task) = (&place.project, &place.agent, &place.task);
    let text = |length: usize| "x".repeat(length);
    let new = |name: String| json!({"project_id": project, "name": name, "runtime_id": "scripted"});
    place.refuses::<CreateAgent>(new(text(65)), wrong(&["name"], "at most 64")).await;
    place.refuses::<CreateAgent>(new(String::new()), wrong(&["name"], "must not be empty")).await;
    let mut args = new(text(64));
    args["instructions"] = json!("ä".repeat(8193));
    place.refuses::<CreateAgent>(args, wrong(&["instructions"], "at most 16384 bytes")).await;
    let args = json!({"agent_id": agent, "message": text(262_145)});
    place.refuses::<SendMessage>(args, wrong(&["message"], "at most 262144 bytes")).await;
    let args = json!({"agent_id": text(129)});
    place.refuses::<StopAgent>(args, wrong(&["agent_id"], "at most 128")).await;
    place
        .refuses::<GetTaskStatus>(json!({"task_id": ""}), wrong(&["task_id"], "must not be empty"))
        .await;
    let args = json!({"task_id": task, "reason": text(2001)});
    place.refuses::<ApproveTask>(args, wrong(&["reason"], "at most 2000")).await;

    let plan = |title: String, task: Value| json!({"project_id": project, "title": title, "tasks": [task]});
    let task = |description: String| json!({"key": "a", "description": description});
    let args = plan(text(201), task(text(1)));
    place.refuses::<CreateObjective>(args, wrong(&["title"], "at most 200")).await;
    let args = plan(text(1), task(text(65_537)));
    place.refuses::<CreateObjective>(args, wrong(&["tasks[0].description"], "at most 65536")).await;
    let mut bounds = task(text(1));
    (bounds["max_retries"], bounds["timeout_secs"]) = (json!(11), json!(9));
    let want = wrong(&["tasks[0].max_retries", "tasks[0].timeout_secs"], "at most 10");
    place.refuses::<CreateObjective>(plan(text(1), bounds), want).await;
    let args = json!({"limit": 501, "wait_ms": 30_001});
    place.refuses::<PollAgentEvents>(args, wrong(&["limit", "wait_ms"], "at most 500")).await;
    let verification = json!({"commands": [], "timeout_secs": 0});
    let args = json!({"project_id": project, "verification": verification});
    let want = wrong(&["verification.commands", "verification.timeout_secs"], "at least 1");
    place.refuses::<UpdateProject>(args, want).await;
}

/// S-090, S-098.
#[tokio::test]
async fn plans_that_do_not_hold_are_refused_whole() {
    let place = Place::new().await;
    let plan = |tasks: Value| json!({"project_id": place.project, "title": "t", "tasks": tasks});
    let task = |key: &str, on: &[&str]| json!({"key": key, "description": "d", "depends_on": on});
    let with = |field: &str, value: Value| {
        let mut task = task("a", &[]);
        task[field] = value;
        plan(json!([task]))
    };
    let cycle = plan(json!([task("a", &["c"]), task("b", &["a"]), task("c", &["b"])]));
    let wish = want(Code::TaskDependencyCycle, &["tasks"], "a → c → b → a");
    place.refuses::<CreateObjective>(cycle, wish).await;
    let unknown = plan(json!([task("a", &[]), task("b", &["a", "z"])]));
    let wish = want(Code::TaskUnknownDependency, &["tasks[1].depends_on[1]"], "\"z\"");
    place.refuses::<CreateObjective>(unknown, wish).await;
    let invalid = |fields, says| want(Code::InvalidObjective, fields, says);
    let wish = invalid(&["tasks[0].depends_on[0]"], "names the task itself");
    place.refuses::<CreateObjective>(plan(json!([task("a", &["a"])])), wish).await;
    let twice = plan(json!([task("a", &[]), task("a", &[])]));
    place.refuses::<CreateObjective>(twice, invalid(&["tasks[1].key"], "another task")).await;
    place.refuses::<CreateObjective>(plan(json!([])), invalid(&["tasks"], "1 to 10")).await;
    let many: Vec<_> = (0..11).map(|n| task(&format!("t{n}"), &[])).collect();
    place.refuses::<CreateObjective>(plan(json!(many)), invalid(&["tasks"], "has 11")).await;
    let outside = with("paths", json!(["src/**", "../x"]));
    let wish = invalid(&["tasks[0].paths[1]"], "relative to the project's root");
    place.refuses::<CreateObjective>(outside, wish).await;

    let other = place.user.call(AddProject {
        name: "other".into(),
        root: place.dir.path().to_owned(),
        verification: None,
    });
    let other = other.await.unwrap().project.project_id;
    let foreign = place.user.call(CreateAgent::new(&other, "eve", "scripted")).await.unwrap().agent;
    for agent in [foreign.agent_id, AgentId::new("nobody")] {
        let wish = invalid(&["tasks[0].assigned_agent_id"], "");
        place.refuses::<CreateObjective>(with("assigned_agent_id", json!(agent)), wish).await;
    }
}

/// Every command about something, asked about `id`.
macro_rules! about {
    ($place:expr, $cx:expr, $want:expr, $($command:ident $args:expr;)+) => {
        $($place.refuses_to::<$command>($cx, $args, $want).await;)+
    };
}

/// S-046, S-133.
#[tokio::test]
async fn unknown_ids_are_named() {
    let place = Place::new().await;
    let (user, id) = (&place.user, "no-such-thing");
    let agent = || json!({"agent_id": id});
    let none = |code| want(code, &[], id);
    about! { place, user, none(Code::AgentNotFound),
        GetAgentStatus agent(); StartAgent agent(); StopAgent agent(); InterruptAgent agent();
        PauseAgent agent(); ResumeAgent agent(); RestartAgent agent(); RemoveAgent agent();
        SendMessage json!({"agent_id": id, "message": "m"});
        UpdateAgent json!({"agent_id": id, "name": "n"});
        PollAgentEvents agent();
    }
    let task = || json!({"task_id": id});
    about! { place, user, none(Code::TaskNotFound),
        GetTaskStatus task(); CancelTask task(); ApproveTask task(); RetryTask task();
    }
    let project = || json!({"project_id": id});
    about! { place, user, none(Code::ProjectNotFound),
        ListAgents project(); RemoveProject project();
        UpdateProject json!({"project_id": id, "name": "n"});
        CreateAgent json!({"project_id": id, "name": "n", "runtime_id": "scripted"});
        CreateObjective json!({"project_id": id, "title": "t", "tasks": [{"key": "a", "description": "d"}]});
    }
    about! { place, user, none(Code::RuntimeNotFound),
        CreateAgent json!({"project_id": place.project, "name": "n", "runtime_id": id});
        UpdateAgent json!({"agent_id": place.agent, "runtime_id": id});
    }
    let stale = json!({"task_id": place.task, "execution_id": id});
    let conflict = want(Code::TaskStateConflict, &[], "");
    about! { place, user, conflict, ApproveTask stale.clone(); RetryTask stale; }

    let error = user.call_json("make_coffee", json!({})).await.unwrap_err();
    want(Code::ToolNotFound, &[], "`make_coffee`").check("an unknown tool", &error);
    let error = user.call_json("add_project", json!({})).await.unwrap_err();
    want(Code::ToolNotFound, &[], "`add_project`").check("what is no tool", &error);
}

/// S-050, S-054.
#[tokio::test]
async fn what_others_own_is_not_there_for_a_session() {
    let place = Place::new().await;
    let add =
        AddProject { name: "other".into(), root: place.dir.path().to_owned(), verification: None };
    let other = place.user.call(add).await.unwrap().project.project_id;
    let (agent, task, project) =
        (place.agent.as_str(), place.task.as_str(), place.project.as_str());
    for kind in [SessionKind::Orchestrator, SessionKind::Agent, SessionKind::Hook] {
        let cx = place.session(kind, &other);
        same::<GetAgentStatus>(
            &place,
            &cx,
            Code::AgentNotFound,
            agent,
            |id| json!({"agent_id": id}),
        )
        .await;
        same::<PollAgentEvents>(
            &place,
            &cx,
            Code::AgentNotFound,
            agent,
            |id| json!({"agent_id": id}),
        )
        .await;
        same::<GetTaskStatus>(&place, &cx, Code::TaskNotFound, task, |id| json!({"task_id": id}))
            .await;
        same::<ListAgents>(
            &place,
            &cx,
            Code::ProjectNotFound,
            project,
            |id| json!({"project_id": id}),
        )
        .await;
        assert_eq!(cx.call(ListAgents { project_id: None }).await.unwrap().agents, []);
        assert_eq!(cx.call(ListTasks {}).await.unwrap().objectives, []);
    }
    let boss = place.session(SessionKind::Orchestrator, &other);
    same::<UpdateAgent>(
        &place,
        &boss,
        Code::AgentNotFound,
        agent,
        |id| json!({"agent_id": id, "name": "n"}),
    )
    .await;
    same::<CreateAgent>(
        &place,
        &boss,
        Code::ProjectNotFound,
        project,
        |id| json!({"project_id": id, "name": "n", "runtime_id": "scripted"}),
    )
    .await;
}

/// Another project's `id` is refused exactly as one that nothing has: nobody can find out which ids are taken.
async fn same<C>(place: &Place, cx: &Cx, code: Code, id: &str, args: impl Fn(&str) -> Value)
where
    C: Command<Output: Debug> + Clone,
{
    let nothing = "x".repeat(id.len());
    let foreign = place.refuses_to::<C>(cx, args(id), want(code, &[], id)).await;
    let unknown = place.refuses_to::<C>(cx, args(&nothing), want(code, &[], &nothing)).await;
    let foreign = anonymous(&foreign).to_string().replace(id, &nothing);
    assert_eq!(foreign, anonymous(&unknown).to_string(), "{}", C::NAME);
}

/// S-138, S-232.
#[tokio::test]
async fn what_is_not_for_sessions_is_refused_before_it_is_read() {
    let place = Place::new().await;
    let denied = |says| want(Code::PermissionDenied, &[], says);
    for kind in [SessionKind::Orchestrator, SessionKind::Agent, SessionKind::Hook] {
        let cx = place.session(kind, &place.project);
        let (agent, task) = (json!({"agent_id": place.agent}), json!({"task_id": place.task}));
        about! { place, &cx, denied("may not use"),
            StopAgent agent.clone(); InterruptAgent agent.clone(); SendMessage agent;
            CancelTask task.clone(); ApproveTask task.clone(); RetryTask task;
            CreateObjective json!({"made": "up"});
        }
        let before = place.rows();
        let error = cx.call_operator_json("remove_project", json!({})).await.unwrap_err();
        denied("may not give operator commands").check("an operator command", &error);
        let error = cx.call_json("remove_project", json!({})).await.unwrap_err();
        want(Code::ToolNotFound, &[], "remove_project").check("an operator command", &error);
        let typed = RemoveProject { project_id: place.project.clone() };
        denied("may not use").check("by type", &cx.call(typed).await.unwrap_err());
        assert_eq!(place.rows(), before);
    }
    let boss = place.session(SessionKind::Orchestrator, &place.project);
    let args = json!({"project_id": place.project, "name": "n", "runtime_id": "scripted", "role": "orchestrator"});
    let only = denied("only a person makes an orchestrator");
    place.refuses_to::<CreateAgent>(&boss, args, only).await;
}

#[tokio::test]
async fn taken_names_and_missing_abilities_are_refused() {
    let place = Place::new().await;
    let (project, root) = (&place.project, place.root());
    let args = json!({"name": "p", "root": root});
    place.refuses::<AddProject>(args, want(Code::ProjectNameTaken, &[], "\"p\"")).await;
    place
        .refuses::<AddProject>(
            json!({"name": "q", "root": root}),
            want(Code::ProjectRootTaken, &[], "is the folder of project"),
        )
        .await;
    let root = place.dir.path().join("q");
    fs_err::create_dir(&root).unwrap();
    let add = AddProject { name: "q".into(), root, verification: None };
    let second = place.user.call(add).await.unwrap().project.project_id;
    let args = json!({"project_id": second, "name": "p"});
    place.refuses::<UpdateProject>(args, want(Code::ProjectNameTaken, &[], "\"p\"")).await;
    let args = json!({"project_id": project, "name": "ada", "runtime_id": "scripted"});
    place.refuses::<CreateAgent>(args, want(Code::AgentNameTaken, &[], "ada")).await;
    let args = json!({"agent_id": place.agent, "name": "idle"});
    place.refuses::<UpdateAgent>(args, want(Code::AgentNameTaken, &[], "idle")).await;

    let lacks = want(Code::RuntimeCapabilityMissing, &[], "poor");
    let args = json!({"project_id": project, "name": "n", "runtime_id": "poor", "model": "big"});
    place.refuses::<CreateAgent>(args, lacks).await;
    let args =
        json!({"project_id": project, "name": "n", "runtime_id": "poor", "role": "orchestrator"});
    place.refuses::<CreateAgent>(args, lacks).await;
    let args = json!({"project_id": project});
    place.refuses::<RemoveProject>(args, want(Code::ProjectInUse, &[], "")).await;
    // The name is free in another project.
    place.user.call(CreateAgent::new(&second, "ada", "scripted")).await.unwrap();
}

#[tokio::test]
async fn a_root_must_be_an_absolute_folder_that_exists() {
    let place = Place::new().await;
    let add = |root: &Path| json!({"name": "q", "root": root});
    let want_absolute = wrong(&["root"], "must be an absolute path");
    place.refuses::<AddProject>(add(Path::new("some/folder")), want_absolute).await;
    place.refuses::<AddProject>(add(Path::new("")), wrong(&["root"], "must")).await;
    let (missing, file) = (place.dir.path().join("nowhere"), place.dir.path().join("a-file"));
    fs_err::write(&file, "x").unwrap();
    let gone = want(Code::ProjectInvalidRoot, &[], "nowhere");
    place.refuses::<AddProject>(add(&missing), gone).await;
    let no_folder = want(Code::ProjectInvalidRoot, &[], "a-file cannot be a project");
    place.refuses::<AddProject>(add(&file), no_folder).await;
}

/// The agent is FAILED for `code`, and nothing of its start is left.
async fn failed_to_start(place: &Place, code: Code, error: &Error) {
    assert!(!error.remediation().is_empty() && error.correlation_id().is_some());
    let see = GetAgentStatus { agent_id: place.agent.clone() };
    let agent = place.user.call(see).await.unwrap().agent;
    assert_eq!(agent.state, AgentStatus::Failed, "{agent:#?}");
    assert_eq!(agent.session, None);
    let failure = agent.last_failure.unwrap();
    assert_eq!((failure.code, failure.message.as_str()), (code, error.message()));
    assert!(!failure.remediation.is_empty());
    let scratch = place.dir.path().join("data/scratch");
    let left = scratch.read_dir().unwrap().count();
    assert_eq!(left, 0, "no folder of a session is left");
}

/// S-060.
#[tokio::test]
async fn a_root_that_vanished_fails_the_start_and_nothing_else() {
    let place = Place::new().await;
    let away = place.dir.path().join("away");
    fs_err::rename(place.root(), &away).unwrap();
    let start = StartAgent { agent_id: place.agent.clone() };
    for _again in 0..2 {
        let error = place.user.call(start.clone()).await.unwrap_err();
        want(Code::ProjectInvalidRoot, &[], "/root of project p is not there")
            .check("start", &error);
        failed_to_start(&place, Code::ProjectInvalidRoot, &error).await;
    }
    fs_err::rename(&away, place.root()).unwrap();
    assert_eq!(place.user.call(start).await.unwrap().agent.state, AgentStatus::Ready);
    place.cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_root_that_vanished_blocks_the_task_until_it_is_back() {
    let place = Place::with(|runtime| runtime.turn(|_| Script::new().answer("done"))).await;
    place.user.call(StartAgent { agent_id: place.agent.clone() }).await.unwrap();
    let away = place.dir.path().join("away");
    fs_err::rename(place.root(), &away).unwrap();
    let create = CreateObjective {
        project_id: place.project.clone(),
        title: "o".into(),
        tasks: vec![TaskSpec::new("y", "Do y."), TaskSpec::new("z", "Do z.").after(["y"])],
    };
    let objective = place.user.call(create).await.unwrap().objective;
    let id = objective.tasks[0].task_id.clone();
    let task = place.until_task(&id, TaskStatus::Blocked).await;
    let failure = task.failure.unwrap();
    assert_eq!(failure.cause, "project.invalid_root");
    assert!(failure.message.contains("/root is not there"), "{failure:?}");
    assert!(failure.retryable, "a person may put it back");
    assert_eq!(task.attempts.len(), 1, "it is no failure that a retry mends");
    let see = GetAgentStatus { agent_id: place.agent.clone() };
    let agent = place.user.call(see).await.unwrap().agent;
    assert_eq!((agent.state, agent.current), (AgentStatus::Ready, None), "its agent is free again");
    let after =
        place.user.call(GetTaskStatus { task_id: objective.tasks[1].task_id.clone() }).await;
    assert_eq!(after.unwrap().task.status, TaskStatus::Created, "what depends on it waits");

    fs_err::rename(&away, place.root()).unwrap();
    place
        .user
        .call(RetryTask { task_id: id.clone(), execution_id: None, reason: None })
        .await
        .unwrap();
    // Without a verification a person approves: the turn itself has run now.
    let task = place.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "verification.missing");
    assert_eq!(task.attempts.len(), 2);
    place.cortex.shutdown().await.unwrap();
}

/// S-060.
#[tokio::test]
async fn a_cli_that_is_not_there_fails_the_start_and_nothing_else() {
    let place = Place::with(|runtime| {
        runtime.opening(|_| {
            let error = Error::new(Code::RuntimeNotInstalled, "the program scripted is not there");
            Opening::Fail(Duration::ZERO, error)
        })
    })
    .await;
    let error = place.user.call(StartAgent { agent_id: place.agent.clone() }).await.unwrap_err();
    want(Code::RuntimeNotInstalled, &[], "scripted is not there").check("start", &error);
    failed_to_start(&place, Code::RuntimeNotInstalled, &error).await;
    let told = |state: &str| {
        place.rows().into_iter().any(|(table, cells)| {
            let has = |words: &str| {
                cells.iter().any(|cell| matches!(cell, Cell::Text(text) if text.contains(words)))
            };
            table == "event" && has("agent.state_changed") && has(state)
        })
    };
    assert!(told("FAILED") && !told("READY"), "it never was READY");
    place.cortex.shutdown().await.unwrap();
}

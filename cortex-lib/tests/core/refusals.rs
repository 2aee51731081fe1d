//! What is refused, and how.

use std::path::PathBuf;

use cortex_lib::api::operator::{AddProject, RemoveProject};
use cortex_lib::api::tool::{
    CancelTask, CreateAgent, CreateObjective, GetAgentStatus, GetTaskStatus, ListAgents,
    ListProjects, ListTasks, PollAgentEvents, StartAgent, StopAgent,
};
use cortex_lib::api::{Caller, Cx, SessionCaller, SessionKind};
use cortex_lib::domain::agent::{AgentStatus, Role};
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::plan::{Requirement, TaskSpec};
use cortex_lib::error::Code;
use cortex_lib::ids::{AgentId, ProjectId, SessionId};
use cortex_lib::port::{Script, ScriptedRuntime};

use crate::bench::{Bench, SCRIPTED, Setup, new_agent, spec};

async fn refused(bench: &Bench, tasks: Vec<TaskSpec>) -> (Code, Vec<String>) {
    let call = CreateObjective { project_id: bench.project.clone(), title: "o".into(), tasks };
    let seen = bench.cortex.newest_event().unwrap();
    let error = bench.refuse(call).await;
    assert_eq!(bench.cortex.newest_event().unwrap(), seen, "all or nothing");
    (error.code(), error.problems().iter().map(ToString::to_string).collect())
}

/// S-098.
#[tokio::test(start_paused = true)]
async fn a_plan_is_refused_with_every_field_that_is_wrong() {
    let bench = Setup::new().open().await;
    let many: Vec<_> = (0..11).map(|n| spec(&format!("t{n}"), &[])).collect();
    assert_eq!(refused(&bench, many).await.1, ["tasks: must have 1 to 10 items, has 11"], "H-12");
    assert_eq!(refused(&bench, Vec::new()).await.0, Code::InvalidObjective);

    let plan = vec![
        spec("x", &["x", "nobody"]),
        spec("x", &[]),
        TaskSpec { paths: vec!["/etc".into()], ..spec("y", &["z", "z"]) },
        TaskSpec { requirements: vec![Requirement::WorkspaceIsolation], ..spec("z", &["y"]) },
    ];
    let (code, problems) = refused(&bench, plan).await;
    assert_eq!(code, Code::InvalidObjective, "H-12: the first class decides");
    let fields: Vec<_> = problems.iter().map(|p| p.split(':').next().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "tasks[0].depends_on[0]",
            "tasks[1].key",
            "tasks[2].depends_on[1]",
            "tasks[2].paths[0]",
            "tasks[3].requirements",
            "tasks[0].depends_on[1]",
            "tasks",
        ]
    );
    let (code, problems) = refused(&bench, vec![spec("x", &["nobody"])]).await;
    assert_eq!(code, Code::TaskUnknownDependency);
    assert!(problems[0].starts_with("tasks[0].depends_on[0]"), "{problems:?}");
    let (code, problems) = refused(&bench, vec![spec("x", &["y"]), spec("y", &["x"])]).await;
    assert_eq!(code, Code::TaskDependencyCycle);
    assert_eq!(problems, ["tasks: depend on each other: x → y → x"]);
}

/// S-236.
#[tokio::test(start_paused = true)]
async fn a_pin_is_refused_when_its_agent_can_never_take_the_task() {
    let limited = ScriptedRuntime::new("limited").without(Capability::Skills);
    let setup = Setup::new().another(limited);
    let bench = setup.open().await;
    let (other, _) = another_project(&bench, &setup).await;
    let mut orchestrator = new_agent(&bench.project, "o", SCRIPTED);
    orchestrator.role = Role::Orchestrator;
    let orchestrator = bench.call(orchestrator).await.agent.agent_id;
    let foreign = bench.call(new_agent(&other, "f", SCRIPTED)).await.agent.agent_id;
    let limited = bench.agent_on("l", "limited").await;
    for (agent, says) in [
        (AgentId::new("nobody"), "there is no agent"),
        (foreign, "there is no agent"),
        (orchestrator, "is an orchestrator"),
        (limited, "lacks skills"),
    ] {
        let task = TaskSpec {
            assigned_agent_id: Some(agent),
            requirements: vec![Requirement::Capability(Capability::Skills)],
            ..spec("x", &[])
        };
        let (code, problems) = refused(&bench, vec![task]).await;
        assert_eq!(code, Code::InvalidObjective, "H-33");
        assert!(problems[0].starts_with("tasks[0].assigned_agent_id: "), "{problems:?}");
        assert!(problems[0].contains(says), "{problems:?}");
    }
}

async fn another_project(bench: &Bench, setup: &Setup) -> (ProjectId, PathBuf) {
    let root = setup.root().join("other");
    fs_err::create_dir(&root).unwrap();
    let add = AddProject { name: "other".into(), root: root.clone(), verification: None };
    (bench.call(add).await.project.project_id, root)
}

fn session(bench: &Bench, project: &ProjectId, kind: SessionKind) -> Cx {
    bench.cortex.as_caller(Caller::Session(SessionCaller {
        kind,
        agent_id: AgentId::new("a1"),
        project_id: project.clone(),
        session_id: SessionId::new("s1"),
    }))
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_another_project_is_not_there_for_a_session() {
    let setup = Setup::new();
    let bench = setup.open().await;
    let (other, _) = another_project(&bench, &setup).await;
    let agent = bench.ready("a").await;
    let task_id = bench.one_task(spec("x", &[])).await;
    let cx = session(&bench, &other, SessionKind::Orchestrator);
    let code = |error: cortex_lib::Error| error.code();

    let agent_id = agent.clone();
    let get = cx.call(GetAgentStatus { agent_id: agent_id.clone() }).await.map_err(code);
    assert_eq!(get.unwrap_err(), Code::AgentNotFound);
    let start = cx.call(StartAgent { agent_id: agent_id.clone() }).await.map_err(code);
    assert_eq!(start.unwrap_err(), Code::AgentNotFound);
    let task = cx.call(GetTaskStatus { task_id: task_id.clone() }).await.map_err(code);
    assert_eq!(task.unwrap_err(), Code::TaskNotFound);
    let list = ListAgents { project_id: Some(bench.project.clone()) };
    assert_eq!(cx.call(list).await.map_err(code).unwrap_err(), Code::ProjectNotFound);
    let create = new_agent(&bench.project, "b", SCRIPTED);
    assert_eq!(cx.call(create).await.map_err(code).unwrap_err(), Code::ProjectNotFound);
    let poll = PollAgentEvents { after: None, limit: 9, agent_id: Some(agent_id), wait_ms: 0 };
    assert_eq!(cx.call(poll.clone()).await.map_err(code).unwrap_err(), Code::AgentNotFound);

    assert_eq!(cx.call(ListAgents { project_id: None }).await.unwrap().agents, []);
    assert_eq!(cx.call(ListTasks {}).await.unwrap().objectives, []);
    let events = cx.call(PollAgentEvents { agent_id: None, ..poll }).await.unwrap();
    assert_eq!((events.events.len(), events.dropped), (0, 0));
    let projects = cx.call(ListProjects {}).await.unwrap().projects;
    assert_eq!(projects.into_iter().map(|p| p.project_id).collect::<Vec<_>>(), [other]);
    let cancel = cx.call(CancelTask { task_id, reason: None }).await.map_err(code);
    assert_eq!(cancel.unwrap_err(), Code::PermissionDenied, "S-138");

    let own = session(&bench, &bench.project, SessionKind::Agent);
    assert_eq!(own.call(ListTasks {}).await.unwrap().objectives.len(), 1);
    let mut boss = new_agent(&bench.project, "boss", SCRIPTED);
    boss.role = Role::Orchestrator;
    assert_eq!(own.call(boss).await.map_err(code).unwrap_err(), Code::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn a_project_goes_only_when_nothing_of_it_lives() {
    let bench = Setup::new().runtime(|r| r.turn(|_| Script::new())).open().await;
    let remove = RemoveProject { project_id: bench.project.clone() };
    let agent = bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let error = bench.refuse(remove.clone()).await;
    assert_eq!(error.code(), Code::ProjectInUse, "H-26");
    assert_eq!(error.detail("agent_ids").unwrap(), &serde_json::json!([agent]));
    bench.call(CancelTask { task_id: id, reason: None }).await;
    bench.until_agent(&agent, AgentStatus::Ready).await;
    bench.call(StopAgent { agent_id: agent }).await;
    bench.call(remove.clone()).await;
    assert_eq!(bench.call(ListProjects {}).await.projects, []);
    assert_eq!(bench.call(ListAgents { project_id: None }).await.agents, []);
    assert_eq!(bench.call(ListTasks {}).await.objectives, []);
    assert_eq!(bench.refuse(remove).await.code(), Code::ProjectNotFound);
}

/// S-050, S-237, S-238.
#[tokio::test(start_paused = true)]
async fn sessions_create_workers_and_no_orchestrators() {
    let bench = Setup::new().open().await;
    for (kind, name) in [(SessionKind::Agent, "a"), (SessionKind::Orchestrator, "o")] {
        let cx = session(&bench, &bench.project, kind);
        let created = cx.call(new_agent(&bench.project, name, SCRIPTED)).await.unwrap().agent;
        assert_eq!((created.role, created.state), (Role::Worker, AgentStatus::Created));
        let boss =
            CreateAgent { role: Role::Orchestrator, ..new_agent(&bench.project, "boss", SCRIPTED) };
        assert_eq!(cx.call(boss).await.unwrap_err().code(), Code::PermissionDenied, "{kind:?}");
    }
}

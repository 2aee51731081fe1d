//! What the tools that only look show.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{
    CreateObjective, GetTaskStatus, ListAgents, ListProjects, ListRuntimes, ListTasks, UpdateAgent,
};
use cortex_lib::api::{OPERATOR, TOOLS};
use cortex_lib::domain::agent::{AgentStatus, Role};
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::engine::CoreState;
use cortex_lib::error::Code;
use cortex_lib::port::{
    Health, HealthReport, Opened, Runtime, RuntimeInfo, ScriptedRuntime, SessionSpec,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bench::{Bench, SCRIPTED, Setup, new_agent, pass, secs, spec};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// S-040, S-041.
#[tokio::test(start_paused = true)]
async fn projects_are_listed_and_only_a_person_adds_them() {
    let bench = Setup::new().open().await;
    let dir = TempDir::new().unwrap();
    let add = AddProject { name: "q".into(), root: dir.path().to_owned(), verification: None };
    let second = bench.call(add).await.project;
    let before = bench.cortex.newest_event().unwrap();
    let listed = bench.call(ListProjects {}).await.projects;
    assert_eq!(listed.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["p", "q"]);
    assert_eq!(listed[1], second);
    assert_eq!(bench.cortex.newest_event().unwrap(), before, "looking changes nothing");
    let named = |name: &str| TOOLS.iter().any(|tool| tool.name == name);
    for command in OPERATOR.iter().filter(|command| command.name.ends_with("_project")) {
        assert!(!named(command.name), "{} is no tool", command.name);
    }
}

/// S-042, S-043.
#[tokio::test(start_paused = true)]
async fn runtimes_are_listed_in_the_order_of_their_ids_with_all_that_is_known() {
    let broken = HealthReport {
        health: Health::Unhealthy,
        version: None,
        executable: None,
        logged_in: Some(false),
        message: Some("it is not logged in".into()),
        remediation: Some("Log in.".into()),
    };
    let bench = Setup::new()
        .another(ScriptedRuntime::new("zebra"))
        .another(ScriptedRuntime::new("ant").health(broken))
        .open()
        .await;
    let checked = async || {
        let all = bench.call(ListRuntimes {}).await.runtimes;
        let done = |health| matches!(health, Health::Healthy | Health::Unhealthy);
        all.iter().all(|runtime| done(runtime.health.status)).then_some(all)
    };
    let all = bench.until("a look at every runtime", checked).await;
    let ids: Vec<_> = all.iter().map(|runtime| runtime.runtime_id.as_str()).collect();
    assert_eq!(ids, ["ant", SCRIPTED, "zebra"]);
    let ant = serde_json::to_value(&all[0]).unwrap();
    assert_eq!(ant["health"]["status"], "unhealthy");
    assert_eq!(ant["health"]["message"], "it is not logged in");
    assert_eq!(ant["health"]["remediation"], "Log in.");
    assert_eq!(ant["process_strategy"], "process_per_session");
    assert!(ant["capabilities"].as_array().unwrap().contains(&json!("interrupt")));
    assert!(ant.get("version").is_none(), "what is not known is left out");
    assert_eq!(all[1].version.as_deref(), Some("1"));
}

/// A runtime whose program takes its time to say how it is.
#[derive(Debug)]
struct SlowToCheck(ScriptedRuntime, Arc<AtomicUsize>);

#[async_trait]
impl Runtime for SlowToCheck {
    fn info(&self) -> &RuntimeInfo {
        self.0.info()
    }

    async fn check(&self) -> HealthReport {
        self.1.fetch_add(1, Ordering::Relaxed);
        pass(secs(5)).await;
        self.0.check().await
    }

    async fn open(&self, spec: SessionSpec) -> cortex_lib::Result<Opened> {
        self.0.open(spec).await
    }
}

/// S-044: the first answer comes before the runtime was looked at, and a look holds for a minute.
#[tokio::test(start_paused = true)]
async fn runtimes_are_listed_without_waiting_for_a_look_at_them() {
    let looks = Arc::new(AtomicUsize::new(0));
    let slow = SlowToCheck(ScriptedRuntime::new("slow"), Arc::clone(&looks));
    let bench = Setup::new().open_with(vec![Arc::new(slow)]).await;
    let status = async || {
        let all = bench.call(ListRuntimes {}).await.runtimes;
        all.iter().find(|runtime| runtime.runtime_id.as_str() == "slow").unwrap().health.status
    };
    let began = tokio::time::Instant::now();
    assert_eq!(status().await, Health::Unknown);
    assert_eq!(status().await, Health::Checking);
    assert_eq!(began.elapsed(), secs(0), "nobody waits");
    bench.until("the look", async || (status().await == Health::Healthy).then_some(())).await;
    assert_eq!(looks.load(Ordering::Relaxed), 1, "one look serves all who ask");
    pass(secs(61)).await;
    status().await;
    bench.until("another look", async || (looks.load(Ordering::Relaxed) == 2).then_some(())).await;
}

/// S-035, S-045, S-047, S-048, S-049.
#[tokio::test(start_paused = true)]
async fn agents_are_listed_as_they_are() {
    let bench = Setup::new().another(ScriptedRuntime::new("other")).open().await;
    let a = bench.ready("a").await;
    let b = bench.agent_on("b", "other").await;
    let all = bench.call(ListAgents { project_id: None }).await.agents;
    let seen: Vec<_> = all.iter().map(|agent| (&agent.agent_id, agent.state)).collect();
    assert_eq!(seen, [(&a, AgentStatus::Ready), (&b, AgentStatus::Created)]);
    let created = serde_json::to_value(&all[1]).unwrap();
    assert_eq!(created["interaction"], "structured");
    assert_eq!(created["runtime_id"], "other");
    assert_eq!(created["created_at"], "2026-09-21T14:13:20.000Z");
    assert!(
        bench.world.openings().iter().all(|spec| spec.agent_id.as_ref() != Some(&b)),
        "nothing runs"
    );
    let one = bench.call(ListAgents { project_id: Some(bench.project.clone()) }).await.agents;
    assert_eq!(one, all);
}

/// S-053: there is no argument for it, so a caller hears that it is unknown.
#[tokio::test(start_paused = true)]
async fn a_role_is_never_changed() {
    let bench = Setup::new().open().await;
    let agent_id = bench.agent("a").await;
    let arguments = json!({ "agent_id": agent_id, "role": "orchestrator" });
    let error = bench.cx.call_json("update_agent", arguments).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArguments);
    let rename = UpdateAgent {
        agent_id: agent_id.clone(),
        name: Some("b".into()),
        runtime_id: None,
        model: None,
        instructions: None,
        skills: None,
    };
    assert_eq!(bench.call(rename).await.agent.role, Role::Worker);
}

/// S-036: a task and its attempts have the same keys before, while and after they run.
#[tokio::test(start_paused = true)]
async fn tasks_and_attempts_have_every_key_always() {
    let bench = Setup::new().host(|host| host).open().await;
    let id = bench.one_task(spec("x", &[])).await;
    let look = async || serde_json::to_value(bench.task(&id).await).unwrap();
    let ready = look().await;
    bench.ready("a").await;
    bench.until_task(&id, TaskStatus::Completed).await;
    let completed = look().await;
    assert_eq!(keys(&ready), keys(&completed));
    let keys = keys(&completed["attempts"][0]).join(" ");
    for key in ["execution_id", "number", "agent_id", "cause", "usage", "verification", "workspace"]
    {
        assert!(keys.contains(key), "{key} in {keys}");
    }
    assert_eq!(ready["result"], Value::Null);
    assert_eq!(completed["waiting"], Value::Null);
}

async fn titled(bench: &Bench, title: &str) {
    let call = CreateObjective {
        project_id: bench.project.clone(),
        title: title.to_owned(),
        tasks: vec![spec("x", &[]), spec("y", &["x"])],
    };
    bench.call(call).await;
}

/// S-096, S-130, S-131.
#[tokio::test(start_paused = true)]
async fn tasks_are_listed_by_objective_the_oldest_first_with_their_results() {
    let bench = Setup::new().host(|host| host).open().await;
    for title in ["first", "second", "third"] {
        titled(&bench, title).await;
    }
    let list = bench.call(ListTasks {}).await.objectives;
    let titles: Vec<_> = list.iter().map(|objective| objective.title.as_str()).collect();
    assert_eq!(titles, ["first", "second", "third"]);
    let statuses: Vec<_> = list[0].tasks.iter().map(|task| task.status).collect();
    assert_eq!(statuses, [TaskStatus::Ready, TaskStatus::Created]);
    bench.ready("a").await;
    bench.until_task(&list[2].tasks[1].task_id, TaskStatus::Completed).await;
    let list = bench.call(ListTasks {}).await.objectives;
    let task = &list[2].tasks[1];
    assert_eq!(task.result.as_ref().unwrap().text, "done");
    let whole = bench.call(GetTaskStatus { task_id: task.task_id.clone() }).await.task;
    assert_eq!(whole.result, task.result);
}

/// S-034: what changes something is refused by a core that stops; what only looks is answered.
#[tokio::test(start_paused = true)]
async fn a_core_that_stops_takes_no_changes_and_answers_who_looks() {
    let bench = Setup::new().runtime(|runtime| runtime.close_takes(secs(5))).open().await;
    bench.ready("a").await;
    let cortex = bench.cortex.clone();
    let stop = async { cortex.shutdown().await.unwrap() };
    let tried = async {
        let stopping = async || {
            let state = bench.cortex.state();
            (state == CoreState::Stopping).then_some(())
        };
        bench.until("the stop", stopping).await;
        assert_eq!(bench.call(ListProjects {}).await.projects.len(), 1);
        let create = new_agent(&bench.project, "b", SCRIPTED);
        assert_eq!(bench.refuse(create).await.code(), Code::CoreNotReady);
    };
    tokio::join!(stop, tried);
}

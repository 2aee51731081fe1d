//! What is easily forgotten: long texts, things that vanish meanwhile, and the order of a list.

use cortex_lib::Code;
use cortex_lib::api::operator::RemoveProject;
use cortex_lib::api::tool::{CreateAgent, StartAgent, UpdateAgent};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::ids::AgentId;
use cortex_lib::limits::REASON_BYTES_MAX;
use cortex_lib::port::{Script, ScriptedRuntime};

use crate::bench::{SCRIPTED, Setup, new_agent, spec};

#[tokio::test(start_paused = true)]
async fn everything_behind_a_failed_task_says_so_whatever_the_order_of_the_list() {
    for order in [["a", "b", "c"], ["c", "b", "a"]] {
        let bench = Setup::new()
            .runtime(|runtime| runtime.turn(|_| Script::new().fail(Cause::Error, "no")))
            .open()
            .await;
        bench.ready("w").await;
        let tasks = order.map(|key| match key {
            "a" => TaskSpec { max_retries: Some(0), ..spec("a", &[]) },
            "b" => spec("b", &["a"]),
            _ => spec("c", &["b"]),
        });
        let objective = bench.objective(tasks.to_vec()).await;
        for task in objective.tasks.iter().filter(|task| task.key != "a") {
            let task = bench.until_task(&task.task_id, TaskStatus::Cancelled).await;
            let failure = task.failure.unwrap();
            assert_eq!(failure.cause, "dependency.failed", "{order:?} {}", task.key);
            assert_eq!(failure.message, "task a, which it needs, failed");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_flood_of_reasons_only_so_much_is_kept() {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|_| Script::new().fail(Cause::Refused, "x".repeat(5_000_000)))
        })
        .open()
        .await;
    bench.ready("w").await;
    let id = bench.one_task(spec("a", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert!(task.failure.unwrap().message.len() <= REASON_BYTES_MAX);
    for event in bench.agent_events().await {
        assert!(event.data.to_string().len() < 2 * REASON_BYTES_MAX, "{}", event.kind);
    }
}

/// An agent of a runtime that this core does not have can be renamed, but not started (H-20).
#[tokio::test(start_paused = true)]
async fn an_agent_whose_runtime_is_gone_is_not_lost() {
    let mut setup = Setup::new().another(ScriptedRuntime::new("other"));
    let bench = setup.open().await;
    let agent = bench.agent_on("w", "other").await;
    bench.cortex.shutdown().await.unwrap();
    setup.runtimes.pop();
    let bench = setup.reopen(&bench.project).await;

    let rename = rename(&agent, "v");
    assert_eq!(bench.call(rename).await.agent.name, "v");
    let error = bench.refuse(StartAgent { agent_id: agent.clone() }).await;
    assert_eq!(error.code(), Code::RuntimeNotFound);
    let failed = bench.see(&agent).await;
    assert_eq!(failed.state, AgentStatus::Failed);
    assert_eq!(failed.last_failure.unwrap().code, Code::RuntimeNotFound);
}

fn rename(agent: &AgentId, name: &str) -> UpdateAgent {
    UpdateAgent {
        agent_id: agent.clone(),
        name: Some(name.to_owned()),
        runtime_id: None,
        model: None,
        instructions: None,
        skills: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_project_that_is_not_there_is_named() {
    let bench = Setup::new().open().await;
    bench.call(RemoveProject { project_id: bench.project.clone() }).await;
    let error = bench.refuse(new_agent(&bench.project, "w", SCRIPTED)).await;
    assert_eq!(error.code(), Code::ProjectNotFound);
    assert_eq!(error.detail("project_id").unwrap(), bench.project.as_str());
}

#[tokio::test(start_paused = true)]
async fn a_model_has_the_same_bounds_when_it_is_changed() {
    let bench = Setup::new().open().await;
    let agent = bench.agent("w").await;
    let long = "m".repeat(129);
    let new = CreateAgent { model: Some(long.clone()), ..new_agent(&bench.project, "v", SCRIPTED) };
    assert_eq!(bench.refuse(new).await.code(), Code::InvalidArguments);
    let change = UpdateAgent { model: Some(Some(long)), name: None, ..rename(&agent, "") };
    assert_eq!(bench.refuse(change).await.code(), Code::InvalidArguments);
}

//! A door leads to a core, wherever it runs.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::collections::BTreeMap;

use cortex_app::boot::Life;
use cortex_app::cli::Global;
use cortex_app::door::{Door, Opening};
use cortex_lib::api::operator::{AddProject, CoreStatus};
use cortex_lib::api::tool::{CreateAgent, SendMessage, StartAgent};
use cortex_lib::error::Code;
use cortex_lib::ids::RuntimeId;
use cortex_runtimes::CommandConfig;
use serde_json::json;
use tempfile::TempDir;

fn global(dir: &TempDir) -> Global {
    std::fs::write(dir.path().join("config.json"), r#"{"mcp":{"port":0}}"#).unwrap();
    Global { data_dir: Some(dir.path().to_owned()), ..Global::default() }
}

fn opening() -> Opening {
    let cat = CommandConfig {
        name: "cat".to_owned(),
        argv: vec!["cat".to_owned()],
        env: BTreeMap::new(),
    };
    Opening { extra: vec![cat], ..Opening::of(Life::Long) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_door_leads_to_the_core_of_the_first() {
    let dir = TempDir::new().unwrap();
    let here = Door::open_with(&global(&dir), opening()).await.unwrap();
    let there = Door::open(&global(&dir)).await.unwrap();
    assert!(!here.is_there() && there.is_there());
    assert_eq!(
        there.call(CoreStatus {}).await.unwrap().pid,
        here.call(CoreStatus {}).await.unwrap().pid
    );
    assert_eq!(there.newest_event().await.unwrap(), here.newest_event().await.unwrap());
    // Leaving it stops nothing.
    there.close().await.unwrap();
    here.call(CoreStatus {}).await.unwrap();
    here.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn both_doors_tell_the_same_events_and_output() {
    let dir = TempDir::new().unwrap();
    let here = Door::open_with(&global(&dir), opening()).await.unwrap();
    let there = Door::open(&global(&dir)).await.unwrap();
    let root = TempDir::new().unwrap();
    let project =
        AddProject { name: "web".to_owned(), root: root.path().to_owned(), verification: None };
    let project = there.call(project).await.unwrap().project;
    let agent = there
        .call(CreateAgent {
            project_id: project.project_id,
            name: "ada".to_owned(),
            runtime_id: RuntimeId::new("command:cat"),
            model: None,
            role: cortex_lib::domain::agent::Role::Worker,
            instructions: None,
            skills: false,
        })
        .await
        .unwrap()
        .agent;
    let newest = Some(here.newest_event().await.unwrap());
    let (mut first, mut second) =
        (here.events(newest).await.unwrap(), there.events(newest).await.unwrap());
    let (mut printed, mut printed_too) =
        (here.output().await.unwrap(), there.output().await.unwrap());
    there.call(StartAgent { agent_id: agent.agent_id.clone() }).await.unwrap();
    let message = SendMessage { agent_id: agent.agent_id.clone(), message: "sesame".to_owned() };
    there.call(message).await.unwrap();
    loop {
        let event = first.next().await.unwrap().unwrap();
        assert_eq!(second.next().await.unwrap().unwrap(), event);
        if event.kind.as_str() == "session.turn_completed" {
            break;
        }
    }
    let output = printed.next().await.unwrap();
    assert_eq!(output.agent_id, agent.agent_id);
    assert!(output.text.contains("sesame"), "{output:?}");
    assert_eq!(printed_too.next().await.unwrap(), output);
    here.close().await.unwrap();
}

#[tokio::test]
async fn errors_are_the_same_through_both_doors() {
    let dir = TempDir::new().unwrap();
    let here = Door::open_with(&global(&dir), opening()).await.unwrap();
    let there = Door::open(&global(&dir)).await.unwrap();
    for door in [&here, &there] {
        let error = door.call_json("sing", json!({})).await.unwrap_err();
        assert_eq!(error.code(), Code::ToolNotFound);
        let error = door.call_json("pause_agent", json!({ "agent_id": "x" })).await.unwrap_err();
        assert_eq!(error.code(), Code::AgentNotFound);
    }
    here.close().await.unwrap();
}

//! The orchestrator: a session that has the tools of Cortex and nothing else, or does not start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::Cortex;
use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{CreateAgent, SendMessage, StartAgent};
use cortex_lib::domain::agent::Role;
use cortex_lib::error::{Error, Result};
use cortex_lib::mcp;
use cortex_lib::port::McpAccess;
use cortex_lib::secret::Secret;
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::place::{Live, Place, alive, succeeded};
use crate::planner::attempts;

pub(crate) fn all() -> Vec<Case> {
    cases![
        an_orchestrator_has_the_tools_of_cortex_and_no_others,
        an_orchestrator_of_a_real_core_lists_and_calls_its_tools,
        an_orchestrator_without_an_endpoint_has_no_tools,
        a_session_whose_endpoint_is_not_there_does_not_start,
    ]
    .into()
}

const TOKEN: &str = "cortex_session_1";

async fn orchestrator(place: &Place, url: &str, token: &str) -> Result<Live> {
    let access = McpAccess {
        url: url.to_owned(),
        token: Secret::new(token),
        hook_token: Secret::new("cortex_hook_1"),
    };
    let opened = place.open_with(|spec| {
        spec.role = Role::Orchestrator;
        spec.mcp = Some(access);
    });
    opened.await
}

/// Shell, files, network, sub-agents and everything else that the CLI has.
fn everything(root: &Path) -> Vec<(&'static str, Value)> {
    let read = json!({"file_path": root.join("notes.md")});
    let mut all = attempts(root);
    all.extend([
        ("Read", read),
        ("Glob", json!({"pattern": "*"})),
        ("Grep", json!({"pattern": "heron"})),
        ("LS", json!({"path": root})),
        ("AskUserQuestion", json!({"questions": []})),
        ("EnterPlanMode", json!({})),
        ("SendMessage", json!({"to": "x", "message": "y"})),
        ("ListAgents", json!({})),
        ("Monitor", json!({"command": "true"})),
        ("ToolSearch", json!({"query": "select:Bash"})),
        ("ReadMcpResourceTool", json!({"server": "cortex", "uri": "x"})),
        ("Config", json!({})),
    ]);
    all
}

async fn an_orchestrator_has_the_tools_of_cortex_and_no_others() {
    let root = Path::new("{{root}}");
    let tries = everything(root).into_iter();
    let count = tries.len();
    let tries =
        tries.fold(Answer::text("I try."), |answer, (tool, input)| answer.and_tool(tool, input));
    let place = Place::new(
        Script::new()
            .on(When::tool_result("no tasks yet").take("root", "[[", "]]"), tries)
            .on(When::tool_result(""), Answer::text("nothing but that"))
            .otherwise(Answer::tool("mcp__cortex__list_tasks", json!({}))),
    )
    .await;
    let root = place.home.project();
    fs_err::write(root.join("notes.md"), "the word is stork\n").unwrap();
    let endpoint = Endpoint::start(TOKEN).await;
    let mut live = orchestrator(&place, &endpoint.url, TOKEN).await.unwrap();
    assert_eq!(endpoint.seen("tools/list").len(), 1, "its tools are there before the first turn");
    let (end, _) = live.turn(&format!("Coordinate [[{}]].", root.display())).await;
    assert_eq!(end.outcome, succeeded("nothing but that"));

    let requests = place.server.requests();
    for request in &requests {
        let tools = request.tools.iter().map(String::as_str);
        let tools: Vec<_> = tools.filter(|name| *name != "DeferredToolPlaceholder").collect();
        assert_eq!(tools, ["mcp__cortex__list_tasks"]);
    }
    let refused = requests.last().unwrap();
    assert_eq!(refused.tool_results.len(), count, "{:#?}", refused.tool_results);
    for result in &refused.tool_results {
        assert!(result.is_error && result.text.contains("No such tool"), "{result:?}");
    }
    assert!(!requests.iter().any(|one| one.body.to_string().contains("stork")), "it read a file");
    let files: Vec<_> =
        fs_err::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["notes.md"]);
    assert_eq!(place.server.strangers(), []);

    let calls = endpoint.seen("tools/call");
    let credentials: Vec<_> = calls.iter().map(|call| call.credential.as_deref()).collect();
    assert_eq!(credentials, [Some("Bearer cortex_session_1")]);
    live.close().await;
}

/// A core, its endpoint, and an agent that coordinates.
async fn an_orchestrator_of_a_real_core_lists_and_calls_its_tools() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result("worker-ada"), Answer::text("I know her"))
            .otherwise(Answer::tool("mcp__cortex__list_agents", json!({}))),
    )
    .await;
    let data = tempfile::tempdir().unwrap();
    let socket = mcp::bind(0).await.unwrap();
    let builder = Cortex::builder(data.path()).endpoint(socket.url());
    let cortex = builder.runtime(Arc::new(place.runtime())).open().await.unwrap();
    let server = socket.serve(&cortex, &Secret::new("cortex_user_0"));
    let user = cortex.as_user();
    let add = AddProject { name: "p".into(), root: place.home.project(), verification: None };
    let project_id = user.call(add).await.unwrap().project.project_id;
    let create = |name: &str, role| CreateAgent {
        role,
        ..CreateAgent::new(&project_id, name, "claude-code")
    };
    user.call(create("worker-ada", Role::Worker)).await.unwrap();
    let created = user.call(create("chief", Role::Orchestrator)).await.unwrap();
    let agent_id = created.agent.agent_id;
    user.call(StartAgent { agent_id: agent_id.clone() }).await.unwrap();
    user.call(SendMessage { agent_id, message: "coordinate".into() }).await.unwrap();
    let told = |all: &[cortex_scripted::Request]| {
        all.iter().find(|one| !one.tool_results.is_empty()).cloned()
    };
    let request = place.server.wait_for(told).await.unwrap();
    let result = request.tool_results.first().unwrap();
    assert!(!result.is_error && result.text.contains("worker-ada"), "{result:?}");
    let tools = request.tools.iter().filter(|name| *name != "DeferredToolPlaceholder");
    let tools: Vec<_> = tools.map(String::as_str).collect();
    assert!(tools.iter().all(|tool| tool.starts_with("mcp__cortex__")), "{tools:?}");
    for name in ["create_agent", "list_tasks", "start_agent"] {
        assert!(tools.contains(&format!("mcp__cortex__{name}").as_str()), "{name}: {tools:?}");
    }
    cortex.shutdown().await.unwrap();
    server.stop().await;
}

async fn an_orchestrator_without_an_endpoint_has_no_tools() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result("No such tool"), Answer::text("none"))
            .otherwise(Answer::tool("Bash", json!({"command": "touch ran"}))),
    )
    .await;
    let mut live = place.open_with(|spec| spec.role = Role::Orchestrator).await.unwrap();
    let (end, _) = live.turn("coordinate").await;
    assert_eq!(end.outcome, succeeded("none"));
    assert!(!place.home.project().join("ran").exists());
    live.close().await;
}

/// It says why, and neither waits for ever nor leaves anything behind.
async fn a_session_whose_endpoint_is_not_there_does_not_start() {
    let place = Place::new(Script::new()).await;
    let endpoint = Endpoint::start(TOKEN).await;
    let (down, silent) = (Endpoint::down().await, Endpoint::silent().await);
    for (url, token, says) in [
        (&endpoint.url, "wrong", "401"),
        (&down.url, TOKEN, "Unable to connect"),
        (&silent.url, TOKEN, "no answer within"),
    ] {
        let started =
            tokio::time::timeout(Duration::from_secs(50), orchestrator(&place, url, token));
        let error: Error = started.await.unwrap().unwrap_err();
        assert_eq!(error.code(), cortex_lib::Code::RuntimeStartFailed, "{error}");
        let message = error.message();
        assert!(message.contains("does not reach the tools of Cortex"), "{error}");
        assert!(message.contains(says), "{error}");
        assert!(!message.contains(token), "{error}");
        assert_eq!(alive(place.marker()), Vec::<String>::new());
    }
}

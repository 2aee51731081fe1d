//! The three CLIs as clients of the endpoint: what the SDKs' clients are tried with, the CLIs' own clients do too.

use std::path::PathBuf;
use std::sync::Arc;

use cortex_lib::Cortex;
use cortex_lib::api::TOOLS;
use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{CreateAgent, InterruptAgent, StartAgent};
use cortex_lib::api::{Caller, SessionCaller, SessionKind};
use cortex_lib::domain::agent::Role;
use cortex_lib::domain::event::EventKind;
use cortex_lib::ids::{AgentId, ProjectId, SessionId};
use cortex_lib::limits::START_TIMEOUT;
use cortex_lib::port::{Opening, OutputKind, ScriptedRuntime};
use cortex_scripted::{Answer, Script, ScriptedServer, When};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use crate::place::{CLAUDE, CODEX, OPENCODE, Place, Words, say};

/// A runtime whose sessions never open, so that a start is answered when its time is over: after a minute.
const SLEEPY: &str = "sleepy";
const RUNTIMES: [&str; 3] = ["claude-code", "codex", "opencode"];

fn script(words: &Words) -> Script {
    let step = |results| When::during("Try them.", results);
    let start = words.call("start_agent", json!({"agent_id": "{{sleeper}}"}));
    Script::new()
        .on(step(0), words.call("list_projects", json!({})))
        .on(step(1), words.call("get_agent_status", json!({"agent_id": "nobody"})))
        .on(step(2).take("sleeper", "The sleeper is ", "."), start.clone())
        .on(step(3), Answer::text("They were tried."))
        .on(When::during("Wait for it.", 0).take("sleeper", "The sleeper is ", "."), start)
        .on(When::during("And again.", 0), words.call("list_projects", json!({})))
        .on(When::during("And again.", 1), Answer::text("It still answers."))
}

async fn project(cortex: &Cortex, root: PathBuf) -> ProjectId {
    let add = AddProject { name: "birds".into(), root, verification: None };
    cortex.as_user().call(add).await.unwrap().project.project_id
}

async fn agent(
    cortex: &Cortex,
    project: &ProjectId,
    name: &str,
    runtime: &str,
    role: Role,
) -> AgentId {
    let create = CreateAgent { role, ..CreateAgent::new(project, name, runtime) };
    cortex.as_user().call(create).await.unwrap().agent.agent_id
}

/// Lists the tools, calls one that answers, one that fails and one that takes a minute; then gives up on one that
/// waits, and calls another one.
async fn try_out(cortex: &Cortex, server: &ScriptedServer, chief: &AgentId, sleeper: &AgentId) {
    let began = Instant::now();
    let ended = say(cortex, chief, format!("The sleeper is {sleeper}. Try them.")).await;
    assert_eq!(ended.kind, EventKind::SessionTurnCompleted, "{ended:?}");
    assert!(began.elapsed() >= START_TIMEOUT, "nothing took a minute");
    assert!(ended.data.to_string().contains("They were tried."), "{ended:?}");
    let requests = server.requests();
    let orchestrator = Caller::Session(SessionCaller {
        kind: SessionKind::Orchestrator,
        agent_id: chief.clone(),
        project_id: ProjectId::new("any"),
        session_id: SessionId::new("any"),
    });
    for tool in TOOLS.iter().filter(|tool| tool.access.admits(&orchestrator)) {
        let mut offered = requests.iter().flat_map(|request| &request.tools);
        assert!(offered.any(|name| name.ends_with(tool.name)), "{} is missing", tool.name);
    }
    let results = requests.iter().flat_map(|request| &request.tool_results);
    let results: Vec<&str> = results.map(|result| result.text.as_str()).collect();
    let [listed, failed, late] = results.try_into().unwrap();
    assert!(listed.contains("birds"), "{listed}");
    assert!(failed.contains("agent.not_found") && failed.contains("remediation"), "{failed}");
    assert!(late.contains("runtime.start_timed_out"), "{late}");

    let mut output = cortex.output();
    let waits = say(cortex, chief, format!("The sleeper is {sleeper}. Wait for it."));
    let give_up = async {
        loop {
            let shown = output.next().await.unwrap();
            let calls = shown.kind == OutputKind::Tool && shown.text.contains("start_agent");
            if calls && shown.agent_id == *chief {
                break;
            }
        }
        let interrupt = InterruptAgent { agent_id: chief.clone() };
        assert!(cortex.as_user().call(interrupt).await.unwrap().interrupted);
    };
    let began = Instant::now();
    let (ended, ()) = tokio::join!(waits, give_up);
    assert_eq!(ended.kind, EventKind::SessionTurnFailed, "{ended:?}");
    assert!(began.elapsed() < START_TIMEOUT, "it waited to the end");
    let ended = say(cortex, chief, "And again.".into()).await;
    assert!(ended.data.to_string().contains("It still answers."), "{ended:?}");
}

/// Each of the three lists the tools, calls one that answers and one that fails, waits a minute for an answer and
/// gives up on a call.
pub async fn all_three_list_call_wait_and_give_up() {
    let place = Place::new([&CLAUDE, &CODEX, &OPENCODE].map(script)).await;
    let sleepy = ScriptedRuntime::new(SLEEPY).opening(|_| Opening::Never);
    let (cortex, endpoint) = place.open(vec![Arc::new(sleepy)]).await;
    let project = project(&cortex, place.root()).await;
    let tried = RUNTIMES.into_iter().zip(place.servers()).map(async |(runtime, server)| {
        let chief = agent(&cortex, &project, runtime, runtime, Role::Orchestrator).await;
        let name = format!("{runtime} sleeps");
        let sleeper = agent(&cortex, &project, &name, SLEEPY, Role::Worker).await;
        cortex.as_user().call(StartAgent { agent_id: chief.clone() }).await.unwrap();
        try_out(&cortex, server, &chief, &sleeper).await;
    });
    join_all(tried).await;
    place.close(cortex, endpoint).await;
}

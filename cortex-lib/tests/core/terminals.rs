//! Agents that a person works with in a terminal: made by a person, and without turns.

use cortex_lib::api::operator::{CreateTerminalAgent, PauseAgent, ResumeAgent};
use cortex_lib::api::tool::{InterruptAgent, SendMessage, StartAgent, StopAgent, UpdateAgent};
use cortex_lib::api::{SessionKind, TOOLS};
use cortex_lib::domain::agent::{AgentStatus, Interaction, Role};
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::error::Code;
use cortex_lib::ids::{AgentId, RuntimeId};
use cortex_lib::port::ScriptedRuntime;

use crate::bench::{Bench, SCRIPTED, Setup, pass, secs, spec};

const WITH_TERMINALS: &str = "with terminals";

fn create(bench: &Bench, name: &str, runtime: &str) -> CreateTerminalAgent {
    CreateTerminalAgent {
        project_id: bench.project.clone(),
        name: name.to_owned(),
        runtime_id: RuntimeId::new(runtime),
        model: None,
        instructions: Some("Mind the tests.".to_owned()),
    }
}

async fn bench() -> Bench {
    let able = ScriptedRuntime::new(WITH_TERMINALS).with(Capability::TerminalSession);
    Setup::new().another(able).open().await
}

async fn terminal(bench: &Bench) -> AgentId {
    let made = bench.call(create(bench, "t", WITH_TERMINALS)).await.agent;
    assert_eq!(
        (made.interaction, made.role, made.state),
        (Interaction::Terminal, Role::Worker, AgentStatus::Created)
    );
    made.agent_id
}

/// S-048: only a person makes one, and not over MCP.
#[tokio::test(start_paused = true)]
async fn only_a_person_makes_one_and_only_where_there_are_terminals() {
    let bench = bench().await;
    let id = terminal(&bench).await;
    assert!(TOOLS.iter().all(|tool| tool.name != "create_terminal_agent"));
    let boss = bench.session(SessionKind::Orchestrator);
    let error = boss.call(create(&bench, "u", WITH_TERMINALS));
    assert_eq!(error.await.unwrap_err().code(), Code::PermissionDenied);
    let error = bench.refuse(create(&bench, "u", SCRIPTED)).await;
    assert_eq!(error.code(), Code::RuntimeCapabilityMissing);
    assert!(error.message().contains("terminal_session"), "{error}");
    assert_eq!(
        bench.refuse(create(&bench, "t", WITH_TERMINALS)).await.code(),
        Code::AgentNameTaken
    );
    let moved = UpdateAgent {
        agent_id: id,
        name: None,
        runtime_id: Some(RuntimeId::new(SCRIPTED)),
        model: None,
        instructions: None,
        skills: None,
    };
    assert_eq!(bench.refuse(moved).await.code(), Code::RuntimeCapabilityMissing);
}

/// S-067
#[tokio::test(start_paused = true)]
async fn it_has_no_turns_in_any_state() {
    let bench = bench().await;
    let id = terminal(&bench).await;
    let refused = async || {
        let message = "hello".to_owned();
        let send = bench.refuse(SendMessage { agent_id: id.clone(), message }).await;
        assert_eq!(send.code(), Code::RuntimeUnsupportedInTerminalMode);
        assert_eq!(send.code().kind(), cortex_lib::Kind::Unsupported);
        let interrupt = bench.refuse(InterruptAgent { agent_id: id.clone() }).await;
        assert_eq!(interrupt.code(), Code::RuntimeUnsupportedInTerminalMode);
    };
    refused().await;
    bench.call(StartAgent { agent_id: id.clone() }).await;
    let spec = bench.world.openings().remove(0);
    assert_eq!(spec.interaction, Interaction::Terminal);
    assert_eq!(spec.instructions.as_deref(), Some("Mind the tests."));
    refused().await;
    bench.call(PauseAgent { agent_id: id.clone() }).await;
    refused().await;
    bench.call(ResumeAgent { agent_id: id.clone() }).await;
    let stopped = bench.call(StopAgent { agent_id: id.clone() }).await.agent;
    assert_eq!(stopped.state, AgentStatus::Stopped);
    refused().await;
    assert_eq!(bench.world.turns(), []);
}

/// H-33
#[tokio::test(start_paused = true)]
async fn it_is_given_no_task_and_cannot_be_named_for_one() {
    let bench = bench().await;
    let id = terminal(&bench).await;
    bench.call(StartAgent { agent_id: id.clone() }).await;
    let pinned = TaskSpec { assigned_agent_id: Some(id.clone()), ..spec("x", &[]) };
    let create = cortex_lib::api::tool::CreateObjective {
        project_id: bench.project.clone(),
        title: "o".to_owned(),
        tasks: vec![pinned],
    };
    assert_eq!(bench.refuse(create).await.code(), Code::InvalidObjective);
    bench.one_task(spec("x", &[])).await;
    pass(secs(3600)).await;
    assert_eq!(bench.status(&id).await, AgentStatus::Ready);
    assert_eq!(bench.world.turns(), []);
}

//! What an agent needs to be started as what it is.

use cortex_lib::api::operator::CreateTerminalAgent;
use cortex_lib::api::tool::{CreateAgent, ListTasks, StartAgent};
use cortex_lib::domain::agent::{AgentStatus, Interaction, Role};
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::waiting::{NotEligibleReason, WaitReason};
use cortex_lib::error::Code;
use cortex_lib::ids::{AgentId, RuntimeId};
use cortex_lib::port::ScriptedRuntime;

use crate::bench::{Bench, SCRIPTED, Setup, new_agent, pass, secs, spec};

const ABLE: &str = "able";

/// A core with a runtime that can do everything, and one for each of these that cannot do that.
async fn core(endpoint: bool, lacks: &[Capability]) -> Bench {
    let able = ScriptedRuntime::new(ABLE).with(Capability::TerminalSession);
    let mut setup = Setup::new().another(able.clone());
    for capability in lacks {
        let id = format!("no {capability}");
        let capabilities = Capability::ALL.iter().copied().filter(|one| one != capability);
        setup = setup.another(ScriptedRuntime::new(id).capabilities(capabilities));
    }
    setup.endpoint = endpoint;
    setup.open().await
}

/// An agent that was made when its runtime could do more: an update of Cortex or of its settings changed that.
async fn insert(bench: &Bench, runtime: &str, role: Role, interaction: Interaction) -> AgentId {
    let name = format!("{role:?} {interaction:?} on {runtime}");
    let create = CreateTerminalAgent {
        project_id: bench.project.clone(),
        name: name.clone(),
        runtime_id: RuntimeId::new(ABLE),
        model: None,
        instructions: None,
    };
    let model = bench.call(create).await.agent.agent_id;
    let (id, runtime_id) = (AgentId::new(name.as_str()), RuntimeId::new(runtime));
    let copy = id.clone();
    let write = bench.store.write(move |tx| {
        let mut agent = tx.agent(&model)?;
        (agent.id, agent.name) = (copy, format!("{name}, later"));
        (agent.runtime_id, agent.role, agent.interaction) = (runtime_id, role, interaction);
        tx.insert_agent(&agent)
    });
    write.await.unwrap();
    id
}

/// S-234, S-235, H-20: refused, FAILED with the reason, and its runtime is not even asked.
#[tokio::test(start_paused = true)]
async fn a_start_that_would_make_less_of_an_agent_is_refused() {
    use Capability as C;
    use Interaction::{Structured, Terminal};
    let lacks = [C::OrchestratorRole, C::McpClient, C::StructuredSession, C::TerminalSession];
    let (missing, form) = (Code::RuntimeCapabilityMissing, Code::AgentOrchestratorNeedsStructured);
    for endpoint in [true, false] {
        let bench = core(endpoint, &lacks).await;
        let no_tools = (!endpoint).then_some(Code::McpDisabled);
        for (role, interaction, runtime, refusal) in [
            (Role::Orchestrator, Structured, "no orchestrator_role", Some(missing)),
            (Role::Orchestrator, Terminal, "no orchestrator_role", Some(missing)),
            (Role::Orchestrator, Structured, "no mcp_client", Some(missing)),
            (Role::Orchestrator, Structured, "no structured_session", Some(form)),
            (Role::Orchestrator, Terminal, ABLE, Some(form)),
            (Role::Orchestrator, Structured, ABLE, no_tools),
            (Role::Worker, Structured, "no structured_session", Some(missing)),
            (Role::Worker, Terminal, "no terminal_session", Some(missing)),
            (Role::Worker, Structured, "no mcp_client", None),
            (Role::Worker, Terminal, ABLE, None),
        ] {
            let agent_id = insert(&bench, runtime, role, interaction).await;
            let asked = bench.world.openings().len();
            let started = bench.cx.call(StartAgent { agent_id: agent_id.clone() }).await;
            let code = started.as_ref().err().map(cortex_lib::Error::code);
            assert_eq!(code, refusal, "{agent_id}, endpoint: {endpoint}: {started:?}");
            let seen = bench.see(&agent_id).await;
            let opened = bench.world.openings().len() - asked;
            let Some(code) = refusal else {
                assert_eq!((seen.state, opened), (AgentStatus::Ready, 1));
                continue;
            };
            assert_eq!((seen.state, opened), (AgentStatus::Failed, 0), "{agent_id}");
            assert_eq!(seen.last_failure.unwrap().code, code);
        }
        // Whoever is told of the endpoint has a credential that nobody else has.
        let openings = bench.world.openings();
        let tokens: Vec<_> = openings.iter().filter_map(|spec| spec.mcp.as_ref()).collect();
        assert_eq!(tokens.len(), if endpoint { openings.len() } else { 0 });
        for (nth, one) in tokens.iter().enumerate() {
            assert!(tokens.iter().skip(nth + 1).all(|other| other.token != one.token));
        }
    }
}

/// S-236: whatever waits, it is not for an orchestrator.
#[tokio::test(start_paused = true)]
async fn an_orchestrator_that_runs_is_never_given_a_task() {
    let bench = core(true, &[]).await;
    let boss =
        CreateAgent { role: Role::Orchestrator, ..new_agent(&bench.project, "boss", SCRIPTED) };
    let boss = bench.call(boss).await.agent.agent_id;
    bench.call(StartAgent { agent_id: boss.clone() }).await;
    bench.one_task(spec("x", &[])).await;
    pass(secs(3600)).await;
    assert_eq!(bench.status(&boss).await, AgentStatus::Ready);
    assert_eq!(bench.world.turns(), []);
    let waiting = bench.call(ListTasks {}).await.objectives[0].tasks[0].waiting.clone().unwrap();
    assert_eq!(waiting.reason, WaitReason::NoEligibleAgent);
    let why = waiting.no_eligible_agent.unwrap().agents.remove(0);
    assert_eq!((why.agent_id, why.reason), (boss, NotEligibleReason::Orchestrator));
}

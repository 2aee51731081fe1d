//! One objective on all three at once, with an orchestrator that hires the workers and hears from them.

use std::path::PathBuf;
use std::time::Duration;

use cortex_lib::Cortex;
use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{
    CreateAgent, CreateObjective, ListAgents, ListTasks, ReadMessages, StartAgent,
};
use cortex_lib::api::view::{AgentView, ObjectiveView};
use cortex_lib::domain::agent::{AgentStatus, Role};
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::objective::ObjectiveStatus;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::Evidence;
use cortex_lib::domain::verification::{Verification, VerificationCommand};
use cortex_lib::ids::{AgentId, ProjectId};
use cortex_scripted::{Answer, Script, When};
use serde_json::json;

use crate::place::{CLAUDE, CODEX, OPENCODE, Place, Words, say};

/// The workers: name, runtime and what each calls its part.
const CREW: [(&str, &str, &str); 3] =
    [("ada", "claude-code", "heron"), ("bob", "codex", "kite"), ("cyd", "opencode", "plover")];
/// Held until all three are at work.
const ALL: &str = "all are at work";

/// A step after a result that holds `field`. A CLI hands its model the JSON as it is, or as a text within JSON.
fn with(script: Script, when: &When, field: &str, answer: &Answer) -> Script {
    script
        .on(when.clone().take(field, format!("\"{field}\":\""), "\""), answer.clone())
        .on(when.clone().take(field, format!("\\\"{field}\\\":\\\""), "\\\""), answer.clone())
}

/// A worker reads what the orchestrator asks, says that it is at it, does it, and reports.
fn work(script: Script, words: &Words, word: &str) -> Script {
    let step = |results| When::during("Do your part.", results);
    let acknowledge = words.call("ack_message", json!({"message_id": "{{message_id}}"}));
    let reply = words.call(
        "post_message",
        json!({"project_id": "{{project}}", "to_agent_id": "{{chief}}", "body": format!("{word} is at it")}),
    );
    let (tool, input) = (words.shell)(&format!("echo {word} > {word}.txt"));
    let script = script
        .on(step(0), words.call("read_messages", json!({})).silent_until(ALL))
        .on(
            step(2).take("project", "The project is ", ".").take("chief", "The chief is ", "."),
            reply,
        )
        .on(step(3), Answer::tool(tool, input))
        .on(step(4), Answer::text(format!("{word} is done")));
    with(script, &step(1), "message_id", &acknowledge)
}

/// The orchestrator creates, starts and tells each worker, and later reads what they answer.
fn lead(mut script: Script) -> Script {
    for (place, (name, runtime, word)) in CREW.iter().enumerate() {
        let step = |results| When::during("Hire the crew.", place * 3 + results);
        let project = |when: When| when.take("project", "The project is ", ".");
        script = script.on(
            project(step(0)),
            CLAUDE.call(
                "create_agent",
                json!({"project_id": "{{project}}", "name": name, "runtime_id": runtime}),
            ),
        );
        let start = CLAUDE.call("start_agent", json!({"agent_id": "{{agent_id}}"}));
        script = with(script, &step(1), "agent_id", &start);
        let tell = CLAUDE.call(
            "post_message",
            json!({"project_id": "{{project}}", "to_agent_id": "{{agent_id}}", "kind": "request", "body": format!("Speak of the {word}.")}),
        );
        script = with(script, &project(step(2)), "agent_id", &tell);
    }
    script
        .on(When::during("Hire the crew.", 9), Answer::text("They are hired."))
        .on(When::during("What do they say?", 0), CLAUDE.call("read_messages", json!({})))
        .on(When::during("What do they say?", 1), Answer::text("All three are at it."))
}

async fn project(cortex: &Cortex, root: PathBuf) -> ProjectId {
    let argv = ["sh", "-c", "grep -q . ./*.txt"].map(Into::into).to_vec();
    let commands = vec![VerificationCommand { argv, name: Some("something is written".into()) }];
    let verification = Some(Verification { commands, timeout_secs: 60 });
    let add = AddProject { name: "birds".into(), root, verification };
    cortex.as_user().call(add).await.unwrap().project.project_id
}

/// What the orchestrator returns from a turn that the user sends it.
async fn tell(cortex: &Cortex, agent: &AgentId, message: String) -> String {
    let ended = say(cortex, agent, message).await;
    assert_eq!(ended.kind, EventKind::SessionTurnCompleted, "{ended:?}");
    ended.data.to_string()
}

async fn crew(cortex: &Cortex, project_id: &ProjectId) -> Vec<AgentView> {
    let list = ListAgents { project_id: Some(project_id.clone()) };
    cortex.as_user().call(list).await.unwrap().agents
}

/// Runs a task for each worker, all at once, to the end of the objective.
async fn run(
    cortex: &Cortex,
    place: &Place,
    project_id: &ProjectId,
    chief: &AgentId,
) -> ObjectiveView {
    let agents = crew(cortex, project_id).await;
    let tasks = CREW.map(|(name, _, word)| {
        let text = format!("The project is {project_id}. The chief is {chief}. Do your part.");
        let worker = agents.iter().find(|agent| agent.name == name).unwrap();
        let assigned_agent_id = Some(worker.agent_id.clone());
        TaskSpec { assigned_agent_id, ..TaskSpec::new(word, text) }
    });
    let mut events = cortex.events(Some(cortex.newest_event().unwrap()));
    let create = CreateObjective {
        project_id: project_id.clone(),
        title: "Birds".into(),
        tasks: tasks.into(),
    };
    cortex.as_user().call(create).await.unwrap();
    let ended = async {
        for server in place.servers() {
            let at_work =
                |request: &cortex_scripted::Request| request.last_user.contains("Do your part.");
            server.wait_for(|all| all.iter().any(at_work).then_some(())).await.unwrap();
        }
        for server in place.servers() {
            server.open(ALL);
        }
        while events.next().await.unwrap().unwrap().kind != EventKind::ObjectiveEnded {}
    };
    let ended = tokio::time::timeout(Duration::from_mins(2), ended).await;
    let objectives = cortex.as_user().call(ListTasks {}).await.unwrap().objectives;
    assert!(ended.is_ok(), "it never ended: {objectives:#?}");
    objectives.into_iter().next_back().unwrap()
}

/// One objective on all three at once, with an orchestrator that creates and starts the workers and hears from them
/// by messages (S-230, S-231, S-232).
pub async fn an_orchestrator_hires_workers_on_all_three_and_hears_from_them() {
    let [ada, bob, cyd] = CREW.map(|(_, _, word)| word);
    let place = Place::new([
        lead(work(Script::new(), &CLAUDE, ada)),
        work(Script::new(), &CODEX, bob),
        work(Script::new(), &OPENCODE, cyd),
    ])
    .await;
    let (cortex, endpoint) = place.open(Vec::new()).await;
    let project_id = project(&cortex, place.root()).await;
    let create = CreateAgent {
        role: Role::Orchestrator,
        ..CreateAgent::new(&project_id, "chief", "claude-code")
    };
    let chief = cortex.as_user().call(create).await.unwrap().agent.agent_id;
    cortex.as_user().call(StartAgent { agent_id: chief.clone() }).await.unwrap();

    let hire = format!("The project is {project_id}. Hire the crew.");
    let said = tell(&cortex, &chief, hire).await;
    assert!(said.contains("They are hired."), "{said}");
    let agents = crew(&cortex, &project_id).await;
    assert_eq!(agents.len(), 4, "{agents:#?}");
    for (name, runtime, _) in CREW {
        let hired = agents.iter().find(|agent| agent.name == name).unwrap();
        assert_eq!((hired.state, hired.runtime_id.as_str()), (AgentStatus::Ready, runtime));
    }

    let objective = run(&cortex, &place, &project_id, &chief).await;
    assert_eq!(objective.status, ObjectiveStatus::Completed, "{objective:#?}");
    for (task, (name, runtime, word)) in objective.tasks.iter().zip(CREW) {
        let result = task.result.as_ref().unwrap();
        assert_eq!(result.evidence, Evidence::Verified, "{task:#?}");
        assert_eq!(result.text, format!("{word} is done"), "{name}");
        let attempt = task.attempts.last().unwrap();
        assert_eq!(attempt.runtime_id.as_str(), runtime);
        let written = fs_err::read_to_string(place.root().join(format!("{word}.txt"))).unwrap();
        assert_eq!(written.trim(), word);
    }

    let said = tell(&cortex, &chief, "What do they say?".into()).await;
    assert!(said.contains("All three are at it."), "{said}");
    let heard = place.claude.requests().pop().unwrap();
    let heard: Vec<_> = heard.tool_results.into_iter().map(|result| result.text).collect();
    for (_, _, word) in CREW {
        assert!(heard.concat().contains(&format!("{word} is at it")), "{heard:?}");
    }
    // The workers dealt with what they were told; the orchestrator only looked.
    let waiting = cortex.as_user().call(ReadMessages::default()).await.unwrap().messages;
    assert!(waiting.iter().all(|message| message.to_agent_id.as_ref() == Some(&chief)));
    assert_eq!(waiting.len(), 3);

    place.close(cortex, endpoint).await;
}

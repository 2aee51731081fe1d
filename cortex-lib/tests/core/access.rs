//! Who may call what: every tool, every caller, own and foreign project, against a table that says it again.

use std::collections::BTreeSet;

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{CreateObjective, ListTasks};
use cortex_lib::api::{Caller, Cx, Effect, SessionCaller, SessionKind, TOOLS};
use cortex_lib::domain::capability::Capability;
use cortex_lib::ids::{AgentId, ProjectId, SessionId};
use cortex_lib::mcp::{self, McpOptions};
use cortex_lib::secret::Secret;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::access_table::{ABSENT, Foreign, Names, TABLE, assert_admitted, present};
use crate::bench::{Bench, SCRIPTED, Setup, new_agent, spec};

const SESSIONS: [(char, SessionKind); 3] =
    [('H', SessionKind::Hook), ('A', SessionKind::Agent), ('O', SessionKind::Orchestrator)];

async fn things(bench: &Bench, project: &ProjectId, fresh: &str) -> Names {
    let agent = bench.call(new_agent(project, "target", SCRIPTED)).await.agent.agent_id;
    let peer = bench.call(new_agent(project, "peer", SCRIPTED)).await.agent.agent_id;
    let (title, tasks) = ("o".to_owned(), vec![spec("x", &[])]);
    let call = CreateObjective { project_id: project.clone(), title, tasks };
    let objective = bench.call(call).await.objective;
    Names {
        project: project.to_string(),
        agent: agent.to_string(),
        peer: peer.to_string(),
        task: objective.tasks.first().unwrap().task_id.to_string(),
        objective: objective.objective_id.to_string(),
        fresh: fresh.to_owned(),
    }
}

/// A core with two projects, each with the same things.
async fn two_projects() -> (Setup, Bench, Names, Names) {
    let setup = Setup::new();
    let bench = setup.open().await;
    let root = setup.root().join("other");
    fs_err::create_dir(&root).unwrap();
    let add = AddProject { name: "other".into(), root, verification: None };
    let other = bench.call(add).await.project.project_id;
    let own = things(&bench, &bench.project, "fresh").await;
    let foreign = things(&bench, &other, "fresh too").await;
    (setup, bench, own, foreign)
}

fn session(bench: &Bench, names: &Names, kind: SessionKind) -> Cx {
    bench.cortex.as_caller(Caller::Session(SessionCaller {
        kind,
        agent_id: AgentId::new(names.peer.clone()),
        project_id: ProjectId::new(names.project.clone()),
        session_id: SessionId::new("s"),
    }))
}

/// The code of the answer; `ok` when the call was done.
async fn code(cx: &Cx, tool: &str, args: Value) -> String {
    match cx.call_json(tool, args).await {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.code().to_string(),
    }
}

/// H-01, H-02
#[test]
fn the_tools_are_those_of_the_table_in_its_order() {
    let names: Vec<_> =
        TABLE.iter().map(|line| line.0).filter(|name| !ABSENT.contains(name)).collect();
    assert_eq!(names, TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>());
    for (tool, (name, effect, callers, ..)) in present() {
        let access = tool.access;
        let may = [
            ('U', access.user),
            ('O', access.orchestrator),
            ('A', access.agent),
            ('H', access.hook),
        ];
        let admitted: String = may.iter().filter(|(_, may)| *may).map(|(who, _)| *who).collect();
        assert_eq!(admitted, callers, "{name}");
        let letter = match tool.effect {
            Effect::Reads => 'R',
            Effect::Writes | Effect::WritesLast => 'W',
            Effect::WritesOnce => 'I',
        };
        assert_eq!(letter, effect, "{name}");
    }
}

/// S-050, S-054, S-138, S-232, S-237, H-04
#[tokio::test(start_paused = true)]
async fn every_tool_answers_every_caller_about_the_own_and_the_foreign_project_as_the_table_says() {
    let mut cells = 0;
    for (_, (tool, _, callers, foreign, args)) in present() {
        let (_setup, bench, own, other) = two_projects().await;
        for (letter, kind) in SESSIONS {
            let cx = session(&bench, &own, kind);
            for (names, is_own) in [(&other, false), (&own, true)] {
                let cell = format!("{tool} by {letter}, own: {is_own}");
                let answer = cx.call_json(tool, args(names)).await;
                let code = answer.as_ref().map_or_else(|error| error.code().as_str(), |_| "ok");
                cells += 1;
                if !callers.contains(letter) {
                    assert_eq!(code, "permission.denied", "{cell}");
                    continue;
                }
                match foreign {
                    Foreign::Unmade(wanted) => assert_eq!(code, wanted, "{cell}"),
                    Foreign::Hidden(wanted) if !is_own => assert_eq!(code, wanted, "{cell}"),
                    Foreign::Hidden(_) | Foreign::Unnamed => assert_admitted(code, &cell),
                }
                let told = answer.unwrap_or_else(|error| error.to_wire()).to_string();
                let named = if is_own { Vec::new() } else { args_of(&args(&other)) };
                for id in other.all() {
                    assert!(named.contains(&id.to_owned()) || !told.contains(id), "{cell}: {told}");
                }
            }
        }
        for names in [&other, &own] {
            let (cell, code) = (format!("{tool} by U"), code(&bench.cx, tool, args(names)).await);
            cells += 1;
            assert!(callers.contains('U'), "{cell}");
            match foreign {
                Foreign::Unmade(wanted) => assert_eq!(code, wanted, "{cell}"),
                Foreign::Hidden(_) | Foreign::Unnamed => assert_admitted(&code, &cell),
            }
        }
    }
    assert_eq!(cells, TOOLS.len() * 8);
}

/// The texts of the arguments: a refusal may repeat them.
fn args_of(args: &Value) -> Vec<String> {
    args.as_object().unwrap().values().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// S-021: who brings no credential is nobody, whatever the tool.
#[tokio::test]
async fn no_tool_answers_a_caller_without_a_credential() {
    let dir = tempfile::tempdir().unwrap();
    let cortex = cortex_lib::Cortex::builder(dir.path().join("data")).open().await.unwrap();
    let options = McpOptions { port: 0, token: Secret::new("cortex_user_0") };
    let server = mcp::serve(&cortex, options).await.unwrap();
    for (tool, ..) in TABLE {
        let params = json!({ "name": tool, "arguments": {} });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
            .to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            server.port(),
            body.len(),
        );
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 401 ") && answer.contains("auth.missing"),
            "{tool}: {answer}"
        );
    }
}

/// H-03: the role before the arguments, the arguments before the core's state, that before what is named.
#[tokio::test(start_paused = true)]
async fn a_call_is_checked_in_the_stated_order() {
    let (_setup, bench, own, other) = two_projects().await;
    let wrong = || json!({ "no_such_field": 1 });
    bench.cortex.shutdown().await.unwrap();
    for (_, (tool, effect, callers, _, args)) in present() {
        for (letter, kind) in SESSIONS {
            let cx = session(&bench, &own, kind);
            let may = callers.contains(letter);
            let wanted = if may { "validation.invalid_arguments" } else { "permission.denied" };
            assert_eq!(code(&cx, tool, wrong()).await, wanted, "{tool} by {letter}");
            // What is not there is not told of while the core takes no changes.
            if may && effect != 'R' {
                assert_eq!(
                    code(&cx, tool, args(&other)).await,
                    "core.stopped",
                    "{tool} by {letter}"
                );
            }
        }
        assert_eq!(code(&bench.cx, tool, wrong()).await, "validation.invalid_arguments", "{tool}");
    }
}

/// H-03: what is named before what it can, and that before the state it is in.
#[tokio::test(start_paused = true)]
async fn what_a_thing_can_is_looked_at_after_its_existence_and_before_its_state() {
    let setup = Setup::new().runtime(|runtime| runtime.without(Capability::Interrupt));
    let bench = setup.open().await;
    let agent = bench.agent("never started").await;
    let call = |id: &str| json!({ "agent_id": id });
    assert_eq!(code(&bench.cx, "interrupt_agent", call("nobody")).await, "agent.not_found");
    let able = code(&bench.cx, "interrupt_agent", call(agent.as_str())).await;
    assert_eq!(able, "runtime.capability_missing", "its state would forbid it too");
}

/// The table has each tool once, and what is absent is in it.
#[test]
fn what_is_absent_is_said() {
    let names: BTreeSet<_> = TABLE.iter().map(|line| line.0).collect();
    assert_eq!(names.len(), TABLE.len());
    let known: BTreeSet<_> = TOOLS.iter().map(|tool| tool.name).collect();
    assert!(known.is_subset(&names), "{:?}", known.difference(&names));
    let absent: Vec<_> =
        TABLE.iter().map(|line| line.0).filter(|name| !known.contains(name)).collect();
    assert_eq!(absent, ABSENT);
}

/// A list shows a session its own project alone, also when it is not asked for one.
#[tokio::test(start_paused = true)]
async fn the_user_sees_both_projects_and_a_session_one() {
    let (_setup, bench, own, other) = two_projects().await;
    assert_eq!(bench.call(ListTasks {}).await.objectives.len(), 2);
    for names in [&own, &other] {
        let seen = session(&bench, names, SessionKind::Agent).call(ListTasks {}).await.unwrap();
        assert_eq!(seen.objectives.len(), 1);
        assert_eq!(seen.objectives.first().unwrap().project_id.as_str(), names.project);
    }
}

//! Secrets that agents and programs print are stored, told and shown nowhere.

use std::time::Duration;

use cortex_lib::api::operator::CheckRuntimes;
use cortex_lib::api::tool::{ListAgents, ListTasks, SendMessage, StartAgent};
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::{Code, Error};
use cortex_lib::port::{
    Health, HealthReport, Opening, OutputKind, Script, ScriptedRuntime, SessionEvent, ToolRequest,
    Verdict,
};
use serde_json::json;

use super::bench::{Bench, Setup, pass, secs, spec};

/// What no reader may find, and the text in which it is printed.
fn secrets() -> Vec<(&'static str, String)> {
    let part = |needle: &'static str, text: String| (needle, text);
    vec![
        part("api03-Ab1Cd2Ef3Gh4Ij5", format!("{}{}", "sk-ant-", "api03-Ab1Cd2Ef3Gh4Ij5_-x")),
        part("Zx9Yw8Vu7Ts6Rq5Po4Nm3", format!("{}{}", "sk-", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2")),
        part("QqWwEeRrTtYyUuIiOo12", format!("{}{}", "ghp_", "QqWwEeRrTtYyUuIiOo123456")),
        part("IOSFODNN7EXAMPLE", format!("{}{}", "AKIA", "IOSFODNN7EXAMPLE")),
        part("SyD4Xk9Lm2Np7Qr1St6Vw3", format!("{}{}", "AIza", "SyD4Xk9Lm2Np7Qr1St6Vw3Yz8Bc5Df0Gh2J")),
        part("2222-AbCdEfGhIjKl", format!("{}{}", "xoxb-", "1111-2222-AbCdEfGhIjKl")),
        part("Mm1Nn2Oo3Pp4Qq5Rr6Ss7", format!("{}{}", "npm_", "Mm1Nn2Oo3Pp4Qq5Rr6Ss7Tt8")),
        part("0123456789abcdef0123456789abcdef", format!("cortex_user_{}", "0123456789abcdef".repeat(4))),
        part("eyJzdWIiOiJ4In0", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl".to_owned()),
        part("MIIEvwIBADANBgkqhki", "-----BEGIN PRIVATE KEY-----\nMIIEvwIBADANBgkqhki\nG9w0BAQ==\n-----END PRIVATE KEY-----".to_owned()),
        part("joe:pa55", "git clone https://joe:pa55@example.org/x".to_owned()),
        part("swordfish", "DB_PASSWORD=swordfish".to_owned()),
        part("hunter22", "{\"password\": \"hunter22\"}".to_owned()),
        part("f00dbabe1234", "Authorization: Bearer f00dbabe1234".to_owned()),
    ]
}

fn all() -> String {
    let lines: Vec<_> = secrets().into_iter().map(|(_, text)| text).collect();
    format!("It printed:\n{}\nand went on", lines.join("\n"))
}

fn said(kind: OutputKind) -> SessionEvent {
    SessionEvent::Output { turn_id: None, kind, text: all() }
}

fn asks() -> SessionEvent {
    SessionEvent::ToolRequest(ToolRequest {
        request_id: "r".to_owned(),
        turn_id: None,
        tool: "Bash".to_owned(),
        summary: all(),
        input: json!({ "command": all(), "env": { "password": "swordfish" } }),
        questions: Vec::new(),
        of_cortex: None,
    })
}

/// Turns that print secrets wherever they can.
fn leaking(runtime: ScriptedRuntime) -> ScriptedRuntime {
    let report = HealthReport {
        health: Health::Unhealthy,
        version: Some(all()),
        executable: None,
        logged_in: None,
        message: Some(all()),
        remediation: Some(all()),
    };
    let error = || Error::new(Code::RuntimeProtocol, all()).remedy(all()).with("said", all());
    runtime.health(report).turn(move |turn| {
        let script = Script::new()
            .emit(said(OutputKind::Text))
            .emit(said(OutputKind::Stderr))
            .emit(said(OutputKind::Tool))
            .emit(asks());
        match turn.instruction.as_str() {
            text if text.contains("Do result.") => script.answer(all()),
            // A secret where a long text is cut: half of it would not be known for one.
            text if text.contains("Do long.") => {
                script.answer(format!("{}{}{}", "x ".repeat(16_300), all(), " y".repeat(60_000)))
            }
            text if text.contains("Do failure.") => script.fail(Cause::Error, all()),
            text if text.contains("Do unsent.") => script.refused(error()),
            text if text.contains("Do deaf.") => script.interrupt_fails(error()),
            _ => script.crash(all()),
        }
    })
}

fn once(key: &str) -> TaskSpec {
    TaskSpec { max_retries: Some(0), ..spec(key, &[]) }
}

/// Everything that a reader of the store, of the log or of an answer could see.
async fn everything(setup: &Setup, bench: &Bench) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    let mut add = |what: &str, text: String| seen.push((what.to_owned(), text));
    let tasks = bench.call(ListTasks {}).await;
    add("list_tasks", json!(tasks).to_string());
    for objective in tasks.objectives {
        for task in objective.tasks {
            add("get_task_status", json!(bench.task(&task.task_id).await).to_string());
        }
    }
    add("list_agents", json!(bench.call(ListAgents { project_id: None }).await).to_string());
    add("list_runtimes", bench.cx.call_json("list_runtimes", json!({})).await.unwrap().to_string());
    add("poll_agent_events", json!(bench.agent_events().await).to_string());
    add("events", format!("{:?}", bench.store.read(|tx| tx.events_after(None, 10_000)).unwrap()));
    for entry in fs_err::read_dir(setup.dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = fs_err::read(&path).unwrap();
            add(&path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    seen
}

fn assert_clean(seen: &[(String, String)]) {
    for (what, text) in seen {
        for (needle, _) in secrets() {
            // Beginnings too: a cut must not leave the half of one.
            let half = needle.get(..8).unwrap_or(needle);
            let at = text.split_once(half).map(|(before, _)| before.len());
            assert_eq!(at, None, "{what} has {needle} at this byte");
        }
    }
}

/// S-215 for what agents say: results, failures, standard error, tool requests, verification, errors of drivers.
#[tokio::test(start_paused = true)]
async fn no_byte_of_a_printed_secret_is_stored_told_or_shown() {
    let setup = Setup::new()
        .runtime(leaking)
        .another(ScriptedRuntime::new("closed").opening(|_| {
            let error = Error::new(Code::RuntimeStartFailed, all()).remedy(all());
            Opening::Fail(Duration::ZERO, error)
        }))
        .host(|host| host.verify(|_| Verdict::Fail(Duration::ZERO, all())))
        .settings(|settings| settings.agents.restore_on_open = false);
    let bench = setup.open().await;
    let mut output = bench.cortex.output();
    let mut shown = Vec::new();

    let refused = bench.agent_on("closed", "closed").await;
    let error = bench.cx.call(StartAgent { agent_id: refused }).await.unwrap_err();
    shown.push(("the error of start_agent".to_owned(), error.to_wire().to_string()));

    let agent = bench.ready("one").await;
    for key in ["result", "long", "failure", "unsent", "crash"] {
        let task = bench.one_task(once(key)).await;
        let rests = [TaskStatus::Blocked, TaskStatus::Failed];
        bench
            .until(key, async || rests.contains(&bench.task(&task).await.status).then_some(()))
            .await;
        // A crash takes the session along.
        pass(secs(1)).await;
        bench.cx.call(StartAgent { agent_id: agent.clone() }).await.unwrap();
    }
    for message in ["Do result.", "Do failure.", "Do unsent."] {
        let send = SendMessage { agent_id: agent.clone(), message: message.to_owned() };
        if let Err(error) = bench.cx.call(send).await {
            shown.push(("the error of send_message".to_owned(), error.to_wire().to_string()));
        }
        pass(secs(1)).await;
    }
    bench.cx.call(CheckRuntimes {}).await.unwrap();

    shown.extend(everything(&setup, &bench).await);
    assert_clean(&shown);
    assert!(shown.iter().filter(|(_, text)| text.contains("[secret]")).count() > 6);
    bench.cortex.shutdown().await.unwrap();
    assert_clean(&everything_on_disk(&setup));
    drop(bench);
    let mut lines = Vec::new();
    while let Some(line) = output.next().await {
        lines.push(("shown output".to_owned(), line.text));
    }
    assert!(lines.len() > 10);
    assert_clean(&lines);
}

fn everything_on_disk(setup: &Setup) -> Vec<(String, String)> {
    let files = fs_err::read_dir(setup.dir.path()).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.is_file())
        .map(|path| {
            let bytes = fs_err::read(&path).unwrap();
            (path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned())
        })
        .collect()
}

/// A private key comes in many lines, and only the first says what it is.
#[tokio::test(start_paused = true)]
async fn a_private_key_that_is_shown_line_by_line_is_not_shown() {
    let lines = [
        "-----BEGIN EC PRIVATE KEY-----",
        "MIIEvwIBADANBgkqhki",
        "G9w0BAQ==",
        "-----END EC PRIVATE KEY-----",
        "MIIEvwIBADANBgkqhki is one line",
    ];
    let setup = Setup::new().runtime(|runtime| {
        runtime.turn(move |_| {
            lines.iter().fold(Script::new(), |script, line| script.say(*line)).answer("done")
        })
    });
    let bench = setup.open().await;
    let mut output = bench.cortex.output();
    let agent = bench.ready("one").await;
    bench.call(SendMessage { agent_id: agent, message: "show it".to_owned() }).await;
    let mut shown = Vec::new();
    while shown.len() < lines.len() {
        shown.push(output.next().await.unwrap().text);
    }
    assert_eq!(shown, ["[secret]", "[secret]", "[secret]", "[secret]", lines[4]]);
}

/// What a person writes must reach the agent as it is written, or it could not do what it was asked.
#[tokio::test(start_paused = true)]
async fn what_a_person_writes_reaches_the_agent_unchanged() {
    let setup = Setup::new();
    let bench = setup.open().await;
    bench.ready("one").await;
    let description = "Log in with DB_PASSWORD=swordfish and sum up.".to_owned();
    let task =
        bench.one_task(TaskSpec { description: description.clone(), ..spec("a", &[]) }).await;
    bench.until_task(&task, TaskStatus::Blocked).await;
    assert!(bench.world.turns().iter().any(|turn| turn.instruction.contains(&description)));
    assert_eq!(bench.task(&task).await.description, description);
}

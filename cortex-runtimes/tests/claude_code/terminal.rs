//! The CLI in a terminal: a person types and sees, leaves and comes back.

use std::time::Duration;

use cortex_lib::error::{Code, Result};
use cortex_lib::ids::{AttemptId, TurnId};
use cortex_lib::port::{
    McpAccess, Opened, Runtime as _, SessionEvent, SessionSpec, ToolAnswer, Turn,
};
use cortex_lib::secret::Secret;
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::endpoint::Endpoint;
use crate::place::{Place, alive};
use crate::terminals::{PATIENCE, says, shows, spec, until, widens};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_person_types_sees_the_reply_leaves_and_comes_back,
        a_conversation_in_a_terminal_goes_on_after_a_new_start,
        a_start_that_is_given_up_leaves_nothing,
        an_agent_in_a_terminal_calls_the_tools_of_cortex,
        leaving_the_cli_ends_the_session,
        what_the_cli_asks_first_is_left_to_the_person,
    ]
    .into()
}

/// What a person has answered the CLI before: it knows the person, the folder and the key.
fn settled(place: &Place) {
    let project = place.home.project();
    let config = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "projects": {project.to_str().unwrap(): {"hasTrustDialogAccepted": true}},
        "customApiKeyResponses": {"approved": ["y-that-opens-nothing"], "rejected": []},
    });
    fs_err::write(config_file(place), config.to_string()).unwrap();
}

fn config_file(place: &Place) -> std::path::PathBuf {
    place.home.config().join(".claude.json")
}

async fn open(place: &Place, change: impl FnOnce(&mut SessionSpec)) -> Result<Opened> {
    let mut spec = spec(place.marker(), place.home.project(), &place.home.home());
    change(&mut spec);
    timeout(PATIENCE, place.runtime().open(spec)).await.unwrap()
}

async fn a_person_types_sees_the_reply_leaves_and_comes_back() {
    let script = Script::new()
        .on(When::last_user("where is the heron"), Answer::text("The heron is in the reeds."))
        .otherwise(Answer::text("Something else."));
    let place = Place::new(script).await;
    settled(&place);
    let opened = open(&place, |spec| spec.instructions = Some("Speak of birds alone.".to_owned()));
    let opened = opened.await.unwrap();
    let terminal = opened.terminal.unwrap();
    assert!(opened.facts.pid.is_some() && opened.facts.native_session_id.is_some());

    let mut attached = terminal.attach();
    shows(&terminal, "?").await;
    says(&terminal, "where is the heron").await;
    shows(&terminal, "The heron is in the reeds.").await;
    let mut seen = Vec::new();
    while let Ok(bytes) = attached.output.try_recv() {
        seen.extend(bytes);
    }
    assert!(!attached.screen.is_empty() && !seen.is_empty());
    let requests = place.server.requests();
    let instructed =
        requests.iter().any(|request| request.system.contains("Speak of birds alone."));
    assert!(instructed, "{requests:?}");
    drop(attached);

    // Another one, in a window of another size.
    widens(&terminal).await;
    shows(&terminal, "The heron is in the reeds.").await;
    let screen = String::from_utf8(terminal.attach().screen).unwrap();
    assert!(screen.contains("heron") && screen.contains("reeds"), "{screen:?}");
    says(&terminal, "and the owl").await;
    shows(&terminal, "Something else.").await;

    let turn = Turn {
        id: TurnId::new("t"),
        attempt_id: Some(AttemptId::new("a")),
        instruction: "x".to_owned(),
    };
    for refused in [
        opened.session.send(turn).await,
        opened.session.interrupt(&TurnId::new("t")).await,
        opened.session.answer("r", ToolAnswer::Allow).await,
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::RuntimeUnsupportedInTerminalMode);
    }
    timeout(PATIENCE, opened.session.close(Duration::from_secs(10))).await.unwrap();
    assert_eq!(alive(place.marker()), Vec::<String>::new());
    assert_eq!(terminal.write(b"x".to_vec()).await.unwrap_err().code(), Code::RuntimeSessionEnded);
    let mut events = opened.events;
    let ended = events.recv().await;
    assert!(matches!(ended, Some(SessionEvent::Ended { .. })), "{ended:?}");
    assert_eq!(events.recv().await, None);
}

async fn a_conversation_in_a_terminal_goes_on_after_a_new_start() {
    let place = Place::new(Script::new().otherwise(Answer::text("So noted."))).await;
    settled(&place);
    let opened = open(&place, |_| {}).await.unwrap();
    let native = opened.facts.native_session_id.clone().unwrap();
    shows(opened.terminal.as_ref().unwrap(), "?").await;
    opened.session.close(Duration::from_secs(10)).await;
    // Nothing was said yet, so there is nothing to resume; it begins all the same.
    let opened = open(&place, |spec| spec.resume = Some(native.clone())).await.unwrap();
    assert!(!opened.facts.resumed);
    let terminal = opened.terminal.clone().unwrap();
    shows(&terminal, "?").await;
    says(&terminal, "remember the heron").await;
    shows(&terminal, "So noted.").await;
    opened.session.close(Duration::from_secs(10)).await;

    let opened = open(&place, |spec| spec.resume = Some(native.clone())).await.unwrap();
    assert!(opened.facts.resumed);
    let terminal = opened.terminal.clone().unwrap();
    shows(&terminal, "remember the heron").await;
    opened.session.close(Duration::from_secs(10)).await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

/// Processes: a program that shows nothing is waited for as long as somebody waits.
async fn a_start_that_is_given_up_leaves_nothing() {
    let place = Place::new(Script::new()).await;
    let silent =
        place.program("#!/bin/sh\n[ \"$1\" = --version ] && exec echo 2.1.197\nsleep 1000\n");
    let place = place.with_executable(silent);
    let sleeps = || alive(place.marker()).iter().any(|command| command.starts_with("sleep"));
    tokio::select! {
        opened = open(&place, |_| {}) => panic!("{opened:?}"),
        sleeps = until(sleeps) => assert!(sleeps),
    }
    assert!(until(|| alive(place.marker()).is_empty()).await);
}

/// With the credential of its session, and nobody is asked.
async fn an_agent_in_a_terminal_calls_the_tools_of_cortex() {
    let script = Script::new()
        .on(When::tool_result("no tasks yet"), Answer::text("There is nothing to do."))
        .on(When::last_user("look"), Answer::tool("mcp__cortex__list_tasks", json!({})))
        .otherwise(Answer::text("Something else."));
    let place = Place::new(script).await;
    settled(&place);
    let endpoint = Endpoint::start("cortex_session_1").await;
    let access = McpAccess {
        url: endpoint.url.clone(),
        token: Secret::new("cortex_session_1"),
        hook_token: Secret::new("cortex_hook_1"),
    };
    let opened = open(&place, |spec| spec.mcp = Some(access)).await.unwrap();
    let terminal = opened.terminal.unwrap();
    shows(&terminal, "?").await;
    says(&terminal, "look for work").await;
    shows(&terminal, "There is nothing to do.").await;
    let calls = endpoint.seen("tools/call");
    let credentials: Vec<_> = calls.iter().filter_map(|call| call.credential.as_deref()).collect();
    assert_eq!(credentials, ["Bearer cortex_session_1"]);
    timeout(PATIENCE, opened.session.close(Duration::from_secs(10))).await.unwrap();
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

async fn leaving_the_cli_ends_the_session() {
    let place = Place::new(Script::new()).await;
    settled(&place);
    let mut opened = open(&place, |_| {}).await.unwrap();
    let terminal = opened.terminal.unwrap();
    shows(&terminal, "?").await;
    let mut attached = terminal.attach();
    says(&terminal, "/exit").await;
    let ended = timeout(PATIENCE, opened.events.recv()).await.unwrap();
    let Some(SessionEvent::Ended { message }) = ended else { panic!("{ended:?}") };
    assert!(message.contains("exit code 0"), "{message}");
    // Who watches sees the end, too.
    timeout(PATIENCE, async { while attached.output.recv().await.is_some() {} }).await.unwrap();
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

/// Cortex neither answers the CLI's own first questions nor writes into its configuration.
async fn what_the_cli_asks_first_is_left_to_the_person() {
    let place = Place::new(Script::new()).await;
    let config = json!({"hasCompletedOnboarding": true, "theme": "dark"});
    fs_err::write(config_file(&place), config.to_string()).unwrap();
    let opened = open(&place, |_| {}).await.unwrap();
    let terminal = opened.terminal.unwrap();
    shows(&terminal, "trust").await;
    let text = fs_err::read_to_string(config_file(&place)).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    let projects = config.get("projects").and_then(Value::as_object).into_iter().flatten();
    let trusted = projects.filter(|(_, project)| project["hasTrustDialogAccepted"] == true);
    assert_eq!(trusted.count(), 0, "{text}");
    opened.session.close(Duration::from_secs(5)).await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

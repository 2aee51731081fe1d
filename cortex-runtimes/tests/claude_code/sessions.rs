//! How sessions start, end, and go on.

use std::time::Duration;

use cortex_lib::error::Code;
use cortex_lib::port::{Health, ToolAnswer, TurnOutcome};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases, cli};
use serde_json::json;

use crate::place::{Place, alive, kill, succeeded, until_gone};
use crate::pretend::{answers, starts, state};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_session_is_ready_with_its_version_and_the_check_is_healthy,
        a_start_that_cannot_succeed_says_why,
        a_start_that_is_dropped_leaves_nothing,
        a_session_that_is_dropped_ends_its_process,
        a_close_during_a_turn_interrupts_it_and_ends_the_process,
        a_close_does_not_wait_for_somebody_to_take_the_events,
        a_program_that_takes_no_notice_is_gone_after_the_grace,
        a_turn_that_waits_when_its_session_closes_does_not_begin,
        a_killed_cli_is_an_ended_session_and_can_be_resumed,
        a_closed_session_can_be_resumed_with_its_model,
        a_session_that_nobody_knows_cannot_be_resumed,
    ]
    .into()
}

async fn a_session_is_ready_with_its_version_and_the_check_is_healthy() {
    let place = Place::new(Script::new().otherwise(Answer::text("x"))).await;
    let report = place.check().await;
    let version = cli::claude_code_version();
    assert_eq!((report.health, report.version), (Health::Healthy, Some(version.clone())));
    assert_eq!(report.logged_in, Some(true));
    let live = place.open().await;
    assert_eq!(live.facts.version, Some(version));
    assert!(live.facts.pid.is_some() && live.facts.native_session_id.is_some());
    assert!(!live.facts.resumed);
    live.close().await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

async fn a_start_that_cannot_succeed_says_why() {
    let place = Place::new(Script::new()).await;
    let missing = place.with_executable("no-such-program".into());
    let error = missing.try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeNotInstalled);
    let report = missing.check().await;
    assert_eq!(report.health, Health::Unhealthy);
    assert!(report.remediation.is_some());

    let broken = place.program("#!/bin/sh\necho boom >&2\nexit 3\n");
    let error = place.with_executable(broken).try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed);
    assert!(error.message().contains("exit code 3") && error.message().contains("boom"), "{error}");

    let other = place.program("#!/bin/sh\nexec cat\n");
    let error = place.with_executable(other).try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeProtocol, "{error}");

    let lenient = place.program(&takes_no_notice(r#"{"permissions":{"allow":["Bash"]}}"#));
    let error = place.with_executable(lenient).try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed, "{error}");
    assert!(
        error.message().contains("without asking") && error.message().contains("Bash"),
        "{error}"
    );

    let nobody = place.var("ANTHROPIC_API_KEY", "");
    let error = nobody.try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeNotLoggedIn, "{error}");
    let report = nobody.check().await;
    assert_eq!((report.health, report.logged_in), (Health::Unhealthy, Some(false)));
    assert_eq!(alive(nobody.marker()), Vec::<String>::new());
}

/// A program that starts under these settings and takes no notice of anything else.
fn takes_no_notice(settings: &str) -> String {
    starts(settings, &["while :; do sleep 86410; done".to_owned()])
}

async fn a_start_that_is_dropped_leaves_nothing() {
    let place = Place::new(Script::new()).await;
    let marker = place.marker();
    tokio::select! {
        biased;
        () = place.until_alive() => {}
        _ = place.open() => panic!("it starts faster than its process is seen"),
    }
    until_gone(marker).await;
}

async fn a_session_that_is_dropped_ends_its_process() {
    let place = Place::new(Script::new()).await;
    let live = place.open().await;
    drop(live);
    until_gone(place.marker()).await;
}

async fn a_close_during_a_turn_interrupts_it_and_ends_the_process() {
    let place = Place::new(
        Script::new()
            .otherwise(Answer::tool("Bash", json!({"command": "echo > ran; sleep 86407"}))),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.send("run").await;
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    place.file("ran").await;
    live.session.close(Duration::from_secs(10)).await;
    assert_eq!(place.sleeping(), Vec::<String>::new());
    assert_eq!(alive(place.marker()), Vec::<String>::new());
    assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted);
    assert_eq!(live.last_words().await, "the session was closed");
    let more = live.next_turn("more", true);
    let error = live.session.send(more).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeSessionEnded);
    // At once, and again.
    live.session.close(Duration::ZERO).await;
}

async fn a_close_does_not_wait_for_somebody_to_take_the_events() {
    let many = "a line\n".repeat(2000);
    let place =
        Place::new(Script::new().otherwise(Answer::text(many).hang_after(900, "never"))).await;
    let mut live = place.open().await;
    let turn = live.next_turn("talk", true);
    live.session.send(turn).await.unwrap();
    place.server.wait_for(|all| all.first().cloned()).await.unwrap();
    live.session.close(Duration::from_secs(10)).await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

async fn a_program_that_takes_no_notice_is_gone_after_the_grace() {
    let place = Place::new(Script::new()).await;
    let place = place.with_executable(place.program(&takes_no_notice("{}")));
    let mut live = place.open().await;
    place.sleepers(1).await;
    let turn = live.next_turn("hello", true);
    let sending = live.session.send(turn.clone());
    let close = live.session.close(Duration::from_millis(500));
    let (sent, ()) = tokio::join!(sending, close);
    assert_eq!(sent.unwrap_err().code(), Code::RuntimeSessionEnded);
    assert_eq!(alive(place.marker()), Vec::<String>::new());
    assert_eq!(live.last_words().await, "the session was closed");
}

/// Whether it waits already for the end of a turn that nobody asked for, or comes behind the close.
async fn a_turn_that_waits_when_its_session_closes_does_not_begin() {
    let place = Place::new(Script::new()).await;
    let program = [
        state("running"),
        "read -r line; touch asked; until [ -e go ]; do sleep 0.01; done".to_owned(),
        answers(4, "{}"),
        state("idle"),
        "while read -r line; do echo \"$line\" >> heard; done".to_owned(),
    ];
    let place = place.with_executable(place.program(&starts("{}", &program)));
    let in_project = |name: &str| place.home.project().join(name);
    for behind in [false, true] {
        let mut live = place.open().await;
        place.file("asked").await;
        let turn = live.next_turn("hello", true);
        let send = live.session.send(turn);
        let close = live.session.close(Duration::from_secs(10));
        let go = async { fs_err::write(in_project("go"), "").unwrap() };
        let sent = if behind {
            let ((), sent, ()) = tokio::join!(close, send, go);
            sent
        } else {
            let (sent, (), ()) = tokio::join!(send, close, go);
            sent
        };
        assert_eq!(sent.unwrap_err().code(), Code::RuntimeSessionEnded);
        assert!(!in_project("heard").exists(), "it was begun");
        for name in ["asked", "go"] {
            fs_err::remove_file(in_project(name)).unwrap();
        }
    }
}

async fn a_killed_cli_is_an_ended_session_and_can_be_resumed() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("remember"), Answer::text("noted"))
            .on(When::last_user("again"), Answer::text("welcome back"))
            .otherwise(Answer::tool(
                "Bash",
                json!({"command": "setsid sleep 86408 & echo > ran; sleep 86409"}),
            )),
    )
    .await;
    let mut live = place.open().await;
    live.turn("remember the word heron").await;
    let native = live.facts.native_session_id.clone().unwrap();
    live.send("run").await;
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    place.sleepers(2).await;
    kill(live.facts.pid.unwrap());
    let words = live.last_words().await;
    assert!(words.contains("signal 9"), "{words}");
    assert_eq!(place.sleeping(), Vec::<String>::new());
    let more = live.next_turn("more", true);
    let error = live.session.send(more).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeSessionEnded);
    live.close().await;

    let mut live = place.resume(&native).await.unwrap();
    assert!(live.facts.resumed);
    let (end, _) = live.turn("again").await;
    assert_eq!(end.outcome, succeeded("welcome back"));
    let request = place.server.requests().pop().unwrap();
    assert!(request.texts.iter().any(|text| text.text.contains("heron")), "{request:?}");
    live.close().await;
}

async fn a_closed_session_can_be_resumed_with_its_model() {
    let place = Place::new(Script::new().otherwise(Answer::text("ok"))).await;
    let mut live = place.open().await;
    live.turn("remember the word heron").await;
    let native = live.facts.native_session_id.clone().unwrap();
    live.close().await;
    let mut live = place.resume(&native).await.unwrap();
    live.turn("again").await;
    live.close().await;
    let requests = place.server.requests();
    let [before, after] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(before.model, after.model);
    let betas = |request: &cortex_scripted::Request| request.headers.get("anthropic-beta").cloned();
    assert_eq!(betas(before), betas(after));
    assert!(after.texts.iter().any(|text| text.text.contains("heron")));
}

async fn a_session_that_nobody_knows_cannot_be_resumed() {
    let place = Place::new(Script::new()).await;
    let error = place.resume("11111111-2222-4333-8444-555555555555").await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed);
    assert_eq!(error.detail("resume_unknown"), Some(&json!(true)), "{error}");
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

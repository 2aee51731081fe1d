//! The driver against the pinned Claude Code and a scripted model: what the core may rely on.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::panic, reason = "a test may stop, with what it saw")]

mod claude_code_support;

use std::process::ExitCode;
use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::usage::Usage;
use cortex_lib::error::Code;
use cortex_lib::ids::TurnId;
use cortex_lib::port::{Health, OutputKind, ToolAnswer, TurnOutcome};
use cortex_scripted::{Answer, Fault, Script, When, cases, cli, offline, suite};
use serde_json::json;

use claude_code_support::{Place, alive, kill, succeeded, until_gone};

fn main() -> ExitCode {
    cortex_lib::process::init();
    if cli::require(cli::claude_code()).is_none() {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![
        a_session_is_ready_with_its_version_and_the_check_is_healthy,
        output_streams_line_by_line_and_usage_is_counted_once,
        a_tool_is_asked_for_and_the_answer_counts,
        texts_that_look_like_commands_or_files_reach_the_model_as_they_are,
        an_interrupt_ends_the_turn_whatever_it_does,
        an_interrupt_right_behind_the_send_is_not_lost,
        a_failed_turn_has_the_cause_of_its_failure,
        a_refused_login_ends_the_turn_in_seconds,
        nobody_at_the_other_end_is_transient,
        nothing_outlives_an_attempt,
        a_background_task_starts_no_turn_of_its_own,
        what_a_direct_turn_left_is_gone_after_the_close,
        a_close_during_a_turn_interrupts_it_and_ends_the_process,
        a_close_does_not_wait_for_somebody_to_take_the_events,
        a_killed_cli_is_an_ended_session_and_can_be_resumed,
        a_closed_session_can_be_resumed_with_its_model,
        a_session_that_nobody_knows_cannot_be_resumed,
        a_session_that_is_dropped_ends_its_process,
        a_start_that_is_dropped_leaves_nothing,
        a_start_that_cannot_succeed_says_why,
        a_reading_session_has_only_the_tools_to_read,
        settings_of_the_project_do_not_run,
    ])
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

async fn output_streams_line_by_line_and_usage_is_counted_once() {
    let usage = cortex_scripted::Usage {
        input_tokens: 10,
        output_tokens: 5,
        cache_creation_input_tokens: 3,
        cache_read_input_tokens: 2,
    };
    let place = Place::new(
        Script::new()
            .on(When::last_user("one"), Answer::thinking("hm\nhm").and_text("a\nb").usage(usage))
            .on(
                When::last_user("two"),
                Answer::text("first\nheld").hang_after(3, "rest").usage(usage),
            ),
    )
    .await;
    let mut live = place.open().await;
    let (one, output) = live.turn("one").await;
    assert_eq!(one.outcome, succeeded("a\nb"));
    let lines: Vec<_> = output.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
    let [thinking, text] = [OutputKind::Thinking, OutputKind::Text];
    assert_eq!(lines, [(thinking, "hm"), (thinking, "hm"), (text, "a"), (text, "b")]);
    let tokens = (one.usage.input_tokens, one.usage.output_tokens, one.usage.cached_tokens);
    assert_eq!(tokens, (Some(13), Some(5), Some(2)));

    let turn = live.send("two").await;
    live.output("first").await;
    place.server.open("rest");
    let two = live.ended(&turn).await;
    assert_eq!(two.usage.input_tokens, Some(13));
    let cost = |usage: Usage| usage.cost_usd.unwrap();
    assert!((cost(one.usage) - cost(two.usage)).abs() < 1e-9, "{one:?} {two:?}");
    live.close().await;
}

async fn a_tool_is_asked_for_and_the_answer_counts() {
    let write = Answer::tool("Write", json!({"file_path": "{{file}}", "content": "hello"}));
    let place = Place::new(
        Script::new()
            .on(When::tool_result("Not today."), Answer::text("sad"))
            .on(When::tool_result(""), Answer::text("glad"))
            .on(When::last_user("write").take("file", "into <", ">"), write),
    )
    .await;
    let file = place.home.project().join("new.txt");
    let mut live = place.open().await;
    for (answer, said, written) in [
        (ToolAnswer::Deny { reason: "Not today.".to_owned() }, "sad", false),
        (ToolAnswer::Allow, "glad", true),
    ] {
        let turn = live.send(&format!("write into <{}>", file.display())).await;
        let request = live.request().await;
        assert_eq!((request.tool.as_str(), request.turn_id.as_ref()), ("Write", Some(&turn)));
        assert_eq!(request.summary, format!("Write: {}", file.display()));
        assert_eq!(request.input.get("content"), Some(&json!("hello")));
        assert!(!file.exists());
        live.session.answer(&request.request_id, answer.clone()).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded(said));
        assert_eq!(file.exists(), written);
        live.session.answer(&request.request_id, answer).await.unwrap();
    }
    live.close().await;
}

async fn texts_that_look_like_commands_or_files_reach_the_model_as_they_are() {
    let place = Place::new(Script::new().otherwise(Answer::text("read"))).await;
    let secret = place.home.home().join("secret.txt");
    fs_err::write(&secret, "the-secret-word").unwrap();
    let mut live = place.open().await;
    let long = "x".repeat(200 * 1024);
    let mention = format!("look at @{} and @~/secret.txt", secret.display());
    for text in ["/clear everything", " /nosuch", "!ls", "# remember", mention.as_str(), &long] {
        let (end, _) = live.turn(text).await;
        assert_eq!(end.outcome, succeeded("read"), "{text:.40}");
        let request = place.server.requests().pop().unwrap();
        let plain = request.last_user.replace("@ ", "@");
        assert!(plain.contains(text), "{text:.40}: {plain:.200}");
        assert!(!request.body.to_string().contains("the-secret-word"), "{text:.40}");
    }
    live.close().await;
}

async fn an_interrupt_ends_the_turn_whatever_it_does() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("stream"), Answer::text("begun\nmore").hang_after(4, "never"))
            .on(When::last_user("silent"), Answer::text("x").silent_until("never"))
            .on(
                When::last_user("ask"),
                Answer::tool("Write", json!({"file_path": "f", "content": "c"})),
            )
            .on(
                When::last_user("run"),
                Answer::tool("Bash", json!({"command": "echo > ran; sleep 86401"})),
            )
            .otherwise(Answer::text("fine")),
    )
    .await;
    let mut live = place.open().await;
    let (fine, _) = live.turn("hello").await;
    // A turn that is over, or that nobody knows, is no error.
    live.session.interrupt(&fine.turn_id).await.unwrap();
    live.session.interrupt(&TurnId::new("nobody")).await.unwrap();
    for text in ["stream", "silent", "ask", "run"] {
        let turn = live.send(text).await;
        match text {
            "stream" => live.output("begun").await,
            "ask" => drop(live.request().await),
            "run" => {
                let request = live.request().await;
                live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
                place.file("ran").await;
            }
            _ => drop(
                place
                    .server
                    .wait_for(|all| {
                        all.iter().find(|one| one.last_user.contains("silent")).cloned()
                    })
                    .await
                    .unwrap(),
            ),
        }
        live.session.interrupt(&turn).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted, "{text}");
    }
    assert_eq!(live.withdrawn, 1);
    let (end, _) = live.turn("hello again").await;
    assert_eq!(end.outcome, succeeded("fine"));
    live.close().await;
}

async fn an_interrupt_right_behind_the_send_is_not_lost() {
    let place = Place::new(Script::new().otherwise(Answer::text("x").silent_until("never"))).await;
    let mut live = place.open().await;
    for number in 0..5 {
        let turn = live.next_turn(&format!("turn {number}"), true);
        let (sent, asked) =
            tokio::join!(live.session.send(turn.clone()), live.session.interrupt(&turn.id));
        sent.unwrap();
        asked.unwrap();
        assert_eq!(live.ended(&turn.id).await.outcome, TurnOutcome::Interrupted);
    }
    live.close().await;
}

async fn a_failed_turn_has_the_cause_of_its_failure() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("status 401"), Answer::status(401))
            .on(When::last_user("status 403"), Answer::status(403))
            .on(When::last_user("status 404"), Answer::status(404))
            .on(When::last_user("status 429"), Answer::status(429))
            .on(When::last_user("status 500"), Answer::status(500))
            .on(When::last_user("status 529"), Answer::status(529))
            .on(When::last_user("a hint"), Answer::too_many_requests(9999))
            .on(When::last_user("cut early"), Answer::text("some words").cut_after(3))
            .on(When::last_user("cut late"), Answer::text("some words").cut_after(5))
            .on(When::last_user("error"), Answer::text("some words").error_after(3))
            .on(When::last_user("garbage"), Answer::text("some words").garbage_after(1))
            .on(When::last_user("no message"), Answer::text("x").with(Fault::NotAMessage))
            .on(When::last_user("no visible output"), Answer::text("some words").cut_after(3))
            .otherwise(Answer::text("fine")),
    )
    .await
    .var("CLAUDE_CODE_MAX_RETRIES", "0");
    let mut live = place.open().await;
    for (text, cause) in [
        ("status 401", Cause::Refused),
        ("status 403", Cause::Refused),
        ("status 404", Cause::Refused),
        ("status 429", Cause::RateLimited),
        ("a hint", Cause::RateLimited),
        ("status 500", Cause::Transient),
        ("status 529", Cause::Transient),
        ("cut early", Cause::Transient),
        ("cut late", Cause::Transient),
        ("error", Cause::Transient),
        ("garbage", Cause::Transient),
        ("no message", Cause::Transient),
    ] {
        let (end, _) = live.turn(text).await;
        let TurnOutcome::Failed(failure) = &end.outcome else { panic!("{text}: {end:?}") };
        assert_eq!(failure.cause, cause, "{text}: {failure:?}");
        assert!(!failure.message.is_empty());
    }
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    live.close().await;
}

async fn a_refused_login_ends_the_turn_in_seconds() {
    let place = Place::new(Script::new().otherwise(Answer::status(401))).await;
    let mut live = place.open().await;
    let (end, _) = live.turn("hello").await;
    let TurnOutcome::Failed(failure) = end.outcome else { panic!("{end:?}") };
    assert_eq!(failure.cause, Cause::Refused);
    // Ten tries would take more than a minute.
    assert_eq!(place.server.requests().len(), 2);
    live.close().await;
}

async fn nobody_at_the_other_end_is_transient() {
    let place = Place::new(Script::new()).await.var("CLAUDE_CODE_MAX_RETRIES", "1");
    let place = place.var("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    let mut live = place.open().await;
    let (end, _) = live.turn("hello").await;
    let TurnOutcome::Failed(failure) = end.outcome else { panic!("{end:?}") };
    assert_eq!(failure.cause, Cause::Transient, "{failure:?}");
    live.close().await;
}

/// A command that leaves three processes behind: one in its group, one in a session of its own, and one whose
/// parents have ended as well.
const LEAVES: &str = "(sleep 86402 &) ; setsid sleep 86403 & (setsid sh -c 'sleep 86404 & sleep 86405' >/dev/null 2>&1 &) ; echo > ran";

async fn nothing_outlives_an_attempt() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result(""), Answer::text("done"))
            .otherwise(Answer::tool("Bash", json!({"command": LEAVES}))),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.send("run").await;
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    assert!(place.home.project().join("ran").exists());
    assert_eq!(place.sleeping(), Vec::<String>::new());
    // The session itself goes on.
    let turn = live.send("run").await;
    let request = live.request().await;
    let deny = ToolAnswer::Deny { reason: "once is enough".to_owned() };
    live.session.answer(&request.request_id, deny).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    live.close().await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

async fn a_background_task_starts_no_turn_of_its_own() {
    let sleep = json!({"command": "sleep 86406", "run_in_background": true});
    let place = Place::new(
        Script::new()
            .on(When::tool_result(""), Answer::text("done"))
            .on(When::last_user("run"), Answer::tool("Bash", sleep))
            .otherwise(Answer::text("fine")),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.send("run").await;
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    assert_eq!(place.sleeping(), Vec::<String>::new());
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    // Two for the first turn, one for the second, none about the task that ended.
    assert_eq!(place.server.requests().len(), 3);
    live.close().await;
}

async fn what_a_direct_turn_left_is_gone_after_the_close() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result(""), Answer::text("done"))
            .otherwise(Answer::tool("Bash", json!({"command": LEAVES}))),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.next_turn("run", false);
    live.session.send(turn.clone()).await.unwrap();
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    assert_eq!(live.ended(&turn.id).await.outcome, succeeded("done"));
    place.sleepers(4).await;
    live.close().await;
    assert_eq!(place.sleeping(), Vec::<String>::new());
    assert_eq!(alive(place.marker()), Vec::<String>::new());
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
    let many: String = (0..2000).map(|number| format!("line {number}\n")).collect();
    let place =
        Place::new(Script::new().otherwise(Answer::text(many).hang_after(900, "never"))).await;
    let mut live = place.open().await;
    let turn = live.next_turn("talk", true);
    live.session.send(turn).await.unwrap();
    place.server.wait_for(|all| all.first().cloned()).await.unwrap();
    live.session.close(Duration::from_secs(10)).await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
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
    assert!(betas(after).unwrap().contains("context-1m"), "{:?}", betas(after));
    assert!(after.texts.iter().any(|text| text.text.contains("heron")));
}

async fn a_session_that_nobody_knows_cannot_be_resumed() {
    let place = Place::new(Script::new()).await;
    let error = place.resume("11111111-2222-4333-8444-555555555555").await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed);
    assert_eq!(error.detail("resume_unknown"), Some(&json!(true)), "{error}");
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

async fn a_session_that_is_dropped_ends_its_process() {
    let place = Place::new(Script::new()).await;
    let live = place.open().await;
    drop(live);
    until_gone(place.marker()).await;
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

    let nobody = place.var("ANTHROPIC_API_KEY", "");
    let error = nobody.try_open().await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeNotLoggedIn, "{error}");
    let report = nobody.check().await;
    assert_eq!((report.health, report.logged_in), (Health::Unhealthy, Some(false)));
    assert_eq!(alive(nobody.marker()), Vec::<String>::new());
}

async fn a_reading_session_has_only_the_tools_to_read() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result(""), Answer::text("no"))
            .otherwise(Answer::tool("Write", json!({"file_path": "new.txt", "content": "c"}))),
    )
    .await;
    let mut live = place
        .open_with(|spec| {
            spec.read_only = true;
            spec.instructions = Some("Mind the herons.".to_owned());
        })
        .await
        .unwrap();
    let (end, _) = live.turn("write").await;
    assert_eq!(end.outcome, succeeded("no"));
    let requests = place.server.requests();
    for request in &requests {
        assert_eq!(request.tools, ["Glob", "Grep", "Read"]);
        assert!(request.system.contains("Mind the herons."), "{}", request.system);
    }
    let denied = requests.last().and_then(|request| request.tool_results.first()).unwrap();
    assert!(denied.is_error && denied.text.contains("No such tool"), "{denied:?}");
    assert!(!place.home.project().join("new.txt").exists());
    live.close().await;
}

async fn settings_of_the_project_do_not_run() {
    let place = Place::new(Script::new().otherwise(Answer::text("ok"))).await;
    let (settings, ran) = (place.home.project().join(".claude"), place.home.project().join("ran"));
    fs_err::create_dir(&settings).unwrap();
    let touch = format!("touch {}", ran.display());
    let hook = json!([{"hooks": [{"type": "command", "command": touch}]}]);
    let text = json!({
        "hooks": {"SessionStart": hook, "UserPromptSubmit": hook, "Stop": hook},
        "permissions": {"allow": ["Bash", "Write"], "defaultMode": "acceptEdits"},
    });
    fs_err::write(settings.join("settings.json"), text.to_string()).unwrap();
    let server = json!({"mcpServers": {"x": {"command": "touch", "args": [ran]}}});
    fs_err::write(place.home.project().join(".mcp.json"), server.to_string()).unwrap();
    let mut live = place.open().await;
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("ok"));
    live.close().await;
    assert!(!ran.exists());
}

//! What turns are to the core: output, results, failures, interrupts.

use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::usage::Usage;
use cortex_lib::ids::TurnId;
use cortex_lib::port::{OutputKind, ToolAnswer, TurnOutcome};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Fault, Script, When, cases};
use serde_json::json;

use crate::place::{Place, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        output_streams_line_by_line_and_usage_is_counted_once,
        texts_that_look_like_commands_or_files_reach_the_model_as_they_are,
        an_interrupt_ends_the_turn_whatever_it_does,
        an_interrupt_right_behind_the_send_is_not_lost,
        an_interrupt_that_overtakes_the_send_is_not_lost,
        a_failed_turn_has_the_cause_of_its_failure,
        a_refused_login_ends_the_turn_in_seconds,
        nobody_at_the_other_end_is_transient,
        a_sub_agent_is_part_of_its_turn,
        a_background_task_starts_no_turn_of_its_own,
        a_turn_that_nobody_asked_for_is_not_taken_for_ours,
    ]
    .into()
}

async fn output_streams_line_by_line_and_usage_is_counted_once() {
    let usage = cortex_scripted::Usage {
        input_tokens: 10,
        output_tokens: 5,
        cache_creation_input_tokens: 3,
        cache_read_input_tokens: 2,
        reasoning_tokens: 0,
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
        assert!(plain.contains(text.trim()), "{text:.40}: {plain:.200}");
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

async fn an_interrupt_that_overtakes_the_send_is_not_lost() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("hello"), Answer::text("fine"))
            .otherwise(Answer::text("x").silent_until("never")),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.next_turn("be silent", true);
    live.session.interrupt(&turn.id).await.unwrap();
    live.session.send(turn.clone()).await.unwrap();
    assert_eq!(live.ended(&turn.id).await.outcome, TurnOutcome::Interrupted);
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
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
            .on(When::last_user("cut late"), Answer::text("some words").cut_after(4))
            .on(When::last_user("error"), Answer::text("some words").error_after(3))
            .on(When::last_user("garbage"), Answer::text("some words").garbage_after(1))
            .on(When::last_user("no message"), Answer::text("x").with(Fault::NotAMessage))
            .on(When::last_user("hello"), Answer::text("fine"))
            // The CLI asks the model to go on after a broken answer, in words of its own.
            .otherwise(Answer::text("some words").cut_after(3)),
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

async fn a_sub_agent_is_part_of_its_turn() {
    let prompt = json!({"description": "look", "prompt": "inner", "subagent_type": "general-purpose", "run_in_background": true});
    let place = Place::new(
        Script::new()
            .on(When::tool_result("inner words"), Answer::text("done"))
            .on(When::last_user("inner"), Answer::text("inner words"))
            .otherwise(Answer::tool("Agent", prompt)),
    )
    .await;
    let mut live = place.open().await;
    let (end, output) = live.turn("delegate").await;
    assert_eq!(end.outcome, succeeded("done"));
    let lines: Vec<_> = output.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(lines, ["Agent: look", "done"]);
    live.close().await;
}

/// The driver asks for no work in the background. A CLI that does it all the same is held to the turn.
async fn a_background_task_starts_no_turn_of_its_own() {
    let sleep = json!({"command": "touch begun; sleep 86406", "run_in_background": true});
    let place = Place::new(
        Script::new()
            .on(When::tool_result(""), Answer::text("done"))
            .on(When::last_user("run"), Answer::tool("Bash", sleep))
            .otherwise(Answer::text("fine")),
    )
    .await
    .var("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "0");
    let mut live = place.open().await;
    let turn = live.send("run").await;
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    assert!(place.home.project().join("begun").exists());
    assert_eq!(place.sleeping(), Vec::<String>::new());
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    // Two for the first turn, one for the second, none about the task that ended.
    assert_eq!(place.server.requests().len(), 3);
    live.close().await;
}

async fn a_turn_that_nobody_asked_for_is_not_taken_for_ours() {
    let wait = json!({"command": "until [ -e go ]; do sleep 0.01; done; rm go", "run_in_background": true});
    let place = Place::new(
        Script::new()
            .on(When::tool_result(""), Answer::text("started"))
            .on(When::last_user("start"), Answer::tool("Bash", wait))
            .on(When::last_user("mine"), Answer::text("yours"))
            .otherwise(Answer::text("about the task")),
    )
    .await
    .var("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "0");
    let mut live = place.open().await;
    for _ in 0..3 {
        // A direct turn leaves its task running.
        let turn = live.next_turn("start", false);
        live.session.send(turn.clone()).await.unwrap();
        let request = live.request().await;
        live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
        assert_eq!(live.ended(&turn.id).await.outcome, succeeded("started"));
        // The end of the task and our next turn race.
        fs_err::write(place.home.project().join("go"), "").unwrap();
        let turn = live.next_turn("mine", false);
        live.session.send(turn.clone()).await.unwrap();
        assert_eq!(live.ended(&turn.id).await.outcome, succeeded("yours"));
    }
    live.close().await;
}

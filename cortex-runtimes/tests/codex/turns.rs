//! What turns are to the core: output, results, failures, interrupts, more while they run.

use cortex_lib::domain::attempt::Cause;
use cortex_lib::error::Code;
use cortex_lib::ids::TurnId;
use cortex_lib::port::{OutputKind, Steered, ToolAnswer, TurnOutcome};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Fault, Quota, Script, When, cases};
use serde_json::json;

use crate::place::{Place, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        output_streams_line_by_line_and_usage_is_counted_once,
        a_long_prompt_and_a_long_answer_arrive_whole,
        what_is_not_utf8_stays_readable,
        an_interrupt_ends_the_turn_whatever_it_does,
        an_interrupt_right_behind_the_send_is_not_lost,
        an_interrupt_without_an_answer_does_not_stop_the_next,
        more_is_heard_while_the_turn_runs_and_not_after,
        more_for_a_turn_that_is_refused_is_not_for_the_next,
        more_that_is_never_answered_is_an_error,
        a_failed_turn_has_the_cause_of_its_failure,
        a_used_up_quota_tells_when_it_comes_back,
        nobody_at_the_other_end_is_transient,
    ]
    .into()
}

/// Limits: cumulative totals are counted once.
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
                Answer::text("first line of two\nheld").hang_after(3, "rest").usage(usage),
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
    place.server.open("rest");
    let two = live.ended(&turn).await;
    assert_eq!(two.outcome, succeeded("first line of two\nheld"));
    assert_eq!((two.usage.input_tokens, two.usage.output_tokens), (Some(13), Some(5)));
    live.close().await;
}

/// Streams: a 200 KB prompt arrives whole, one 20 MB line is parsed.
async fn a_long_prompt_and_a_long_answer_arrive_whole() {
    let long = "0123456789abcdef".repeat(20 * 1024 * 1024 / 16);
    let place = Place::new(
        Script::new()
            .on(When::last_user("answer"), Answer::text(long.clone()))
            .otherwise(Answer::text("read")),
    )
    .await;
    let mut live = place.open().await;
    let prompt = format!("{} end", "words ".repeat(200 * 1024 / 6));
    let (end, _) = live.turn(&prompt).await;
    assert_eq!(end.outcome, succeeded("read"));
    let asked = place.server.requests().pop().unwrap();
    assert_eq!(asked.last_user.len(), prompt.len());
    let (end, _) = live.turn("answer").await;
    let TurnOutcome::Succeeded { text } = end.outcome else { panic!("it failed") };
    assert!(text == long, "{} bytes came", text.len());
    live.close().await;
}

/// Streams: invalid UTF-8 stays readable, and nothing around it is lost.
async fn what_is_not_utf8_stays_readable() {
    let print = json!({"cmd": "printf 'be\\xfffore'; echo; echo after"});
    let place = Place::new(
        Script::new()
            .on(When::tool_result("after"), Answer::text("seen"))
            .otherwise(Answer::tool("exec_command", print)),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.send("print").await;
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("seen"));
    let told = place.told();
    assert!(told.contains("be\u{fffd}fore\nafter"), "{told}");
    live.close().await;
}

async fn an_interrupt_ends_the_turn_whatever_it_does() {
    let run = json!({"cmd": "echo > ran; sleep 86401"});
    let place = Place::new(
        Script::new()
            .on(
                When::last_user("stream"),
                Answer::text("begun by now\nrest").hang_after(3, "never"),
            )
            .on(When::last_user("silent"), Answer::text("x").silent_until("never"))
            .on(When::last_user("ask"), Answer::tool("exec_command", json!({"cmd": "ls"})))
            .on(When::last_user("run"), Answer::tool("exec_command", run))
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
            "ask" => drop(live.request().await),
            "run" => {
                let request = live.request().await;
                live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
                place.file("ran").await;
            }
            _ => drop(
                place
                    .server
                    .wait_for(|all| all.iter().find(|one| one.last_user.contains(text)).cloned())
                    .await
                    .unwrap(),
            ),
        }
        live.session.interrupt(&turn).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted, "{text}");
        assert_eq!(place.sleeping(), Vec::<String>::new());
    }
    assert_eq!(live.withdrawn, 1);
    let (end, _) = live.turn("hello again").await;
    assert_eq!(end.outcome, succeeded("fine"));
    live.close().await;
}

async fn an_interrupt_right_behind_the_send_is_not_lost() {
    let place = Place::new(Script::new().otherwise(Answer::text("x").silent_until("never"))).await;
    let mut live = place.open().await;
    for number in 0..10 {
        let turn = live.next_turn(&format!("turn {number}"), true);
        let (sent, asked) =
            tokio::join!(live.session.send(turn.clone()), live.session.interrupt(&turn.id));
        sent.unwrap();
        asked.unwrap();
        assert_eq!(live.ended(&turn.id).await.outcome, TurnOutcome::Interrupted);
    }
    live.close().await;
}

async fn an_interrupt_without_an_answer_does_not_stop_the_next() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("one"), Answer::text("fine").silent_until("one"))
            .otherwise(Answer::text("x").silent_until("never")),
    )
    .await
    .behind("*turn/interrupt*) if once lost; then continue; fi;;");
    let mut live = place.open().await;
    let turn = live.send("one").await;
    place.server.wait_for(|all| all.first().cloned()).await.unwrap();
    live.session.interrupt(&turn).await.unwrap();
    place.server.open("one");
    assert_eq!(live.ended(&turn).await.outcome, succeeded("fine"));
    let turn = live.send("two").await;
    live.session.interrupt(&turn).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted);
    live.close().await;
}

async fn more_for_a_turn_that_is_refused_is_not_for_the_next() {
    let place = Place::new(Script::new().otherwise(Answer::text("fine"))).await.behind(
        "*turn/start*) if once refused; then line=\"${line%%turn/start*}nobody${line#*turn/start}\"; fi;;",
    );
    let mut live = place.open().await;
    let turn = live.next_turn("hello", true);
    let (sent, steered) = tokio::join!(
        live.session.send(turn.clone()),
        live.session.steer(&turn.id, "and herons".to_owned())
    );
    assert_eq!(sent.unwrap_err().code(), Code::RuntimeProtocol);
    assert_eq!(steered.unwrap(), Steered::TurnOver);
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    live.close().await;
}

async fn more_that_is_never_answered_is_an_error() {
    let place = Place::new(Script::new().otherwise(Answer::text("fine").silent_until("rest")))
        .await
        .behind("*turn/steer*) continue;;");
    let mut live = place.open().await;
    let turn = live.send("hello").await;
    let error = live.session.steer(&turn, "and herons".to_owned()).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeProtocol, "{error}");
    place.server.open("rest");
    assert_eq!(live.ended(&turn).await.outcome, succeeded("fine"));
    live.close().await;
}

async fn more_is_heard_while_the_turn_runs_and_not_after() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("and herons"), Answer::text("about herons"))
            .on(When::last_user("talk"), Answer::text("some words").hang_after(3, "rest"))
            .otherwise(Answer::text("fine")),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.next_turn("talk", true);
    // Right behind the send: before the CLI works on the turn.
    let (sent, steered) = tokio::join!(
        live.session.send(turn.clone()),
        live.session.steer(&turn.id, "and herons".to_owned())
    );
    sent.unwrap();
    assert_eq!(steered.unwrap(), Steered::Taken);
    place.server.open("rest");
    assert_eq!(live.ended(&turn.id).await.outcome, succeeded("about herons"));
    // What the agent had said is not lost.
    let last = place.server.requests().pop().unwrap();
    assert!(last.texts.iter().any(|text| text.text == "some words"), "{last:?}");
    let over = live.session.steer(&turn.id, "more".to_owned()).await.unwrap();
    assert_eq!(over, Steered::TurnOver);
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    live.close().await;
}

async fn a_failed_turn_has_the_cause_of_its_failure() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("status 400"), Answer::status(400))
            .on(When::last_user("status 401"), Answer::status(401))
            .on(When::last_user("status 403"), Answer::status(403))
            .on(When::last_user("status 404"), Answer::status(404))
            .on(When::last_user("status 429"), Answer::status(429))
            .on(When::last_user("status 500"), Answer::status(500))
            .on(When::last_user("status 503"), Answer::status(503))
            .on(When::last_user("cut early"), Answer::text("some words").cut_after(1))
            .on(When::last_user("cut late"), Answer::text("some words").cut_after(4))
            .on(When::last_user("error"), Answer::text("some words").error_after(3))
            .on(When::last_user("garbage"), Answer::text("some words").garbage_after(1))
            .on(When::last_user("no message"), Answer::text("x").with(Fault::NotAMessage))
            .on(
                When::last_user("nothing"),
                Answer::default().usage(cortex_scripted::Usage {
                    input_tokens: 1,
                    output_tokens: 0,
                    cache_creation_input_tokens: 0,
                    cache_read_input_tokens: 0,
                    reasoning_tokens: 0,
                }),
            )
            .otherwise(Answer::text("fine")),
    )
    .await;
    let mut live = place.open().await;
    for (text, cause) in [
        ("status 400", Cause::Refused),
        ("status 401", Cause::Refused),
        ("status 403", Cause::Refused),
        ("status 404", Cause::Refused),
        ("status 429", Cause::RateLimited),
        ("status 500", Cause::Transient),
        ("status 503", Cause::Transient),
        ("cut early", Cause::Transient),
        ("cut late", Cause::Transient),
        ("error", Cause::Transient),
        ("garbage", Cause::Transient),
        ("no message", Cause::Transient),
        ("nothing", Cause::Transient),
    ] {
        let (end, _) = live.turn(text).await;
        let TurnOutcome::Failed(failure) = &end.outcome else { panic!("{text}: {end:?}") };
        assert_eq!(failure.cause, cause, "{text}: {failure:?}");
        assert!(!failure.message.is_empty());
    }
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    live.close().await;
    // A key that is not there shows only in the turn.
    let place = place.var("CODEX_SCRIPTED_KEY", "");
    let mut live = place.open().await;
    let (end, _) = live.turn("hello").await;
    let TurnOutcome::Failed(failure) = &end.outcome else { panic!("{end:?}") };
    assert_eq!(failure.cause, Cause::Refused, "{failure:?}");
    live.close().await;
}

/// Limits: the runtime tells when its quota comes back.
async fn a_used_up_quota_tells_when_it_comes_back() {
    let quota = Quota { used_percent: 40, window_minutes: 300, resets_at: 1_900_000_001 };
    let place = Place::new(
        Script::new()
            .on(When::last_user("all"), Answer::used_up(1_900_000_000))
            .otherwise(Answer::text("fine").quota(quota)),
    )
    .await;
    let mut live = place.open().await;
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    let (end, _) = live.turn("all").await;
    let TurnOutcome::Failed(failure) = &end.outcome else { panic!("{end:?}") };
    assert_eq!(failure.cause, Cause::RateLimited, "{failure:?}");
    let at = failure.resets_at.map(|at| at.to_string());
    assert_eq!(at.as_deref(), Some("2030-03-17T17:46:40.000Z"));
    live.close().await;
}

async fn nobody_at_the_other_end_is_transient() {
    let place = Place::new(Script::new()).await;
    let config = place.home.codex_home().join("config.toml");
    let text = fs_err::read_to_string(&config).unwrap();
    fs_err::write(&config, text.replace(&place.server.url(), "http://127.0.0.1:9")).unwrap();
    let mut live = place.open().await;
    let (end, _) = live.turn("hello").await;
    let TurnOutcome::Failed(failure) = end.outcome else { panic!("{end:?}") };
    assert_eq!(failure.cause, Cause::Transient, "{failure:?}");
    live.close().await;
}

//! More to go on for a turn that runs: it is heard in that turn, whatever the turn does, or it is said that it was over.

use std::time::Duration;

use cortex_lib::error::Code;
use cortex_lib::port::{Steered, ToolAnswer, TurnOutcome};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::json;
use tokio::time::timeout;

use crate::place::{Live, Place, succeeded};
use crate::pretend::{answers, result, says, starts, state};

pub(crate) fn all() -> Vec<Case> {
    cases![
        what_comes_while_a_tool_runs_is_heard_behind_its_result,
        what_comes_while_the_model_speaks_is_answered_in_the_same_turn,
        what_comes_at_the_end_of_a_turn_is_heard_or_refused_and_never_both,
        an_interrupt_takes_back_what_was_not_heard_yet,
        a_turn_that_does_not_run_takes_nothing,
        more_that_is_never_heard_of_does_not_hold_the_turn,
        a_cli_that_does_not_tell_what_becomes_of_more_takes_none,
        a_turn_at_which_an_idle_cli_is_interrupted_is_over_at_once,
    ]
    .into()
}

async fn what_comes_while_a_tool_runs_is_heard_behind_its_result() {
    let wait = json!({"command": "touch begun; until [ -e go ]; do sleep 0.02; done; rm go"});
    let place = Place::new(
        Script::new()
            .on(When::tool_result("").and_any_text("mind the stork"), Answer::text("minded"))
            .on(When::tool_result(""), Answer::text("unheard"))
            .otherwise(Answer::tool("Bash", wait)),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.send("work").await;
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    place.file("begun").await;
    for text in ["mind the heron", "mind the stork"] {
        assert_eq!(live.session.steer(&turn, text.to_owned()).await.unwrap(), Steered::Taken);
    }
    fs_err::write(place.home.project().join("go"), "").unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("minded"));
    let requests = place.server.requests();
    let body = requests.last().unwrap().body.to_string();
    assert!(requests.len() == 2 && body.contains("mind the heron"), "{body}");
    live.close().await;
}

async fn what_comes_while_the_model_speaks_is_answered_in_the_same_turn() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("and more"), Answer::text("all of it"))
            .on(When::last_user("speak"), Answer::text("first\nheld").hang_after(4, "rest"))
            .otherwise(Answer::text("fine")),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.send("speak").await;
    live.output("first").await;
    for text in ["/clear and more", "and more still"] {
        assert_eq!(live.session.steer(&turn, text.to_owned()).await.unwrap(), Steered::Taken);
    }
    place.server.open("rest");
    let end = live.ended(&turn).await;
    assert_eq!(end.outcome, succeeded("all of it"));
    let one = cortex_scripted::Usage::default();
    let asked = u64::try_from(place.server.requests().len()).unwrap();
    assert!(asked > 1);
    assert_eq!(end.usage.input_tokens, Some(asked * one.input_tokens), "every answer is paid for");
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    assert_eq!(end.usage.input_tokens, Some(one.input_tokens));
    live.close().await;
}

async fn what_comes_at_the_end_of_a_turn_is_heard_or_refused_and_never_both() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("afterthought"), Answer::text("heard"))
            .otherwise(Answer::text("fine")),
    )
    .await;
    let mut live = place.open().await;
    let (mut taken, mut over) = (0, 0);
    for number in 0..20_u32 {
        let turn = live.send("work").await;
        // Later each time, until the turn is over before it comes.
        for _ in 0..10 << number {
            tokio::task::yield_now().await;
        }
        if number % 3 == 2 {
            live.output("fine").await;
        }
        let text = format!("afterthought {number}");
        let steered = live.session.steer(&turn, text.clone()).await.unwrap();
        let end = live.ended(&turn).await;
        let heard = place.server.requests().iter().any(|one| one.last_user.contains(&text));
        assert_eq!(heard, steered == Steered::Taken, "{number}");
        let wanted = if heard { "heard" } else { "fine" };
        assert_eq!(end.outcome, succeeded(wanted), "{number}");
        taken += u32::from(heard);
        over += u32::from(!heard);
        if number > 10 && over > 0 {
            break;
        }
    }
    assert!(taken > 0 && over > 0, "{taken} came in time, and {over} too late");
    live.close().await;
}

async fn an_interrupt_takes_back_what_was_not_heard_yet() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("speak"), Answer::text("first\nheld").hang_after(4, "never"))
            .otherwise(Answer::text("fine")),
    )
    .await;
    let mut live = place.open().await;
    for _ in 0..3 {
        let turn = live.send("speak").await;
        live.output("first").await;
        let more = live.session.steer(&turn, "and more".to_owned()).await.unwrap();
        assert_eq!(more, Steered::Taken);
        live.session.interrupt(&turn).await.unwrap();
        let late = live.session.steer(&turn, "and more".to_owned()).await.unwrap();
        assert_eq!(late, Steered::TurnOver);
        assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted);
        let (end, _) = live.turn("hello").await;
        assert_eq!(end.outcome, succeeded("fine"));
    }
    let requests = place.server.requests();
    assert!(!requests.iter().any(|one| one.last_user.contains("and more")), "it was answered");
    live.close().await;
}

async fn a_turn_that_does_not_run_takes_nothing() {
    let place = Place::new(Script::new().otherwise(Answer::text("fine"))).await;
    let mut live = place.open().await;
    let (first, _) = live.turn("one").await;
    let second = live.next_turn("two", false);
    for turn in [&first.turn_id, &second.id] {
        assert_eq!(live.session.steer(turn, "x".to_owned()).await.unwrap(), Steered::TurnOver);
    }
    live.close().await;
}

/// Reads the message of a turn and keeps its name.
const TURN: &str =
    r#"read -r line; uuid=$(printf '%s' "$line" | sed 's/.*"uuid":"\([^"]*\)".*/\1/')"#;
/// Echoes the message of the turn, as a CLI does that tells nothing else about it.
const ECHO: &str = r#"echo '{"type":"user","isReplay":true,"uuid":"'$uuid'"}'"#;
/// Tells that the message of the turn is taken up.
const STARTED: &str =
    r#"echo '{"type":"command_lifecycle","state":"started","command_uuid":"'$uuid'"}'"#;
/// Hears the message of the driver.
const HEAR: &str = "read -r line";

/// A session with a program that does this.
async fn pretended(then: &[String]) -> (Place, Live) {
    let place = Place::new(Script::new()).await;
    let place = place.with_executable(place.program(&starts("{}", then)));
    let live = place.open().await;
    (place, live)
}

/// A CLI echoes what it takes up together as one, so of the rest nothing is heard.
async fn more_that_is_never_heard_of_does_not_hold_the_turn() {
    let program = [
        TURN.to_owned(),
        state("running"),
        HEAR.to_owned(),
        HEAR.to_owned(),
        ECHO.to_owned(),
        result("all of it"),
        state("idle"),
        // What was not heard of must not run as a turn of its own.
        r#"for one in 1 2; do read -r line; case "$line" in *'"cancel_async_message"'*) touch back-$one;; esac; done"#.to_owned(),
        HEAR.to_owned(),
        state("running"),
        result("the next"),
        state("idle"),
        HEAR.to_owned(),
    ];
    let (place, mut live) = pretended(&program).await;
    let turn = live.send("work").await;
    for text in ["one more", "another"] {
        assert_eq!(live.session.steer(&turn, text.to_owned()).await.unwrap(), Steered::Taken);
    }
    assert_eq!(live.ended(&turn).await.outcome, succeeded("all of it"));
    for name in ["back-1", "back-2"] {
        place.file(name).await;
    }
    let (end, _) = live.turn("more work").await;
    assert_eq!(end.outcome, succeeded("the next"));
    live.close().await;
}

async fn a_cli_that_does_not_tell_what_becomes_of_more_takes_none() {
    let program = [TURN, ECHO].map(str::to_owned);
    let rest = [HEAR.to_owned(), result("done"), state("idle"), HEAR.to_owned()];
    let (_place, mut live) = pretended(&[program.as_slice(), &rest].concat()).await;
    let turn = live.send("work").await;
    let error = live.session.steer(&turn, "more".to_owned()).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeCapabilityMissing);
    live.session.interrupt(&turn).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    live.close().await;
}

/// It has said that it is idle, and says it only once.
async fn a_turn_at_which_an_idle_cli_is_interrupted_is_over_at_once() {
    let text = json!([{"type": "text", "text": "idle now"}]);
    let program = [
        TURN.to_owned(),
        STARTED.to_owned(),
        HEAR.to_owned(),
        result("first"),
        state("idle"),
        says(&json!({"type": "assistant", "message": {"id": "m1", "content": text}})),
        HEAR.to_owned(),
        answers(4, r#"{"cancelled":true}"#),
        HEAR.to_owned(),
        answers(5, "{}"),
        HEAR.to_owned(),
    ];
    let (_place, mut live) = pretended(&program).await;
    let turn = live.send("work").await;
    assert_eq!(live.session.steer(&turn, "more".to_owned()).await.unwrap(), Steered::Taken);
    live.output("idle now").await;
    live.session.interrupt(&turn).await.unwrap();
    // Less than it waits for a CLI to become idle.
    let end = timeout(Duration::from_millis(1900), live.ended(&turn)).await.unwrap();
    assert_eq!(end.outcome, TurnOutcome::Interrupted);
    live.close().await;
}

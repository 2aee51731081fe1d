//! More to go on for a turn that runs: it is heard in that turn, whatever the turn does, or it is said that it was over.

use cortex_lib::port::{Steered, ToolAnswer, TurnOutcome};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::json;

use crate::place::{Place, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        what_comes_while_a_tool_runs_is_heard_behind_its_result,
        what_comes_while_the_model_speaks_is_answered_in_the_same_turn,
        what_comes_at_the_end_of_a_turn_is_heard_or_refused_and_never_both,
        an_interrupt_takes_back_what_was_not_heard_yet,
        a_turn_that_does_not_run_takes_nothing,
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
    let mut taken = 0;
    for number in 0..12_u32 {
        let turn = live.send("work").await;
        // A little later each time, until the turn is over before it comes.
        for _ in 0..number * 40 {
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
    }
    assert!(taken > 0, "none came in time");
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

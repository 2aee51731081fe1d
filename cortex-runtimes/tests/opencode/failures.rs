//! Models that refuse, are overloaded, break off, say nonsense or nothing: each is what it is to the core.

use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::env::{Env as _, SystemEnv};
use cortex_lib::port::{TurnFailure, TurnOutcome};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Fault, Script, When, cases};

use crate::place::{Live, shared, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        what_a_model_refuses_is_not_tried_again,
        a_long_wait_for_a_limit_is_the_cores_to_plan,
        a_trouble_that_passes_is_none,
        a_trouble_that_stays_ends_the_turn_as_what_it_is,
        a_model_that_cannot_be_reached_is_no_refusal,
        an_answer_that_is_cut_off_is_none,
        an_interrupt_ends_a_wait_for_the_next_try,
        a_silent_model_is_given_up,
    ]
    .into()
}

pub(crate) fn script() -> Script {
    let garbage = Answer::text("x").garbage_after(2);
    let cut = Answer::text("one\ntwo").cut_after(3);
    let overloaded = Answer::status(503);
    let nothing = cortex_scripted::Usage { output_tokens: 0, ..cortex_scripted::Usage::default() };
    let nonsense = Answer::default().with(Fault::NotAMessage);
    Script::new()
        .on(When::last_user("failures: login"), Answer::status(401))
        .on(When::last_user("failures: request"), Answer::status(400))
        .on(When::last_user("failures: limit"), Answer::too_many_requests(3600))
        .on(When::last_user("failures: soon").first(1), Answer::too_many_requests(1))
        .on(When::last_user("failures: soon"), Answer::text("here"))
        .on(When::last_user("failures: cut").first(1), cut)
        .on(When::last_user("failures: cut"), Answer::text("one\ntwo\nthree"))
        .on(When::last_user("failures: down"), overloaded)
        .on(When::last_user("failures: garbage"), garbage)
        .on(When::last_user("failures: nonsense"), nonsense)
        .on(When::last_user("failures: length"), Answer::text("and").stop_reason("max_tokens"))
        .on(When::last_user("failures: empty"), Answer::text("").usage(nothing))
        .on(When::last_user("failures: silent"), Answer::text("x").silent_until("never"))
        .on(When::last_user("failures: hello"), Answer::text("hello"))
}

async fn failed(live: &mut Live, text: &str) -> TurnFailure {
    match live.turn(text).await.0.outcome {
        TurnOutcome::Failed(failure) => failure,
        other => panic!("{text}: {other:?}"),
    }
}

async fn what_a_model_refuses_is_not_tried_again() {
    let mut live = shared().open().await;
    for (text, status) in [("failures: login", 401), ("failures: request", 400)] {
        let failure = failed(&mut live, text).await;
        assert_eq!(failure.cause, Cause::Refused, "{failure:?}");
        assert!(failure.message.contains(&format!("scripted {status}")), "{failure:?}");
    }
    assert_eq!(shared().asked(&live).len(), 2);
    let (end, _) = live.turn("failures: hello").await;
    assert_eq!(end.outcome, succeeded("hello"));
    live.close().await;
}

/// Limits: the core waits until the moment that the provider names, not the turn.
async fn a_long_wait_for_a_limit_is_the_cores_to_plan() {
    let mut live = shared().open().await;
    let now = SystemEnv::new().now();
    let failure = failed(&mut live, "failures: limit").await;
    assert_eq!(failure.cause, Cause::RateLimited, "{failure:?}");
    let resets_at = failure.resets_at.unwrap();
    assert!(resets_at >= now.after(Duration::from_secs(3500)), "{resets_at}");
    assert!(resets_at <= now.after(Duration::from_mins(65)), "{resets_at}");
    let (end, _) = live.turn("failures: hello").await;
    assert_eq!(end.outcome, succeeded("hello"));
    live.close().await;
}

async fn a_trouble_that_passes_is_none() {
    let mut live = shared().open().await;
    let (end, _) = live.turn("failures: soon").await;
    assert_eq!(end.outcome, succeeded("here"));
    // The whole step is repeated, and what it said before does not count.
    let (end, _) = live.turn("failures: cut").await;
    assert_eq!(end.outcome, succeeded("one\ntwo\nthree"));
    live.close().await;
}

async fn a_trouble_that_stays_ends_the_turn_as_what_it_is() {
    let mut live = shared().open().await;
    let failure = failed(&mut live, "failures: down").await;
    assert_eq!(failure.cause, Cause::Transient, "{failure:?}");
    assert!(failure.message.contains("scripted 503"), "{failure:?}");
    assert_eq!(shared().asked(&live).len(), 4);
    live.close().await;
}

/// One that ends without a reason makes OpenCode ask again, for ever: nothing loops for ever.
async fn an_answer_that_is_cut_off_is_none() {
    let mut live = shared().open().await;
    let failure = failed(&mut live, "failures: length").await;
    assert_eq!(failure.cause, Cause::Error, "{failure:?}");
    for text in ["failures: garbage", "failures: nonsense", "failures: empty"] {
        let failure = failed(&mut live, text).await;
        assert_eq!(failure.cause, Cause::Transient, "{text}: {failure:?}");
    }
    let (end, _) = live.turn("failures: hello").await;
    assert_eq!(end.outcome, succeeded("hello"));
    live.close().await;
}

async fn a_model_that_cannot_be_reached_is_no_refusal() {
    let opened = shared().open_with(|spec| spec.model = Some("absent/other".to_owned()));
    let mut live = opened.await.unwrap();
    let failure = failed(&mut live, "failures: hello").await;
    assert_eq!(failure.cause, Cause::Transient, "{failure:?}");
    live.close().await;
}

async fn an_interrupt_ends_a_wait_for_the_next_try() {
    let mut live = shared().open().await;
    let turn = live.send("failures: down").await;
    let native = live.facts.native_session_id.clone();
    let refused = |one: &&cortex_scripted::Request| one.conversation == native;
    shared().server.wait_for(|all| all.iter().find(refused).cloned()).await.unwrap();
    live.session.interrupt(&turn).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted);
    let (end, _) = live.turn("failures: hello").await;
    assert_eq!(end.outcome, succeeded("hello"));
    live.close().await;
}

async fn a_silent_model_is_given_up() {
    let mut live = shared().open().await;
    let failure = failed(&mut live, "failures: silent").await;
    assert_eq!(failure.cause, Cause::Transient, "{failure:?}");
    assert!(failure.message.contains("silent"), "{failure:?}");
    let (end, _) = live.turn("failures: hello").await;
    assert_eq!(end.outcome, succeeded("hello"));
    live.close().await;
}

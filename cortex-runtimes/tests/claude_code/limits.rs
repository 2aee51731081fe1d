//! Limits of accounts, and what turns cost.

use cortex_lib::domain::attempt::Cause;
use cortex_lib::env::{Env as _, SystemEnv};
use cortex_lib::port::{TurnFailure, TurnOutcome};
use cortex_lib::time::Timestamp;
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::json;

use crate::place::{Live, Place, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_used_up_quota_tells_when_it_is_back,
        a_limit_without_an_event_is_read_from_the_words_of_the_cli,
        costs_are_those_of_the_turn_also_after_a_resume,
        usage_of_a_turn_with_tools_is_the_sum_of_its_requests,
    ]
    .into()
}

async fn failure(live: &mut Live, text: &str) -> TurnFailure {
    let (end, _) = live.turn(text).await;
    let TurnOutcome::Failed(failure) = end.outcome else { panic!("{end:?}") };
    failure
}

/// A moment in some hours, on a full minute.
fn later(hours: i64) -> (u64, Timestamp) {
    let seconds = (SystemEnv::new().now().as_millis() / 60_000 + hours * 60) * 60;
    (u64::try_from(seconds).unwrap(), Timestamp::from_millis(seconds * 1000))
}

/// An account with a subscription: only those have a quota.
async fn subscribed(script: Script) -> Place {
    let place = Place::new(script).await;
    place
        .var("ANTHROPIC_API_KEY", "")
        .var("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-scripted-token-that-opens-nothing")
}

/// Limits: "limit reached, resets …" → the instant itself, wherever it is.
async fn a_used_up_quota_tells_when_it_is_back() {
    let (seconds, at) = later(30);
    let place = subscribed(
        Script::new()
            .on(When::last_user("work"), Answer::used_up(seconds))
            .otherwise(Answer::text("fine")),
    )
    .await;
    for zone in ["UTC", "Asia/Kolkata", "America/New_York"] {
        let mut live = place.var("TZ", zone).open().await;
        let failure = failure(&mut live, "work").await;
        assert_eq!(
            (failure.cause, failure.resets_at),
            (Cause::RateLimited, Some(at)),
            "{failure:?}"
        );
        let (end, _) = live.turn("hello").await;
        assert_eq!(end.outcome, succeeded("fine"), "the session goes on");
        live.close().await;
    }
}

/// Limits: "limit reached, resets 2:30am (zone)". The words alone say the same as the event, on this day and the next.
async fn a_limit_without_an_event_is_read_from_the_words_of_the_cli() {
    for (hours, zone) in [(3, "Europe/Berlin"), (14, "Asia/Tokyo"), (30, "America/Los_Angeles")] {
        let (seconds, at) = later(hours);
        let place = subscribed(Script::new().otherwise(Answer::used_up(seconds))).await;
        // A program between: it takes the event away.
        let real = cortex_scripted::cli::claude_code().unwrap();
        let without = format!(
            "#!/bin/sh\n'{}' \"$@\" | grep -v --line-buffered rate_limit_event\n",
            real.display()
        );
        let place = place.with_executable(place.program(&without)).var("TZ", zone);
        let mut live = place.open().await;
        let failure = failure(&mut live, "work").await;
        assert_eq!(failure.cause, Cause::RateLimited, "{failure:?}");
        assert!(failure.message.contains("resets"), "{failure:?}");
        assert_eq!(failure.resets_at, Some(at), "{failure:?}");
        live.close().await;
    }
}

/// Limits: cumulative totals → counted once.
async fn costs_are_those_of_the_turn_also_after_a_resume() {
    let place = Place::new(Script::new().otherwise(Answer::text("fine"))).await;
    let mut live = place.open().await;
    let mut costs = Vec::new();
    for _ in 0..3 {
        costs.push(live.turn("hello").await.0.usage.cost_usd.unwrap());
    }
    let native = live.facts.native_session_id.clone().unwrap();
    live.close().await;
    let mut live = place.resume(&native).await.unwrap();
    for _ in 0..2 {
        costs.push(live.turn("hello").await.0.usage.cost_usd.unwrap());
    }
    live.close().await;
    let first = costs.first().copied().unwrap();
    assert!(first > 0.0 && costs.iter().all(|cost| (cost - first).abs() < 1e-9), "{costs:?}");
}

/// Limits: usage repeated per content block → counted once.
async fn usage_of_a_turn_with_tools_is_the_sum_of_its_requests() {
    let reads = Answer::thinking("hm")
        .and_text("I look")
        .and_tool("Read", json!({"file_path": "a"}))
        .and_tool("Read", json!({"file_path": "b"}));
    let place =
        Place::new(Script::new().on(When::tool_result(""), Answer::text("seen")).otherwise(reads))
            .await;
    let mut live = place.open().await;
    let (end, _) = live.turn("look").await;
    assert_eq!(end.outcome, succeeded("seen"));
    let sum = cortex_scripted::Usage::default();
    assert_eq!(end.usage.input_tokens, Some(2 * sum.input_tokens));
    assert_eq!(end.usage.output_tokens, Some(2 * sum.output_tokens));
    live.close().await;
}

//! Turns that fail because the model's service does: each with the class that decides about a retry.

use cortex_lib::domain::attempt::Cause;
use cortex_lib::port::{TurnFailure, TurnOutcome};

use super::say;
use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::place::Bench;
use crate::conformance::scenario::{Act, Fault, Scenario};

pub(super) const CASES: &[Case] = cases!["Failures":
    a_refused_login_is_refused [] [Service],
    a_refused_request_is_refused [] [Service],
    a_used_up_quota_is_a_rate_limit [] [Service],
    an_overloaded_service_is_transient [] [Service],
    a_broken_service_is_transient [] [Service],
    an_answer_that_breaks_off_is_transient [] [Service],
    a_service_that_nobody_reaches_is_transient [] [Service],
];

/// The failure of a turn whose service fails so. The session goes on behind it.
async fn failure(bench: &Bench<'_>, fault: Fault) -> Result<TurnFailure, Stop> {
    let mut scenario = Scenario::new();
    let (fails, hello) = (scenario.prompt([Act::Fail(fault)]), scenario.prompt(say("hello")));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let end = live.run(&fails).await?;
    let TurnOutcome::Failed(failure) = end.outcome else {
        return Err(Stop::Failed(format!("the turn does not fail: {:?}", end.outcome)));
    };
    ensure!(!failure.message.trim().is_empty(), "it does not say why");
    live.says(&hello, "hello").await?;
    live.close().await?;
    Ok(failure)
}

async fn has_cause(bench: &Bench<'_>, fault: Fault, cause: Cause) -> Outcome {
    let failure = failure(bench, fault).await?;
    ensure!(
        failure.cause == cause,
        "it is taken for {}: {}",
        failure.cause.as_str(),
        failure.message
    );
    Ok(Seen::Held)
}

async fn a_refused_login_is_refused(bench: &Bench<'_>) -> Outcome {
    has_cause(bench, Fault::LoginRefused, Cause::Refused).await
}

async fn a_refused_request_is_refused(bench: &Bench<'_>) -> Outcome {
    has_cause(bench, Fault::RequestRefused, Cause::Refused).await
}

async fn a_used_up_quota_is_a_rate_limit(bench: &Bench<'_>) -> Outcome {
    let failure = failure(bench, Fault::RateLimited(3_600)).await?;
    let (cause, message) = (failure.cause.as_str(), &failure.message);
    ensure!(failure.cause == Cause::RateLimited, "it is taken for {cause}: {message}");
    Ok(match failure.resets_at {
        Some(_) => Seen::Noted("with the time when it ends".to_owned()),
        None => Seen::Noted("without the time when it ends".to_owned()),
    })
}

async fn an_overloaded_service_is_transient(bench: &Bench<'_>) -> Outcome {
    has_cause(bench, Fault::Overloaded, Cause::Transient).await
}

async fn a_broken_service_is_transient(bench: &Bench<'_>) -> Outcome {
    has_cause(bench, Fault::Broken, Cause::Transient).await
}

async fn an_answer_that_breaks_off_is_transient(bench: &Bench<'_>) -> Outcome {
    has_cause(bench, Fault::Cut, Cause::Transient).await
}

async fn a_service_that_nobody_reaches_is_transient(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("hello"));
    scenario.unreachable = true;
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let end = live.run(&hello).await?;
    live.close().await?;
    match end.outcome {
        TurnOutcome::Failed(failure) if failure.cause == Cause::Transient => Ok(Seen::Held),
        other => Err(Stop::Failed(format!("{other:?}"))),
    }
}

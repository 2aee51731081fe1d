//! Sessions that go on after their program ended.

use cortex_lib::error::Code;

use super::say;
use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::live::{Live, refused};
use crate::conformance::place::{Bench, Place};
use crate::conformance::scenario::{Act, Prompt, Scenario};

pub(super) const CASES: &[Case] = cases!["Resuming":
    a_closed_session_goes_on_with_what_it_knows [Resume] [Memory],
    a_killed_session_goes_on_with_what_it_knows [Resume] [Memory Program],
    a_session_that_nobody_knows_is_not_resumed [Resume] [],
];

/// A session that knows a word, and its native name.
async fn knows(place: &Place, tell: &Prompt) -> Result<(Live, String), Stop> {
    let mut live = place.open().await?;
    live.says(tell, "noted").await?;
    let native = live.facts.native_session_id.clone();
    let native = native.ok_or_else(|| Stop::Failed("the session has no native name".to_owned()))?;
    Ok((live, native))
}

fn scenario() -> (Scenario, Prompt, Prompt) {
    let mut scenario = Scenario::new();
    let tell = scenario.prompt_around("Remember this: «heron». ", say("noted"), "");
    let ask = scenario.prompt([Act::SayWord]);
    (scenario, tell, ask)
}

async fn goes_on(place: &Place, native: &str, ask: &Prompt) -> Result<(), Stop> {
    let mut live = place.open_with(|spec| spec.resume = Some(native.to_owned())).await?;
    ensure!(live.facts.resumed, "it does not say that it was resumed");
    live.says(ask, "heron").await?;
    live.close().await?;
    place.nothing_lives(&live.id)
}

async fn a_closed_session_goes_on_with_what_it_knows(bench: &Bench<'_>) -> Outcome {
    let (scenario, tell, ask) = scenario();
    let place = bench.stage(&scenario).await?;
    let (mut live, native) = knows(&place, &tell).await?;
    live.close().await?;
    goes_on(&place, &native, &ask).await?;
    Ok(Seen::Held)
}

async fn a_killed_session_goes_on_with_what_it_knows(bench: &Bench<'_>) -> Outcome {
    let (scenario, tell, ask) = scenario();
    let place = bench.stage(&scenario).await?;
    let (mut live, native) = knows(&place, &tell).await?;
    place.stage.kill(&live.id, &live.facts).await.map_err(Stop::Failed)?;
    live.last_words().await?;
    live.close().await?;
    goes_on(&place, &native, &ask).await?;
    Ok(Seen::Held)
}

async fn a_session_that_nobody_knows_is_not_resumed(bench: &Bench<'_>) -> Outcome {
    let (scenario, tell, _) = scenario();
    let place = bench.stage(&scenario).await?;
    let (mut live, native) = knows(&place, &tell).await?;
    live.close().await?;
    let mut spec = place.spec()?;
    let id = spec.session_id.clone();
    let unknown = another(&native);
    spec.resume = Some(unknown.clone());
    let error = refused(place.try_open(spec).await?, &format!("the resume of {unknown}"))?;
    ensure!(error.code() == Code::RuntimeStartFailed, "{error} ({})", error.code());
    let unknown = error.detail("resume_unknown").and_then(serde_json::Value::as_bool);
    ensure!(unknown == Some(true), "it does not say resume_unknown: {error}");
    place.nothing_lives(&id)?;
    Ok(Seen::Held)
}

/// A name of the same form that nobody has.
fn another(native: &str) -> String {
    let turned = |(at, letter): (usize, char)| match letter {
        _ if at < native.len().saturating_sub(6) => letter,
        '0'..='8' => '9',
        letter if letter.is_alphanumeric() => '0',
        letter => letter,
    };
    native.chars().enumerate().map(turned).collect()
}

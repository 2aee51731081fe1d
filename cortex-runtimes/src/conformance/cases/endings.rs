//! How sessions end.

use std::time::Duration;

use cortex_lib::error::Code;
use cortex_lib::port::ToolAnswer;

use super::say;
use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::live::{GRACE, refused};
use crate::conformance::place::Bench;
use crate::conformance::scenario::{Act, Scenario};

pub(super) const CASES: &[Case] = cases!["Endings":
    a_close_ends_the_turn_and_everything_else [] [],
    a_close_may_be_called_again_and_at_once [] [],
    a_close_waits_for_nobody_who_reads [] [],
    a_closed_session_refuses_what_is_asked [] [],
    a_program_that_dies_ends_its_session [] [Program],
];

async fn a_close_ends_the_turn_and_everything_else(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let slow = Act::SayInTwo { first: "begun".into(), rest: "done".into(), gate: "never".into() };
    let slow = scenario.prompt([slow]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let turn = live.send(&slow).await?;
    live.shows("begun").await?;
    live.close().await?;
    place.nothing_lives(&live.id)?;
    live.turn_was_cut(&turn)?;
    Ok(Seen::Held)
}

async fn a_close_may_be_called_again_and_at_once(bench: &Bench<'_>) -> Outcome {
    let place = bench.stage(&Scenario::new()).await?;
    let mut live = place.open().await?;
    let session = &live.session;
    let both = async { tokio::join!(session.close(GRACE), session.close(GRACE)) };
    live.in_time("two closes hang", both).await?;
    live.in_time("a third close hangs", session.close(Duration::ZERO)).await?;
    place.nothing_lives(&live.id)?;
    live.close().await?;
    Ok(Seen::Held)
}

async fn a_close_waits_for_nobody_who_reads(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let many = scenario.prompt(say(&"a line\n".repeat(5_000)));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    // Nobody takes the events of this turn.
    live.send(&many).await?;
    let full = || live.is_full().then_some(());
    if place.until("a full queue", full).await.is_err() {
        return Err(Stop::NotShown("what the agent says does not fill the queue".to_owned()));
    }
    live.in_time("the session does not end", live.session.close(GRACE)).await?;
    place.nothing_lives(&live.id)?;
    Ok(Seen::Held)
}

async fn a_closed_session_refuses_what_is_asked(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let end = live.says(&hello, "hello").await?;
    live.close().await?;
    let turn = live.turn(&hello);
    for refusal in [
        live.session.send(turn).await,
        live.session.interrupt(&end.turn_id).await,
        live.session.answer("nobody-asked", ToolAnswer::Allow).await,
    ] {
        let error = refused(refusal, "something asked of a closed session")?;
        ensure!(error.code() == Code::RuntimeSessionEnded, "{error} ({})", error.code());
    }
    Ok(Seen::Held)
}

async fn a_program_that_dies_ends_its_session(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.says(&hello, "hello").await?;
    place.stage.kill(&live.id, &live.facts).await.map_err(Stop::Failed)?;
    live.last_words().await?;
    place.nothing_lives(&live.id)?;
    let turn = live.turn(&hello);
    let error = refused(live.session.send(turn).await, "a turn of a session that is over")?;
    ensure!(error.code() == Code::RuntimeSessionEnded, "{error} ({})", error.code());
    live.close().await?;
    Ok(Seen::Held)
}

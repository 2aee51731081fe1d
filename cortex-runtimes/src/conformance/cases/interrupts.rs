//! Interrupts at every moment of a turn.

use cortex_lib::ids::TurnId;
use cortex_lib::port::{ToolAnswer, TurnOutcome};

use super::say;
use crate::conformance::case::{Case, Outcome, Seen, cases, ensure};
use crate::conformance::live::Live;
use crate::conformance::place::{Bench, Sleep};
use crate::conformance::scenario::{Act, Scenario};

pub(super) const CASES: &[Case] = cases!["Interrupts":
    an_interrupt_of_a_turn_that_is_over_is_no_error [Interrupt] [],
    an_interrupt_ends_a_silent_turn [Interrupt] [],
    an_interrupt_ends_a_turn_that_speaks [Interrupt] [],
    an_interrupt_ends_a_turn_whose_tool_runs [Interrupt] [Shell],
    an_interrupt_withdraws_the_request_that_waits [Interrupt ToolApproval] [Shell],
    an_interrupt_right_behind_the_send_is_not_lost [Interrupt] [],
];

async fn an_interrupt_of_a_turn_that_is_over_is_no_error(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.session.interrupt(&TurnId::new("nobody")).await?;
    let end = live.says(&hello, "hello").await?;
    live.session.interrupt(&end.turn_id).await?;
    live.session.interrupt(&TurnId::new("nobody")).await?;
    live.says(&hello, "hello").await?;
    live.close().await?;
    ensure!(live.other_ends() == 0, "a turn ended twice");
    Ok(Seen::Held)
}

async fn an_interrupt_ends_a_silent_turn(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let wait = scenario.prompt([Act::Wait { gate: "never".into() }, Act::Say("x".into())]);
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    for _ in 0..2 {
        let before = place.stage.heard().map(|heard| heard.len());
        let turn = live.send(&wait).await?;
        // Once the model is asked, the turn waits for nothing else.
        let asked = || {
            before
                .is_none_or(|before| place.stage.heard().is_some_and(|heard| heard.len() > before))
        };
        place.until("a question to the model", || asked().then_some(())).await?;
        live.interrupt(&turn).await?;
        live.says(&hello, "hello").await?;
    }
    live.close().await?;
    Ok(Seen::Held)
}

async fn an_interrupt_ends_a_turn_that_speaks(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let slow = Act::SayInTwo { first: "begun".into(), rest: "done".into(), gate: "never".into() };
    let (slow, hello) = (scenario.prompt([slow]), scenario.prompt(say("hello")));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let turn = live.send(&slow).await?;
    live.shows("begun").await?;
    live.interrupt(&turn).await?;
    live.says(&hello, "hello").await?;
    live.close().await?;
    Ok(Seen::Held)
}

async fn an_interrupt_ends_a_turn_whose_tool_runs(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let sleep = Sleep::new();
    let run = Act::Run(format!("echo > ran; {}", sleep.0));
    let (run, hello) =
        (scenario.prompt([run, Act::Say("x".into())]), scenario.prompt(say("hello")));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let turn = live.send(&run).await?;
    // Whoever waits for a file hears no events, so a request is answered first.
    let ran = place.path("ran");
    live.until_exists(&ran).await?;
    live.interrupt(&turn).await?;
    ensure!(sleep.running() == 0, "its tool still runs");
    live.says(&hello, "hello").await?;
    live.close().await?;
    Ok(Seen::Held)
}

async fn an_interrupt_withdraws_the_request_that_waits(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let run = scenario.prompt([Act::Run("echo > ran".into()), Act::Say("x".into())]);
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.holds = true;
    let turn = live.send(&run).await?;
    let request = live.request().await?;
    live.interrupt(&turn).await?;
    let is_gone = |live: &mut Live| live.withdrawn.contains(&request.request_id).then_some(());
    live.wait("the withdrawal of the request", is_gone).await?;
    // Too late, which is no error and changes nothing.
    live.answer(&request, ToolAnswer::Allow).await?;
    live.says(&hello, "hello").await?;
    ensure!(!place.path("ran").exists(), "the tool ran all the same");
    live.close().await?;
    Ok(Seen::Held)
}

async fn an_interrupt_right_behind_the_send_is_not_lost(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let wait = scenario.prompt([Act::Wait { gate: "never".into() }, Act::Say("x".into())]);
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    for _ in 0..5 {
        let turn = live.turn(&wait);
        let both = async {
            tokio::join!(live.session.send(turn.clone()), live.session.interrupt(&turn.id))
        };
        let (sent, asked) = live.in_time("the send or its interrupt hangs", both).await?;
        sent?;
        asked?;
        let end = live.ended(&turn.id).await?;
        ensure!(end.outcome == TurnOutcome::Interrupted, "it ended otherwise: {:?}", end.outcome);
    }
    live.says(&hello, "hello").await?;
    live.close().await?;
    Ok(Seen::Held)
}

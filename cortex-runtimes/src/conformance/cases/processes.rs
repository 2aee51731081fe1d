//! What tools leave behind: nothing, however they leave it.

use cortex_lib::error::Code;

use super::say;
use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::live::{refused, succeeded};
use crate::conformance::place::{Bench, Sleep};
use crate::conformance::scenario::{Act, Scenario};

pub(super) const CASES: &[Case] = cases!["Processes":
    nothing_outlives_an_attempt [] [Shell Processes],
    nothing_outlives_an_interrupt [Interrupt] [Shell Processes],
    nothing_outlives_a_close [] [Shell Processes],
    what_hides_is_ended_with_its_attempt [] [Shell Processes Tree],
    what_a_direct_turn_left_is_gone_after_the_close [] [Shell Processes],
    nothing_outlives_its_program [] [Shell Processes Program],
];

/// A command that leaves processes behind in three ways: in its group, in a session of its own, and without parents. It
/// makes the file `ran` when they are there.
fn leaves(sleep: &Sleep) -> String {
    leaves_with(sleep, "")
}

/// The same, where those without parents are started by this command.
fn leaves_with(sleep: &Sleep, by: &str) -> String {
    let sleep = &sleep.0;
    let quiet = ">/dev/null 2>&1 </dev/null";
    let own = format!("setsid {sleep} {quiet} &");
    let orphan = format!("(setsid {by} sh -c '{sleep} & {sleep}' {quiet} &)");
    format!("{sleep} {quiet} & {own} {orphan}; sleep 0.3; echo > ran")
}

/// Processes: a tool that forked `sleep 600`, also in its own session → no descendant lives.
async fn nothing_outlives_an_attempt(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let sleep = Sleep::new();
    let run = scenario.prompt([Act::Run(leaves(&sleep)), Act::Say("done".into())]);
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.says(&run, "done").await?;
    ensure!(place.path("ran").exists(), "the tool did not run");
    ensure!(sleep.running() == 0, "{} of 4 processes live on", sleep.running());
    live.says(&hello, "hello").await?;
    live.close().await?;
    place.nothing_lives(&live.id)?;
    Ok(Seen::Held)
}

/// Processes: a tool that forked → after cancel no descendant lives.
async fn nothing_outlives_an_interrupt(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let sleep = Sleep::new();
    let command = format!("{}; {}", leaves(&sleep), sleep.0);
    let run = scenario.prompt([Act::Run(command), Act::Say("done".into())]);
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let turn = live.send(&run).await?;
    live.until_exists(&place.path("ran")).await?;
    ensure!(sleep.running() >= 4, "only {} of 5 processes came", sleep.running());
    live.interrupt(&turn).await?;
    ensure!(sleep.running() == 0, "{} of 5 processes live on", sleep.running());
    live.says(&hello, "hello").await?;
    live.close().await?;
    place.nothing_lives(&live.id)?;
    Ok(Seen::Held)
}

async fn nothing_outlives_a_close(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let sleep = Sleep::new();
    let command = format!("{}; {}", leaves(&sleep), sleep.0);
    let run = scenario.prompt([Act::Run(command), Act::Say("done".into())]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let turn = live.send(&run).await?;
    live.until_exists(&place.path("ran")).await?;
    live.close().await?;
    ensure!(sleep.running() == 0, "{} of 5 processes live on", sleep.running());
    place.nothing_lives(&live.id)?;
    live.turn_was_cut(&turn)?;
    Ok(Seen::Held)
}

/// A process that has no parents, no group and no environment by which it could be known.
async fn what_hides_is_ended_with_its_attempt(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let sleep = Sleep::new();
    let command = leaves_with(&sleep, "env -i \"PATH=$PATH\"");
    let run = scenario.prompt([Act::Run(command), Act::Say("done".into())]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.says(&run, "done").await?;
    ensure!(place.path("ran").exists(), "the tool did not run");
    ensure!(sleep.running() == 0, "{} of 4 processes live on", sleep.running());
    live.close().await?;
    Ok(Seen::Held)
}

/// A turn that a person sent may leave a server running, until its session ends.
async fn what_a_direct_turn_left_is_gone_after_the_close(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let sleep = Sleep::new();
    let run = scenario.prompt([Act::Run(leaves(&sleep)), Act::Say("done".into())]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let mut turn = live.turn(&run);
    turn.attempt_id = None;
    let turn = live.send_turn(turn).await?;
    succeeded(&live.ended(&turn).await?, "done")?;
    live.close().await?;
    ensure!(sleep.running() == 0, "{} of 4 processes live on", sleep.running());
    place.nothing_lives(&live.id)?;
    Ok(Seen::Held)
}

/// Processes: `kill -9` of the program → the session ends, and nothing of it lives.
async fn nothing_outlives_its_program(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let sleep = Sleep::new();
    let command = format!("{}; {}", leaves(&sleep), sleep.0);
    let run = scenario.prompt([Act::Run(command), Act::Say("done".into())]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.send(&run).await?;
    live.until_exists(&place.path("ran")).await?;
    place.stage.kill(&live.id, &live.facts).await.map_err(Stop::Failed)?;
    live.last_words().await?;
    ensure!(sleep.running() == 0, "{} of 5 processes live on", sleep.running());
    place.nothing_lives(&live.id)?;
    let turn = live.turn(&run);
    let error = refused(live.session.send(turn).await, "a turn of a session that is over")?;
    ensure!(error.code() == Code::RuntimeSessionEnded, "{error} ({})", error.code());
    live.close().await?;
    Ok(Seen::Held)
}

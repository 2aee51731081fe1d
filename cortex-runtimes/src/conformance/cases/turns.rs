//! What turns are: output, results, memory, what the model is told.

use cortex_lib::domain::usage::Usage;
use cortex_lib::port::OutputKind;

use super::say;
use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::live::succeeded;
use crate::conformance::place::Bench;
use crate::conformance::scenario::{Act, Scenario};
use crate::conformance::subject::Ability;

pub(super) const CASES: &[Case] = cases!["Turns":
    a_turn_returns_what_the_agent_says [StructuredSession] [],
    output_comes_line_by_line_with_its_turn [] [],
    output_is_seen_while_the_turn_runs [] [],
    each_turn_ends_exactly_once [] [],
    later_turns_know_earlier_ones [] [Memory],
    instructions_reach_the_agent [] [Instructions],
    the_chosen_model_is_asked [ModelSelection] [],
    usage_is_counted_once_for_each_turn [UsageReporting] [],
];

async fn a_turn_returns_what_the_agent_says(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("All is well."));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.says(&hello, "All is well.").await?;
    live.close().await?;
    Ok(Seen::Held)
}

async fn output_comes_line_by_line_with_its_turn(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let lines = ["alpha", "beta", "gamma", "delta"];
    let (four, one) = (scenario.prompt(say(&lines.join("\n"))), scenario.prompt(say("omega")));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    for (prompt, expected) in [(four, lines.as_slice()), (one, &["omega"])] {
        let end = live.says(&prompt, &expected.join("\n")).await?;
        let texts = live.output.iter().filter(|shown| shown.kind == OutputKind::Text);
        let texts: Vec<_> = texts.flat_map(|shown| shown.text.lines()).collect();
        ensure!(texts == expected, "shown: {texts:?}");
        let strange = live.output.iter().find(|shown| shown.turn.as_ref() != Some(&end.turn_id));
        ensure!(strange.is_none(), "of another turn: {strange:?}");
    }
    live.close().await?;
    Ok(Seen::Held)
}

async fn output_is_seen_while_the_turn_runs(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let slow = scenario.prompt([Act::SayInTwo {
        first: "begun".into(),
        rest: "done".into(),
        gate: "rest".into(),
    }]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let turn = live.send(&slow).await?;
    live.shows("begun").await?;
    place.stage.open_gate("rest");
    succeeded(&live.ended(&turn).await?, "begun\ndone")?;
    live.close().await?;
    Ok(Seen::Held)
}

async fn each_turn_ends_exactly_once(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let prompts: Vec<_> =
        (1..=5).map(|number| (number, scenario.prompt(say(&number.to_string())))).collect();
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    for (number, prompt) in &prompts {
        live.says(prompt, &number.to_string()).await?;
    }
    live.close().await?;
    ensure!(live.other_ends() == 0, "{} turns ended twice", live.other_ends());
    Ok(Seen::Held)
}

async fn later_turns_know_earlier_ones(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let tell = scenario.prompt_around("Remember this: «heron». ", say("noted"), "");
    let ask = scenario.prompt([Act::SayWord]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.says(&tell, "noted").await?;
    live.says(&ask, "heron").await?;
    live.close().await?;
    Ok(Seen::Held)
}

async fn instructions_reach_the_agent(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let ask = scenario.prompt([Act::SayWord]);
    let place = bench.stage(&scenario).await?;
    let words = "You are a careful person.\nYour word is «dunlin», and \"quotes\" are no trouble.";
    let mut live = place.open_with(|spec| spec.instructions = Some(words.to_owned())).await?;
    live.says(&ask, "dunlin").await?;
    live.close().await?;
    Ok(Seen::Held)
}

async fn the_chosen_model_is_asked(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let models = place.stage.models();
    if models.is_empty() && bench.subject.is_live() {
        let why = "which models this account may choose is not known";
        return Err(Stop::NotShown(why.to_owned()));
    }
    ensure!(!models.is_empty(), "the subject names no models to choose");
    for model in models {
        let mut live = place.open_with(|spec| spec.model = Some(model.clone())).await?;
        live.says(&hello, "hello").await?;
        let asked = place.stage.heard().and_then(|heard| heard.last().map(|one| one.model.clone()));
        let asked = asked.or_else(|| live.facts.model.clone());
        ensure!(
            asked.as_ref().is_some_and(|asked| model.contains(asked)),
            "{model} was chosen, {asked:?} asked"
        );
        live.close().await?;
    }
    Ok(Seen::Held)
}

/// A scripted model says the same figures at every answer: a turn with two answers has used twice as much, and the next
/// one starts from nothing.
async fn usage_is_counted_once_for_each_turn(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let one = scenario.prompt(say("one"));
    let two = scenario.prompt([Act::Run("true".to_owned()), Act::Say("two".to_owned())]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let first = live.says(&one, "one").await?.usage;
    ensure!(first.output_tokens.is_some_and(|count| count > 0), "no figures: {first:?}");
    // A real model says as much as it likes.
    let is_same = |one: Usage, other: Usage| {
        let tokens = |usage: Usage| (usage.input_tokens, usage.output_tokens, usage.cached_tokens);
        bench.subject.is_live() || tokens(one) == tokens(other)
    };
    if bench.is_able(Ability::Shell) {
        let tools = live.says(&two, "two").await?.usage;
        let twice = first.plus(first);
        ensure!(is_same(tools, twice), "one answer {first:?}, two answers {tools:?}");
    }
    let last = live.says(&one, "one").await?.usage;
    ensure!(is_same(first, last), "first {first:?}, last {last:?}");
    live.close().await?;
    Ok(match first.cost_usd {
        Some(_) => Seen::Noted("with its cost".to_owned()),
        None => Seen::Noted("without its cost".to_owned()),
    })
}

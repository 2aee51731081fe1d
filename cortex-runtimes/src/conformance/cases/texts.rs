//! Texts of every size and kind, both ways.

use cortex_lib::port::{OutputKind, TurnOutcome};

use super::say;
use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::place::Bench;
use crate::conformance::scenario::{Act, Scenario};

pub(super) const CASES: &[Case] = cases!["Texts":
    a_prompt_of_200_kb_arrives_whole [] [],
    an_answer_of_many_lines_comes_whole [] [],
    a_line_of_20_mb_is_read_or_cut [] [],
    invalid_utf8_of_a_tool_harms_nothing [] [Shell],
    every_script_and_sign_comes_as_it_is [] [],
    a_text_that_looks_like_a_command_is_none [] [],
];

/// Enough to be cut by every limit that is not meant.
const LONG_BYTES: usize = 200 * 1024;
/// A line as tools print it that dump a file.
const LINE_BYTES: usize = 20 * 1024 * 1024;

/// Streams: a 200 KB prompt → arrives whole.
async fn a_prompt_of_200_kb_arrives_whole(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let long = "lorem ipsum ".repeat(LONG_BYTES / 12);
    let prompt = scenario.prompt_around(&format!("{long}\n"), say("read"), "");
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.says(&prompt, "read").await?;
    live.close().await?;
    match place.heard() {
        Some(heard) => {
            ensure!(
                heard.contains(long.trim()),
                "the model was sent {} bytes without it",
                heard.len()
            );
            Ok(Seen::Held)
        }
        None => Ok(Seen::Noted("nobody sees what the model is sent".to_owned())),
    }
}

async fn an_answer_of_many_lines_comes_whole(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let lines: Vec<_> = (1..=500).map(|number| number.to_string()).collect();
    let prompt = scenario.prompt(say(&lines.join("\n")));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.says(&prompt, &lines.join("\n")).await?;
    let shown = live.output.iter().filter(|shown| shown.kind == OutputKind::Text);
    let shown: Vec<_> = shown.flat_map(|shown| shown.text.lines()).collect();
    ensure!(shown == lines, "{} lines were shown, not in order or not whole", shown.len());
    live.close().await?;
    Ok(Seen::Held)
}

/// Streams: one 20 MB line → parsed or cut cleanly, memory bounded.
async fn a_line_of_20_mb_is_read_or_cut(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let (long, hello) =
        (scenario.prompt([Act::SayLong(LINE_BYTES)]), scenario.prompt(say("hello")));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let end = live.run(&long).await?;
    let TurnOutcome::Succeeded { text } = &end.outcome else {
        return Err(Stop::Failed(format!("{:?}", end.outcome)));
    };
    let whole = text.len() == LINE_BYTES;
    ensure!(
        text.contains("xxx") && text.len() <= LINE_BYTES,
        "the result has {} bytes",
        text.len()
    );
    live.says(&hello, "hello").await?;
    live.close().await?;
    Ok(if whole { Seen::Held } else { Seen::Noted(format!("cut to {} KB", text.len() / 1024)) })
}

/// Streams: invalid UTF-8 → kept readable, nothing lost around it.
async fn invalid_utf8_of_a_tool_harms_nothing(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let print = Act::Run("printf 'before \\377\\376\\300 after\\n'".to_owned());
    let prompt = scenario.prompt([print, Act::Say("seen".to_owned())]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.says(&prompt, "seen").await?;
    let shown: Vec<_> = live.output.iter().map(|shown| shown.text.as_str()).collect();
    let heard = place.heard().unwrap_or_default() + &shown.join("\n");
    let around = bench.subject.is_live() || (heard.contains("before ") && heard.contains(" after"));
    ensure!(around, "what stands around it is lost");
    live.says(&prompt, "seen").await?;
    live.close().await?;
    Ok(Seen::Held)
}

async fn every_script_and_sign_comes_as_it_is(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let text = "größe 項目 🦀👩‍👩‍👧 e\u{301} עברית \"q\" \\n \\u0041 </x> ${HOME} %s";
    let prompt = scenario.prompt(say(text));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.says(&prompt, text).await?;
    live.close().await?;
    if let Some(heard) = place.heard() {
        ensure!(heard.contains(text), "the model was sent something else");
    }
    Ok(Seen::Held)
}

async fn a_text_that_looks_like_a_command_is_none(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let secret = tempfile::Builder::new().prefix("secret-").tempdir()?;
    let file = secret.path().join("word.txt");
    fs_err::write(&file, "the-secret-word")?;
    let mention = format!("@{} ", file.display());
    let starts = [
        "/clear ",
        " /nobody-knows-this ",
        "/exit ",
        "!echo ",
        "# ",
        "$ ",
        "-- ",
        "--help ",
        &mention,
    ];
    let prompts: Vec<_> = starts
        .iter()
        .map(|start| (*start, scenario.prompt_around(start, say("read"), "")))
        .collect();
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    for (start, prompt) in &prompts {
        if let Err(Stop::Failed(why)) = live.says(prompt, "read").await {
            return Err(Stop::Failed(format!("{start:?}: {why}")));
        }
    }
    live.close().await?;
    let heard = place.heard().unwrap_or_default();
    ensure!(!heard.contains("the-secret-word"), "a file that the text names was read");
    Ok(Seen::Held)
}

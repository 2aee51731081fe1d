//! Tools that ask, questions, input during a turn, and the tools of Cortex.

use std::collections::BTreeMap;
use std::path::Path;

use cortex_lib::error::Code;
use cortex_lib::port::{Steered, ToolAnswer, TurnOutcome};

use super::say;
use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::endpoint::{Endpoint, TOOL, WORD};
use crate::conformance::live::{refused, succeeded};
use crate::conformance::place::Bench;
use crate::conformance::scenario::{Act, Scenario};
use crate::conformance::subject::Ability;

pub(super) const CASES: &[Case] = cases!["Tools":
    a_tool_asks_first_and_runs_when_it_is_allowed [ToolApproval] [Shell],
    a_denied_tool_does_not_run_and_the_turn_goes_on [ToolApproval] [Shell],
    an_answer_that_comes_too_late_is_no_error [] [],
    a_question_is_carried_to_the_user [] [Questions],
    input_reaches_the_turn_that_runs [InteractiveInput] [Shell],
    a_worker_calls_the_tools_of_cortex_unasked [McpClient] [],
    a_start_fails_when_the_endpoint_refuses [McpClient] [],
    the_credential_stands_nowhere [McpClient] [],
];

const CREDENTIAL: &str = "cortex_session_conformance_4711";

async fn a_tool_asks_first_and_runs_when_it_is_allowed(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let run = scenario.prompt([Act::Run("echo > ran".into()), Act::Say("done".into())]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.holds = true;
    for _ in 0..2 {
        let turn = live.send(&run).await?;
        let request = live.request().await?;
        ensure!(!place.path("ran").exists(), "it ran before it was allowed");
        ensure!(request.turn_id.as_ref() == Some(&turn), "of another turn: {request:?}");
        let says =
            !request.tool.is_empty() && !request.summary.is_empty() && request.questions.is_empty();
        ensure!(says, "it does not say what it wants: {request:?}");
        ensure!(
            request.input.to_string().contains("echo > ran"),
            "not what was asked: {request:?}"
        );
        live.answer(&request, ToolAnswer::Allow).await?;
        succeeded(&live.ended(&turn).await?, "done")?;
        ensure!(place.path("ran").exists(), "it was allowed and did not run");
        // Leave for one is not leave for the next.
        fs_err::remove_file(place.path("ran"))?;
    }
    live.close().await?;
    Ok(Seen::Held)
}

async fn a_denied_tool_does_not_run_and_the_turn_goes_on(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let run = scenario.prompt([Act::Run("echo > ran".into()), Act::SayWord]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.holds = true;
    let turn = live.send(&run).await?;
    let request = live.request().await?;
    let reason = "Not today, because of «curlew».".to_owned();
    live.answer(&request, ToolAnswer::Deny { reason }).await?;
    let end = live.ended(&turn).await?;
    ensure!(!place.path("ran").exists(), "it was denied and ran");
    live.close().await?;
    // A CLI that knows no reasons only tells its model that there was a no.
    Ok(match succeeded(&end, "curlew") {
        Ok(()) => Seen::Noted("the agent reads why".to_owned()),
        Err(why) if !matches!(end.outcome, TurnOutcome::Succeeded { .. }) => return Err(why),
        Err(_) => Seen::Noted("the agent is told that it may not, and not why".to_owned()),
    })
}

async fn an_answer_that_comes_too_late_is_no_error(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("hello"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.session.answer("nobody-asked", ToolAnswer::Allow).await?;
    live.says(&hello, "hello").await?;
    live.session.answer("nobody-asked", ToolAnswer::Deny { reason: "no".to_owned() }).await?;
    live.says(&hello, "hello").await?;
    live.close().await?;
    Ok(Seen::Held)
}

async fn a_question_is_carried_to_the_user(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let choices = ["Take «knot»".to_owned(), "Take «stint»".to_owned()];
    let question = "Which bird?".to_owned();
    let ask = scenario
        .prompt([Act::Ask { question: question.clone(), choices: choices.to_vec() }, Act::SayWord]);
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    live.holds = true;
    let turn = live.send(&ask).await?;
    let request = live.request().await?;
    let [asked] = request.questions.as_slice() else {
        return Err(Stop::Failed(format!("one question was asked: {:?}", request.questions)));
    };
    ensure!(asked.text == question, "it asks {:?}", asked.text);
    let offered: Vec<_> = asked.choices.iter().map(|choice| choice.label.as_str()).collect();
    ensure!(
        choices.iter().all(|choice| offered.contains(&choice.as_str())),
        "it offers {offered:?}"
    );
    let [_, chosen] = choices;
    let answers = BTreeMap::from([(asked.id.clone(), vec![chosen])]);
    live.answer(&request, ToolAnswer::Answers(answers)).await?;
    succeeded(&live.ended(&turn).await?, "stint")?;
    live.close().await?;
    Ok(Seen::Held)
}

async fn input_reaches_the_turn_that_runs(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let wait = "echo > ran; until [ -e go ]; do sleep 0.05; done".to_owned();
    let run = scenario.prompt([Act::Run(wait), Act::Say("nothing new".into())]);
    let more = scenario.prompt(say("heard"));
    let place = bench.stage(&scenario).await?;
    let mut live = place.open().await?;
    let turn = live.send(&run).await?;
    live.until_exists(&place.path("ran")).await?;
    let steered =
        live.in_time("input hangs", live.session.steer(&turn, more.text().to_owned())).await??;
    ensure!(steered == Steered::Taken, "the turn runs and is said to be over");
    fs_err::write(place.path("go"), "")?;
    succeeded(&live.ended(&turn).await?, "heard")?;
    let steered = live.session.steer(&turn, more.text().to_owned()).await?;
    ensure!(steered == Steered::TurnOver, "the turn is over and is said to run");
    live.says(&more, "heard").await?;
    live.close().await?;
    ensure!(live.other_ends() == 0, "the input ended a turn of its own");
    Ok(Seen::Held)
}

async fn a_worker_calls_the_tools_of_cortex_unasked(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let call = scenario.prompt([Act::Call(TOOL.to_owned()), Act::SayWord]);
    let place = bench.stage(&scenario).await?;
    let endpoint = Endpoint::start(CREDENTIAL).await?;
    let mut live = place.open_with(|spec| spec.mcp = Some(endpoint.access())).await?;
    ensure!(endpoint.asked("tools/list") > 0, "it is ready before it has the tools");
    // Only a request that says which tool of Cortex it is for is answered; any other one hangs the turn.
    live.holds = true;
    live.says(&call, WORD).await?;
    ensure!(
        endpoint.asked("tools/call") == 1,
        "the tool was called {} times",
        endpoint.asked("tools/call")
    );
    live.close().await?;
    Ok(Seen::Held)
}

async fn a_start_fails_when_the_endpoint_refuses(bench: &Bench<'_>) -> Outcome {
    let place = bench.stage(&Scenario::new()).await?;
    let endpoint = Endpoint::start(CREDENTIAL).await?;
    let mut spec = place.spec()?;
    let id = spec.session_id.clone();
    spec.mcp = Some(endpoint.access_with("cortex_session_of_nobody"));
    let error = refused(place.try_open(spec).await?, "a start without the tools of Cortex")?;
    ensure!(error.code() == Code::RuntimeStartFailed, "{error} ({})", error.code());
    ensure!(
        !error.to_string().contains("cortex_session_of_nobody"),
        "the error tells the credential"
    );
    place.nothing_lives(&id)?;
    Ok(Seen::Held)
}

async fn the_credential_stands_nowhere(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let look = "printf %s \"${CORTEX_MCP_TOKEN:-nothing}\" > seen";
    let hello = scenario.prompt(say("hello"));
    let run = scenario.prompt([Act::Run(look.to_owned()), Act::Say("hello".into())]);
    let place = bench.stage(&scenario).await?;
    let endpoint = Endpoint::start(CREDENTIAL).await?;
    let mut spec = place.spec()?;
    spec.mcp = Some(endpoint.access());
    let (id, scratch) = (spec.session_id.clone(), spec.scratch.clone());
    let mut live = place.try_open(spec).await??;
    live.says(&hello, "hello").await?;
    ensure!(
        !place.stage.alive(&id).join("\n").contains(CREDENTIAL),
        "every user of this machine can read it"
    );
    for folder in [scratch, place.stage.project()] {
        if let Some(file) = holds(&folder, CREDENTIAL)? {
            return Err(Stop::Failed(format!("it stands in the file {file}")));
        }
    }
    ensure!(live.output.iter().all(|shown| !shown.text.contains(CREDENTIAL)), "it is shown");
    ensure!(!place.heard().unwrap_or_default().contains(CREDENTIAL), "the model was sent it");
    if !bench.is_able(Ability::Shell) {
        return Ok(Seen::Held);
    }
    live.says(&run, "hello").await?;
    let seen = fs_err::read_to_string(place.path("seen"))?;
    live.close().await?;
    // Its own tools may read it: it has exactly this session's rights.
    Ok(Seen::Noted(
        if seen == CREDENTIAL { "its shell sees it" } else { "not even its shell sees it" }
            .to_owned(),
    ))
}

/// A file below the folder that holds the text.
fn holds(folder: &Path, text: &str) -> std::io::Result<Option<String>> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let found = if entry.file_type()?.is_dir() {
            holds(&entry.path(), text)?
        } else {
            let bytes = fs_err::read(entry.path())?;
            let holds = String::from_utf8_lossy(&bytes).contains(text);
            holds.then(|| entry.path().display().to_string())
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

//! A server that is hard to reach: events, requests and answers that get lost or come late.

use std::time::Duration;

use cortex_lib::error::Code;
use cortex_lib::port::{McpAccess, OutputKind, ToolAnswer, TurnOutcome};
use cortex_lib::secret::Secret;
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases, cli};
use serde_json::json;
use tokio::time::timeout;

use crate::between::{Between, Wrong};
use crate::endpoint::Endpoint;
use crate::place::{Lossy, Place, lossy, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_turn_whose_events_are_lost_asks_and_ends_all_the_same,
        what_is_asked_while_a_look_is_on_its_way_is_seen,
        a_sub_agent_that_began_unheard_is_heard,
        an_answer_that_gets_lost_is_given_again,
        an_interrupted_turn_ends_when_the_next_can_begin,
        a_late_failure_is_not_that_of_the_next_turn,
        a_turn_that_was_refused_and_runs_is_ended,
        a_start_that_failed_takes_its_traces_away,
        a_close_lasts_no_longer_than_its_grace,
    ]
    .into()
}

/// More lines than wait for somebody who takes them.
const LINES: usize = 1000;

fn lines() -> String {
    let lines: Vec<String> = (0..LINES).map(|number| format!("line {number}")).collect();
    lines.join("\n")
}

pub(crate) fn script() -> Script {
    let bash = json!({"command": "echo ran", "description": "it"});
    let task = json!({"description": "d", "prompt": "lossy: below", "subagent_type": "general"});
    Script::new()
        .on(
            When::last_user("lossy: run"),
            Answer::text("I run it.").and_tool("bash", bash.clone()).silent_until("run"),
        )
        .on(When::tool_result("ran").and_any_text("lossy: run"), Answer::text(lines()))
        .on(When::last_user("lossy: look"), Answer::tool("bash", bash.clone()).silent_until("look"))
        .on(When::tool_result("ran").and_any_text("lossy: look"), Answer::text("looked"))
        .on(When::last_user("lossy: below"), Answer::tool("bash", bash.clone()))
        .on(When::tool_result("ran").and_any_text("lossy: below"), Answer::text("from below"))
        .on(
            When::last_user("lossy: ask another"),
            Answer::tool("task", task).silent_until("another"),
        )
        .on(When::tool_result("from below"), Answer::text("heard"))
        .on(When::last_user("lossy: again"), Answer::tool("bash", bash))
        .on(When::tool_result("ran").and_any_text("lossy: again"), Answer::text("ran again"))
        .on(When::last_user("lossy: hang"), Answer::text("On my way").hang_after(2, "never"))
        .on(When::last_user("lossy: hello"), Answer::text("hello"))
}

/// Streams: one that breaks under a turn.
async fn a_turn_whose_events_are_lost_asks_and_ends_all_the_same() {
    let Lossy { between, place, .. } = lossy().await;
    let mut live = place.open().await;
    let turn = live.send("lossy: run").await;
    between.lose_events().await;
    place.server.open("run");
    between.happens("permission.asked", 1).await;
    between.mend_events().await;
    let request = live.request().await;
    assert_eq!(request.summary, "bash: echo ran");
    between.lose_events().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    between.happens("session.idle", 1).await;
    between.mend_events().await;
    assert_eq!(live.ended(&turn).await.outcome, succeeded(&lines()));
    let mut said = vec![
        (OutputKind::Text, "I run it.".to_owned()),
        (OutputKind::Tool, "bash: echo ran".to_owned()),
    ];
    said.extend(lines().lines().map(|line| (OutputKind::Text, line.to_owned())));
    assert_eq!(live.said(), said);
    live.close().await;
}

async fn what_is_asked_while_a_look_is_on_its_way_is_seen() {
    let Lossy { between, place, .. } = lossy().await;
    let mut live = place.open().await;
    let turn = live.send("lossy: look").await;
    let looks = between.asked("GET /question");
    between.wrong("GET /question", Wrong::Late("look"));
    between.lose_events().await;
    between.mend_events().await;
    between.is_asked("GET /question", looks + 1).await;
    between.lose_events().await;
    place.server.open("look");
    between.happens("permission.asked", 1).await;
    between.mend_events().await;
    // Whatever the driver hears of the stream it has heard by then.
    for _ in 0..10 {
        live.session.answer("nothing", ToolAnswer::Allow).await.unwrap();
    }
    between.open("look");
    live.allow().await;
    assert_eq!(live.ended(&turn).await.outcome, succeeded("looked"));
    live.close().await;
}

async fn a_sub_agent_that_began_unheard_is_heard() {
    let Lossy { between, place, .. } = lossy().await;
    let mut live = place.open().await;
    let turn = live.send("lossy: ask another").await;
    between.lose_events().await;
    place.server.open("another");
    between.happens("permission.asked", 1).await;
    between.mend_events().await;
    let request = live.allow().await;
    assert_eq!((request.tool.as_str(), request.turn_id.as_ref()), ("bash", Some(&turn)));
    assert_eq!(live.ended(&turn).await.outcome, succeeded("heard"));
    live.close().await;
}

async fn an_answer_that_gets_lost_is_given_again() {
    let Lossy { between, place, .. } = lossy().await;
    let mut live = place.open().await;
    let turn = live.send("lossy: again").await;
    let request = live.request().await;
    between.wrong("/reply", Wrong::Lost);
    // The next one arrives, so the one after it is too late.
    between.wrong("/reply", Wrong::Unanswered);
    let replies = between.asked("/reply");
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("ran again"));
    assert!(between.asked("/reply") >= replies + 2);
    live.close().await;
}

async fn an_interrupted_turn_ends_when_the_next_can_begin() {
    let Lossy { between, place, .. } = lossy().await;
    let mut live = place.open().await;
    let turn = live.send("lossy: hang").await;
    between.wrong("/abort", Wrong::Late("abort"));
    live.session.interrupt(&turn).await.unwrap();
    let early = timeout(Duration::from_secs(3), live.ended(&turn)).await;
    assert!(early.is_err(), "{early:?}, and the abort runs");
    between.open("abort");
    assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted);
    let (end, _) = live.turn("lossy: hello").await;
    assert_eq!(end.outcome, succeeded("hello"));
    live.close().await;
}

async fn a_late_failure_is_not_that_of_the_next_turn() {
    let Lossy { between, place, .. } = lossy().await;
    let mut live = place.open().await;
    between.wrong("/prompt_async", Wrong::Failed("first"));
    let (end, _) = live.turn("lossy: hello").await;
    assert_eq!(end.outcome, succeeded("hello"));
    between.wrong("/prompt_async", Wrong::Held("second"));
    let prompts = between.asked("/prompt_async");
    let turn = live.next_turn("lossy: hello", true);
    let (sent, ()) = tokio::join!(live.session.send(turn.clone()), async {
        between.is_asked("/prompt_async", prompts + 1).await;
        between.open("first");
        for _ in 0..10 {
            live.session.answer("nothing", ToolAnswer::Allow).await.unwrap();
        }
        between.open("second");
    });
    sent.unwrap();
    assert_eq!(live.ended(&turn.id).await.outcome, succeeded("hello"));
    live.close().await;
}

async fn a_turn_that_was_refused_and_runs_is_ended() {
    let Lossy { between, place, .. } = lossy().await;
    let mut live = place.open().await;
    between.wrong("/prompt_async", Wrong::Denied);
    let aborts = between.asked("/abort");
    let turn = live.next_turn("lossy: hang", true);
    let error = live.session.send(turn).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeProtocol);
    between.is_asked("/abort", aborts + 1).await;
    live.close().await;
}

async fn a_start_that_failed_takes_its_traces_away() {
    let Lossy { between, place, .. } = lossy().await;
    let endpoint = Endpoint::start("cortex_session_1").await;
    let url = endpoint.url.clone();
    let access =
        McpAccess { url, token: Secret::new("wrong"), hook_token: Secret::new("cortex_hook_1") };
    let taken = || (between.asked("/disconnect"), between.asked("DELETE /session/"));
    let before = taken();
    place.open_with(|spec| spec.mcp = Some(access)).await.unwrap_err();
    assert_eq!(taken(), (before.0 + 1, before.1 + 1));
}

/// Processes: a server that answers nothing any more.
async fn a_close_lasts_no_longer_than_its_grace() {
    let between = Between::start(&cli::opencode().unwrap()).await;
    let program = between.program();
    let place = Place::with(script(), |config| config.executable = Some(program)).await;
    let mut live = place.open().await;
    live.send("lossy: hang").await;
    for request in ["/abort", "/abort", "/instance/dispose", "/global/dispose"] {
        between.wrong(request, Wrong::Late("never"));
    }
    // Each of these answers alone is waited for longer.
    let closed = timeout(Duration::from_secs(4), live.session.close(Duration::ZERO)).await;
    assert!(closed.is_ok(), "it waits for answers");
    live.close().await;
}

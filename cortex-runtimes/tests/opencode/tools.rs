//! Tools: what is asked and how the answer counts, questions, sub-agents, and what tools leave behind.

use std::collections::BTreeMap;
use std::time::Duration;

use cortex_lib::port::{ToolAnswer, TurnOutcome};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::json;

use crate::place::{shared, succeeded, until};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_tool_is_asked_for_and_the_answer_counts,
        what_leaves_the_folder_is_asked_for,
        a_request_of_an_interrupted_turn_is_withdrawn,
        a_question_reaches_a_person_and_their_answer_the_agent,
        what_a_sub_agent_asks_and_uses_belongs_to_the_turn,
        nothing_outlives_an_attempt,
        an_interrupt_ends_what_tools_started,
        a_close_during_a_turn_ends_what_it_started_and_nothing_of_others,
        a_session_that_is_dropped_leaves_nothing,
        what_is_for_the_server_does_not_reach_tools,
    ]
    .into()
}

/// A command that leaves processes behind: in its group, in a session of its own, and one whose parents have ended
/// as well.
const LEAVES: &str = "(sleep 86402 >/dev/null 2>&1 &) ; setsid sleep 86403 >/dev/null 2>&1 & (setsid sh -c 'sleep 86404 & sleep 86405' >/dev/null 2>&1 &) ; echo > ran";
/// The same, and it does not return.
const STAYS: &str = "sleep 86406 & setsid sleep 86407 >/dev/null 2>&1 & sleep 86408";

fn bash(command: &str) -> Answer {
    Answer::tool("bash", json!({"command": command, "description": "it"}))
}

pub(crate) fn script() -> Script {
    let write = json!({"filePath": "{{file}}", "content": "hello"});
    let options =
        json!([{"label": "A", "description": "the first"}, {"label": "B", "description": ""}]);
    let question =
        json!({"questions": [{"question": "Which?", "header": "Pick", "options": options}]});
    let task = json!({"description": "sub", "prompt": "tools: below", "subagent_type": "general"});
    Script::new()
        .on(When::tool_result("Not today.").and_any_text("tools: write"), Answer::text("sad"))
        .on(When::tool_result("").and_any_text("tools: write"), Answer::text("glad"))
        .on(
            When::last_user("tools: write").take("file", "into <", ">"),
            Answer::tool("write", write),
        )
        .on(
            When::last_user("tools: outside"),
            Answer::tool("read", json!({"filePath": "/etc/hostname"})),
        )
        .on(When::tool_result("").and_any_text("tools: outside"), Answer::text("no way"))
        .on(When::last_user("tools: question"), Answer::tool("question", question))
        .on(When::tool_result("=\"B\""), Answer::text("B it is"))
        .on(When::tool_result("nobody is here"), Answer::text("then not"))
        .on(
            When::last_user("tools: below"),
            bash("echo below; setsid sleep 86401 >/dev/null 2>&1 &"),
        )
        .on(When::tool_result("below").and_any_text("tools: below"), Answer::text("from below"))
        .on(When::last_user("tools: ask another"), Answer::tool("task", task))
        .on(When::tool_result("from below"), Answer::text("heard"))
        .on(When::last_user("tools: leave"), bash(LEAVES))
        .on(When::tool_result("").and_any_text("tools: leave"), Answer::text("done"))
        .on(When::last_user("tools: stay"), bash(STAYS))
        .on(When::last_user("tools: env"), bash("env"))
        .on(When::tool_result("").and_any_text("tools: env"), Answer::text("seen"))
        .on(When::last_user("tools: hello"), Answer::text("hello"))
}

async fn a_tool_is_asked_for_and_the_answer_counts() {
    let file = shared().path("new.txt");
    let mut live = shared().open().await;
    for (answer, said, written) in [
        (ToolAnswer::Deny { reason: "Not today.".to_owned() }, "sad", false),
        (ToolAnswer::Allow, "glad", true),
    ] {
        let turn = live.send(&format!("tools: write into <{}>", file.display())).await;
        let request = live.request().await;
        assert_eq!((request.tool.as_str(), request.turn_id.as_ref()), ("write", Some(&turn)));
        assert_eq!(request.summary, format!("write: {}", file.display()));
        assert_eq!(request.input.get("content"), Some(&json!("hello")));
        assert!(request.questions.is_empty() && request.of_cortex.is_none());
        assert!(!file.exists());
        live.session.answer(&request.request_id, answer.clone()).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded(said));
        assert_eq!(file.exists(), written);
        live.session.answer(&request.request_id, answer).await.unwrap();
    }
    // One answer is for one request: the next is asked again.
    let turn = live.send(&format!("tools: write into <{}>", file.display())).await;
    let request = live.request().await;
    let deny = ToolAnswer::Deny { reason: "Not today.".to_owned() };
    live.session.answer(&request.request_id, deny).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("sad"));
    live.close().await;
}

async fn what_leaves_the_folder_is_asked_for() {
    let mut live = shared().open().await;
    let turn = live.send("tools: outside").await;
    let request = live.request().await;
    assert_eq!(request.tool, "external_directory");
    assert_eq!(request.summary, "external_directory: /etc/* (read: /etc/hostname)");
    let deny = ToolAnswer::Deny { reason: "Stay here.".to_owned() };
    live.session.answer(&request.request_id, deny).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("no way"));
    live.close().await;
}

async fn a_request_of_an_interrupted_turn_is_withdrawn() {
    let mut live = shared().open().await;
    let turn = live.send("tools: stay").await;
    let request = live.request().await;
    live.session.interrupt(&turn).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted);
    assert_eq!(live.withdrawn, 1);
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    let (end, _) = live.turn("tools: hello").await;
    assert_eq!(end.outcome, succeeded("hello"));
    assert_eq!(live.sleeping(), Vec::<String>::new());
    live.close().await;
}

async fn a_question_reaches_a_person_and_their_answer_the_agent() {
    let mut live = shared().open().await;
    let answers = BTreeMap::from([("0".to_owned(), vec!["B".to_owned()])]);
    for (answer, said) in [
        (ToolAnswer::Answers(answers), "B it is"),
        (ToolAnswer::Deny { reason: "nobody is here".to_owned() }, "then not"),
    ] {
        let turn = live.send("tools: question").await;
        let request = live.request().await;
        assert_eq!((request.tool.as_str(), request.summary.as_str()), ("question", "Which?"));
        let [question] = request.questions.as_slice() else { panic!("{request:?}") };
        assert_eq!((question.id.as_str(), question.text.as_str()), ("0", "Which?"));
        assert_eq!((question.multiple, question.free_text), (false, true));
        let choices: Vec<_> = question
            .choices
            .iter()
            .map(|choice| (choice.label.as_str(), choice.description.as_deref()))
            .collect();
        assert_eq!(choices, [("A", Some("the first")), ("B", None)]);
        live.session.answer(&request.request_id, answer).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded(said));
    }
    live.close().await;
}

async fn what_a_sub_agent_asks_and_uses_belongs_to_the_turn() {
    let mut live = shared().open().await;
    let turn = live.send("tools: ask another").await;
    let request = live.allow().await;
    assert_eq!((request.tool.as_str(), request.turn_id.as_ref()), ("bash", Some(&turn)));
    let end = live.ended(&turn).await;
    assert_eq!(end.outcome, succeeded("heard"));
    // Two steps above and two below, 7 tokens each.
    assert_eq!(end.usage.output_tokens, Some(28));
    assert_eq!(live.sleeping(), Vec::<String>::new());
    live.close().await;
}

/// Processes: a tool that forked, also into a session of its own, leaves nothing after its attempt.
async fn nothing_outlives_an_attempt() {
    let mut live = shared().open().await;
    let turn = live.send("tools: leave").await;
    live.allow().await;
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    assert!(shared().path("ran").exists());
    assert_eq!(live.sleeping(), Vec::<String>::new());
    // What a person asked for directly may stay until the session closes.
    let turn = live.next_turn("tools: leave", false);
    live.session.send(turn.clone()).await.unwrap();
    live.allow().await;
    assert_eq!(live.ended(&turn.id).await.outcome, succeeded("done"));
    live.sleepers(4).await;
    live.close().await;
}

/// Processes: a tool that forked leaves nothing after an interrupt.
async fn an_interrupt_ends_what_tools_started() {
    let mut live = shared().open().await;
    let turn = live.send("tools: stay").await;
    live.allow().await;
    live.sleepers(3).await;
    live.session.interrupt(&turn).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted);
    assert_eq!(live.sleeping(), Vec::<String>::new());
    live.close().await;
}

/// Processes: sessions share a server, and what tools of one started goes with it while the others live.
async fn a_close_during_a_turn_ends_what_it_started_and_nothing_of_others() {
    let (mut one, mut other) = (shared().open().await, shared().open().await);
    assert_eq!(one.facts.pid, other.facts.pid);
    let (first, second) = (one.send("tools: stay").await, other.send("tools: stay").await);
    one.allow().await;
    other.allow().await;
    one.sleepers(3).await;
    other.sleepers(3).await;
    one.session.close(Duration::from_secs(10)).await;
    assert_eq!(one.sleeping(), Vec::<String>::new());
    assert_eq!(one.ended(&first).await.outcome, TurnOutcome::Interrupted);
    assert_eq!(one.last_words().await, "the session was closed");
    assert_eq!(other.sleeping().len(), 3);
    other.session.interrupt(&second).await.unwrap();
    assert_eq!(other.ended(&second).await.outcome, TurnOutcome::Interrupted);
    other.close().await;
    // At once, and again.
    one.session.close(Duration::ZERO).await;
}

/// Processes: a session that nobody holds any more leaves nothing.
async fn a_session_that_is_dropped_leaves_nothing() {
    let mut live = shared().open().await;
    live.send("tools: stay").await;
    live.allow().await;
    live.sleepers(3).await;
    let marker = live.marker.clone();
    drop(live);
    until(|| crate::place::alive(&marker).is_empty().then_some(())).await;
}

async fn what_is_for_the_server_does_not_reach_tools() {
    let mut live = shared().open().await;
    let turn = live.send("tools: env").await;
    live.allow().await;
    assert_eq!(live.ended(&turn).await.outcome, succeeded("seen"));
    let asked = shared().asked(&live);
    let printed = &asked.last().unwrap().tool_results.first().unwrap().text;
    assert!(printed.contains(&format!("CORTEX_OWNER={}\n", live.marker)), "{printed}");
    for name in ["OPENCODE_SERVER_PASSWORD", "OPENCODE_CONFIG_CONTENT", "OTHER_API_KEY"] {
        assert!(!printed.contains(name), "{printed}");
    }
    live.close().await;
}

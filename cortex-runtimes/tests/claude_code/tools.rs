//! What agents may do: tools that ask, tools that are not there, and what tools leave behind.

use cortex_lib::port::{McpAccess, ToolAnswer};
use cortex_lib::secret::Secret;
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::json;

use crate::endpoint::Endpoint;
use crate::place::{Place, alive, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_tool_is_asked_for_and_the_answer_counts,
        nothing_outlives_an_attempt,
        what_a_direct_turn_left_is_gone_after_the_close,
        a_reading_session_has_only_the_tools_to_read,
        a_worker_uses_the_tools_of_cortex_unasked_and_past_a_proxy,
    ]
    .into()
}

async fn a_tool_is_asked_for_and_the_answer_counts() {
    let write = Answer::tool("Write", json!({"file_path": "{{file}}", "content": "hello"}));
    let place = Place::new(
        Script::new()
            .on(When::tool_result("Not today."), Answer::text("sad"))
            .on(When::tool_result(""), Answer::text("glad"))
            .on(When::last_user("write").take("file", "into <", ">"), write),
    )
    .await;
    let file = place.home.project().join("new.txt");
    let mut live = place.open().await;
    for (answer, said, written) in [
        (ToolAnswer::Deny { reason: "Not today.".to_owned() }, "sad", false),
        (ToolAnswer::Allow, "glad", true),
    ] {
        let turn = live.send(&format!("write into <{}>", file.display())).await;
        let request = live.request().await;
        assert_eq!((request.tool.as_str(), request.turn_id.as_ref()), ("Write", Some(&turn)));
        assert_eq!(request.summary, format!("Write: {}", file.display()));
        assert_eq!(request.input.get("content"), Some(&json!("hello")));
        assert!(!file.exists());
        live.session.answer(&request.request_id, answer.clone()).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded(said));
        assert_eq!(file.exists(), written);
        live.session.answer(&request.request_id, answer).await.unwrap();
    }
    live.close().await;
}

/// A command that leaves three processes behind: one in its group, one in a session of its own, and one whose
/// parents have ended as well.
const LEAVES: &str = "(sleep 86402 &) ; setsid sleep 86403 & (setsid sh -c 'sleep 86404 & sleep 86405' >/dev/null 2>&1 &) ; echo > ran";

async fn nothing_outlives_an_attempt() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result(""), Answer::text("done"))
            .otherwise(Answer::tool("Bash", json!({"command": LEAVES}))),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.send("run").await;
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    assert!(place.home.project().join("ran").exists());
    assert_eq!(place.sleeping(), Vec::<String>::new());
    // The session itself goes on.
    let turn = live.send("run").await;
    let request = live.request().await;
    let deny = ToolAnswer::Deny { reason: "once is enough".to_owned() };
    live.session.answer(&request.request_id, deny).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    live.close().await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

async fn what_a_direct_turn_left_is_gone_after_the_close() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result(""), Answer::text("done"))
            .otherwise(Answer::tool("Bash", json!({"command": LEAVES}))),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.next_turn("run", false);
    live.session.send(turn.clone()).await.unwrap();
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    assert_eq!(live.ended(&turn.id).await.outcome, succeeded("done"));
    place.sleepers(4).await;
    live.close().await;
    assert_eq!(place.sleeping(), Vec::<String>::new());
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

async fn a_reading_session_has_only_the_tools_to_read() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result(""), Answer::text("no"))
            .otherwise(Answer::tool("Write", json!({"file_path": "new.txt", "content": "c"}))),
    )
    .await;
    let mut live = place
        .open_with(|spec| {
            spec.read_only = true;
            spec.instructions = Some("Mind the herons.".to_owned());
        })
        .await
        .unwrap();
    let (end, _) = live.turn("write").await;
    assert_eq!(end.outcome, succeeded("no"));
    let requests = place.server.requests();
    for request in &requests {
        let tools = request.tools.iter().map(String::as_str);
        // What the CLI puts in for tools that are searched for later; it is none.
        let tools: Vec<_> = tools.filter(|name| *name != "DeferredToolPlaceholder").collect();
        assert_eq!(tools, ["Glob", "Grep", "Read"]);
        assert!(request.system.contains("Mind the herons."), "{}", request.system);
    }
    let denied = requests.last().and_then(|request| request.tool_results.first()).unwrap();
    assert!(denied.is_error && denied.text.contains("No such tool"), "{denied:?}");
    assert!(!place.home.project().join("new.txt").exists());
    live.close().await;
}

/// S-230, S-231.
/// The place has a proxy, which would be given the credential.
async fn a_worker_uses_the_tools_of_cortex_unasked_and_past_a_proxy() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result("no tasks yet"), Answer::text("none"))
            .otherwise(Answer::tool("mcp__cortex__list_tasks", json!({}))),
    )
    .await
    .var("NO_PROXY", "")
    .var("no_proxy", "");
    let endpoint = Endpoint::start("cortex_session_1").await;
    let token = Secret::new("cortex_session_1");
    let url = endpoint.url.clone();
    let mut live = place
        .open_with(|spec| {
            spec.mcp = Some(McpAccess { url, token, hook_token: Secret::new("cortex_hook_1") });
        })
        .await
        .unwrap();
    let (end, _) = live.turn("look").await;
    assert_eq!(end.outcome, succeeded("none"));
    let requests = place.server.requests();
    let offered = |name: &str| requests.iter().all(|one| one.tools.iter().any(|tool| tool == name));
    assert!(offered("mcp__cortex__list_tasks") && offered("Bash"), "{requests:?}");
    assert_eq!(place.server.strangers(), []);
    live.close().await;
}

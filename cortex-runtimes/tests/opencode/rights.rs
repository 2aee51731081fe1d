//! What agents may do at all: those that only read, those that only coordinate, and the tools of Cortex.

use cortex_lib::domain::agent::Role;
use cortex_lib::error::Code;
use cortex_lib::port::McpAccess;
use cortex_lib::secret::Secret;
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Request, Script, When, cases};
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::place::{Live, shared, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_reading_session_reads_and_is_refused_everything_else,
        an_orchestrator_has_the_tools_of_cortex_and_no_others,
        each_worker_has_the_tools_of_cortex_with_its_own_credential,
        a_start_without_the_tools_of_cortex_fails,
    ]
    .into()
}

/// What would change something, run something, reach the network or start others.
fn attempts() -> Vec<(&'static str, Value)> {
    let file = "{{root}}/forbidden.txt";
    let touch = format!("touch {file}");
    let task = |agent: &str| json!({"description": "d", "prompt": "rights: below", "subagent_type": agent});
    vec![
        ("write", json!({"filePath": file, "content": "x"})),
        (
            "edit",
            json!({"filePath": "{{root}}/notes.md", "oldString": "heron", "newString": "crane"}),
        ),
        ("patch", json!({"patchText": "x"})),
        ("bash", json!({"command": touch, "description": "touch"})),
        ("task", task("general")),
        ("task", task("explore")),
        ("webfetch", json!({"url": "http://127.0.0.1/", "format": "text"})),
        ("websearch", json!({"query": "x"})),
        ("todowrite", json!({"todos": []})),
        ("skill", json!({"name": "customize-opencode"})),
        ("question", json!({"questions": [{"question": "?", "header": "h", "options": []}]})),
        ("read", json!({"filePath": "/etc/hostname"})),
        ("read", json!({"filePath": "{{root}}/secret.env"})),
    ]
}

/// A model that tries all of it at once.
fn trying(first: Answer, attempts: Vec<(&'static str, Value)>) -> Answer {
    attempts.into_iter().fold(first, |answer, (tool, input)| answer.and_tool(tool, input))
}

pub(crate) fn script() -> Script {
    let notes = json!({"filePath": "{{root}}/notes.md"});
    let read = Answer::text("I try.").and_tool("read", notes.clone());
    let reader = When::last_user("rights: read").take("root", "in <", ">");
    let leader = When::last_user("rights: lead").take("root", "in <", ">");
    let mut more = attempts();
    more.push(("read", notes));
    more.push(("glob", json!({"pattern": "*"})));
    Script::new()
        .on(reader, trying(read, attempts()))
        .on(When::tool_result("").and_any_text("rights: read"), Answer::text("tried"))
        .on(leader, trying(Answer::text("I try."), more))
        .on(When::tool_result("").and_any_text("rights: lead"), Answer::text("tried"))
        .on(When::last_user("rights: below"), Answer::text("below"))
        .on(When::tool_result("no tasks yet").and_any_text("rights: list"), Answer::text("none"))
        .on(
            When::last_user("rights: list"),
            Answer::tool("*_list_tasks", json!({})).and_tool("*_list_tasks", json!({})),
        )
}

fn files() {
    let project = shared().home.project();
    fs_err::write(project.join("notes.md"), "the word is heron\n").unwrap();
    fs_err::write(project.join("secret.env"), "KEY=hush\n").unwrap();
}

fn untouched() {
    let project = shared().home.project();
    assert!(!project.join("forbidden.txt").exists());
    let notes = fs_err::read_to_string(project.join("notes.md")).unwrap();
    assert_eq!(notes, "the word is heron\n");
}

fn results(asked: &[Request]) -> Vec<String> {
    asked.last().unwrap().tool_results.iter().map(|result| result.text.clone()).collect()
}

async fn a_reading_session_reads_and_is_refused_everything_else() {
    let opened = shared().open_with(|spec| {
        spec.read_only = true;
        spec.instructions = Some("Mind the herons.".to_owned());
    });
    let mut live = opened.await.unwrap();
    files();
    let root = shared().home.project();
    let (end, _) = live.turn(&format!("rights: read in <{}>", root.display())).await;
    assert_eq!(end.outcome, succeeded("tried"));
    let asked = shared().asked(&live);
    for request in &asked {
        assert_eq!(request.tools, ["glob", "grep", "read"]);
        assert!(request.system.contains("Mind the herons."), "{}", request.system);
    }
    let results = results(&asked);
    let (read, refused) = results.split_first().unwrap();
    assert!(read.contains("the word is heron"), "{read}");
    assert_eq!(refused.len(), attempts().len(), "{refused:#?}");
    let said = refused.join("\n");
    assert!(!said.contains("hush") && !said.contains("below"), "{said}");
    untouched();
    // It is not kept.
    let native = live.facts.native_session_id.clone().unwrap();
    live.close().await;
    let error = shared().resume(&native).await.unwrap_err();
    assert_eq!(error.detail("resume_unknown"), Some(&json!(true)), "{error}");
}

async fn an_orchestrator_has_the_tools_of_cortex_and_no_others() {
    let endpoint = Endpoint::start("cortex_session_1").await;
    let url = endpoint.url.clone();
    let opened = shared().open_with(|spec| {
        spec.role = Role::Orchestrator;
        spec.mcp = Some(McpAccess {
            url,
            token: Secret::new("cortex_session_1"),
            hook_token: Secret::new("cortex_hook_1"),
        });
    });
    let mut live = opened.await.unwrap();
    files();
    let root = shared().home.project();
    let (end, _) = live.turn(&format!("rights: lead in <{}>", root.display())).await;
    assert_eq!(end.outcome, succeeded("tried"));
    let asked = shared().asked(&live);
    for request in &asked {
        assert_eq!(request.tools, [format!("{}_list_tasks", name(&live))]);
    }
    let said = results(&asked).join("\n");
    assert!(!said.contains("heron") && !said.contains("hush") && !said.contains("below"), "{said}");
    untouched();
    let all = shared().server.requests();
    assert!(!all.iter().any(|request| request.last_user == "rights: below"));
    live.close().await;
}

/// The name of the session's MCP server, as its tools show it.
fn name(live: &Live) -> String {
    let (_, letters) = live.marker.split_at(live.marker.len() - 8);
    format!("cortex_{letters}")
}

/// The place has a proxy, which would be given the credential.
async fn each_worker_has_the_tools_of_cortex_with_its_own_credential() {
    let one = Endpoint::start("cortex_session_1").await;
    let other = Endpoint::start("cortex_session_2").await;
    let mut lives = Vec::new();
    for (endpoint, token) in [(&one, "cortex_session_1"), (&other, "cortex_session_2")] {
        let url = endpoint.url.clone();
        let access =
            McpAccess { url, token: Secret::new(token), hook_token: Secret::new("cortex_hook_1") };
        lives.push(shared().open_with(|spec| spec.mcp = Some(access)).await.unwrap());
    }
    for live in &mut lives {
        let own = format!("{}_list_tasks", name(live));
        // Unasked, and each call stands for itself: the server says of each that is done that it is cancelled.
        for _ in 0..2 {
            let (end, _) = live.turn("rights: list").await;
            assert_eq!(end.outcome, succeeded("none"));
        }
        let asked = shared().asked(live);
        let tools = &asked.last().unwrap().tools;
        let of_cortex: Vec<_> =
            tools.iter().filter(|tool| tool.starts_with("cortex_")).cloned().collect();
        assert_eq!(of_cortex, [own]);
        assert!(tools.iter().any(|tool| tool == "bash"), "{tools:?}");
    }
    for (endpoint, token) in [(&one, "cortex_session_1"), (&other, "cortex_session_2")] {
        let listed = endpoint.seen("tools/list");
        let credentials: Vec<_> = listed.iter().map(|one| one.credential.as_deref()).collect();
        assert_eq!(credentials, [Some(format!("Bearer {token}").as_str())]);
        assert_eq!(endpoint.seen("tools/call").len(), 4);
    }
    let past_proxy = shared().server.strangers();
    assert!(!past_proxy.iter().any(|one| one.target.contains("127.0.0.1")), "{past_proxy:?}");
    for live in lives {
        live.close().await;
    }
}

async fn a_start_without_the_tools_of_cortex_fails() {
    let endpoint = Endpoint::start("cortex_session_1").await;
    let url = endpoint.url.clone();
    let access =
        McpAccess { url, token: Secret::new("wrong"), hook_token: Secret::new("cortex_hook_1") };
    let error = shared().open_with(|spec| spec.mcp = Some(access)).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeStartFailed);
    assert!(error.message().contains("does not reach the tools of Cortex"), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
}

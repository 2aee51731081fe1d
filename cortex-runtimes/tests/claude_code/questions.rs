//! Questions that reach a person: of the agent, and of an MCP server.

use std::collections::BTreeMap;

use cortex_lib::port::{Choice, Question, ToolAnswer};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::json;

use crate::place::{Live, Place, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_question_of_the_agent_reaches_a_person_and_the_answer_the_agent,
        a_question_that_is_denied_or_withdrawn_leaves_the_session_well,
        the_end_of_planning_asks_for_leave,
        a_form_of_an_mcp_server_is_filled_in_or_declined,
        a_form_without_fields_is_agreed_to_or_declined,
    ]
    .into()
}

fn answers(all: &[(&str, &[&str])]) -> ToolAnswer {
    let all = all.iter().map(|(id, given)| {
        ((*id).to_owned(), given.iter().map(|given| (*given).to_owned()).collect())
    });
    ToolAnswer::Answers(all.collect::<BTreeMap<_, Vec<_>>>())
}

/// Two questions, of which the second may have several answers.
fn asking() -> Answer {
    let option = |label: &str| json!({"label": label, "description": format!("{label} it is")});
    Answer::tool(
        "AskUserQuestion",
        json!({"questions": [
            {"question": "Which colour?", "header": "Colour", "multiSelect": false, "options": [option("red"), option("blue")]},
            {"question": "Which sizes?", "header": "Sizes", "multiSelect": true, "options": [option("S"), option("M"), option("L")]},
        ]}),
    )
}

async fn a_question_of_the_agent_reaches_a_person_and_the_answer_the_agent() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result(r#""Which colour?"="a dark green""#), Answer::text("green"))
            .on(When::tool_result(r#""Which sizes?"="S, L""#), Answer::text("some"))
            .otherwise(asking()),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.send("ask").await;
    let request = live.request().await;
    assert_eq!((request.tool.as_str(), request.of_cortex), ("AskUserQuestion", None));
    let choice = |label: &str| Choice {
        label: label.to_owned(),
        description: Some(format!("{label} it is")),
    };
    let question = |id: &str, text: &str, labels: &[&str], multiple| Question {
        id: id.to_owned(),
        text: text.to_owned(),
        choices: labels.iter().map(|label| choice(label)).collect(),
        multiple,
        free_text: true,
    };
    let asked = [
        question("1", "Which colour?", &["red", "blue"], false),
        question("2", "Which sizes?", &["S", "M", "L"], true),
    ];
    assert_eq!(request.questions, asked);
    let given = answers(&[("1", &["a dark green"]), ("2", &[])]);
    live.session.answer(&request.request_id, given).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("green"));

    let turn = live.send("ask").await;
    let request = live.request().await;
    let given = answers(&[("2", &["S", "L"])]);
    live.session.answer(&request.request_id, given).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("some"));
    live.close().await;
}

async fn a_question_that_is_denied_or_withdrawn_leaves_the_session_well() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result("Not now."), Answer::text("alone"))
            .on(When::last_user("ask"), asking())
            .otherwise(Answer::text("fine")),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.send("ask").await;
    let request = live.request().await;
    let deny = ToolAnswer::Deny { reason: "Not now.".to_owned() };
    live.session.answer(&request.request_id, deny).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("alone"));

    let turn = live.send("ask").await;
    let request = live.request().await;
    live.session.interrupt(&turn).await.unwrap();
    live.ended(&turn).await;
    assert_eq!(live.withdrawn, 1);
    live.session.answer(&request.request_id, answers(&[("1", &["red"])])).await.unwrap();
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    live.close().await;
}

async fn the_end_of_planning_asks_for_leave() {
    let place = Place::new(
        Script::new()
            .on(
                When::tool_result("Too short."),
                Answer::tool("ExitPlanMode", json!({"plan": "A better plan."})),
            )
            .on(When::tool_result("approved"), Answer::text("off I go"))
            .on(When::tool_result(""), Answer::tool("ExitPlanMode", json!({"plan": "A plan."})))
            .otherwise(Answer::tool("EnterPlanMode", json!({}))),
    )
    .await;
    let mut live = place.open().await;
    let turn = live.send("plan").await;
    let mut request = live.request().await;
    if request.tool == "EnterPlanMode" {
        live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
        request = live.request().await;
    }
    assert_eq!((request.tool.as_str(), request.questions.len()), ("ExitPlanMode", 0));
    let deny = ToolAnswer::Deny { reason: "Too short.".to_owned() };
    live.session.answer(&request.request_id, deny).await.unwrap();
    let request = live.request().await;
    assert_eq!(request.tool, "ExitPlanMode");
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("off I go"));
    live.close().await;
}

/// A server with one tool that asks its user, by this form.
const ASKING_SERVER: &str = r#"
read -r line; id() { printf '%s' "$line" | sed 's/.*"id":\([^,}]*\).*/\1/'; }
while :; do
  case "$line" in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$(id)"',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"form","version":"1"}}}';;
    *'"method":"tools/list"'*) echo '{"jsonrpc":"2.0","id":'"$(id)"',"result":{"tools":[{"name":"ask","description":"asks","inputSchema":{"type":"object","properties":{}}}]}}';;
    *'"method":"tools/call"'*) call=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'); echo '{"jsonrpc":"2.0","id":"e1","method":"elicitation/create","params":{"message":"Who are you?","requestedSchema":'"$1"'}}';;
    *'"id":"e1"'*) text=$(printf '%s' "$line" | sed 's/"/\\"/g'); echo '{"jsonrpc":"2.0","id":'"$call"',"result":{"content":[{"type":"text","text":"got '"$text"'"}]}}';;
    *'"method":"server/discover"'*) echo '{"jsonrpc":"2.0","id":'"$(id)"',"error":{"code":-32601,"message":"no such method"}}';;
  esac
  read -r line || exit 0
done
"#;

/// A session whose model asks by this form, and hears whether it was filled in.
async fn asked_by(form: &str) -> (Place, Live) {
    let place = Place::new(
        Script::new()
            .on(When::tool_result(r#""action":"accept""#), Answer::text("known"))
            .on(When::tool_result(r#""action":"decline""#), Answer::text("unknown"))
            .otherwise(Answer::tool("mcp__form__ask", json!({}))),
    )
    .await;
    let program = place.home.home().join("form.sh");
    fs_err::write(&program, ASKING_SERVER).unwrap();
    let args = json!([program, form]);
    let server = json!({"mcpServers": {"form": {"command": "sh", "args": args}}});
    fs_err::write(place.home.project().join(".mcp.json"), server.to_string()).unwrap();
    let live = place.open_with(|spec| spec.trusted = true).await.unwrap();
    (place, live)
}

async fn a_form_of_an_mcp_server_is_filled_in_or_declined() {
    let form = r#"{"type":"object","properties":{"name":{"type":"string","title":"Your name"},"colour":{"type":"string","enum":["red","blue"]},"age":{"type":"integer"},"sure":{"type":"boolean"}},"required":["name"]}"#;
    let (place, mut live) = asked_by(form).await;
    let filled =
        answers(&[("name", &["Ann"]), ("colour", &["red"]), ("age", &["3"]), ("sure", &["yes"])]);
    for (answer, said) in
        [(ToolAnswer::Deny { reason: "no".to_owned() }, "unknown"), (filled, "known")]
    {
        let turn = live.send("ask").await;
        let request = live.request().await;
        assert_eq!((request.tool.as_str(), request.questions.len()), ("mcp__form__ask", 0));
        live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
        let request = live.request().await;
        assert_eq!(request.summary, "form asks: Who are you?");
        let asked: Vec<_> =
            request.questions.iter().map(|one| (one.id.as_str(), one.text.as_str())).collect();
        let wanted = [
            ("name", "Who are you?\nYour name"),
            ("colour", "colour"),
            ("age", "age"),
            ("sure", "sure"),
        ];
        assert_eq!(asked, wanted);
        live.session.answer(&request.request_id, answer).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded(said));
    }
    let request = place.server.requests().pop().unwrap();
    let told = &request.tool_results.first().unwrap().text;
    let content = r#""content":{"age":3,"colour":"red","name":"Ann","sure":true}"#;
    assert!(told.contains(content), "{told}");
    live.close().await;
}

async fn a_form_without_fields_is_agreed_to_or_declined() {
    let (place, mut live) = asked_by(r#"{"type":"object","properties":{}}"#).await;
    for (answer, said) in
        [(ToolAnswer::Deny { reason: "no".to_owned() }, "unknown"), (ToolAnswer::Allow, "known")]
    {
        let turn = live.send("ask").await;
        let request = live.request().await;
        live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
        let request = live.request().await;
        assert_eq!(request.summary, "form asks: Who are you?");
        assert_eq!(request.questions, []);
        live.session.answer(&request.request_id, answer).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded(said));
    }
    let request = place.server.requests().pop().unwrap();
    let told = &request.tool_results.first().unwrap().text;
    assert!(told.contains(r#""content":{}"#), "{told}");
    live.close().await;
}

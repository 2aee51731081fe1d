//! What clients read: the handshake, the list, results and failures.

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::{Effect, TOOLS};
use cortex_lib::error::Code;
use serde_json::{Value, json};

use crate::Served;

/// S-014, S-015, S-016.
#[tokio::test]
async fn every_version_is_spoken_and_an_unknown_one_answered_with_the_newest() {
    let served = Served::open().await;
    for (asked, spoken) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        // It has no `initialize`: who sends one is of an earlier version.
        ("2026-07-28", "2025-11-25"),
        ("2031-01-01", "2025-11-25"),
    ] {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": client });
        let result = &served.ask("initialize", params).await["result"];
        assert_eq!(result["protocolVersion"], spoken, "{asked}");
        let told = json!({ "name": "cortex", "version": env!("CARGO_PKG_VERSION") });
        assert_eq!(result["serverInfo"], told);
        assert_eq!(result["capabilities"], json!({ "tools": {} }));
    }
}

#[tokio::test]
async fn the_list_is_the_catalogue() {
    let served = Served::open().await;
    let answer = served.ask("tools/list", json!({})).await;
    let listed = answer["result"]["tools"].as_array().unwrap();
    assert_eq!(listed.len(), TOOLS.len());
    for (listed, tool) in listed.iter().zip(&TOOLS) {
        // Of the answer it says less: see below.
        let mut listed = listed.clone();
        assert_eq!(listed["outputSchema"].take()["type"], "object", "{}", tool.name);
        let expected = json!({
            "name": tool.name,
            "description": tool.description(),
            "inputSchema": tool.input_schema(),
            "outputSchema": null,
            "annotations": {
                "readOnlyHint": tool.effect == Effect::Reads,
                "destructiveHint": false,
                "idempotentHint": matches!(tool.effect, Effect::Reads | Effect::WritesOnce),
            },
        });
        assert_eq!(listed, expected);
    }
}

/// Bytes of the whole list: a client reads it before anything else, and some hand all of it to a model. Node.js takes 64
/// KiB at once; of more than that it loses the end when the connection closes behind it.
const LIST_BYTES_MAX: usize = 63 * 1024;

#[tokio::test]
async fn the_list_is_small_and_always_the_same() {
    let served = Served::open().await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let once = served.send(served.post(list)).await.body;
    assert!(once.len() <= LIST_BYTES_MAX, "{} bytes", once.len());
    assert_eq!(once, served.send(served.post(list)).await.body);
}

/// Some clients check failures, too.
#[tokio::test]
async fn answers_and_failures_are_as_the_list_says() {
    let served = Served::open().await;
    let root = tempfile::tempdir().unwrap();
    let user = served.cortex.as_user();
    let add = AddProject { name: "p".to_owned(), root: root.path().to_owned(), verification: None };
    let project = user.call(add).await.unwrap().project.project_id;
    let task = json!({ "key": "a", "title": "A", "description": "Do it." });
    let objective = json!({ "project_id": project, "title": "o", "tasks": [task] });
    let made = served.call("create_objective", objective.clone()).await;
    let made = &made["structuredContent"]["objective"];
    let task_id = &made["tasks"][0]["task_id"];
    let answer = served.ask("tools/list", json!({})).await;
    let (mut answers, mut failures) = (0, 0);
    for tool in answer["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let schema = jsonschema::validator_for(&tool["outputSchema"]).unwrap();
        for arguments in [
            json!({}),
            objective.clone(),
            json!({ "objective_id": made["objective_id"] }),
            json!({ "task_id": task_id }),
            json!({ "task_id": task_id, "reason": "enough" }),
        ] {
            let result = served.call(name, arguments).await;
            let told = &result["structuredContent"];
            let problems: Vec<_> =
                schema.iter_errors(told).map(|error| error.to_string()).collect();
            assert_eq!(problems, [""; 0], "{name}: {told}");
            let counted = if result["isError"] == false { &mut answers } else { &mut failures };
            *counted += 1;
        }
        assert!(!schema.is_valid(&json!({ "error": "a text" })), "{name}");
    }
    assert!(answers >= 8 && failures >= TOOLS.len(), "{answers} answers, {failures} failures");
}

/// S-263.
#[tokio::test]
async fn the_user_sees_these_tools_in_this_order() {
    let served = Served::open().await;
    let answer = served.ask("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap();
    let hints = |tool: &Value| {
        let hint = |name: &str| tool["annotations"][name].as_bool().unwrap();
        let effect = match (hint("readOnlyHint"), hint("idempotentHint")) {
            (true, _) => "reads",
            (false, true) => "writes once",
            (false, false) => "writes",
        };
        format!("{}: {effect}", tool["name"].as_str().unwrap())
    };
    insta::assert_json_snapshot!("list", tools.iter().map(hints).collect::<Vec<_>>());
}

/// S-029.
#[tokio::test]
async fn a_result_is_one_text_and_the_same_object() {
    let served = Served::open().await;
    let result = served.call("list_projects", json!({})).await;
    assert_eq!(result["isError"], false);
    assert_eq!(result["structuredContent"], json!({ "projects": [] }));
    let [text] = result["content"].as_array().unwrap().as_slice() else { panic!("{result}") };
    let said: Value = serde_json::from_str(text["text"].as_str().unwrap()).unwrap();
    assert_eq!((text["type"].as_str(), &said), (Some("text"), &result["structuredContent"]));
}

/// S-030.
#[tokio::test]
async fn a_failure_is_an_error_object_in_the_same_form() {
    let served = Served::open().await;
    let result = served.call("get_agent_status", json!({ "agent_id": "nobody" })).await;
    assert_eq!(result["isError"], true);
    let error = &result["structuredContent"]["error"];
    assert_eq!(
        (error["kind"].as_str(), error["code"].as_str()),
        (Some("not_found"), Some("agent.not_found"))
    );
    assert!(error["correlation_id"].is_string() && error["remediation"].is_string());
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
}

/// S-031.
#[tokio::test]
async fn wrong_arguments_are_named() {
    let served = Served::open().await;
    for (arguments, named) in [
        (json!({ "agent_id": "a", "colour": "red" }), "colour"),
        (json!({}), "agent_id"),
        (json!({ "agent_id": 7 }), "agent_id"),
        (json!([]), "must be an object"),
        (json!("a"), "must be an object"),
    ] {
        let result = served.call("get_agent_status", arguments.clone()).await;
        let error = &result["structuredContent"]["error"];
        assert_eq!(error["code"], Code::InvalidArguments.as_str(), "{arguments}");
        assert!(error["message"].as_str().unwrap().contains(named), "{arguments}: {error}");
    }
}

/// S-033.
#[tokio::test]
async fn absent_and_null_arguments_are_none() {
    let served = Served::open().await;
    for params in
        [json!({ "name": "list_projects" }), json!({ "name": "list_projects", "arguments": null })]
    {
        let answer = served.ask("tools/call", params.clone()).await;
        assert_eq!(answer["result"]["isError"], false, "{params}");
    }
}

/// S-019.
#[tokio::test]
async fn what_no_tool_can_answer_is_an_error_of_the_protocol() {
    let served = Served::open().await;
    for (method, params, code) in [
        ("tools/call", json!({ "name": "dance", "arguments": {} }), -32602),
        ("tools/call", json!({ "name": "dance", "arguments": [] }), -32602),
        ("tools/call", json!({ "arguments": {} }), -32602),
        ("tools/call", json!({ "name": 7 }), -32602),
        ("initialize", json!({}), -32602),
        ("resources/list", json!({}), -32601),
        ("prompts/get", json!({ "name": "x" }), -32601),
        ("logging/setLevel", json!({ "level": "info" }), -32601),
        ("subscriptions/listen", json!({ "notifications": {} }), -32601),
        ("dance", json!({}), -32601),
        // An operator's command is no tool.
        ("tools/call", json!({ "name": "core_status" }), -32602),
    ] {
        let answer = served.ask(method, params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
        assert_eq!(answer["id"], 1);
    }
}

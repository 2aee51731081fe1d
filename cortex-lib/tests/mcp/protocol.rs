//! What clients read: the handshake, the list, results and failures.

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
        let expected = json!({
            "name": tool.name,
            "description": tool.description(),
            "inputSchema": tool.input_schema(),
            "outputSchema": tool.output_schema(),
            "annotations": {
                "readOnlyHint": tool.effect == Effect::Reads,
                "destructiveHint": false,
                "idempotentHint": matches!(tool.effect, Effect::Reads | Effect::WritesOnce),
            },
        });
        assert_eq!(*listed, expected);
    }
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

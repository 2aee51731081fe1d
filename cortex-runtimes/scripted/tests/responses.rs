//! What the scripted Responses server sends and records, seen by a plain HTTP client.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use cortex_scripted::{Answer, Quota, Script, ScriptedResponses, Usage};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn ask(answer: Answer, stream: bool) -> (ScriptedResponses, String) {
    let server = ScriptedResponses::start(Script::new().otherwise(answer)).await.unwrap();
    let body = json!({"model": "m", "stream": stream, "input": "hello"}).to_string();
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap();
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    socket.read_to_end(&mut heard).await.unwrap();
    (server, String::from_utf8(heard).unwrap())
}

fn events(answer: &str) -> Vec<Value> {
    let data = answer.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn an_answer_comes_as_the_events_of_the_api() {
    let usage = Usage { input_tokens: 5, output_tokens: 9, ..Usage::default() };
    let answer = Answer::thinking("hm").and_text("hi").usage(usage);
    let (server, answer) = ask(answer, true).await;
    let events = events(&answer);
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.output_item.done",
            "response.output_item.added",
            "response.output_text.delta",
            "response.output_item.done",
            "response.completed",
        ]
    );
    assert_eq!(events[8]["response"]["usage"]["total_tokens"], 14);
    assert_eq!(server.requests()[0].last_user, "hello");
}

#[tokio::test]
async fn an_answer_comes_in_one_piece_when_no_stream_is_asked_for() {
    let (_server, answer) = ask(Answer::text("hi"), false).await;
    let body: Value =
        serde_json::from_str(answer.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    assert_eq!(body["output"][0]["content"][0]["text"], "hi");
}

#[tokio::test]
async fn errors_and_quotas_are_told_as_the_api_does() {
    let (_server, answer) = ask(Answer::status(401), true).await;
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("invalid_api_key"), "{answer}");
    let (_server, answer) = ask(Answer::used_up(1_900_000_000), true).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains("usage_limit_reached") && answer.contains("1900000000"), "{answer}");
    assert!(answer.contains("x-codex-primary-used-percent: 100"), "{answer}");
    let quota = Quota { used_percent: 40, window_minutes: 300, resets_at: 7 };
    let (_server, answer) = ask(Answer::text("hi").quota(quota), true).await;
    assert!(answer.contains("x-codex-primary-reset-at: 7"), "{answer}");
    let (_server, answer) = ask(Answer::text("hi").error_after(1), true).await;
    let last = events(&answer).pop().unwrap();
    assert_eq!(
        (last["type"].as_str(), last["response"]["error"]["code"].as_str()),
        (Some("response.failed"), Some("overloaded_error"))
    );
}

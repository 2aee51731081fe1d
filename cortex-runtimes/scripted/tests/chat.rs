//! What the scripted chat completions server sends and records, seen by a plain HTTP client.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use cortex_scripted::{Answer, Script, ScriptedChat, Usage};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn ask(answer: Answer, stream: bool) -> (ScriptedChat, String) {
    let server = ScriptedChat::start(Script::new().otherwise(answer)).await.unwrap();
    let body = json!({
        "model": "m",
        "stream": stream,
        "stream_options": stream.then(|| json!({"include_usage": true})),
        "messages": [{"role": "user", "content": "hello"}],
    })
    .to_string();
    let mut socket = TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap();
    let length = body.len();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-session-id: s1";
    let text = format!("{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    socket.write_all(text.as_bytes()).await.unwrap();
    let mut said = String::new();
    socket.read_to_string(&mut said).await.unwrap();
    (server, said)
}

/// The data of a stream, whatever chunks it came in.
fn data(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
}

#[tokio::test]
async fn a_text_comes_as_the_chunks_of_the_api_with_its_figures() {
    let usage = Usage {
        input_tokens: 60,
        cache_read_input_tokens: 40,
        output_tokens: 5,
        reasoning_tokens: 2,
        ..Usage::default()
    };
    let (server, said) = ask(Answer::text("hi").usage(usage), true).await;
    assert!(said.starts_with("HTTP/1.1 200 OK") && !said.contains("event: "), "{said}");
    let data = data(&said);
    assert_eq!(data.last(), Some(&"[DONE]"));
    let figures: Value = serde_json::from_str(data[data.len() - 2]).unwrap();
    let figures = &figures["usage"];
    assert_eq!(
        (&figures["prompt_tokens"], &figures["completion_tokens"]),
        (&json!(100), &json!(7))
    );
    assert_eq!(figures["prompt_tokens_details"]["cached_tokens"], 40);
    let asked = &server.requests()[0];
    assert_eq!((asked.conversation.as_deref(), asked.last_user.as_str()), (Some("s1"), "hello"));
}

#[tokio::test]
async fn an_answer_comes_in_one_piece_when_no_stream_is_asked_for() {
    let (_server, said) = ask(Answer::text("hi"), false).await;
    let body: Value =
        serde_json::from_str(said.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    assert_eq!(body["choices"][0]["message"]["content"], "hi");
}

#[tokio::test]
async fn faults_come_in_the_words_of_the_api() {
    let (_server, said) = ask(Answer::too_many_requests(2), true).await;
    assert!(said.starts_with("HTTP/1.1 429") && said.contains("retry-after: 2\r\n"), "{said}");
    assert!(said.contains(r#""type":"rate_limit_error""#), "{said}");
    let (_server, said) = ask(Answer::text("hi").cut_after(2), true).await;
    assert!(data(&said).len() == 2 && !said.ends_with("0\r\n\r\n"), "{said}");
    let (_server, said) = ask(Answer::text("hi").error_after(1), true).await;
    assert!(said.contains(r#"{"error":{"code":null,"message":"Overloaded""#), "{said}");
}

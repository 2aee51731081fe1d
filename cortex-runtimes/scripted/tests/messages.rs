//! What the scripted Messages server sends and records, seen by a plain HTTP client.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::time::Duration;

use cortex_scripted::{Answer, Fault, Other, Progress, Script, ScriptedAnthropic, Usage, When};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn serve(answer: Answer) -> ScriptedAnthropic {
    ScriptedAnthropic::start(Script::new().otherwise(answer)).await.unwrap()
}

async fn send(server: &ScriptedAnthropic, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap();
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

async fn request(server: &ScriptedAnthropic, head: &str, body: &str) -> String {
    let mut answer = Vec::new();
    send(server, head, body).await.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

fn asking(text: &str, stream: bool) -> String {
    let messages = json!([{"role": "user", "content": text}]);
    json!({"model": "claude-x", "stream": stream, "messages": messages}).to_string()
}

async fn ask(server: &ScriptedAnthropic, stream: bool) -> String {
    request(server, "POST /v1/messages?beta=true", &asking("hello", stream)).await
}

/// The events of a stream, whatever chunks they came in.
fn events(answer: &str) -> Vec<Value> {
    let data = answer.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn kinds(answer: &str) -> Vec<String> {
    events(answer).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

const WHOLE: [&str; 6] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
];

#[tokio::test]
async fn a_text_comes_as_the_events_of_the_api() {
    let usage = Usage { input_tokens: 5, output_tokens: 9, ..Usage::default() };
    let server = serve(Answer::text("hi").usage(usage)).await;
    let answer = ask(&server, true).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(kinds(&answer), WHOLE);
    let events = events(&answer);
    assert_eq!(events[0]["message"]["usage"]["input_tokens"], 5);
    assert_eq!(events[4]["usage"]["output_tokens"], 9);
    assert_eq!(events[4]["delta"]["stop_reason"], "end_turn");
}

#[tokio::test]
async fn an_answer_comes_in_one_piece_when_no_stream_is_asked_for() {
    let server = serve(Answer::tool("Bash", json!({"command": "ls"}))).await;
    let answer = ask(&server, false).await;
    let body: Value =
        serde_json::from_str(answer.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    assert_eq!(body["content"][0]["input"], json!({"command": "ls"}));
    assert_eq!(body["stop_reason"], "tool_use");
}

#[tokio::test]
async fn a_request_is_recorded_as_it_came() {
    let server = serve(Answer::text("hi")).await;
    ask(&server, true).await;
    let asked =
        server.wait_for(|all| all.first().filter(|r| r.progress == Progress::Answered).cloned());
    let asked = asked.await.unwrap();
    assert_eq!((asked.model.as_str(), asked.last_user.as_str()), ("claude-x", "hello"));
    assert_eq!(asked.headers["x-api-key"], "k");
    assert_eq!(asked.target, "/v1/messages?beta=true");
}

#[tokio::test]
async fn an_http_error_names_its_kind_and_when_to_come_again() {
    let server = serve(Answer::too_many_requests(2)).await;
    let answer = ask(&server, true).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(
        answer.contains("retry-after: 2\r\n") && answer.contains("rate_limit_error"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_request_without_a_rule_is_refused_with_its_text() {
    let server = ScriptedAnthropic::start(Script::new()).await.unwrap();
    let answer = ask(&server, true).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("hello"), "{answer}");
}

#[tokio::test]
async fn a_cut_stream_ends_after_its_events_without_the_last_chunk() {
    let server = serve(Answer::text("hi").cut_after(3)).await;
    let answer = ask(&server, true).await;
    assert_eq!(kinds(&answer), WHOLE[..3]);
    assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn a_stream_can_end_with_an_error_event() {
    let server = serve(Answer::text("hi").error_after(2)).await;
    let answer = ask(&server, true).await;
    assert_eq!(kinds(&answer), ["message_start", "content_block_start", "error"]);
    assert!(answer.ends_with("0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn garbage_and_other_json_can_stand_for_an_answer() {
    let server = serve(Answer::text("hi").garbage_after(1)).await;
    assert!(ask(&server, true).await.contains("data: {not json\n"));
    let server = serve(Answer::default().with(Fault::NotAMessage)).await;
    assert!(ask(&server, true).await.contains("{\"hello\":\"world\"}"));
}

#[tokio::test]
async fn a_hanging_stream_goes_on_when_its_gate_opens() {
    let server = serve(Answer::text("hi").hang_after(2, "gate")).await;
    let mut stream = send(&server, "POST /v1/messages", &asking("hello", true)).await;
    let mut answer = String::new();
    while kinds(&answer).len() < 2 {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).await.unwrap();
        answer.push_str(std::str::from_utf8(&part[..length]).unwrap());
    }
    assert_eq!(server.requests()[0].progress, Progress::Held);
    server.open("gate");
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(kinds(&answer), WHOLE);
}

#[tokio::test]
async fn silence_ends_when_its_gate_opens() {
    let server = serve(Answer::text("hi").silent_until("gate")).await;
    let mut stream = send(&server, "POST /v1/messages", &asking("hello", true)).await;
    server.wait_for(|all| all.first().cloned()).await.unwrap();
    server.open("gate");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(kinds(&answer), WHOLE);
}

#[tokio::test]
async fn a_client_that_leaves_is_seen_before_and_within_the_answer() {
    for answer in [Answer::text("hi").silent_until("g"), Answer::text("hi").hang_after(1, "g")] {
        let server = serve(answer).await;
        let stream = send(&server, "POST /v1/messages", &asking("hello", true)).await;
        server.wait_for(|all| all.first().cloned()).await.unwrap();
        drop(stream);
        let left =
            server.wait_for(|all| all.iter().find(|r| r.progress == Progress::Abandoned).cloned());
        left.await.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_server_breaks_what_hangs() {
    let server = serve(Answer::text("hi").silent_until("never")).await;
    let mut stream = send(&server, "POST /v1/messages", &asking("hello", true)).await;
    server.wait_for(|all| all.first().cloned()).await.unwrap();
    drop(server);
    let mut answer = String::new();
    let ended = tokio::time::timeout(Duration::from_secs(30), stream.read_to_string(&mut answer));
    // An end or a reset, as the system sees it; either way no answer.
    drop(ended.await.unwrap());
    assert_eq!(answer, "");
}

#[tokio::test]
async fn a_slow_answer_takes_its_time_before_and_between_events() {
    let pause = Duration::from_millis(20);
    let server = serve(Answer::text("hi").slow(pause, pause)).await;
    let began = std::time::Instant::now();
    assert_eq!(kinds(&ask(&server, true).await), WHOLE);
    assert!(began.elapsed() >= pause * 7);
}

#[tokio::test]
async fn other_paths_are_not_found_and_recorded() {
    let server = serve(Answer::text("hi")).await;
    assert!(request(&server, "HEAD /", "").await.starts_with("HTTP/1.1 200"));
    assert!(request(&server, "GET /v1/models", "").await.starts_with("HTTP/1.1 404"));
    let others: Vec<String> = server.others().iter().map(Other::to_string).collect();
    assert_eq!((others, server.strangers()), (vec!["GET /v1/models".to_owned()], vec![]));
}

#[tokio::test]
async fn requests_to_other_hosts_are_refused_and_recorded() {
    let server = serve(Answer::text("hi")).await;
    let tunnel = request(&server, "CONNECT example.com:443", "").await;
    let plain = request(&server, "GET http://example.com/x", "").await;
    assert!(tunnel.starts_with("HTTP/1.1 403") && plain.starts_with("HTTP/1.1 403"));
    let strangers: Vec<String> = server.strangers().iter().map(Other::to_string).collect();
    assert_eq!(strangers, ["CONNECT example.com:443", "GET http://example.com/x"]);
    assert_eq!(server.requests(), []);
}

#[tokio::test]
async fn conversations_at_once_each_get_their_own_answers() {
    let script = Script::new()
        .on(When::last_user("a").nth(1), Answer::text("alpha").silent_until("a"))
        .on(When::last_user("b"), Answer::text("beta"));
    let server = ScriptedAnthropic::start(script).await.unwrap();
    let (a, b) = (asking("a", true), asking("b", true));
    let first = request(&server, "POST /v1/messages", &a);
    let second = async {
        let beta = request(&server, "POST /v1/messages", &b).await;
        server.open("a");
        beta
    };
    let (alpha, beta) = tokio::join!(first, second);
    assert!(alpha.contains("alpha") && beta.contains("beta"));
}

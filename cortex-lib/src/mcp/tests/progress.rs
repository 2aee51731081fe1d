//! Calls that take long, as a client that waits for them sees them.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;

use super::{MUSE, STUDY, Served, TEST_CATALOGUE, USER, WEAVE, answer, pass, serve_tools};

const STREAM: &str = "application/json, text/event-stream";

async fn begin(served: &Served, accept: &str, tool: &str, meta: Value) -> TcpStream {
    let params = json!({ "name": tool, "_meta": meta });
    served.begin_accepting(accept, USER, "tools/call", params).await
}

/// The messages of a stream, as they come.
struct Events(BufReader<TcpStream>);

impl Events {
    async fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await.unwrap() == 0 {
                return None;
            }
            if let Some(event) = line.strip_prefix("data:") {
                return Some(serde_json::from_str(event).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn who_asks_for_progress_and_takes_a_stream_hears_of_it_until_the_result() {
    let served = serve_tools(TEST_CATALOGUE).await;
    let token = json!({ "progressToken": "t" });
    let mut told = Events(BufReader::new(begin(&served, STREAM, "study", token.clone()).await));
    let takes_none = begin(&served, "application/json", "study", token).await;
    let asks_not = begin(&served, STREAM, "study", json!({})).await;

    let mut before = 0.0;
    for _ in 0..2 {
        let event = told.next().await.unwrap();
        let params = &event["params"];
        assert_eq!(
            (&event["method"], &params["progressToken"]),
            (&json!("notifications/progress"), &json!("t"))
        );
        let progress = params["progress"].as_f64().unwrap();
        assert!(progress > before, "{event}");
        before = progress;
        let said = params["message"].as_str().unwrap();
        assert!(said.starts_with("It works: ") && said.ends_with(" s, at most 60 s"), "{said}");
    }

    STUDY.may_go_on.add_permits(3);
    let last = told.next().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["isError"]), (&json!(1), &json!(false)));
    assert_eq!(told.next().await, None);
    for other in [takes_none, asks_not] {
        assert_eq!(answer(other).await["result"]["isError"], false);
    }
}

#[tokio::test]
async fn work_that_may_end_ends_with_who_heard_of_it() {
    let served = serve_tools(TEST_CATALOGUE).await;
    let mut told =
        Events(BufReader::new(begin(&served, STREAM, "muse", json!({ "progressToken": 7 })).await));
    told.next().await.unwrap();
    assert_eq!(MUSE.ended.available_permits(), 0);
    drop(told);
    pass(&MUSE.ended).await;
    served.cortex.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_change_runs_to_its_end_without_who_heard_of_it() {
    let served = serve_tools(TEST_CATALOGUE).await;
    let mut told = Events(BufReader::new(
        begin(&served, STREAM, "weave", json!({ "progressToken": 7 })).await,
    ));
    assert_eq!(told.next().await.unwrap()["params"]["progressToken"], 7);
    drop(told);
    // The endpoint is gone before the change goes on: nothing of it is needed any more.
    served.server.stop().await;
    assert_eq!(WEAVE.ended.available_permits(), 0);
    WEAVE.may_go_on.add_permits(1);
    pass(&WEAVE.ended).await;
    served.cortex.shutdown().await.unwrap();
}

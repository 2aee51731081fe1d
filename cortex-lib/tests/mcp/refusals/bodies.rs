//! What a body says it is, and what it is.

use super::{CLOSES, Row, answered, bare, pong, refused, row};
use crate::{PING, Served};

pub fn types(served: &Served) -> Vec<Row> {
    let ping = served.post(PING);
    let typed = |content: &str| ping.clone().with("Content-Type", content);
    let no = || {
        let message = "the Content-Type is not application/json";
        refused("415 Unsupported Media Type", "http.unsupported_media_type", message)
    };
    vec![
        row("JSON with a charset", &typed("application/json; charset=utf-8"), pong()),
        row("JSON in capitals", &typed("Application/JSON"), pong()),
        row("none", &ping.clone().without("Content-Type"), no()),
        row("an empty one", &typed(""), no()),
        // These three are what a page may send elsewhere without asking first.
        row("text", &typed("text/plain"), no()),
        row("a form", &typed("application/x-www-form-urlencoded"), no()),
        row("a form with files", &typed("multipart/form-data; boundary=x"), no()),
        row("JSON as a parameter", &typed("text/plain; application/json"), no()),
        row("something like JSON", &typed("application/json-rpc"), no()),
        row("a list", &typed("application/json, text/plain"), no()),
        row("two", &ping.clone().and("Content-Type", "application/json"), no()),
        row("any Accept", &ping.clone().with("Accept", "text/html"), pong()),
        row("no Accept", &ping, pong()),
    ]
}

/// A refusal of a body. It was read to its end, so the connection could go on; its client said that it shall not.
fn bad(message: &str) -> String {
    refused("400 Bad Request", "http.bad_request", message)
}

pub fn no_json(served: &Served) -> Vec<Row> {
    let more = format!("{PING}{PING}");
    let marked = format!("\u{feff}{PING}");
    let sent: [(_, &[u8], _); 8] = [
        ("nothing", b"", "EOF while parsing a value at line 1 column 0"),
        ("the beginning", b"{", "EOF while parsing an object at line 1 column 1"),
        ("more than one", more.as_bytes(), "trailing characters at line 1 column 41"),
        ("a mark of the byte order", marked.as_bytes(), "expected value at line 1 column 1"),
        ("another encoding", b"{\0\"\0", "key must be a string at line 1 column 2"),
        ("no UTF-8", b"{\"id\":\"\xff\"}", "invalid unicode code point at line 1 column 8"),
        ("a comment", b"{}//", "trailing characters at line 1 column 3"),
        ("a word that is none", br#"{"id":NaN}"#, "expected value at line 1 column 7"),
    ];
    let row = |(claim, body, what)| {
        row(claim, &served.post(body), bad(&format!("the body is no JSON: {what}")))
    };
    sent.into_iter().map(row).collect()
}

pub fn no_message(served: &Served) -> Vec<Row> {
    const BATCH: &str = "batches are not taken: send one message";
    const OBJECT: &str = "the body is not a JSON object";
    const PROTOCOL: &str = "`jsonrpc` is not \"2.0\"";
    const ID: &str = "`id` is neither a text nor an integer";
    const PARAMS: &str = "`params` is not an object";
    const ANSWER: &str = "the message is an answer, and nothing was asked";
    // In the words of the protocol crate: who reads the first would see another message than who reads the last.
    const DEEP: &str = "the message cannot be read: recursion limit exceeded at line 1 column 680";
    const METHODS: &str =
        "the message cannot be read: duplicate field `method` at line 1 column 54";
    const PROTOCOLS: &str =
        "the message cannot be read: duplicate field `jsonrpc` at line 1 column 26";
    let deep = |open: &str, inmost: &str, close: &str| {
        let params = format!("{}{inmost}{}", open.repeat(200), close.repeat(200));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}"#)
    };
    let lists = deep("[", "", "]");
    let objects = deep("{\"a\":", "1", "}");
    let batch = format!("[{PING}]");
    let sent = [
        ("a number", "7", OBJECT),
        ("a text", "\"ping\"", OBJECT),
        ("null", "null", OBJECT),
        ("a batch", &batch, BATCH),
        ("an empty batch", "[]", BATCH),
        ("no protocol", r#"{"id":1,"method":"ping"}"#, PROTOCOL),
        ("another protocol", r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, PROTOCOL),
        ("a number as protocol", r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, PROTOCOL),
        ("no method", r#"{"jsonrpc":"2.0","id":1}"#, "`method` is missing"),
        ("a number as method", r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "`method` is not a text"),
        ("an answer", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, ANSWER),
        ("an error", r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#, ANSWER),
        ("null as id", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, ID),
        ("a fraction as id", r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, ID),
        ("half a character as id", r#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#, ID),
        ("a number that is none as id", r#"{"jsonrpc":"2.0","id":1e999,"method":"ping"}"#, ID),
        ("an object as id", r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, ID),
        ("a list of parameters", r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, PARAMS),
        ("null as parameters", r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#, PARAMS),
        ("deep lists", &lists, PARAMS),
        ("deep objects", &objects, DEEP),
        (
            "a key twice",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"ping"}"#,
            METHODS,
        ),
        (
            "the protocol twice",
            r#"{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"ping"}"#,
            PROTOCOLS,
        ),
    ];
    sent.into_iter().map(|(claim, body, what)| row(claim, &served.post(body), bad(what))).collect()
}

/// What is let in, so that it is clear where the border is.
pub fn messages(served: &Served) -> Vec<Row> {
    let sent = |claim, body: &str, answer: String| row(claim, &served.post(body), answer);
    let unknown =
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"there is no method x"}}"#;
    let unknown = answered("200 OK", CLOSES, unknown);
    let taken = || bare("202 Accepted");
    let full =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","x":"{}"}}"#, "x".repeat(1_048_529));
    assert_eq!(full.len(), 1024 * 1024);
    vec![
        sent("as long as may be", &full, pong()),
        sent("another key", r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":1}"#, pong()),
        sent("space around it", &format!("\r\n\t {PING} \n"), pong()),
        sent("another method", r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#, unknown),
        sent(
            "a notification",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            taken(),
        ),
        sent("a request without an id", r#"{"jsonrpc":"2.0","method":"ping"}"#, taken()),
    ]
}

pub fn versions(served: &Served) -> Vec<Row> {
    let ping = served.post(PING);
    let version = |version: &str| ping.clone().with("MCP-Protocol-Version", version);
    let no = || {
        bad("the MCP-Protocol-Version is none of 2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26")
    };
    vec![
        row("none", &ping, pong()),
        row("the newest", &version("2025-11-25"), pong()),
        row("the oldest", &version("2025-03-26"), pong()),
        row("an older one", &version("2024-11-05"), no()),
        row("one of the future", &version("2031-01-01"), no()),
        row("no version", &version("latest"), no()),
        row("an empty one", &version(""), no()),
        row("two", &version("2025-11-25").and("MCP-Protocol-Version", "2025-11-25"), no()),
    ]
}

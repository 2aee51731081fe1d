//! Where a request ends, and what is no request.

use serde_json::json;

use super::{CLOSES, Row, answered, bare, pong, refused, row};
use crate::http::Request;
use crate::{PING, Served};

/// Two ways to say where a request ends are how one request is hidden in another.
pub fn lengths(served: &Served) -> Vec<Row> {
    let ping = served.post(PING);
    let bare_ping = ping.clone().without("Content-Length");
    let length = |length: &str| ping.clone().with("Content-Length", length);
    let coded = |coding: &str| bare_ping.clone().with("Transfer-Encoding", coding);
    let required =
        || refused("411 Length Required", "http.length_required", "the Content-Length is missing");
    let large = |length: &str| {
        let message = format!("the body has {length} bytes; 1048576 are the most");
        refused("413 Payload Too Large", "http.too_large", &message)
    };
    let bad = || bare("400 Bad Request");
    vec![
        row("none", &bare_ping, required()),
        row("chunks", &coded("chunked"), required()),
        row("chunks in capitals", &coded("CHUNKED"), required()),
        row("chunks that are packed", &coded("gzip, chunked"), required()),
        row("chunks, and then a length", &coded("chunked").and("Content-Length", "40"), required()),
        row(
            "a length, and then chunks",
            &ping.clone().and("Transfer-Encoding", "chunked"),
            required(),
        ),
        row("chunks twice", &coded("chunked").and("Transfer-Encoding", "chunked"), required()),
        // Hyper refuses what has no one meaning itself, before anybody could ask us.
        row("another coding", &coded("identity"), bad()),
        row("chunks that are packed afterwards", &coded("chunked, gzip"), bad()),
        row("something like chunks", &coded("xchunked"), bad()),
        row(
            "a space behind the name",
            &bare_ping.clone().with("Transfer-Encoding ", "chunked"),
            bad(),
        ),
        row("a negative one", &length("-1"), bad()),
        row("one with a sign", &length("+40"), bad()),
        row("one with a point", &length("40.0"), bad()),
        row("one that is no number", &length("x"), bad()),
        row("one in another base", &length("0x28"), bad()),
        row("an empty one", &length(""), bad()),
        row("a list", &length("40, 40"), bad()),
        row("two", &length("40").and("Content-Length", "41"), bad()),
        row("more than a number can be", &length("99999999999999999999999"), bad()),
        row("as much as a number can be", &length("18446744073709551615"), {
            bare("431 Request Header Fields Too Large")
        }),
        row("the same twice", &length("40").and("Content-Length", "40"), pong()),
        // Nothing of these bodies is ever sent: nobody waits for them.
        row(
            "100 MB that do not come",
            &served.post("").with("Content-Length", "104857600"),
            large("104857600"),
        ),
        row(
            "one byte too much",
            &served.post("").with("Content-Length", "1048577"),
            large("1048577"),
        ),
        row("much too much", &served.post("x".repeat(4 << 20)), large("4194304")),
    ]
}

pub fn heads(served: &Served) -> Vec<Row> {
    let ping = served.post(PING);
    let bad = || bare("400 Bad Request");
    let many =
        |count: usize| (0..count).fold(ping.clone(), |ping, n| ping.and(&format!("X-{n}"), "x"));
    let long = ping.clone().with("X-Long", "x".repeat(17_000));
    let sizes: usize = 17_000 + 6 + 4;
    let rest: usize = ping.headers().map(|(name, value)| name.len() + value.len() + 4).sum();
    let message = format!("the headers have {} bytes; 16384 are the most", sizes + rest);
    let text = String::from_utf8(ping.bytes()).unwrap();
    let raw = |text: &str| text.as_bytes().to_vec();
    let old = |answer: &str| answer.replacen("HTTP/1.1", "HTTP/1.0", 1);
    vec![
        row("long headers", &long, {
            refused("431 Request Header Fields Too Large", "http.headers_too_large", &message)
        }),
        row("many headers", &many(90), pong()),
        // What does not fit into what hyper reads at once has no headers yet that we could count.
        row("too many headers", &many(101), bare("431 Request Header Fields Too Large")),
        row("endless headers", &ping.clone().with("X", "x".repeat(300_000)), {
            bare("431 Request Header Fields Too Large")
        }),
        row("a long target", &ping.clone().line("POST", &format!("/{}", "x".repeat(60_000))), {
            refused("404 Not Found", "http.not_found", "nothing is at this path")
        }),
        row(
            "an endless target",
            &ping.clone().line("POST", &format!("/{}", "x".repeat(300_000))),
            bare("431 Request Header Fields Too Large"),
        ),
        ("a line that goes on", raw(&text.replacen("\r\n", "\r\nX: a\r\n b\r\n", 1)), bad()),
        ("a name with a space", raw(&text.replacen("\r\n", "\r\nX Y: a\r\n", 1)), bad()),
        ("a line without a name", raw(&text.replacen("\r\n", "\r\n: a\r\n", 1)), bad()),
        ("a zero in a header", raw(&text.replacen("\r\n", "\r\nX: \0\r\n", 1)), bad()),
        ("a carriage return alone", raw(&text.replacen("\r\n", "\r\nX: a\rY: b\r\n", 1)), bad()),
        ("empty lines before", raw(&format!("\r\n\r\n{text}")), pong()),
        ("lines that end without a return", raw(&text.replace("\r\n", "\n")), pong()),
        ("two spaces in the line", raw(&text.replacen(' ', "  ", 1)), bad()),
        ("no version", raw(&text.replacen(" HTTP/1.1", "", 1)), bad()),
        ("a later version", raw(&text.replacen("HTTP/1.1", "HTTP/1.2", 1)), bad()),
        ("a much later version", raw(&text.replacen("HTTP/1.1", "HTTP/2.0", 1)), bad()),
        // There, each connection ends with its answer: nobody has to say so.
        (
            "an older version",
            raw(&text.replacen("HTTP/1.1", "HTTP/1.0", 1)),
            old(&pong().replacen(CLOSES, "", 1)),
        ),
        ("a much older version", raw("GET /mcp\r\n\r\n"), bad()),
        ("no word of HTTP", raw("hello\r\n\r\n"), bad()),
        ("zeros", vec![0; 64], bad()),
        ("a TLS hello", b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03".to_vec(), bad()),
        // It speaks another protocol, in which an answer in this one means nothing.
        ("HTTP/2", raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), String::new()),
        (
            "an older version without a host",
            raw("GET /mcp HTTP/1.0\r\n\r\n"),
            old(&refused("403 Forbidden", "http.forbidden_host", &{
                let port = served.port();
                format!("the Host header is neither 127.0.0.1:{port} nor localhost:{port}")
            }))
            .replacen(CLOSES, "", 1),
        ),
    ]
}

/// What a client expects before it sends its body, and what it sends before it has its answer.
pub fn expectations(served: &Served) -> Vec<Row> {
    let ping = served.post(PING);
    let stays = ping.clone().without("Connection");
    let numbered = |id: u8| {
        served
            .post(json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string())
            .without("Connection")
    };
    let answer =
        |id: u8| answered("200 OK", "", &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    let media = || {
        let message = "the Content-Type is not application/json";
        refused("415 Unsupported Media Type", "http.unsupported_media_type", message)
    };
    let batch = "batches are not taken: send one message";
    let batch = refused("400 Bad Request", "http.bad_request", batch).replacen(CLOSES, "", 1);
    let wrong = stays.clone().with("Content-Type", "text/plain");
    let expects = |request: &Request| request.clone().with("Expect", "100-continue");
    vec![
        row(
            "that it may go on",
            &expects(&ping),
            format!("HTTP/1.1 100 Continue\r\n\r\n{}", pong()),
        ),
        // It is told at once that it need not send the body.
        row("that it may go on, in vain", &expects(&wrong).with("Content-Length", "1000"), media()),
        row("something else", &ping.clone().with("Expect", "the-unexpected"), pong()),
        row(
            "another protocol",
            &ping.clone().with("Connection", "close, upgrade").and("Upgrade", "h2c"),
            pong(),
        ),
        (
            "many answers, in order",
            [numbered(1), numbered(2), numbered(3), ping.clone()].map(|one| one.bytes()).concat(),
            [answer(1), answer(2), answer(3), pong()].concat(),
        ),
        (
            "an answer behind the refusal of a body that was read",
            [numbered(1), stays.clone().body("[]"), ping.clone()].map(|one| one.bytes()).concat(),
            [answer(1), batch, pong()].concat(),
        ),
        (
            "an answer behind a refusal",
            [numbered(1), wrong, numbered(2)].map(|one| one.bytes()).concat(),
            [answer(1), media()].concat(),
        ),
        (
            "an answer to what stands in a body",
            {
                // Who reads the second length would find a second request.
                let hidden = ping.bytes();
                let outer = stays.with("Content-Length", "0").and("Transfer-Encoding", "chunked");
                [&outer.bytes()[..outer.bytes().len() - PING.len()], b"0\r\n\r\n", &hidden].concat()
            },
            refused("411 Length Required", "http.length_required", "the Content-Length is missing"),
        ),
    ]
}

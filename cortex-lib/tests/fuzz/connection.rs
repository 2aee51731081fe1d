//! One connection to the endpoint, over which any bytes come.
//!
//! An input is what goes over the wire, with two additions so that small changes of it stay requests: `<name>` stands for an
//! id or a credential of the stage, and `<length>` for the length of what follows the head. Both hold for each part of
//! the input between two `<next>`; the parts are sent as one.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::shape::{self, Sort};
use crate::stage::{ELSEWHERE, Names, Stages, USER_TOKEN, no_panic};

const NEXT: &[u8] = b"<next>";
const LENGTH: &[u8] = b"<length>";
/// Who has said nothing for so long has said all: longer than any wait but the one for the next request of somebody known.
const SILENCE: Duration = Duration::from_secs(40);

/// Tries inputs, each over a connection of its own.
#[derive(Debug, Default)]
pub struct Connections {
    stages: Stages,
    /// How often each status was answered.
    pub statuses: BTreeMap<u16, u32>,
}

impl Connections {
    /// Sends an input and reads all answers. The error says what is wrong with them.
    pub fn run(&mut self, input: &[u8]) -> Result<(), String> {
        let stage = self.stages.next();
        let port = stage.port();
        let sent = spell(input, &stage.names);
        let before = stage.content();
        let got = stage.block_on(converse(port, &sent));
        // Whatever came, others are served.
        let pong = stage.block_on(converse(port, &ping(port)));
        let changed = stage.content() != before;
        let keys = Keys::shown(&sent, &stage.names);
        if changed {
            self.stages.leave();
        }
        no_panic()?;
        let told = |problem| format!("{problem}\nsent {:?}\n got {:?}", text(&sent), text(&got));
        for status in judge(&got, &keys, &sent).map_err(told)? {
            *self.statuses.entry(status).or_default() += 1;
        }
        if changed && keys.all == 0 {
            return Err(told("a stranger changed something".to_owned()));
        }
        if !shape::answers(&pong)?.iter().all(|answer| answer.status == 200) || pong.is_empty() {
            return Err(told(format!("then a ping gets {:?}", text(&pong))));
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ping(port: u16) -> Vec<u8> {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {USER_TOKEN}\r\n\
         Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// What goes over the wire for an input.
fn spell(input: &[u8], names: &Names) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = input;
    while let Some(at) = find(rest, NEXT) {
        out.extend(measured(&names.fill(rest.get(..at).unwrap_or_default())));
        rest = rest.get(at + NEXT.len()..).unwrap_or_default();
    }
    out.extend(measured(&names.fill(rest)));
    out
}

/// Puts in the length of what follows the head.
fn measured(part: &[u8]) -> Vec<u8> {
    let Some(at) = find(part, LENGTH) else { return part.to_vec() };
    let ends = [(b"\r\n\r\n".as_slice(), 4), (b"\n\n".as_slice(), 2)];
    let body = ends.iter().filter_map(|(end, size)| Some(find(part, end)? + size)).min();
    let length = part.len().saturating_sub(body.unwrap_or(part.len())).to_string();
    let (before, behind) = (part.get(..at), part.get(at + LENGTH.len()..));
    [before.unwrap_or_default(), length.as_bytes(), behind.unwrap_or_default()].concat()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|some| some == what)
}

/// Sends `bytes` over a connection of their own, and reads until the endpoint has said all.
async fn converse(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut got = Vec::new();
    let reading =
        async { while let Ok(Ok(1..)) = timeout(SILENCE, reader.read_buf(&mut got)).await {} };
    // The endpoint may stop reading before all of it was read.
    let (_, ()) = tokio::join!(writer.write_all(bytes), reading);
    got
}

/// The credentials that stand in what was sent, wherever that is: without one of them nobody is let in.
#[derive(Debug)]
struct Keys {
    all: usize,
    /// Of the user, and of who is in the other project: only they may read of it.
    elsewhere: usize,
}

impl Keys {
    fn shown(sent: &[u8], names: &Names) -> Self {
        let count = |name: &str| {
            let key = names.get(name).as_bytes();
            sent.windows(key.len()).filter(|some| *some == key).count()
        };
        let of = |names: &[&str]| names.iter().map(|name| count(name)).sum::<usize>();
        let elsewhere = of(&["key", "key-far", "key-hook-far"]);
        let near = ["key-worker", "key-hook-worker", "key-orchestrator", "key-hook-orchestrator"];
        Self { all: elsewhere + of(&near), elsewhere }
    }
}

/// Checks all that came back; the answer is the statuses.
fn judge(got: &[u8], keys: &Keys, sent: &[u8]) -> Result<Vec<u16>, String> {
    let answers = shape::answers(got)?;
    let mut replies = 0;
    for answer in &answers {
        if answer.sort()? == Sort::Reply {
            replies += 1;
        }
    }
    if replies > keys.all {
        return Err(format!("{replies} were let in by {} credentials", keys.all));
    }
    if answers.iter().any(|answer| answer.is_head_alone) && find(sent, b"HEAD ").is_none() {
        return Err("an answer without the body that it tells of".into());
    }
    let tells = |text: &[u8]| find(text, ELSEWHERE.as_bytes()).is_some();
    if keys.elsewhere == 0 && tells(got) && !tells(sent) {
        return Err("somebody reads of a project that is not theirs".into());
    }
    Ok(answers.iter().map(|answer| answer.status).collect())
}

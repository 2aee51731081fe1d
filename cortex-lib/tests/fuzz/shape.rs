//! What answers look like: HTTP, JSON-RPC, errors. Each function says what is wrong with one.

use cortex_lib::error::Code;
use serde_json::{Map, Value};

/// One answer over HTTP.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Its head tells of a body that is not there, as the answer to HEAD does.
    pub is_head_alone: bool,
}

/// What kind of answer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// It says no, and why.
    Refusal,
    /// It says what the endpoint is.
    Metadata,
    /// It answers a message of somebody who was let in.
    Reply,
}

/// Codes that only a fault of Cortex or of its machine gives. No input may lead to one.
pub const FAULTS: [Code; 4] =
    [Code::Defect, Code::StoreFailed, Code::StoreDiskFull, Code::StoreCorrupt];

/// The statuses that a running core answers with.
const STATUSES: [u16; 12] = [200, 202, 400, 401, 403, 404, 405, 408, 411, 413, 415, 431];
/// What hyper refuses itself, before there is a request: without a body.
const BARE: [u16; 3] = [400, 414, 431];
/// Codes of JSON-RPC for what callers do wrong. The one for our own faults is not among them.
const RPC_CODES: [i64; 7] = [-32_700, -32_600, -32_601, -32_602, -32_020, -32_021, -32_022];

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(known, _)| known == name);
        named.next().map(|(_, value)| &**value)
    }

    /// Checks the answer and says what it is.
    pub fn sort(&self) -> Result<Sort, String> {
        let status = self.status;
        if !STATUSES.contains(&status) && !BARE.contains(&status) {
            return Err(format!("{status} is no known status"));
        }
        if status == 401 && self.header("www-authenticate").is_none() {
            return Err("401 without a challenge".into());
        }
        if status == 405 && self.header("allow").is_none() {
            return Err("405 without the methods that are allowed".into());
        }
        if status == 202 {
            return if self.body.is_empty() {
                Ok(Sort::Reply)
            } else {
                Err("202 with a body".into())
            };
        }
        if self.is_head_alone && status >= 400 {
            return Ok(Sort::Refusal);
        }
        if self.body.is_empty() && BARE.contains(&status) {
            return Ok(Sort::Refusal);
        }
        match self.header("content-type") {
            Some("text/event-stream") if status == 200 => self.stream(),
            Some("application/json") => {
                let body = serde_json::from_slice(&self.body)
                    .map_err(|error| format!("{status} with a body that is no JSON: {error}"))?;
                self.json(&body)
            }
            other => Err(format!("{status} with a body of {other:?}")),
        }
    }

    fn json(&self, body: &Value) -> Result<Sort, String> {
        let fields = body.as_object().ok_or("the body is no object")?;
        if self.status >= 400 && fields.len() == 1 && fields.contains_key("error") {
            return refusal(body).map(|()| Sort::Refusal);
        }
        if self.status == 200 && fields.contains_key("resource") {
            let known = ["resource", "resource_name", "bearer_methods_supported"];
            only(fields, &known).map(|()| Sort::Metadata)
        } else {
            reply(fields).map(|()| Sort::Reply)
        }
    }

    fn stream(&self) -> Result<Sort, String> {
        let text = std::str::from_utf8(&self.body).map_err(|_| "the events are no text")?;
        for line in text.lines().filter_map(|line| line.strip_prefix("data:")) {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let event: Value =
                serde_json::from_str(line).map_err(|error| format!("an event: {error}"))?;
            let fields = event.as_object().ok_or("an event is no object")?;
            if fields.get("method").is_none() {
                reply(fields)?;
            }
        }
        Ok(Sort::Reply)
    }
}

fn only(fields: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!("`{name}` is not known there")),
    }
}

/// The code of an error on the wire.
fn code(error: &Value) -> Result<Code, String> {
    let wire = error["code"].as_str().ok_or("an error without a code")?;
    let known = Code::ALL.iter().find(|code| code.as_str() == wire);
    let code = *known.ok_or_else(|| format!("`{wire}` is no code"))?;
    if FAULTS.contains(&code) { Err(format!("a fault: {error}")) } else { Ok(code) }
}

/// `{"error": …}`, as HTTP or a tool answers it.
pub fn refusal(body: &Value) -> Result<(), String> {
    let error = body.get("error").ok_or("a failure without an error")?;
    let code = code(error)?;
    let told = |name: &str| error[name].as_str().is_some_and(|text| !text.is_empty());
    if !told("message") {
        return Err(format!("nothing says what happened: {error}"));
    }
    // What only concerns HTTP is short.
    let is_short = error.as_object().is_some_and(|fields| fields.len() == 2);
    if is_short && code.as_str().starts_with("http.") {
        return Ok(());
    }
    let kind = serde_json::to_value(code.kind()).unwrap_or_default();
    if error["kind"] != kind || !told("remediation") || !told("correlation_id") {
        return Err(format!("an error that is not whole: {error}"));
    }
    Ok(())
}

/// An answer of JSON-RPC.
fn reply(fields: &Map<String, Value>) -> Result<(), String> {
    only(fields, &["jsonrpc", "id", "result", "error"])?;
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err("an answer that is not of JSON-RPC 2.0".into());
    }
    match (fields.get("result"), fields.get("error")) {
        (Some(Value::Object(result)), None) => {
            let id = fields.get("id").ok_or("an answer without an id")?;
            if !id.is_string() && !id.is_i64() && !id.is_u64() {
                return Err(format!("an answer with the id {id}"));
            }
            if result.contains_key("structuredContent") { said(result) } else { Ok(()) }
        }
        (None, Some(error)) => {
            let code = error["code"].as_i64();
            if !error["message"].is_string() || !code.is_some_and(|code| RPC_CODES.contains(&code))
            {
                return Err(format!("an error of JSON-RPC: {error}"));
            }
            Ok(())
        }
        _ => Err("an answer that is neither a result nor an error".into()),
    }
}

/// What a tool said, once for models and once for programs.
fn said(result: &Map<String, Value>) -> Result<(), String> {
    let content = result.get("structuredContent").unwrap_or(&Value::Null);
    let text = result.get("content").and_then(|content| content.pointer("/0/text"));
    let text = text.and_then(Value::as_str).ok_or("a tool that says nothing to models")?;
    let same = serde_json::from_str::<Value>(text).is_ok_and(|text| text == *content);
    if !same {
        return Err("a tool that says one thing to models and another to programs".into());
    }
    let failed = result.get("isError") == Some(&Value::Bool(true));
    if failed { refusal(content) } else { Ok(()) }
}

/// Takes apart all that came over one connection.
pub fn answers(mut bytes: &[u8]) -> Result<Vec<Answer>, String> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (answer, rest) = first(bytes)?;
        // "Go on" is no answer; who is told so is asked for the body of a request whose head was let in.
        if answer.status != 100 {
            all.push(answer);
        }
        bytes = rest;
    }
    Ok(all)
}

fn first(bytes: &[u8]) -> Result<(Answer, &[u8]), String> {
    let cut = || format!("an answer breaks off: {:?}", String::from_utf8_lossy(bytes));
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(cut)?;
    let (head, rest) = bytes.split_at_checked(end + 4).ok_or_else(cut)?;
    let head = std::str::from_utf8(head).map_err(|_| "a head that is no text")?;
    let mut lines = head.trim_end_matches("\r\n").split("\r\n");
    let status = lines.next().and_then(|line| {
        let (version, rest) = line.split_once(' ')?;
        let status: u16 = rest.get(..3)?.parse().ok()?;
        matches!(version, "HTTP/1.1" | "HTTP/1.0").then_some((version, status))
    });
    let (version, status) = status.ok_or_else(|| format!("no status line: {head:?}"))?;
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("no header: {line:?}"))?;
        if value.chars().any(char::is_control) {
            return Err(format!("a header with a control character: {line:?}"));
        }
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut answer = Answer { status, headers, body: Vec::new(), is_head_alone: false };
    if status == 100 {
        return Ok((answer, rest));
    }
    if answer.header("transfer-encoding") == Some("chunked") {
        let rest = dechunk(rest, &mut answer.body)?;
        return Ok((answer, rest));
    }
    let Some(length) = answer.header("content-length") else {
        // It goes to the end of the connection, which only the older version may use.
        if version != "HTTP/1.0" {
            return Err(format!("nothing says where an answer ends: {head:?}"));
        }
        answer.body = rest.to_vec();
        return Ok((answer, &[]));
    };
    let length: usize = length.parse().map_err(|_| format!("a length of {length:?}"))?;
    if length > 0 && (rest.is_empty() || rest.starts_with(b"HTTP/1.")) {
        answer.is_head_alone = true;
        return Ok((answer, rest));
    }
    let (body, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
    answer.body = body.to_vec();
    Ok((answer, rest))
}

fn dechunk<'a>(mut bytes: &'a [u8], body: &mut Vec<u8>) -> Result<&'a [u8], String> {
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").ok_or("a chunk breaks off")?;
        let size = bytes.get(..end).and_then(|size| std::str::from_utf8(size).ok());
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.ok_or("a chunk without a size")?;
        let chunk = bytes.get(end + 2..end + 2 + size).ok_or("a chunk breaks off")?;
        let behind = bytes.get(end + 2 + size..end + 4 + size).ok_or("a chunk breaks off")?;
        if behind != b"\r\n" {
            return Err("a chunk that is longer than it says".into());
        }
        body.extend(chunk);
        bytes = bytes.get(end + 4 + size..).unwrap_or_default();
        if size == 0 {
            return Ok(bytes);
        }
    }
}

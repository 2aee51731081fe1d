//! The bare CLIs on pipes, each with the least loop that can drive it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use cortex_lib::env::{Env, SystemEnv};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::seen::Seen;

/// Whoever takes turns.
#[async_trait]
pub(crate) trait Seat: Send {
    /// Runs a turn and says how long it took.
    async fn turn(&mut self, text: &str) -> Result<Took>;
}

/// How long a turn took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// Until the CLI takes the next one.
    pub(crate) whole: Duration,
    /// Until its result was there, where the CLI says that before.
    pub(crate) result: Duration,
    /// What the core did of it by itself, where a core took part.
    pub(crate) core: Option<OfCore>,
}

/// What a core does before the driver has a turn, and after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfCore {
    /// From the call to the driver.
    pub(crate) before: Duration,
    /// From the driver's end of the turn to the event.
    pub(crate) after: Duration,
    /// Between a tool request and its answer, all of them.
    pub(crate) answering: Duration,
}

impl Took {
    pub(crate) fn whole(whole: Duration) -> Self {
        Self { whole, result: whole, core: None }
    }
}

/// A CLI whose lines are JSON.
#[derive(Debug)]
struct Talk {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Talk {
    fn new(mut child: Child) -> Result<Self> {
        let stdin = child.stdin.take().context("no input")?;
        let stdout = child.stdout.take().context("no output")?;
        Ok(Self { child, stdin, lines: BufReader::new(stdout).lines() })
    }

    async fn say(&mut self, message: &Value) -> Result<()> {
        Ok(self.stdin.write_all(format!("{message}\n").as_bytes()).await?)
    }

    async fn hear(&mut self) -> Result<Value> {
        let line = self.lines.next_line().await?.context("the CLI has ended")?;
        Ok(serde_json::from_str(&line).unwrap_or_default())
    }
}

/// Claude Code over stream-json.
#[derive(Debug)]
pub(crate) struct BareClaude(Talk);

impl BareClaude {
    pub(crate) async fn start(seen: &Seen) -> Result<Self> {
        let env: &dyn Env = &SystemEnv::new();
        let session = env.mint_v4().to_string();
        let mut talk = Talk::new(seen.start(Some(("--session-id", session)))?)?;
        talk.say(&json!({
            "type": "control_request", "request_id": "1",
            "request": { "subtype": "initialize", "hooks": null },
        }))
        .await?;
        while talk.hear().await?["type"] != "control_response" {}
        Ok(Self(talk))
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.0.child.id()
    }
}

#[async_trait]
impl Seat for BareClaude {
    async fn turn(&mut self, text: &str) -> Result<Took> {
        let began = Instant::now();
        let message = json!({ "role": "user", "content": text });
        let line = json!({
            "type": "user", "message": message, "parent_tool_use_id": null, "session_id": "",
        });
        self.0.say(&line).await?;
        let mut result = None;
        loop {
            let heard = self.0.hear().await?;
            match (heard["type"].as_str(), heard["subtype"].as_str()) {
                (Some("result"), _) => result = Some(began.elapsed()),
                (Some("system"), Some("session_state_changed")) if heard["state"] == "idle" => {
                    let Some(result) = result else { continue };
                    return Ok(Took { whole: began.elapsed(), result, core: None });
                }
                (Some("control_request"), _) => {
                    let answer =
                        json!({ "behavior": "allow", "updatedInput": heard["request"]["input"] });
                    let response = json!({
                        "subtype": "success", "request_id": heard["request_id"], "response": answer,
                    });
                    self.0
                        .say(&json!({ "type": "control_response", "response": response }))
                        .await?;
                }
                _ => {}
            }
        }
    }
}

/// Codex over the JSON-RPC of its app server.
#[derive(Debug)]
pub(crate) struct BareCodex {
    talk: Talk,
    thread: Value,
    turns: u64,
}

impl BareCodex {
    pub(crate) async fn start(seen: &Seen) -> Result<Self> {
        let mut talk = Talk::new(seen.start(None)?)?;
        let mut thread = Value::Null;
        for (id, method) in [(0, "initialize"), (1, "thread/start")] {
            let said = seen.said.iter().find(|line| line["method"] == method);
            let params = &said.with_context(|| format!("{method} was not seen"))?["params"];
            talk.say(&json!({ "id": id, "method": method, "params": params })).await?;
            let answer = loop {
                let heard = talk.hear().await?;
                if heard["id"] == id && heard.get("method").is_none() {
                    break heard;
                }
            };
            if method == "initialize" {
                talk.say(&json!({ "method": "initialized" })).await?;
            }
            thread = answer["result"]["thread"]["id"].clone();
        }
        Ok(Self { talk, thread, turns: 1 })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.talk.child.id()
    }
}

#[async_trait]
impl Seat for BareCodex {
    async fn turn(&mut self, text: &str) -> Result<Took> {
        let began = Instant::now();
        self.turns += 1;
        let params = json!({
            "threadId": self.thread, "input": [{ "type": "text", "text": text }],
            "approvalPolicy": "untrusted", "approvalsReviewer": "user",
            "sandboxPolicy": { "type": "dangerFullAccess" },
        });
        self.talk
            .say(&json!({ "id": self.turns, "method": "turn/start", "params": params }))
            .await?;
        loop {
            let heard = self.talk.hear().await?;
            match heard["method"].as_str() {
                Some("turn/completed") => return Ok(Took::whole(began.elapsed())),
                Some(method) if method.ends_with("/requestApproval") => {
                    let result = json!({ "decision": "accept" });
                    self.talk.say(&json!({ "id": heard["id"], "result": result })).await?;
                }
                _ => {}
            }
        }
    }
}

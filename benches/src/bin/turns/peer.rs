//! The peer: Anthropic's own Python client of Claude Code.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::bare::{Seat, Took};
use crate::place::Place;

const SCRIPT: &str = include_str!("peer.py");

/// What the driver withholds, so that both send the model the same tools.
const WITHHELD: [&str; 8] = [
    "CronCreate",
    "CronDelete",
    "CronList",
    "ScheduleWakeup",
    "Monitor",
    "Workflow",
    "EnterWorktree",
    "ExitWorktree",
];

/// A Python that takes turns. It measures itself, so that the way to it does not count.
#[derive(Debug)]
pub(crate) struct Peer {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    pub(crate) async fn start(python: &Path, place: &Place) -> Result<Self> {
        let told = json!({
            "cli": place.executable, "cwd": place.home.project(), "env": place.env(), "withheld": WITHHELD,
        });
        let mut child = Command::new(python)
            .args(["-c", SCRIPT, &told.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take().context("no input")?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let mut peer = Self { _child: child, stdin, lines };
        peer.line().await?;
        Ok(peer)
    }

    async fn line(&mut self) -> Result<String> {
        self.lines.next_line().await?.context("the peer has ended")
    }
}

#[async_trait]
impl Seat for Peer {
    async fn turn(&mut self, text: &str) -> Result<Took> {
        self.stdin.write_all(format!("{text}\n").as_bytes()).await?;
        let seconds = self.line().await?.parse()?;
        Ok(Took::whole(Duration::from_secs_f64(seconds)))
    }
}

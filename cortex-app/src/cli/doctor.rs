//! `cortex doctor`: whether everything that is needed is there.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

use clap::Args;
use cortex_lib::api::operator::{CheckRuntimes, CoreStatus};
use cortex_lib::api::tool::ListAgents;
use cortex_lib::api::view::{AgentView, RuntimeView};
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::port::Health;
use serde::Serialize;

use super::screen::{Screen, word};
use super::{Exit, Global};
use crate::config::{Config, Mcp};
use crate::door::Door;

/// Check that everything that is needed is there: exit code 1 when something required is broken
#[derive(Debug, Args)]
pub(super) struct Doctor {}

/// What was found about one thing.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// As it should be.
    Ok,
    /// Missing, and not needed for what is set up now.
    Missing,
    /// Needed and broken.
    Broken,
}

#[derive(Debug, Serialize)]
struct Report {
    healthy: bool,
    findings: Vec<Finding>,
}

impl Doctor {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        let data_dir = global.data_dir()?;
        let mut findings = vec![configuration(&data_dir)];
        match Door::open(global).await {
            Ok(door) => {
                findings.extend(core(&door, &data_dir).await);
                if let (false, Ok(config)) = (door.is_there(), Config::read(&data_dir)) {
                    findings.push(port(&config.mcp));
                }
                findings.extend(
                    runtimes(&door)
                        .await
                        .unwrap_or_else(|error| vec![Finding::broken("runtimes", &error)]),
                );
                if let Err(error) = door.close().await {
                    findings.push(Finding::broken("shutdown", &error));
                }
            }
            // Told already.
            Err(error) if error.code() == Code::ConfigInvalid => {}
            Err(error) => findings.push(Finding::broken("data directory", &error)),
        }
        findings.push(git());
        let healthy = findings.iter().all(|finding| finding.state != State::Broken);
        screen.show(&Report { healthy, findings }, |report| {
            report.findings.iter().map(Finding::text).collect::<Vec<_>>().join("\n")
        })?;
        Ok(if healthy { Exit::Done } else { Exit::Failed })
    }
}

impl Finding {
    fn ok(what: &str, found: impl Into<String>) -> Self {
        Self { what: what.to_owned(), state: State::Ok, found: found.into(), next: None }
    }

    fn broken(what: &str, error: &Error) -> Self {
        Self {
            what: what.to_owned(),
            state: State::Broken,
            found: error.to_string(),
            next: Some(error.remediation().to_owned()),
        }
    }

    fn text(&self) -> String {
        let mark = match self.state {
            State::Ok => "ok     ",
            State::Missing => "missing",
            State::Broken => "BROKEN ",
        };
        let next =
            self.next.as_ref().map_or_else(String::new, |next| format!("\n         next: {next}"));
        format!("{mark}  {}: {}{next}", self.what, self.found)
    }
}

fn configuration(data_dir: &Path) -> Finding {
    let path = Config::path(data_dir);
    match Config::read(data_dir) {
        Ok(_) if path.exists() => Finding::ok("configuration", path.display().to_string()),
        Ok(_) => Finding::ok("configuration", "no config.json: everything is as by default"),
        Err(error) => Finding::broken("configuration", &error),
    }
}

/// An open core has written to its data directory.
async fn core(door: &Door, data_dir: &Path) -> Vec<Finding> {
    match door.call(CoreStatus {}).await {
        Ok(status) => {
            let dir = data_dir.display();
            let held = if door.is_there() {
                format!("{dir}, held by process {}, {}", status.pid, word(&status.state))
            } else {
                format!("{dir}, writable, no core runs")
            };
            let work = format!(
                "{} sessions, {} open objectives, newest event {}",
                status.live_sessions, status.open_objectives, status.newest_event
            );
            vec![Finding::ok("data directory", held), Finding::ok("core", work)]
        }
        Err(error) => vec![Finding::broken("core", &error)],
    }
}

fn port(mcp: &Mcp) -> Finding {
    if !mcp.enabled {
        return Finding::ok("MCP", "off (mcp.enabled is false)");
    }
    match TcpListener::bind((Ipv4Addr::LOCALHOST, mcp.port)) {
        Ok(_) => Finding::ok("MCP", format!("port {} is free", mcp.port)),
        Err(error) => {
            let message = format!("port {} of 127.0.0.1: {error}", mcp.port);
            Finding::broken("MCP", &Error::new(Code::McpPortInUse, message))
        }
    }
}

/// A runtime is required when an agent is on it; and one must be able to start.
async fn runtimes(door: &Door) -> Result<Vec<Finding>> {
    let runtimes = door.call(CheckRuntimes {}).await?.runtimes;
    let agents = door.call(ListAgents { project_id: None }).await?.agents;
    let mut findings: Vec<_> =
        runtimes.iter().map(|runtime| of_runtime(runtime, &agents)).collect();
    for agent in &agents {
        if !runtimes.iter().any(|runtime| runtime.runtime_id == agent.runtime_id) {
            let message =
                format!("agent {} is on {}, which is not configured", agent.name, agent.runtime_id);
            let error = Error::new(Code::RuntimeNotFound, message)
                .remedy("Add it to runtimes in config.json, or move the agent to another runtime.");
            findings.push(Finding::broken("agent", &error));
        }
    }
    if !runtimes.iter().any(|runtime| runtime.health.status == Health::Healthy) {
        let error = Error::new(
            Code::RuntimeNotInstalled,
            "no runtime can start, so no agent can work",
        )
        .remedy(
            "Mend one of the runtimes above, or add a program to runtimes.commands in config.json.",
        );
        findings.push(Finding::broken("runtimes", &error));
    }
    Ok(findings)
}

fn of_runtime(runtime: &RuntimeView, agents: &[AgentView]) -> Finding {
    let needed = agents.iter().any(|agent| agent.runtime_id == runtime.runtime_id);
    let healthy = runtime.health.status == Health::Healthy;
    let login = runtime.health.logged_in.map(|yes| if yes { "logged in" } else { "not logged in" });
    let found = [
        runtime.executable.as_ref().map(|path| path.display().to_string()),
        runtime.version.as_ref().map(|version| format!("version {version}")),
        login.map(str::to_owned),
        runtime.health.message.clone(),
    ];
    Finding {
        what: runtime.runtime_id.to_string(),
        state: match (healthy, needed) {
            (true, _) => State::Ok,
            (false, false) => State::Missing,
            (false, true) => State::Broken,
        },
        found: found.into_iter().flatten().collect::<Vec<_>>().join(", "),
        next: runtime.health.remediation.clone(),
    }
}

/// Only isolated tasks need it.
fn git() -> Finding {
    match Command::new("git").arg("--version").output() {
        Ok(output) if output.status.success() => {
            Finding::ok("git", String::from_utf8_lossy(&output.stdout).trim())
        }
        Ok(_) | Err(_) => Finding {
            what: "git".to_owned(),
            state: State::Missing,
            found: "not found; only isolated tasks need it".to_owned(),
            next: Some("Install git.".to_owned()),
        },
    }
}

//! Before a session is ready: would this CLI run a tool that nobody was asked about, and does it have the tools of Cortex?
//!
//! Its settings come from several places, and one of them may let tools run unasked. Then the person's rules in Cortex would
//! not hold, so the session does not start. What is only known when a turn begins (the mode) is looked at there.

use std::time::Duration;

use cortex_lib::error::{Code, Error, Result};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::session::ClaudeSession;
use super::{ask, launch, wire};

/// How often the connection to the endpoint is looked at while a session starts. It takes 0.1 to 0.2 s.
const MCP_EVERY: Duration = Duration::from_millis(50);

/// Whether the CLI asks before it acts in this mode: it does by default, or it denies by itself.
pub(super) fn asks(mode: &str) -> bool {
    matches!(mode, "default" | "plan" | "dontAsk")
}

/// Makes sure that the CLI asks. `asked`: the tools that it asks about whatever its other settings allow.
pub(super) fn must_ask(settings: &Value, asked: &[&str]) -> Result<()> {
    let in_effect = rules(settings.pointer("/effective/permissions"), "ask");
    if let Some(missing) = asked.iter().find(|tool| !in_effect.contains(*tool)) {
        let message = format!("Claude Code does not take the rule that {missing} must ask");
        return Err(Error::new(Code::RuntimeProtocol, message));
    }
    let named = settings.get("sources").and_then(Value::as_array).into_iter().flatten();
    let named = named.map(|one| (one.get("source").and_then(Value::as_str), one.get("settings")));
    // Whatever is in effect counts, even if no source is named for it.
    for (source, settings) in named.chain([(None, settings.get("effective"))]) {
        if let Some(what) = settings.and_then(|settings| unasked(settings, asked)) {
            return Err(refusal(source, &what));
        }
    }
    Ok(())
}

/// What these settings let run without a question.
fn unasked(settings: &Value, asked: &[&str]) -> Option<String> {
    let permissions = settings.get("permissions");
    let covered = |rule: &str| asked.contains(&rule.split('(').next().unwrap_or(rule));
    let free: Vec<_> =
        rules(permissions, "allow").into_iter().filter(|rule| !covered(rule)).collect();
    if !free.is_empty() {
        return Some(format!("the rules {}", free.join(", ")));
    }
    let mode = permissions.and_then(|permissions| permissions.get("defaultMode"));
    if let Some(mode) = mode.and_then(Value::as_str).filter(|mode| !asks(mode)) {
        return Some(format!("the mode {mode}"));
    }
    let sandbox =
        |name: &str| settings.pointer(&format!("/sandbox/{name}")).and_then(Value::as_bool);
    let sandboxed =
        sandbox("enabled") == Some(true) && sandbox("autoAllowBashIfSandboxed") != Some(false);
    sandboxed.then(|| "every command in its sandbox (autoAllowBashIfSandboxed)".to_owned())
}

/// The rules of one sort.
fn rules<'a>(permissions: Option<&'a Value>, sort: &str) -> Vec<&'a str> {
    let rules = permissions.and_then(|permissions| permissions.get(sort)).and_then(Value::as_array);
    rules.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn refusal(source: Option<&str>, what: &str) -> Error {
    let (place, remedy) = match source {
        Some("projectSettings") => (".claude/settings.json of the project", OF_PROJECT),
        Some("localSettings") => (".claude/settings.local.json of the project", OF_PROJECT),
        Some("userSettings") => {
            ("the user's own settings", "Take them out of ~/.claude/settings.json.")
        }
        Some("flagSettings") => ("the settings given at its start", OF_CONFIG),
        _ => ("its managed settings", OF_MACHINE),
    };
    let message = format!("Claude Code would run tools without asking: {what} in {place}");
    Error::new(Code::RuntimeStartFailed, message).remedy(remedy)
}

const OF_PROJECT: &str = "Take them out of that file and decide by the rules of Cortex instead, or do not trust the project.";
const OF_CONFIG: &str = "Take them out of the configuration of this runtime.";
const OF_MACHINE: &str =
    "Ask the administrator of this machine to take them out of Claude Code's managed settings.";

/// How long the connection may take. The endpoint is on this machine; the CLI itself waits for 30 s.
const CONNECT_WAIT: Duration = Duration::from_secs(20);

/// Waits until the tools of Cortex are there. The first turn would start without them.
pub(super) async fn connected(session: &ClaudeSession, url: &str) -> Result<()> {
    match timeout(CONNECT_WAIT, poll(session, url)).await {
        Ok(connected) => connected,
        Err(_) => Err(unreached(&format!("no answer within {} s", CONNECT_WAIT.as_secs()))),
    }
}

async fn poll(session: &ClaudeSession, url: &str) -> Result<()> {
    let mut ticks = interval(MCP_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let status: wire::McpStatus = ask(session, &json!({"subtype": "mcp_status"})).await?;
        let server =
            status.mcp_servers.into_iter().find(|server| server.name == launch::MCP_SERVER);
        let failure = match server {
            // A project may call a server of its own so, and its tools would count as those of Cortex.
            Some(server) if server.is_elsewhere(url) => "another server has its name".to_owned(),
            Some(server) if server.status == "connected" => return Ok(()),
            Some(server) if server.status == "pending" => continue,
            Some(server) => {
                let error = server.error.unwrap_or_else(|| "no reason given".to_owned());
                format!("{}: {error}", server.status)
            }
            None => "it does not know the server".to_owned(),
        };
        return Err(unreached(&failure));
    }
}

fn unreached(failure: &str) -> Error {
    let message = format!("Claude Code does not reach the tools of Cortex: {failure}");
    Error::new(Code::RuntimeStartFailed, message).remedy(
        "Check that nothing between Claude Code and 127.0.0.1 (a proxy) takes the connection.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: [&str; 2] = ["Bash", "Write"];

    fn refused(source: &str, settings: &Value, asked: &[&str]) -> Option<String> {
        let of_asked = json!({"permissions": {"ask": asked}});
        let all =
            json!({"effective": of_asked, "sources": [{"source": source, "settings": settings}]});
        must_ask(&all, asked).err().map(|error| error.message().to_owned())
    }

    /// Approvals: a driver whose CLI would run a tool without asking is not started.
    #[test]
    fn what_lets_tools_run_unasked_is_refused_by_its_place() {
        let allow = |rule: &str| json!({"permissions": {"allow": [rule]}});
        for (source, settings, what) in [
            ("policySettings", allow("Bash(ls:*)"), "Bash(ls:*) in its managed settings"),
            ("projectSettings", allow("Read(//etc/**)"), "in .claude/settings.json of the project"),
            ("localSettings", allow("mcp__x"), "mcp__x in .claude/settings.local.json"),
            (
                "userSettings",
                json!({"permissions": {"defaultMode": "bypassPermissions"}}),
                "the mode bypassPermissions in the user's own",
            ),
            ("novelty", json!({"sandbox": {"enabled": true}}), "autoAllowBashIfSandboxed"),
        ] {
            let message = refused(source, &settings, &[]).unwrap();
            assert!(message.contains("without asking") && message.contains(what), "{message}");
        }
    }

    #[test]
    fn what_asks_anyway_is_no_reason() {
        for settings in [
            json!({}),
            json!({"permissions": {"allow": [], "deny": ["Bash"], "defaultMode": "plan"}}),
            json!({"permissions": {"allow": ["Bash", "Write(x)"]}}),
            json!({"sandbox": {"enabled": true, "autoAllowBashIfSandboxed": false}}),
        ] {
            assert_eq!(refused("projectSettings", &settings, &ASKED), None);
        }
        let other = json!({"permissions": {"allow": ["Bashful"]}});
        assert!(refused("localSettings", &other, &ASKED).is_some());
    }

    #[test]
    fn rules_that_are_not_in_effect_are_noticed() {
        let error = must_ask(&json!({"effective": {}, "sources": []}), &ASKED).unwrap_err();
        assert_eq!(error.code(), Code::RuntimeProtocol);
    }
}

//! Which tools an agent may use unasked: the rules that are given to a session, and the look whether they hold. Pure.
//!
//! OpenCode tries its rules in order and the last that fits counts: its own, those of the agent, those of the session. So a
//! session's begin with one that fits everything, which leaves nothing of the earlier ones. A sub-agent has a session of
//! its own and inherits only what is denied; for it the rules of the configuration count.

use cortex_lib::domain::agent::Role;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::port::SessionSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rule {
    pub(super) permission: String,
    pub(super) pattern: String,
    pub(super) action: String,
}

/// An agent of OpenCode with its rules.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Agent {
    pub(super) name: String,
    #[serde(default)]
    pub(super) mode: String,
    #[serde(default)]
    pub(super) hidden: Option<bool>,
    #[serde(default)]
    pub(super) permission: Vec<Rule>,
    #[serde(default)]
    pub(super) model: Option<AgentModel>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct AgentModel {
    #[serde(rename = "providerID")]
    pub(super) provider: String,
    #[serde(rename = "modelID")]
    pub(super) model: String,
}

/// What changes something, runs something or reaches the network. It asks, whoever calls it.
const ASKED: [&str; 6] = ["bash", "edit", "webfetch", "websearch", "codesearch", "doom_loop"];
/// What only looks at the project.
const READING: [&str; 3] = ["glob", "grep", "list"];
/// What stays within the conversation: notes, texts of skills, sub-agents, whose own tools ask again.
const HARMLESS: [&str; 4] = ["todowrite", "todoread", "skill", "task"];
/// Files that hold secrets are not read unasked.
const SECRETS: [&str; 2] = ["*.env", "*.env.*"];
const NO_SECRET: &str = "*.env.example";
/// The prefix of the MCP servers of Cortex: one for each session.
pub(super) const MCP_PREFIX: &str = "cortex_";

fn rule(permission: &str, pattern: &str, action: &str) -> Rule {
    Rule {
        permission: permission.to_owned(),
        pattern: pattern.to_owned(),
        action: action.to_owned(),
    }
}

/// The rules of a session. `mcp`: the name of its server; `agent`: the one whose rules come before.
pub(super) fn of_session(spec: &SessionSpec, mcp: Option<&str>, agent: &Agent) -> Vec<Rule> {
    let mut rules = match (spec.role, spec.read_only) {
        (Role::Orchestrator, _) => vec![rule("*", "*", "deny")],
        (Role::Worker, true) => {
            let mut rules = vec![rule("*", "*", "deny")];
            rules.extend(reading("deny", agent));
            rules
        }
        (Role::Worker, false) => {
            let mut rules = vec![rule("*", "*", "ask")];
            rules.extend(reading("ask", agent));
            rules.extend(HARMLESS.map(|name| rule(name, "*", "allow")));
            rules.push(rule("question", "*", "allow"));
            // When it plans and when it works is not its own to say.
            rules.extend(["plan_enter", "plan_exit"].map(|name| rule(name, "*", "deny")));
            rules
        }
    };
    // Every session of the folder sees the servers of all: it may use its own.
    rules.push(rule(&format!("{MCP_PREFIX}*"), "*", "deny"));
    if let Some(mcp) = mcp {
        rules.push(rule(&format!("{mcp}_*"), "*", "allow"));
    }
    rules
}

/// Reading within the folder; `secrets`: what happens with files that hold some.
fn reading(secrets: &str, agent: &Agent) -> Vec<Rule> {
    let mut rules = vec![rule("read", "*", "allow")];
    rules.extend(SECRETS.map(|pattern| rule("read", pattern, secrets)));
    rules.push(rule("read", NO_SECRET, "allow"));
    rules.extend(READING.map(|name| rule(name, "*", "allow")));
    // What a tool printed beyond its bound lies in a folder of OpenCode's and belongs to the conversation.
    let mut printed = agent.permission.iter().filter(|rule| {
        rule.permission == "external_directory" && rule.pattern.ends_with("/tool-output/*")
    });
    rules.extend(
        printed.next_back().map(|found| rule("external_directory", &found.pattern, "allow")),
    );
    rules
}

/// The rules for the configuration, which count for sub-agents.
pub(super) fn of_configuration() -> Value {
    let mut rules = serde_json::Map::new();
    rules.insert("*".to_owned(), json!("ask"));
    for name in ASKED.iter().chain(&["external_directory"]) {
        rules.insert((*name).to_owned(), json!("ask"));
    }
    for name in READING.iter().chain(&HARMLESS) {
        rules.insert((*name).to_owned(), json!("allow"));
    }
    let mut read = serde_json::Map::from_iter([("*".to_owned(), json!("allow"))]);
    read.extend(SECRETS.map(|pattern| (pattern.to_owned(), json!("ask"))));
    read.insert(NO_SECRET.to_owned(), json!("allow"));
    rules.insert("read".to_owned(), Value::Object(read));
    Value::Object(rules)
}

/// Looks whether something would run unasked, for whatever reason: an administrator's configuration, a person's own rules
/// for an agent, a version that reads rules otherwise. `session`: the rules that the session really has.
///
/// # Errors
///
/// `runtime.start_failed`.
pub(super) fn must_ask(agents: &[Agent], chosen: &Agent, session: &[Rule]) -> Result<()> {
    let own: Vec<Rule> = chosen.permission.iter().chain(session).cloned().collect();
    if let Some(tool) = unasked(&own) {
        return Err(would_run(&chosen.name, &tool));
    }
    if action("task", "*", &own) == "deny" {
        return Ok(());
    }
    let below = agents.iter().filter(|agent| agent.mode != "primary");
    for agent in below {
        // Only what is denied reaches it from above.
        let denied = session.iter().filter(|rule| rule.action == "deny" && rule.permission != "*");
        let rules: Vec<Rule> = agent.permission.iter().chain(denied).cloned().collect();
        if let Some(tool) = unasked(&rules) {
            return Err(would_run(&agent.name, &tool));
        }
    }
    Ok(())
}

fn would_run(agent: &str, tool: &str) -> Error {
    let message = format!("OpenCode's agent {agent} would use {tool} without asking");
    Error::new(Code::RuntimeStartFailed, message).remedy(
        "Take the `allow` for it out of `permission` or `agent` in OpenCode's configuration, or ask the administrator of this machine to.",
    )
}

/// Something that changes or leaves the folder and would run without a question.
fn unasked(rules: &[Rule]) -> Option<String> {
    let known = ASKED.iter().find(|tool| may_be_allowed(tool, rules)).map(ToString::to_string);
    let outside = || {
        (action("external_directory", "/*", rules) == "allow")
            .then(|| "files outside of the folder".to_owned())
    };
    // A tool of another MCP server or a plugin, which only a person's rule names.
    let foreign = || {
        let named = rules.iter().filter(|rule| rule.action == "allow" && rule.permission != "*");
        named
            .map(|rule| &rule.permission)
            .find(|name| {
                !is_harmless(name) && !name.starts_with(MCP_PREFIX) && may_be_allowed(name, rules)
            })
            .cloned()
    };
    known.or_else(outside).or_else(foreign)
}

fn is_harmless(name: &str) -> bool {
    let others = ["read", "question", "external_directory", "lsp", "plan_enter", "plan_exit"];
    READING.contains(&name) || HARMLESS.contains(&name) || others.contains(&name)
}

/// Whether there is anything for which the tool is allowed.
fn may_be_allowed(tool: &str, rules: &[Rule]) -> bool {
    let whole = rules.iter().rposition(|rule| rule.pattern == "*" && fits(&rule.permission, tool));
    let counted = rules.get(whole.unwrap_or(0)..).unwrap_or_default();
    counted.iter().any(|rule| rule.action == "allow" && fits(&rule.permission, tool))
}

/// What the rules say.
fn action<'a>(permission: &str, pattern: &str, rules: &'a [Rule]) -> &'a str {
    rules
        .iter()
        .rev()
        .find(|rule| fits(&rule.permission, permission) && fits(&rule.pattern, pattern))
        .map_or("ask", |rule| &rule.action)
}

/// Whether a text with stars fits another one.
fn fits(wild: &str, text: &str) -> bool {
    let mut parts = wild.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    let mut rest = rest;
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, mode: &str, rules: &[(&str, &str, &str)]) -> Agent {
        let permission = rules.iter().map(|(a, b, c)| rule(a, b, c)).collect();
        Agent {
            name: name.to_owned(),
            mode: mode.to_owned(),
            hidden: None,
            permission,
            model: None,
        }
    }

    #[test]
    fn stars_fit_as_the_server_reads_them() {
        for (wild, text, want) in [
            ("*", "x", true),
            ("bash", "bash", true),
            ("bash", "bash2", false),
            ("cortex_*", "cortex_a_b", true),
            ("*.env", "a/.env", true),
            ("*.env.*", "x.env.local", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
        ] {
            assert_eq!(fits(wild, text), want, "{wild} {text}");
        }
    }

    #[test]
    fn what_would_run_unasked_is_found_wherever_it_is_allowed() {
        let asks = [("*", "*", "allow"), ("*", "*", "ask"), ("read", "*", "allow")];
        let build = agent("build", "primary", &asks);
        let session = [rule("*", "*", "ask"), rule("task", "*", "allow")];
        let found = |agents: &[Agent], session: &[Rule]| {
            must_ask(agents, &build, session).map_err(|error| error.message().to_owned())
        };
        let general = agent("general", "subagent", &asks);
        assert_eq!(found(&[build.clone(), general], &session), Ok(()));
        for (rules, tool) in [
            (vec![("*", "*", "ask"), ("edit", "*", "allow")], "edit"),
            (vec![("*", "*", "ask"), ("bash", "git *", "allow")], "bash"),
            (vec![("*", "*", "ask"), ("other_tool", "*", "allow")], "other_tool"),
            (vec![("*", "*", "allow")], "bash"),
        ] {
            let free = agent("free", "subagent", &rules);
            let said = found(&[build.clone(), free.clone()], &session).unwrap_err();
            assert_eq!(said, format!("OpenCode's agent free would use {tool} without asking"));
            let alone = [rule("*", "*", "ask"), rule("task", "*", "deny")];
            assert_eq!(found(&[build.clone(), free], &alone), Ok(()), "nobody can start it");
        }
        let said = found(&[], &[rule("webfetch", "*", "allow")]).unwrap_err();
        assert!(said.contains("agent build would use webfetch"), "{said}");
    }

    #[test]
    fn a_rule_that_an_earlier_one_allowed_is_taken_back_by_a_later_one() {
        let rules = [rule("bash", "git *", "allow"), rule("*", "*", "ask")];
        assert!(!may_be_allowed("bash", &rules));
    }

    #[test]
    fn the_configuration_asks_for_all_that_changes_something() {
        let rules = of_configuration();
        for name in ASKED {
            assert_eq!(rules[name], "ask", "{name}");
        }
        assert_eq!(rules["*"], "ask");
    }
}

//! `cortex doctor`.

use serde_json::{Value, json};

use crate::home::Home;

fn state<'a>(report: &'a Value, what: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["what"] == what);
    &found.unwrap_or_else(|| panic!("nothing about {what} in {report}"))["state"]
}

#[test]
fn a_missing_cli_is_required_only_by_an_agent_on_it() {
    let home = Home::new();
    let report = home.cortex(&["doctor", "--json"]).good().json();
    assert_eq!(report["healthy"], true);
    assert_eq!(state(&report, "claude-code"), "missing");
    assert_eq!(state(&report, "codex"), "missing");
    assert_eq!(state(&report, "command:cat"), "ok");
    assert_eq!(state(&report, "data directory"), "ok");

    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    let create = ["agent", "create", "ada", "--project", "web", "--runtime", "claude-code"];
    home.cortex(&create).good();
    let ran = home.cortex(&["doctor"]);
    assert_eq!(ran.code, 1);
    let line = ran.out.lines().position(|line| line.starts_with("BROKEN   claude-code")).unwrap();
    assert!(ran.out.lines().nth(line + 1).unwrap().contains("next: "), "{}", ran.out);
}

#[test]
fn a_machine_without_any_runtime_is_not_healthy() {
    let home = Home::new();
    home.configure(&json!({
        "runtimes": {
            "claude_code": { "executable": "/nowhere/claude" },
            "opencode": { "executable": "/nowhere/opencode" },
            "codex": { "executable": "/nowhere/codex" },
        },
        "mcp": { "enabled": false },
    }));
    let ran = home.cortex(&["doctor", "--json"]);
    assert_eq!(ran.code, 1);
    assert_eq!(state(&ran.json(), "runtimes"), "broken");
}

#[test]
fn a_configuration_that_does_not_hold_is_broken() {
    let home = Home::new();
    home.configure(&json!({ "log": { "keep_days": 0 } }));
    let ran = home.cortex(&["doctor", "--json"]);
    assert_eq!(ran.code, 1);
    assert_eq!(state(&ran.json(), "configuration"), "broken");
}

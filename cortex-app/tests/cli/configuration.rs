//! `config.json` and the data directory.

use serde_json::json;

use crate::home::{Home, run};

/// S-002.
#[test]
fn a_relative_data_directory_is_refused() {
    let home = Home::new();
    let ran = home.cortex(&["--data-dir", "data", "project", "list"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("(core.data_dir_not_absolute)"), "{}", ran.err);
    let ran = run(home.command(&["project", "list"]).env("CORTEX_DATA_DIR", "data"));
    assert_eq!((ran.code, ran.err.contains("(core.data_dir_not_absolute)")), (2, true));
}

#[test]
fn every_wrong_key_is_named_at_once() {
    let home = Home::new();
    home.configure(&json!({
        "resources": { "max_active_processes": 0 },
        "retry": { "max_retries": 11, "tries": 3 },
        "mcp": { "port": 70_000 },
        "runtimes": { "commands": { "x": { "argv": [] } } },
        "logs": {},
    }));
    for args in [["config", "check"], ["project", "list"]] {
        let ran = home.cortex(&[&args[..], &["--json"]].concat());
        assert_eq!(ran.code, 2);
        let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!(error["error"]["code"], "core.config_invalid");
        let mut paths: Vec<_> = error["error"]["problems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|problem| problem["path"].as_str().unwrap())
            .collect();
        paths.sort_unstable();
        let wrong = [
            "logs",
            "mcp.port",
            "resources.max_active_processes",
            "retry.max_retries",
            "retry.tries",
            "runtimes.commands.x.argv",
        ];
        assert_eq!(paths, wrong);
    }
}

#[test]
fn what_the_schema_cannot_say_is_checked_too() {
    let home = Home::new();
    home.configure(&json!({
        "approvals": { "rules": [{ "id": "a", "tool": "[", "decide": "allow" }] },
        "runtimes": { "commands": { "Bad Name": { "argv": ["x"] } } },
    }));
    let ran = home.cortex(&["config", "check"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("approvals.rules[0]"), "{}", ran.err);
    assert!(ran.err.contains("runtimes.commands.Bad Name"), "{}", ran.err);
}

#[test]
fn a_file_that_is_no_json_is_refused() {
    let home = Home::new();
    std::fs::write(home.data_dir().join("config.json"), "{").unwrap();
    let ran = home.cortex(&["config", "check"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("is no JSON"), "{}", ran.err);
}

#[test]
fn variables_are_not_shown() {
    let home = Home::new();
    home.configure(&json!({
        "$schema": "https://example.org/config.schema.json",
        "runtimes": {
            "commands": { "env": { "argv": ["x"], "env": { "KEY": "sesame" } } },
            "claude_code": { "env": { "TOKEN": "sesame" } },
            "opencode": { "env": { "TOKEN": "sesame" } },
            "codex": { "env": { "TOKEN": "sesame" } },
        },
    }));
    let shown = home.cortex(&["config", "show"]).good();
    assert!(!shown.out.contains("sesame"), "{}", shown.out);
    let shown = shown.json();
    assert_eq!(shown["runtimes"]["commands"]["env"]["argv"], json!(["x"]));
    assert_eq!(shown["runtimes"]["claude_code"]["env"]["TOKEN"], "[hidden]");
    assert_eq!(shown["runtimes"]["opencode"]["env"]["TOKEN"], "[hidden]");
    assert_eq!(shown["runtimes"]["codex"]["env"]["TOKEN"], "[hidden]");
    assert_eq!(shown["resources"]["max_active_processes"], 16);
}

/// S-003, S-010.
#[cfg(target_os = "linux")]
#[test]
fn without_a_word_the_data_is_where_the_platform_keeps_it_and_the_port_is_the_known_one() {
    let home = Home::new();
    let bare = |args: &[&str]| {
        let mut command = home.command(args);
        command.env_remove("CORTEX_DATA_DIR").env_remove("XDG_DATA_HOME");
        run(&mut command).good().json()
    };
    let file = home.path().join(".local/share/cortex/config.json");
    assert_eq!(bare(&["config", "check", "--json"])["file"], file.to_str().unwrap());
    assert_eq!(bare(&["config", "show"])["mcp"]["port"], 47_821);
}

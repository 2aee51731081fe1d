//! `cortex approvals` and `cortex rules` where nothing waits. With real requests: `tests/run_claude_code.rs`.

use serde_json::json;

use crate::home::Home;

#[test]
fn nothing_waits_and_an_unknown_request_is_told() {
    let home = Home::new();
    home.team();
    let list = home.cortex(&["approvals", "list"]).good();
    assert!(list.out.contains("no requests wait"), "{}", list.out);
    let list = home.cortex(&["approvals", "list", "--all", "--project", "web", "--json"]).good();
    assert_eq!(list.json(), json!({ "approvals": [] }));
    for words in [
        &["show", "x"][..],
        &["allow", "x"],
        &["deny", "x", "--reason", "no"],
        &["always", "x"],
        &["answer", "x", "yes"],
    ] {
        let ran = home.cortex(&[&["approvals"], words].concat());
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("(approval.not_found)"), "{words:?}: {}", ran.err);
    }
    let ran = home.cortex(&["approvals", "list", "--agent", "nobody"]);
    assert!(ran.err.contains("(agent.not_found)"), "{}", ran.err);
}

#[test]
fn a_person_keeps_the_rules_of_a_project() {
    let home = Home::new();
    home.team();
    let add = ["rules", "add", "web", "tests", "allow", "Bash", "--input", "cargo test*"];
    let added = home.cortex(&add).good();
    assert!(added.out.contains("cargo test*") && added.out.contains("data-directory"), "{added:?}");
    assert!(added.out.contains("You are asked about everything else."), "{added:?}");
    home.cortex(&["rules", "add", "web", "push", "deny", "Bash", "--input", "git push*"]).good();
    home.cortex(&["rules", "add", "web", "ada", "ask", "*", "--agent", "ada", "--place", "1"])
        .good();
    let order = || {
        let list = home.cortex(&["rules", "list", "web", "--json"]).good().json();
        let rules = list["rules"].as_array().unwrap().clone();
        rules.iter().map(|rule| rule["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(order(), ["data-directory", "ada", "tests", "push"]);
    home.cortex(&["rules", "move", "web", "push", "1"]).good();
    home.cortex(&["rules", "remove", "web", "ada"]).good();
    assert_eq!(order(), ["data-directory", "push", "tests"]);
    let ran = home.cortex(&["rules", "remove", "web", "ada"]);
    assert!(ran.err.contains("(rule.not_found)"), "{}", ran.err);
    let ran = home.cortex(&["rules", "add", "web", "x", "deny", "["]);
    assert!(ran.err.contains("is not a pattern"), "{}", ran.err);

    let tested = home.cortex(&["rules", "test", "web"]).good();
    assert!(tested.out.contains("0 of 0 requests"), "{}", tested.out);
    let file = home.path().join("rules.json");
    let rules = json!([{ "id": "a", "tool": "Bash", "decide": "allow" }]);
    std::fs::write(&file, rules.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let tested = home.cortex(&["rules", "test", "web", "--file", file, "--json"]).good();
    assert_eq!(tested.json(), json!({ "requests": [], "differ": 0 }));
    std::fs::write(file, "{}").unwrap();
    let ran = home.cortex(&["rules", "test", "web", "--file", file]);
    assert!(ran.err.contains("(validation.invalid_arguments)"), "{}", ran.err);
}

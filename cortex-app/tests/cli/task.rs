//! `cortex task`.

use serde_json::{Value, json};

use crate::home::Home;

fn task(home: &Home) -> Value {
    home.cortex(&["task", "show", "tea", "--json"]).good().json()["task"].clone()
}

/// S-158, S-159.
#[test]
fn a_task_is_moved_to_an_agent_and_to_any() {
    let home = Home::new();
    home.team();
    home.agent("bob");
    home.objective("Tea", "tea");
    let agents = home.cortex(&["agent", "list", "--json"]).good().json();
    let bob = agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "bob");
    let moved = home.cortex(&["task", "reassign", "tea", "bob", "--reason", "knows tea"]).good();
    assert!(moved.out.contains("waits for bob, which is not ready"), "{}", moved.out);
    assert_eq!(task(&home)["assigned_agent_id"], bob.unwrap()["agent_id"]);
    assert_eq!(task(&home)["reassignments"][0]["reason"], "knows tea");

    home.cortex(&["task", "reassign", "tea", "--any"]).good();
    assert_eq!(task(&home)["assigned_agent_id"], Value::Null);
    assert_eq!(task(&home)["reassignments"][1]["to_agent_id"], json!(null));

    let nobody = home.cortex(&["task", "reassign", "tea", "eve"]);
    assert_eq!((nobody.code, nobody.err.contains("(agent.not_found)")), (3, true));
    assert_eq!(home.cortex(&["task", "reassign", "tea"]).code, 2);
    assert_eq!(home.cortex(&["task", "reassign", "tea", "bob", "--any"]).code, 2);
}

#[test]
fn what_to_call_next_names_the_data_directory() {
    let home = Home::new();
    let ran = home.cortex(&["task", "show", "tea"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains(&home.hint("task list --all")), "{}", ran.err);
}

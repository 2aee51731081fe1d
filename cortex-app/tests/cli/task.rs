//! `cortex task`.

use std::fs;

use serde_json::{Value, json};

use crate::home::Home;
#[cfg(unix)]
use crate::wait::wait_for;

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

/// Runs git as the person who works in the project.
#[cfg(unix)]
fn git(root: &str, args: &[&str]) -> String {
    let mut git = std::process::Command::new("git");
    git.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", root]);
    let ran = git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    crate::home::run(ran.args(args)).good().out
}

/// S-174, S-177.
#[cfg(unix)]
#[test]
fn what_a_task_did_in_its_worktree_is_staged_in_the_folder_once() {
    let home = Home::new();
    let writes = ["sh", "-c", "cat > /dev/null; echo green > tea.txt; echo done"];
    home.configure(&json!({
        "mcp": { "enabled": false },
        "runtimes": { "commands": { "cat": { "argv": writes } } },
    }));
    let root = home.folder("web");
    git(&root, &["init", "--quiet"]);
    git(&root, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    let _serving = home.serve();
    home.team();
    home.cortex(&["agent", "start", "ada"]).good();
    home.objective_of("Tea", &json!({ "requirements": ["workspace_isolation"] }));
    let shown = || home.cortex(&["task", "show", "tea"]).good().out;
    let next = wait_for("the branch", || {
        let shown = shown();
        shown.contains(" task integrate ").then_some(shown)
    });
    assert!(next.contains("added tea.txt") && next.contains("cortex/"), "{next}");
    assert_eq!(git(&root, &["status", "--porcelain"]), "");

    let done = home.cortex(&["task", "integrate", "tea"]).good().out;
    assert!(done.contains("review and commit it") && !done.contains(" task integrate "), "{done}");
    assert_eq!(git(&root, &["status", "--porcelain"]), "A  tea.txt\n");
    let worktrees = fs::read_dir(home.data_dir().join("worktrees")).unwrap();
    assert_eq!(worktrees.count(), 0, "an answer means that it is cleaned up");
    let again = home.cortex(&["task", "integrate", "tea"]);
    assert_eq!((again.code, again.err.contains("(task.state_conflict)")), (4, true));
}

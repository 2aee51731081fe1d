//! `cortex objective`.
#![cfg(unix)]

use serde_json::{Value, json};

use crate::home::Home;
use crate::wait::wait_for;

fn status(home: &Home, objective: &str) -> Value {
    home.cortex(&["objective", "show", objective, "--json"]).good().json()["objective"]["status"]
        .clone()
}

/// S-143, S-144, S-152.
#[test]
fn a_paused_objective_does_not_start_after_a_restart() {
    let home = Home::new();
    home.team();
    let id = home.objective("Later", "later");
    let paused = home.cortex(&["objective", "pause", "Later", "--reason", "not yet"]).good();
    assert!(paused.out.contains("waits: the objective is paused"), "{}", paused.out);
    assert!(paused.out.contains(&home.hint(&format!("objective resume {id}"))), "{}", paused.out);

    let mut serving = home.serve();
    home.cortex(&["agent", "start", "ada"]).good();
    serving.signal("-INT");
    assert_eq!(serving.ended(), Some(0));
    let _again = home.serve();
    // The agent is back when it has done this; so it had its chance to begin the other one.
    home.objective("Now", "now");
    wait_for("the other", || (status(&home, "Now") == "COMPLETED").then_some(()));
    let shown = home.cortex(&["objective", "show", &id, "--json"]).good().json();
    assert_eq!(shown["objective"]["status"], "PAUSED");
    assert_eq!(shown["objective"]["tasks"][0]["attempts"], json!([]));

    home.cortex(&["objective", "resume", "Later"]).good();
    wait_for("the paused one", || (status(&home, "Later") == "COMPLETED").then_some(()));
    let shown = home.cortex(&["objective", "show", "Later"]).good().out;
    let task = shown.lines().find(|line| line.contains("  later")).unwrap();
    assert!(task.contains("COMPLETED") && task.contains("1, ada"), "{task}");
    assert!(task.contains("verified"), "{task}");
}

/// S-147, S-148.
#[test]
fn a_pause_that_interrupts_lets_the_task_run_again_after_the_resume() {
    let home = Home::new();
    let slow = ["sh", "-c", "cat > /dev/null; touch began; while [ ! -e go ]; do sleep 0.05; done"];
    home.configure(&json!({
        "mcp": { "enabled": false },
        "runtimes": { "commands": { "cat": { "argv": slow } } },
    }));
    let _serving = home.serve();
    home.team();
    home.cortex(&["agent", "start", "ada"]).good();
    let id = home.objective("Slow", "slow");
    let web = home.path().join("web");
    wait_for("the turn", || web.join("began").exists().then_some(()));
    home.cortex(&["objective", "pause", &id, "--interrupt"]).good();
    let attempts = || {
        let shown = home.cortex(&["objective", "show", &id, "--json"]).good().json();
        shown["objective"]["tasks"][0]["attempts"].as_array().unwrap().clone()
    };
    wait_for("the end of the attempt", || (attempts()[0]["status"] == "CANCELLED").then_some(()));
    std::fs::write(web.join("go"), "").unwrap();
    home.cortex(&["objective", "resume", &id]).good();
    wait_for("the second attempt", || (status(&home, &id) == "COMPLETED").then_some(()));
    assert_eq!(attempts().len(), 2);
}

/// S-153.
#[test]
fn an_objective_is_cancelled_for_good() {
    let home = Home::new();
    home.team();
    let id = home.objective("Never", "never");
    assert!(home.cortex(&["objective", "list"]).good().out.contains("0 of 1"));
    home.cortex(&["objective", "cancel", "Never", "--reason", "changed my mind"]).good();
    assert_eq!(status(&home, &id), "CANCELLED");
    assert!(home.cortex(&["objective", "list"]).good().out.starts_with("no objectives"));
    let all = home.cortex(&["objective", "list", "--all", "--project", "web"]).good().out;
    assert!(all.contains("CANCELLED") && all.contains(&id), "{all}");
    let late = home.cortex(&["objective", "pause", &id]);
    assert_eq!((late.code, late.err.contains("(objective.state_conflict)")), (4, true));
}

#[test]
fn a_title_means_the_only_one_that_has_not_ended() {
    let home = Home::new();
    home.team();
    let first = home.objective("Tea", "tea");
    home.cortex(&["objective", "cancel", "Tea"]).good();
    let second = home.objective("Tea", "tea");
    let shown = home.cortex(&["objective", "show", "Tea", "--json"]).good().json();
    assert_eq!(shown["objective"]["objective_id"], json!(second));
    home.objective("Tea", "tea");
    let ran = home.cortex(&["objective", "show", "Tea"]);
    assert_eq!((ran.code, ran.err.contains(&first)), (2, true), "{}", ran.err);
    let ran = home.cortex(&["objective", "show", "Coffee"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains(&home.hint("objective list --all")), "{}", ran.err);
}

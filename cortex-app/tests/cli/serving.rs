//! `cortex serve`, and the commands that reach it by its socket.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::home::{Home, Lines, run, serve};
use crate::wait::wait_for;

#[test]
fn others_reach_the_core_that_serves() {
    let home = Home::new();
    let mut serving = home.serve();
    let status = home.cortex(&["call", "core_status"]).good().json();
    assert_eq!(status["pid"], serving.pid());
    assert_eq!(status["state"], "READY");
    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    assert!(home.cortex(&["project", "list"]).good().out.contains("web"));

    let socket = home.data_dir().join("cortex.sock");
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    serving.signal("-INT");
    assert_eq!(serving.ended(), Some(0));
    assert!(!socket.exists());
    // The next one opens the core itself and finds what was done.
    let status = home.cortex(&["call", "core_status"]).good().json();
    assert_ne!(status["pid"], serving.pid());
    assert!(home.cortex(&["project", "list"]).good().out.contains("web"));
}

#[test]
fn a_second_core_is_refused_and_names_the_first() {
    let home = Home::new();
    let mut serving = home.serve();
    let ran = home.cortex(&["serve"]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("(core.data_dir_in_use)"), "{}", ran.err);
    assert!(ran.err.contains(&format!("process {}", serving.pid())), "{}", ran.err);
    // It did not take the socket from the first.
    assert_eq!(home.cortex(&["call", "core_status"]).good().json()["pid"], serving.pid());
    serving.signal("-TERM");
    assert_eq!(serving.ended(), Some(0));
}

/// S-004.
#[test]
fn a_taken_port_ends_serve() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    home.configure(&json!({ "mcp": { "port": port } }));
    let ran = home.cortex(&["serve"]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("(mcp.port_in_use)"), "{}", ran.err);
}

/// Who is not started again is not stopped either: an agent stays wanted until its endpoint can be served.
#[test]
fn a_taken_port_costs_no_agent_its_next_start() {
    let home = Home::new();
    let mut serving = home.serve();
    home.team();
    home.cortex(&["agent", "start", "ada"]).good();
    serving.signal("-INT");
    assert_eq!(serving.ended(), Some(0));
    let config = std::fs::read_to_string(home.data_dir().join("config.json")).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    home.configure(&json!({ "mcp": { "port": port } }));
    assert_eq!(home.cortex(&["serve"]).code, 4);
    let events = home.cortex(&["events", "--last", "100", "--json"]).good().out;
    assert_eq!(events.matches("READY").count(), 2, "it became READY and left that once: {events}");

    std::fs::write(home.data_dir().join("config.json"), config).unwrap();
    let _serving = home.serve();
    let ready = || home.cortex(&["agent", "show", "ada"]).out.contains("READY").then_some(());
    wait_for("the agent to come back", ready);
}

/// S-007.
#[test]
fn without_mcp_serve_listens_on_no_port() {
    let home = Home::new();
    home.configure(&json!({ "mcp": { "enabled": false } }));
    let serving = home.serve();
    assert_eq!(serving.facts["mcp"], Value::Null);
    assert_eq!(serving.facts["local_socket"], true);
}

#[test]
fn a_rotated_token_ends_the_old_one_at_once() {
    let home = Home::new();
    let serving = home.serve();
    let old = home.cortex(&["token", "show"]).good().out.trim().to_owned();
    assert_eq!(serving.answers(&old), 200);
    let new = home.cortex(&["token", "rotate"]).good().out.trim().to_owned();
    assert_eq!((serving.answers(&old), serving.answers(&new)), (401, 200));
}

#[test]
fn a_core_that_was_killed_leaves_nothing_in_the_way() {
    let home = Home::new();
    let mut serving = home.serve();
    serving.signal("-KILL");
    serving.ended();
    assert!(home.data_dir().join("cortex.sock").exists());
    assert!(home.cortex(&["project", "list"]).good().out.starts_with("no projects"));
    let again = home.serve();
    assert_eq!(home.cortex(&["call", "core_status"]).good().json()["pid"], again.pid());
}

#[test]
fn a_data_directory_with_a_long_path_is_served_too() {
    let home = Home::new();
    let deep = home.path().join("d".repeat(60)).join("e".repeat(60));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::copy(home.data_dir().join("config.json"), deep.join("config.json")).unwrap();
    let tmp = home.folder("tmp");
    let mut serving = {
        let mut command = home.command(&["serve", "--json"]);
        command.env("CORTEX_DATA_DIR", &deep).env("TMPDIR", &tmp);
        serve(&mut command)
    };
    let ask = || run(home.command(&["call", "core_status"]).env("CORTEX_DATA_DIR", &deep));
    assert_eq!(ask().good().json()["pid"], serving.pid());
    let folders = || std::fs::read_dir(&tmp).unwrap().map(|entry| entry.unwrap().path());
    let folder = folders().next().unwrap();
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    serving.signal("-INT");
    assert_eq!(serving.ended(), Some(0));
    assert_eq!(folders().count(), 0);
    assert!(!deep.join("cortex.sock.at").exists());
}

#[test]
fn an_objective_is_worked_on_and_waits_for_a_person() {
    let home = Home::new();
    let mut serving = home.serve();
    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    let create = ["agent", "create", "ada", "--project", "web", "--runtime", "command:cat"];
    home.cortex(&create).good();
    home.cortex(&["agent", "start", "ada", "--project", "web"]).good();
    let projects = home.cortex(&["project", "list", "--json"]).good().json();
    let objective = json!({
        "project_id": projects["projects"][0]["project_id"],
        "title": "Say it again",
        "tasks": [{ "key": "echo", "description": "sesame" }],
    });
    home.cortex_with(&["call", "create_objective", "-"], &objective.to_string()).good();
    let blocked = || {
        let task = home.cortex(&["task", "show", "echo", "--json"]).good().json();
        (task["task"]["status"] == "BLOCKED").then_some(task)
    };
    let task = wait_for("the task to wait for a person", blocked);
    assert!(task["task"]["attempts"][0]["result"]["text"].as_str().unwrap().contains("sesame"));
    assert!(home.cortex(&["task", "list"]).good().out.contains("BLOCKED"));
    let approved = home.cortex(&["task", "approve", "echo", "--reason", "seen"]).good();
    assert!(approved.out.contains("COMPLETED"), "{}", approved.out);
    let events = home.cortex(&["events", "--last", "1000", "--json"]).good().out;
    let kinds: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone())
        .collect();
    assert_eq!(kinds.first().unwrap(), "core.started");
    assert!(kinds.contains(&json!("objective.ended")), "{kinds:?}");
    serving.signal("-INT");
    assert_eq!(serving.ended(), Some(0));
}

#[test]
fn told_twice_serve_stops_at_once() {
    let home = Home::new();
    let stubborn = ["sh", "-c", "trap '' INT; cat > /dev/null; sleep 1000 & wait; wait"];
    home.configure(&json!({
        "mcp": { "enabled": false },
        "runtimes": { "commands": { "stubborn": { "argv": stubborn } } },
    }));
    let mut serving = home.serve();
    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    let create = ["agent", "create", "ada", "--project", "web", "--runtime", "command:stubborn"];
    let agent = home.cortex(&[&create[..], &["--json"]].concat()).good().json();
    home.cortex(&["agent", "start", "ada"]).good();
    let objective = json!({
        "project_id": agent["agent"]["project_id"],
        "title": "Never done",
        "tasks": [{ "key": "wait", "description": "wait" }],
    });
    home.cortex_with(&["call", "create_objective", "-"], &objective.to_string()).good();
    let status = |args: &[&str], wanted: &str| home.cortex(args).out.contains(wanted).then_some(());
    wait_for("the turn", || status(&["task", "show", "wait"], "RUNNING"));
    serving.signal("-INT");
    wait_for("the stop", || status(&["call", "core_status"], "STOPPING"));
    serving.signal("-INT");
    assert_eq!(serving.ended(), Some(0));
    let logs = std::fs::read_dir(home.data_dir().join("logs")).unwrap();
    let log: String =
        logs.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    assert!(log.contains("told to stop at once"), "{log}");
    // The core did not wait for the turn; the next one takes it up.
    assert!(home.cortex(&["task", "list"]).good().out.contains("wait"));
}

#[test]
fn agents_come_back_with_a_core_that_stays_and_not_for_one_command() {
    let home = Home::new();
    let mut serving = home.serve();
    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    let create = ["agent", "create", "ada", "--project", "web", "--runtime", "command:cat"];
    home.cortex(&create).good();
    assert!(home.cortex(&["agent", "start", "ada"]).good().out.contains("READY"));
    serving.signal("-INT");
    assert_eq!(serving.ended(), Some(0));

    home.cortex(&["agent", "list"]).good();
    let events = home.cortex(&["events", "--json"]).good().out;
    let starts = events.lines().filter(|line| line.contains(r#""to":"STARTING""#)).count();
    assert_eq!(starts, 1, "{events}");
    let _again = home.serve();
    let ready = || home.cortex(&["agent", "list"]).good().out.contains("READY").then_some(());
    wait_for("the agent to come back", ready);
}

#[test]
fn a_doctor_asks_the_core_that_serves() {
    let home = Home::new();
    let serving = home.serve();
    let report = home.cortex(&["doctor"]).good().out;
    assert!(report.contains(&format!("held by process {}, READY", serving.pid())), "{report}");
}

#[test]
fn events_are_followed_for_nobody_who_has_left() {
    let home = Home::new();
    let _serving = home.serve();
    let mut follow = Lines::of(&mut home.command(&["events", "--follow", "--json"]));
    assert_eq!(follow.line()["type"], "core.started");
    follow.leave();
    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    assert_eq!(follow.ended(), Some(0));
}

#[test]
fn followed_events_end_with_the_core() {
    let home = Home::new();
    let mut serving = home.serve();
    let mut follow = Lines::of(&mut home.command(&["events", "--follow", "--json"]));
    assert_eq!(follow.line()["type"], "core.started");
    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    assert_eq!(follow.line()["type"], "project.created");
    serving.signal("-INT");
    assert_eq!(serving.ended(), Some(0));
    assert_eq!(follow.ended(), Some(0));
}

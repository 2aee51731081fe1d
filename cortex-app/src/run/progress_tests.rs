//! The model on states that a test writes down.

use cortex_lib::domain::waiting::{NotEligible, NotEligibleReason, WaitReason, Waiting};
use cortex_lib::domain::waiting::{WaitingForAgents, WaitingForTasks};
use cortex_lib::port::OutputKind;
use serde_json::json;

use super::*;

const NOW: &str = "2026-01-01T00:00:10.000Z";

fn now() -> Timestamp {
    serde_json::from_value(json!(NOW)).unwrap()
}

fn task(key: &str, status: &str, depends_on: &[&str], attempts: &Value) -> Value {
    json!({
        "task_id": key, "objective_id": "o", "project_id": "p", "key": key, "title": key.to_uppercase(),
        "description": "d", "type": "other", "priority": "normal", "depends_on": depends_on,
        "requirements": [], "assigned_agent_id": null, "max_retries": 2, "timeout_secs": 60, "paths": [],
        "status": status, "waiting": null, "attempts": attempts, "result": null, "failure": null,
        "decisions": [], "reassignments": [], "workspace": null, "integration": null,
        "created_at": "2026-01-01T00:00:00.000Z", "ready_at": null,
        "started_at": "2026-01-01T00:00:08.000Z", "ended_at": null
    })
}

fn attempt(number: u32, status: &str) -> Value {
    json!({
        "execution_id": format!("e{number}"), "number": number, "agent_id": "a1", "runtime_id": "command:x",
        "status": status, "cause": "error", "message": "it\nbroke", "generation": 0,
        "started_at": "2026-01-01T00:00:08.000Z", "ended_at": null, "result": null, "usage": null,
        "verification": null, "workspace": null, "native_session_id": null
    })
}

fn objective(tasks: &[Value]) -> ObjectiveView {
    serde_json::from_value(json!({
        "objective_id": "o", "project_id": "p", "title": "T", "status": "RUNNING",
        "flow": {
            "state": "RUNNING", "generation": 0, "changed_at": "2026-01-01T00:00:00.000Z", "changed_by": "user"
        },
        "tasks": tasks, "created_by": "user", "created_at": "2026-01-01T00:00:00.000Z"
    }))
    .unwrap()
}

fn progress(tasks: &[Value]) -> Progress {
    Progress::new(objective(tasks), BTreeMap::from([(AgentId::new("a1"), "ada".to_owned())]))
}

fn said(changes: Vec<Change>) -> Vec<String> {
    changes.into_iter().map(|change| format!("{}: {}", change.key, change.text)).collect()
}

#[test]
fn a_diamond_is_a_tree() {
    let tasks = [
        task("plan", "COMPLETED", &[], &json!([])),
        task("left", "RUNNING", &["plan"], &json!([])),
        task("right", "RUNNING", &["plan"], &json!([])),
        task("join", "CREATED", &["left", "right"], &json!([])),
        task("check", "CREATED", &["join"], &json!([])),
        task("alone", "CREATED", &[], &json!([])),
    ];
    let rows = progress(&tasks).rows(now());
    let seen: Vec<_> = rows.iter().map(|row| format!("{}{}", row.branches, row.title)).collect();
    assert_eq!(seen, ["PLAN", "├─ LEFT", "│  └─ JOIN", "│     └─ CHECK", "└─ RIGHT", "ALONE"]);
}

#[test]
fn a_row_shows_who_runs_it_how_long_and_what_was_printed_last() {
    let mut progress = progress(&[task("a", "RUNNING", &[], &json!([attempt(1, "RUNNING")]))]);
    let output = |task: &str, text: &str| Output {
        agent_id: AgentId::new("a1"),
        turn_id: None,
        task_id: Some(TaskId::new(task)),
        execution_id: None,
        kind: OutputKind::Text,
        text: text.to_owned(),
    };
    assert_eq!(progress.hear(&output("a", "one\ntwo\n \n")), Some("a"));
    assert_eq!(progress.hear(&output("other", "three")), None);
    let row = progress.rows(now()).remove(0);
    assert_eq!(row.agent.as_deref(), Some("ada"));
    assert_eq!(row.elapsed, Some(Duration::from_secs(2)));
    assert_eq!(row.note, "two");
}

#[test]
fn an_attempt_that_failed_between_two_looks_is_told_all_the_same() {
    let mut progress = progress(&[task("a", "READY", &[], &json!([]))]);
    let mut next = task("a", "RUNNING", &[], &json!([attempt(1, "FAILED"), attempt(2, "RUNNING")]));
    next["ready_at"] = json!(NOW);
    assert_eq!(
        said(progress.update(objective(&[next.clone()]), now())),
        [
            "a: started by ada",
            "a: attempt 1 failed: it broke",
            "a: started by ada again, attempt 2"
        ]
    );
    assert_eq!(said(progress.update(objective(&[next]), now())), [""; 0], "it is told once");
}

#[test]
fn an_end_is_told_with_its_time_and_its_evidence() {
    let mut progress = progress(&[task("a", "VERIFYING", &[], &json!([attempt(1, "VERIFYING")]))]);
    let mut next = task("a", "COMPLETED", &[], &json!([attempt(1, "SUCCEEDED")]));
    next["ended_at"] = json!(NOW);
    next["result"] = json!({ "text": "r", "truncated": false, "evidence": "verified", "at": NOW });
    assert_eq!(
        said(progress.update(objective(&[next]), now())),
        ["a: completed in 2.0 s, verified"]
    );
    assert_eq!(progress.counts(), (1, 1));
}

#[test]
fn a_reason_is_told_when_it_becomes_another_one() {
    let waiting = |task: &mut Value, waiting: &Waiting| task["waiting"] = json!(waiting);
    let (a, mut b) =
        (task("a", "RUNNING", &[], &json!([])), task("b", "CREATED", &["a"], &json!([])));
    waiting(
        &mut b,
        &Waiting {
            reason: WaitReason::Dependencies,
            dependencies: Some(WaitingForTasks { task_ids: vec![TaskId::new("a")] }),
            ..Waiting::default()
        },
    );
    let mut progress = progress(&[a.clone(), b.clone()]);
    assert_eq!(said(progress.first_changes(now())), ["b: waits for a"]);
    assert_eq!(said(progress.update(objective(&[a.clone(), b.clone()]), now())), [""; 0]);
    let busy = NotEligible {
        agent_id: AgentId::new("a1"),
        reason: NotEligibleReason::Busy,
        missing: Vec::new(),
    };
    waiting(
        &mut b,
        &Waiting {
            reason: WaitReason::NoEligibleAgent,
            no_eligible_agent: Some(WaitingForAgents { agents: vec![busy] }),
            ..Waiting::default()
        },
    );
    assert_eq!(
        said(progress.update(objective(&[a, b]), now())),
        ["b: waits for an agent: ada is busy"]
    );
}

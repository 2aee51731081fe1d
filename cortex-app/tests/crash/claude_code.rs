//! Claude Code: a core that is killed, and one that is stopped, in the middle of a diamond of tasks.

use std::time::{Duration, Instant};

use cortex_lib::api::tool::RetryTask;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::store::AttemptStatus;
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, ScriptedAnthropic, When, cases, cli};
use serde_json::json;

use crate::place::{Cli, Place, task};
use crate::world::{Core, on_one_thread, sleepers, statuses, until};

const CLI: Cli = Cli { runtime: "claude-code", section: "claude_code", tool: "Bash" };

pub(crate) fn all() -> Vec<Case> {
    cases![a_killed_core_leaves_nothing_and_goes_on, a_stopped_core_goes_on_by_itself].into()
}

async fn place(left: Answer) -> Place {
    let script = Script::new()
        .on(When::last_user("interrupted by a crash"), Answer::text("LEFT-RESULT"))
        .on(When::last_user("TASK-LEFT"), left)
        .on(When::last_user("TASK-"), Answer::text("RESULT"))
        .otherwise(Answer::text("so be it"));
    let server = ScriptedAnthropic::start(script).await.unwrap();
    Place::new(CLI, &cli::claude_code().unwrap(), server)
}

async fn begin(place: &Place, core: &Core) {
    let tasks = vec![
        task("plan", &[]),
        task("left", &["plan"]),
        task("right", &["plan"]),
        task("combine", &["left", "right"]),
        task("check", &["combine"]),
    ];
    place.begin(core, &["ada", "bob"], tasks).await;
}

/// Processes: the core dies while a tool of Claude Code runs that forked → nothing lives, and the next core goes on.
async fn a_killed_core_leaves_nothing_and_goes_on() {
    on_one_thread(killed).await;
}

async fn a_stopped_core_goes_on_by_itself() {
    on_one_thread(stopped).await;
}

async fn killed() {
    let number = 710_000_000 + std::process::id();
    let forks = format!(
        "sleep {number}1 &\nsetsid sleep {number}2 &\n(setsid env -i /usr/bin/sleep {number}3 &)\ntail -f /dev/null\n"
    );
    let place = place(Answer::tool("Bash", json!({ "command": "sh ./forks.sh" }))).await;
    fs_err::write(place.root.path().join("forks.sh"), forks).unwrap();
    let mut core = place.serve().await;
    begin(&place, &core).await;
    core.until_task("right", TaskStatus::Completed).await;
    until("the tool has forked", async || (sleepers(number) == 3).then_some(())).await;
    assert!(place.agents_alive() > 0);
    assert_eq!(core.task("left").await.status, TaskStatus::Running);

    let killed = Instant::now();
    core.signal("-KILL");
    core.child.wait().unwrap();
    let nothing = async || (sleepers(number) == 0 && place.agents_alive() == 0).then_some(());
    until("nothing of it lives", nothing).await;
    assert!(killed.elapsed() < Duration::from_secs(1), "it took {:?}", killed.elapsed());

    let core = place.serve().await;
    core.until_agents_are_back(2).await;
    let left = core.until_task("left", TaskStatus::Blocked).await;
    assert_eq!(left.failure.unwrap().cause, "recovery.outcome_unknown");
    assert_eq!(statuses(&left.attempts), [AttemptStatus::Lost]);
    for key in ["plan", "right"] {
        let status = core.task(key).await.status;
        assert_eq!(status, TaskStatus::Completed, "what was acknowledged is not lost: {key}");
    }
    let retry = RetryTask { task_id: left.task_id, execution_id: None, reason: None };
    core.client.call(retry).await.unwrap();
    core.until_task("check", TaskStatus::Completed).await;
    let left = core.task("left").await;
    assert_eq!(statuses(&left.attempts), [AttemptStatus::Lost, AttemptStatus::Succeeded]);
    for key in ["plan", "right", "combine", "check"] {
        let attempts = core.task(key).await.attempts;
        assert_eq!(statuses(&attempts), [AttemptStatus::Succeeded], "{key} is done once");
    }
    assert_eq!(place.server.strangers().len(), 0);
    core.stop();
    assert_eq!(place.agents_alive(), 0);
}

async fn stopped() {
    let place = place(Answer::text("LEFT-RESULT").silent_until("left")).await;
    let core = place.serve().await;
    begin(&place, &core).await;
    core.until_task("right", TaskStatus::Completed).await;
    core.until_task("left", TaskStatus::Running).await;
    core.stop();
    assert_eq!(place.agents_alive(), 0);

    place.server.open("left");
    let core = place.serve().await;
    core.until_agents_are_back(2).await;
    core.until_task("check", TaskStatus::Completed).await;
    let left = core.task("left").await;
    let causes: Vec<_> = left.attempts.iter().map(|attempt| attempt.cause.as_deref()).collect();
    assert_eq!(causes, [Some("core.stopping"), None], "no task was BLOCKED: {left:#?}");
    core.stop();
}

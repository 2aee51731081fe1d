//! Codex and OpenCode: a core that is killed while a tool runs that forked in every way.

use std::time::{Duration, Instant};

use cortex_lib::api::tool::RetryTask;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::store::AttemptStatus;
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, ScriptedChat, ScriptedResponses, When, cases, cli};
use serde_json::json;

use crate::place::{Cli, Place, task};
use crate::world::{on_one_thread, owned, sleepers, statuses, until};

const CODEX: Cli = Cli { runtime: "codex", section: "codex", tool: "*" };
const OPENCODE: Cli = Cli { runtime: "opencode", section: "opencode", tool: "*" };
/// In the project.
const FORKS: &str = "sh ./forks.sh";

pub(crate) fn codex() -> Vec<Case> {
    cases![a_killed_core_leaves_nothing_of_codex_and_goes_on].into()
}

pub(crate) fn opencode() -> Vec<Case> {
    cases![a_killed_core_leaves_nothing_of_opencode_and_goes_on].into()
}

/// Processes: the core dies while a tool of Codex runs that forked → nothing lives, and the next core goes on.
async fn a_killed_core_leaves_nothing_of_codex_and_goes_on() {
    on_one_thread(|| async {
        let input = json!({"cmd": FORKS, "yield_time_ms": 60_000});
        let server = ScriptedResponses::start(script("exec_command", input)).await.unwrap();
        killed(Place::new(CODEX, &cli::codex().unwrap(), server)).await;
    })
    .await;
}

/// Processes: the core dies while a tool of OpenCode runs that forked → nothing lives, and the next core goes on.
async fn a_killed_core_leaves_nothing_of_opencode_and_goes_on() {
    on_one_thread(|| async {
        let input = json!({"command": FORKS, "description": "forks"});
        let server = ScriptedChat::start(script("bash", input)).await.unwrap();
        killed(Place::new(OPENCODE, &cli::opencode().unwrap(), server)).await;
    })
    .await;
}

fn script(shell: &str, input: serde_json::Value) -> Script {
    Script::new()
        .on(When::last_user("interrupted by a crash"), Answer::text("RESULT"))
        .on(When::last_user("TASK-FORKS"), Answer::tool(shell, input))
        .otherwise(Answer::text("so be it"))
}

/// A child, one in a session of its own, and one without parents and without a name.
fn forks(number: u32) -> String {
    format!(
        "sleep {number}1 &\nsetsid sleep {number}2 &\n(setsid env -i /usr/bin/sleep {number}3 &)\nsleep {number}4\n"
    )
}

async fn killed(place: Place) {
    let number = 720_000_000 + std::process::id();
    fs_err::write(place.root.path().join("forks.sh"), forks(number)).unwrap();
    let mut core = place.serve().await;
    place.begin(&core, &["ada"], vec![task("forks", &[])]).await;
    until("the tool has forked", async || (sleepers(number) == 4).then_some(())).await;
    let owners = place.owners();
    assert!(owned(&owners) > 1, "the CLI and its tool: {owners:?}");
    assert_eq!(core.task("forks").await.status, TaskStatus::Running);

    let killed = Instant::now();
    core.signal("-KILL");
    core.child.wait().unwrap();
    let alive = || sleepers(number) + owned(&owners) + place.agents_alive();
    let nothing = async || (alive() == 0).then_some(());
    until("nothing of it lives", nothing).await;
    assert!(killed.elapsed() < Duration::from_secs(1), "it took {:?}", killed.elapsed());
    let left = place.temporary();
    assert_eq!(left.len(), 1, "nobody could remove the folder of its process: {left:?}");

    let core = place.serve().await;
    core.until_agents_are_back(1).await;
    let lost = core.until_task("forks", TaskStatus::Blocked).await;
    assert_eq!(lost.failure.unwrap().cause, "recovery.outcome_unknown");
    assert_eq!(statuses(&lost.attempts), [AttemptStatus::Lost]);
    let retry = RetryTask { task_id: lost.task_id, execution_id: None, reason: None };
    core.client.call(retry).await.unwrap();
    let done = core.until_task("forks", TaskStatus::Completed).await;
    assert_eq!(statuses(&done.attempts), [AttemptStatus::Lost, AttemptStatus::Succeeded]);
    assert_eq!(sleepers(number), 0, "the tool did not run again");
    let there = place.temporary();
    assert!(!left.iter().any(|old| there.contains(old)), "the next core removed it: {there:?}");
    core.stop();
    assert_eq!(place.agents_alive(), 0);
    assert_eq!(place.temporary(), Vec::<String>::new());
    let mut strangers = place.server.strangers();
    // OpenCode looks for the package of its own plugins, whatever it is told.
    strangers.retain(|one| one.target != "registry.npmjs.org:443");
    assert_eq!(strangers, [], "nothing but the scripted server was asked");
}

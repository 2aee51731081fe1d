//! What plain attempts in a repository did to its files.

use cortex_lib::api::tool::CancelTask;
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::{Code, Error};
use cortex_lib::port::{Asked, GitFate};
use cortex_lib::store::{AttemptStatus, WorkspaceKind};

use crate::bench::{Setup, pass, secs, spec};
use crate::isolation::{in_git, isolated, writing};

/// A project whose folder is a repository by its own `.git`.
fn registered_in_git() -> Setup {
    let setup = in_git();
    fs_err::create_dir(setup.root().join(".git")).unwrap();
    setup
}

#[tokio::test(start_paused = true)]
async fn a_plain_attempt_in_a_repository_names_what_it_changed_and_the_tree_that_was_verified() {
    let setup = registered_in_git().runtime(writing).host(|host| host);
    let bench = setup.open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Completed).await;
    let changed = task.result.unwrap().changed_files.unwrap();
    assert_eq!((changed.len(), changed[0].path.as_str()), (1, "x.txt"));
    let record = task.attempts[0].verification.clone().unwrap();
    assert!(record.tree.unwrap().starts_with("tree-"));
    let workspace = task.workspace.unwrap();
    assert_eq!((workspace.kind, workspace.path), (WorkspaceKind::Project, setup.root()));
    assert_eq!(bench.world.openings().len(), 1, "it runs in the agent's own session");
    let next = bench.one_task(spec("y", &[])).await;
    let next = bench.until_task(&next, TaskStatus::Completed).await;
    let looked_for = [next.attempts[0].execution_id.clone()];
    assert_eq!(Vec::from_iter(bench.world.objects()), looked_for, "old ones go");
    let writes = |asked: &&Asked| match asked {
        Asked::Git(method, _) => !["snapshot", "changes"].contains(method),
        _ => false,
    };
    assert_eq!(bench.world.asked().iter().filter(writes).count(), 0, "git is only looked at");
}

#[tokio::test(start_paused = true)]
async fn a_look_at_the_files_that_fails_or_hangs_fails_no_attempt() {
    let error = Error::new(Code::WorkspaceUnavailable, "no");
    for fate in [GitFate::Fail(error), GitFate::HangBefore] {
        for verified in [true, false] {
            let mut setup = registered_in_git().runtime(writing);
            setup.verification = verified;
            setup.world.git_fate("snapshot", fate.clone());
            let bench = setup.open().await;
            bench.ready("a").await;
            let id = bench.one_task(spec("x", &[])).await;
            let wanted = if verified { TaskStatus::Completed } else { TaskStatus::Blocked };
            let task = bench.until_task(&id, wanted).await;
            assert_eq!(task.attempts.len(), 1);
            assert_eq!(task.attempts[0].status, AttemptStatus::Succeeded);
            if let Some(result) = task.result {
                assert_eq!(result.changed_files, None);
            }
        }
    }
}

/// An attempt that is cancelled before its turn was sent never reaches its agent.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_cancelled_while_it_is_prepared_sends_no_turn() {
    for (method, task) in [("snapshot", spec("x", &[])), ("add", isolated("x", &[]))] {
        let setup = registered_in_git().runtime(writing);
        setup.world.git_fate(method, GitFate::HangBefore);
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        let id = bench.one_task(task).await;
        bench.until_task(&id, TaskStatus::Running).await;
        bench.call(CancelTask { task_id: id.clone(), reason: None }).await;
        bench.until_agent(&agent, AgentStatus::Ready).await;
        setup.world.git_fate(method, GitFate::Go);
        pass(secs(600)).await;
        assert!(bench.world.turns().is_empty(), "{method}");
        assert!(bench.world.worktrees().is_empty(), "{method}");
        assert!(bench.task(&id).await.attempts[0].ended_at.is_some());
    }
}

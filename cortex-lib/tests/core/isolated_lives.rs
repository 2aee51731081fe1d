//! Isolated attempts over several lives of a core.

use cortex_lib::api::tool::CancelTask;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::port::{Asked, GitFate, Opening};
use cortex_lib::store::AttemptStatus;

use crate::bench::{Bench, secs};
use crate::isolation::{
    branch_of, endless, in_git, isolated, life, own_sessions, running, saved, until_removed,
    worktree_of, writing,
};

/// C22
#[test]
fn a_lost_attempt_is_kept_and_runs_again_in_a_fresh_worktree() {
    let mut setup = in_git().runtime(endless);
    let (project, id) = life(async {
        let (bench, _, id) = running(&setup).await;
        setup.world.lose_core();
        (bench.project, id)
    });
    assert_eq!(setup.world.processes().len(), 2);
    for lives in 1..=5 {
        life(async {
            let bench = setup.reopen(&project).await;
            bench.until_turns(lives + 1).await;
            let task = bench.until_task(&id, TaskStatus::Running).await;
            let lost = &task.attempts[lives - 1];
            assert_eq!(lost.status, AttemptStatus::Lost);
            until_removed(&bench, &lost.execution_id).await;
            assert_eq!(saved(&bench, &setup, &lost.execution_id, "x.txt").as_deref(), Some("half"));
            let fresh = worktree_of(&task.attempts[lives].execution_id);
            assert_eq!(Vec::from_iter(bench.world.worktrees()), [fresh]);
            setup.world.lose_core();
        });
    }
    life(async {
        let bench = setup.reopen(&project).await;
        let task = bench.until_task(&id, TaskStatus::Blocked).await;
        assert_eq!(task.attempts.len(), 6);
        assert_eq!(task.failure.unwrap().cause, "retry.free_repeats_spent");
        until_removed(&bench, &task.attempts[5].execution_id).await;
    });
}

/// A crash between any two steps: what rows owe is done by the next life.
#[test]
fn a_core_that_dies_while_git_works_goes_on_from_its_rows() {
    for step in ["add", "keep", "point"] {
        for fate in [GitFate::HangBefore, GitFate::HangAfter] {
            let mut setup = in_git().runtime(writing).host(|host| host);
            setup.world.git_fate(step, fate.clone());
            let (project, id) = life(async {
                let bench = setup.open().await;
                bench.ready("a").await;
                let id = bench.one_task(isolated("x", &[])).await;
                until_asked(&bench, step).await;
                setup.world.lose_core();
                (bench.project.clone(), id)
            });
            setup.world.git_fate(step, GitFate::Go);
            life(async {
                let bench = setup.reopen(&project).await;
                let task = bench.until_task(&id, TaskStatus::Completed).await;
                let look = async || bench.world.reference(setup.root(), &branch_of(&id));
                let (_, files) = bench.until("the branch", look).await;
                assert_eq!(files["x.txt"], "x", "{step}: {fate:?}");
                let last = &task.attempts.last().unwrap().execution_id;
                let look = async || (bench.world.worktrees().len() == 1).then_some(());
                bench.until("the others to go", look).await;
                assert!(bench.world.worktrees().contains(&worktree_of(last)), "{step}: {fate:?}");
                assert_eq!(bench.world.turns().len(), 1, "sent once: {step}, {fate:?}");
            });
        }
    }
}

/// The same where a worktree is given up.
#[test]
fn a_core_that_dies_while_a_worktree_goes_removes_it_in_the_next_life() {
    for step in ["keep", "remove"] {
        for fate in [GitFate::HangBefore, GitFate::HangAfter] {
            let mut setup = in_git().runtime(endless);
            setup.world.git_fate(step, fate.clone());
            let (project, id) = life(async {
                let (bench, _, id) = running(&setup).await;
                bench.call(CancelTask { task_id: id.clone(), reason: None }).await;
                until_asked(&bench, step).await;
                setup.world.lose_core();
                (bench.project.clone(), id)
            });
            setup.world.git_fate(step, GitFate::Go);
            life(async {
                let bench = setup.reopen(&project).await;
                let attempt = bench.task(&id).await.attempts[0].execution_id.clone();
                until_removed(&bench, &attempt).await;
                assert_eq!(saved(&bench, &setup, &attempt, "x.txt").as_deref(), Some("half"));
            });
        }
    }
}

/// Waits until a method of git was called.
async fn until_asked(bench: &Bench, wanted: &str) {
    let calls = |asked: &Asked| matches!(asked, Asked::Git(method, _) if *method == wanted);
    let look = async || bench.world.asked().iter().any(calls).then_some(());
    bench.until(wanted, look).await;
}

/// The core dies while the second session opens: nothing was sent, so nothing is lost.
#[test]
fn a_core_that_dies_while_a_second_session_opens_begins_anew() {
    let mut setup = in_git().runtime(|runtime| {
        writing(runtime).opening(|spec| {
            if spec.cwd.starts_with("/worktrees") {
                Opening::After(secs(20))
            } else {
                Opening::AT_ONCE
            }
        })
    });
    let (project, id) = life(async {
        let bench = setup.open().await;
        bench.ready("a").await;
        let id = bench.one_task(isolated("x", &[])).await;
        let look = async || (own_sessions(&bench).len() == 1).then_some(());
        bench.until("the second session", look).await;
        setup.world.lose_core();
        (bench.project.clone(), id)
    });
    life(async {
        let bench = setup.reopen(&project).await;
        let task = bench.until_task(&id, TaskStatus::Blocked).await;
        assert_eq!(task.failure.unwrap().cause, "verification.missing");
        assert_eq!(task.attempts.len(), 2);
        assert_eq!(task.attempts[0].cause.as_deref(), Some("core.stopping"));
        until_removed(&bench, &task.attempts[0].execution_id).await;
        assert_eq!(bench.world.processes().len(), 1);
    });
}

#[test]
fn an_orderly_end_of_the_core_loses_nothing_of_an_isolated_attempt() {
    let mut setup = in_git().runtime(endless);
    let (project, agent, id) = life(async {
        let (bench, agent, id) = running(&setup).await;
        bench.cortex.shutdown().await.unwrap();
        (bench.project.clone(), agent, id)
    });
    assert!(setup.world.processes().is_empty() && setup.world.scratch().is_empty());
    life(async {
        let bench = setup.reopen(&project).await;
        bench.until_turns(2).await;
        let task = bench.until_task(&id, TaskStatus::Running).await;
        assert_eq!(task.attempts[0].cause.as_deref(), Some("core.stopping"));
        until_removed(&bench, &task.attempts[0].execution_id).await;
        let kept = saved(&bench, &setup, &task.attempts[0].execution_id, "x.txt");
        assert_eq!(kept.as_deref(), Some("half"));
        assert!(bench.see(&agent).await.session.unwrap().resumed, "its own conversation goes on");
        let opened = bench.world.openings();
        let own = format!("native-{}", opened[0].session_id);
        assert_eq!(opened[2].resume, Some(own), "not that of the attempt");
    });
}

//! Bringing the changes of an isolated task into the project's folder.

use std::path::Path;

use cortex_lib::api::operator::RemoveProject;
use cortex_lib::api::tool::{ApproveTask, CancelTask, IntegrateTask, StopAgent};
use cortex_lib::api::view::TaskView;
use cortex_lib::api::{Caller, SessionCaller, SessionKind};
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::plan::{Requirement, TaskSpec};
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::workspace::Change;
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::{AgentId, ProjectId, SessionId, TaskId};
use cortex_lib::port::{Asked, GitFate};
use cortex_lib::store::DecisionKind;

use crate::bench::{Bench, Setup, pass, secs, spec};
use crate::isolation::{in_git, isolated, life, writing};

fn integrate(id: &TaskId) -> IntegrateTask {
    IntegrateTask { task_id: id.clone() }
}

fn verified() -> Setup {
    in_git().runtime(writing).host(|host| host)
}

/// A core with an isolated task that completed.
async fn completed(setup: &Setup) -> (Bench, TaskId) {
    let bench = setup.open().await;
    bench.ready("a").await;
    let id = another(&bench, "x").await;
    (bench, id)
}

async fn another(bench: &Bench, key: &str) -> TaskId {
    let id = bench.one_task(isolated(key, &[])).await;
    bench.until_task(&id, TaskStatus::Completed).await;
    id
}

fn worktree_of(task: &TaskView) -> &Path {
    &task.workspace.as_ref().unwrap().path
}

fn staged(setup: &Setup) -> Vec<String> {
    setup.world.staged(setup.root()).into_iter().map(|file| file.path).collect()
}

/// S-173, S-174, S-175, S-176, S-177, S-179, C11, H-11
#[tokio::test(start_paused = true)]
async fn exactly_the_verified_commit_is_staged_and_never_committed() {
    let setup = verified();
    let (bench, id) = completed(&setup).await;
    setup.world.write_file(setup.root().join("mine.txt"), "mine");
    let branch = format!("refs/heads/cortex/{id}");
    let task = bench.call(integrate(&id)).await.task;
    let (commit, _) = setup.world.reference(setup.root(), &branch).unwrap();

    let integration = task.integration.clone().unwrap();
    assert_eq!(integration.by, "user");
    assert_eq!(integration.commit, commit);
    assert_eq!(integration.branch, format!("cortex/{id}"));
    assert_eq!(
        Some(&integration.base_commit),
        task.workspace.clone().unwrap().base_commit.as_ref()
    );
    let changed = &integration.changed_files;
    assert_eq!((changed.len(), changed[0].path.as_str()), (1, "x.txt"));
    assert_eq!(changed[0].change, Change::Added);
    assert!(integration.left_behind.is_empty());
    let decision = task.decisions.last().unwrap();
    assert_eq!((decision.decision, decision.by.as_str()), (DecisionKind::Integrated, "user"));
    assert_eq!(decision.execution_id.as_ref(), Some(&task.attempts[0].execution_id));

    assert_eq!(staged(&setup), ["x.txt"], "staged, not committed");
    let files = setup.world.files(setup.root());
    assert_eq!(files["x.txt"], "x");
    assert_eq!(files["mine.txt"], "mine", "no work of a person is touched");
    let look = async || setup.world.worktrees().is_empty().then_some(());
    bench.until("the removal of the worktree", look).await;
    assert!(setup.world.reference(setup.root(), &branch).is_some(), "the branch stays");
    let told = |kind| move |event: &cortex_lib::store::Event| event.kind == kind;
    let events = bench.store.read(|tx| tx.events_after(None, 500)).unwrap();
    assert!(events.iter().any(told(EventKind::TaskIntegrated)));

    setup.world.commit_staged(setup.root());
    let error = bench.refuse(integrate(&id)).await;
    assert_eq!(error.code(), Code::TaskStateConflict, "once");
    assert!(staged(&setup).is_empty());
}

/// S-173, S-177
#[tokio::test(start_paused = true)]
async fn what_cannot_be_integrated_is_refused_by_its_state() {
    let setup = in_git().runtime(writing);
    let bench = setup.open().await;
    bench.ready("a").await;
    let nowhere = bench.refuse(integrate(&TaskId::new("none"))).await;
    assert_eq!(nowhere.code(), Code::TaskNotFound);

    let plain = bench.one_task(spec("p", &[])).await;
    bench.until_task(&plain, TaskStatus::Blocked).await;
    let error = bench.refuse(integrate(&plain)).await;
    assert!(error.message().contains("has not completed"), "{error}");
    bench.call(ApproveTask { task_id: plain.clone(), execution_id: None, reason: None }).await;
    let error = bench.refuse(integrate(&plain)).await;
    assert_eq!(error.code(), Code::TaskStateConflict);
    assert!(error.message().contains("ran in the project's folder"), "{error}");

    let own = bench.one_task(isolated("x", &[])).await;
    bench.until_task(&own, TaskStatus::Blocked).await;
    assert_eq!(bench.refuse(integrate(&own)).await.code(), Code::TaskStateConflict);
    bench.call(ApproveTask { task_id: own.clone(), execution_id: None, reason: None }).await;
    let task = bench.call(integrate(&own)).await.task;
    assert!(task.integration.is_some(), "at once after its approval");
}

/// S-178
#[tokio::test(start_paused = true)]
async fn a_refused_integration_names_why_and_changes_nothing() {
    let setup = verified();
    let (bench, id) = completed(&setup).await;
    let root = setup.root();
    let worktree = worktree_of(&bench.task(&id).await).to_owned();
    let refused = async |code: Code, path: &str| {
        let before = (setup.world.files(&root), setup.world.staged(&root));
        let error = bench.refuse(integrate(&id)).await;
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().contains(path), "{error}");
        assert_eq!((setup.world.files(&root), setup.world.staged(&root)), before);
        let task = bench.task(&id).await;
        assert_eq!((task.integration, task.decisions.len()), (None, 0));
        assert!(setup.world.worktrees().contains(&worktree));
    };

    setup.world.write_file(root.join("b.txt"), "mine");
    setup.world.stage_all(&root);
    refused(Code::WorkspaceIndexNotClean, "b.txt").await;
    setup.world.commit_staged(&root);

    setup.world.write_file(root.join("x.txt"), "mine");
    refused(Code::WorkspaceLocalChanges, "x.txt").await;
    setup.world.stage_all(&root);
    setup.world.commit_staged(&root);
    refused(Code::WorkspaceConflict, "x.txt").await;
    setup.world.remove_file(root.join("x.txt"));
    setup.world.stage_all(&root);
    setup.world.commit_staged(&root);

    let error = Error::new(Code::WorkspaceUnavailable, "no git");
    setup.world.git_fate("plan_squash", GitFate::Fail(error));
    refused(Code::WorkspaceUnavailable, "no git").await;
    setup.world.git_fate("plan_squash", GitFate::Go);

    // The folder changes between the plan and its execution.
    let error = Error::new(Code::WorkspaceLocalChanges, "x.txt changed");
    setup.world.git_fate("squash", GitFate::Fail(error));
    refused(Code::WorkspaceLocalChanges, "x.txt").await;
    setup.world.git_fate("squash", GitFate::Go);

    let task = bench.call(integrate(&id)).await.task;
    assert!(task.integration.is_some(), "works after HEAD has moved, and after every refusal");
    assert_eq!(staged(&setup), ["x.txt"]);
}

/// S-178
#[tokio::test(start_paused = true)]
async fn a_worktree_that_is_not_proved_to_be_the_tasks_is_not_integrated() {
    let setup = verified();
    let (bench, id) = completed(&setup).await;
    let worktree = worktree_of(&bench.task(&id).await).to_owned();
    setup.world.disown_worktree(&worktree);
    assert_eq!(bench.refuse(integrate(&id)).await.code(), Code::WorkspaceUnowned);
    assert!(staged(&setup).is_empty());
    assert!(setup.world.worktrees().contains(&worktree));
}

/// What was verified is on the branch, whatever became of the worktree.
#[tokio::test(start_paused = true)]
async fn a_task_whose_worktree_a_person_removed_is_integrated_from_its_branch() {
    let setup = verified();
    let (bench, id) = completed(&setup).await;
    setup.world.take_worktree(worktree_of(&bench.task(&id).await));
    let integration = bench.call(integrate(&id)).await.task.integration.unwrap();
    assert!(integration.left_behind.is_empty());
    assert_eq!(staged(&setup), ["x.txt"]);
}

/// S-237
#[tokio::test(start_paused = true)]
async fn agents_cannot_integrate() {
    let setup = verified();
    let (bench, id) = completed(&setup).await;
    for kind in [SessionKind::Orchestrator, SessionKind::Agent, SessionKind::Hook] {
        let caller = Caller::Session(SessionCaller {
            kind,
            agent_id: AgentId::new("a"),
            project_id: bench.project.clone(),
            session_id: SessionId::new("s"),
        });
        let error = bench.cortex.as_caller(caller).call(integrate(&id)).await.unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied);
    }
    assert!(staged(&setup).is_empty());
}

/// S-177
#[tokio::test(start_paused = true)]
async fn of_two_integrations_at_once_one_wins() {
    let setup = verified();
    let (bench, id) = completed(&setup).await;
    let (one, other) = tokio::join!(bench.cx.call(integrate(&id)), bench.cx.call(integrate(&id)));
    let failed: Vec<_> = [one, other].into_iter().filter_map(Result::err).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].code(), Code::TaskStateConflict);
    let squashes = |asked: &&Asked| matches!(asked, Asked::Git("squash", _));
    assert_eq!(bench.world.asked().iter().filter(squashes).count(), 1);
    let decisions = bench.task(&id).await.decisions;
    assert_eq!(decisions.len(), 1);
}

/// What was changed in the worktree since it was verified is not brought in: it stays there, named.
/// C11, H-11
#[tokio::test(start_paused = true)]
async fn what_was_changed_since_the_verified_commit_is_left_behind_by_name() {
    let setup = verified();
    let (bench, id) = completed(&setup).await;
    let worktree = worktree_of(&bench.task(&id).await).to_owned();
    setup.world.write_file(worktree.join("x.txt"), "changed");
    setup.world.write_file(worktree.join("later.txt"), "later");
    let integration = bench.call(integrate(&id)).await.task.integration.unwrap();
    let left: Vec<_> =
        integration.left_behind.iter().map(|file| (file.path.as_str(), file.change)).collect();
    assert_eq!(left, [("later.txt", Change::Added), ("x.txt", Change::Modified)]);
    assert_eq!(setup.world.files(setup.root())["x.txt"], "x");
    pass(secs(3600)).await;
    assert!(setup.world.worktrees().contains(&worktree));
}

#[tokio::test(start_paused = true)]
async fn a_task_is_integrated_also_when_the_rest_of_its_objective_was_cancelled() {
    let setup = verified();
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    let capable = vec![Requirement::Capability(Capability::TerminalSession)];
    let nobodys = TaskSpec { requirements: capable, ..spec("y", &["x"]) };
    let objective = bench.objective(vec![isolated("x", &[]), nobodys]).await;
    let [x, y] = [0, 1].map(|at| objective.tasks[at].task_id.clone());
    bench.until_task(&x, TaskStatus::Completed).await;
    bench.call(CancelTask { task_id: y, reason: None }).await;
    bench.call(StopAgent { agent_id: agent }).await;
    assert!(bench.call(integrate(&x)).await.task.integration.is_some());
}

/// A kill between the decision and its record: the next life finishes it, and does it once.
#[test]
fn an_integration_that_a_crash_cut_is_finished_by_the_next_life() {
    for fate in [GitFate::HangBefore, GitFate::HangAfter] {
        let mut setup = verified();
        let (project, id) = life(async {
            let (bench, id) = completed(&setup).await;
            setup.world.git_fate("squash", fate.clone());
            let asked = |asked: &Asked| matches!(asked, Asked::Git("squash", _));
            let look = async || bench.world.asked().iter().any(asked).then_some(());
            tokio::select! { biased;
                answer = bench.cx.call(integrate(&id)) => panic!("{answer:?}"),
                () = bench.until("the squash", look) => {}
            }
            let error = bench.refuse(integrate(&id)).await;
            assert_eq!(error.code(), Code::TaskStateConflict, "it is being integrated");
            setup.world.lose_core();
            (bench.project.clone(), id)
        });
        setup.world.git_fate("squash", GitFate::Go);
        life(async {
            let bench = setup.reopen(&project).await;
            let look = async || bench.task(&id).await.integration;
            let integration = bench.until("the integration", look).await;
            assert_eq!(integration.by, "user", "{fate:?}");
            assert_eq!(staged(&setup), ["x.txt"], "{fate:?}");
            let look = async || setup.world.worktrees().is_empty().then_some(());
            bench.until("the removal of the worktree", look).await;
            assert_eq!(bench.task(&id).await.decisions.len(), 1);
        });
    }
}

/// What was changed in a worktree is a person's. When git cannot tell whether something was, the worktree stays.
#[test]
fn a_worktree_stays_when_it_cannot_be_told_what_it_holds() {
    let mut setup = verified();
    let (project, id) = life(async {
        let (bench, id) = completed(&setup).await;
        setup.world.git_fate("squash", GitFate::HangAfter);
        let asked = |asked: &Asked| matches!(asked, Asked::Git("squash", _));
        let look = async || bench.world.asked().iter().any(asked).then_some(());
        tokio::select! { biased;
            answer = bench.cx.call(integrate(&id)) => panic!("{answer:?}"),
            () = bench.until("the squash", look) => {}
        }
        setup.world.lose_core();
        (bench.project.clone(), id)
    });
    setup.world.git_fate("squash", GitFate::Go);
    let trouble = Error::new(Code::WorkspaceUnavailable, "git has no memory left");
    setup.world.git_fate("left_behind", GitFate::Fail(trouble));
    life(async {
        let bench = setup.reopen(&project).await;
        let worktree = worktree_of(&bench.task(&id).await).to_owned();
        setup.world.write_file(worktree.join("later.txt"), "later");
        let look = async || bench.task(&id).await.integration;
        bench.until("the integration", look).await;
        pass(secs(3600)).await;
        assert_eq!(staged(&setup), ["x.txt"]);
        assert_eq!(setup.world.files(&worktree)["later.txt"], "later");
    });
}

/// How far it came is not known, so it is finished and not forgotten.
#[test]
fn an_integration_that_git_cannot_finish_is_told_and_goes_on_with_the_next_life() {
    let mut setup = verified();
    let (project, id) = life(async {
        let (bench, id) = completed(&setup).await;
        let error = Error::new(Code::WorkspaceUnavailable, "the disk is full");
        setup.world.git_fate("squash", GitFate::Fail(error));
        let error = bench.refuse(integrate(&id)).await;
        assert_eq!(error.code(), Code::WorkspaceUnavailable);
        let squashes = |asked: &&Asked| matches!(asked, Asked::Git("squash", _));
        assert_eq!(bench.world.asked().iter().filter(squashes).count(), 3, "it was tried again");
        bench.cortex.shutdown().await.unwrap();
        (bench.project.clone(), id)
    });
    setup.world.git_fate("squash", GitFate::Go);
    life(async {
        let bench = setup.reopen(&project).await;
        let look = async || bench.task(&id).await.integration;
        bench.until("the integration", look).await;
        assert_eq!(staged(&setup), ["x.txt"]);
    });
}

/// A caller that goes away does not undo what was decided.
#[tokio::test(start_paused = true)]
async fn an_integration_whose_caller_went_away_is_done() {
    let setup = verified();
    let (bench, id) = completed(&setup).await;
    let planned = |asked: &Asked| matches!(asked, Asked::Git("squash", _));
    let look = async || bench.world.asked().iter().any(planned).then_some(());
    tokio::select! { biased;
        _ = bench.cx.call(integrate(&id)) => {}
        () = bench.until("the squash", look) => {}
    }
    let look = async || bench.task(&id).await.integration;
    bench.until("the integration", look).await;
    assert_eq!(staged(&setup), ["x.txt"]);
}

/// A program that opens the core only to decide integrates too.
#[test]
fn a_core_at_rest_integrates() {
    let mut setup = verified();
    let (project, id) = life(async {
        let (bench, id) = completed(&setup).await;
        bench.cortex.shutdown().await.unwrap();
        (bench.project.clone(), id)
    });
    setup.at_rest = true;
    life(async {
        let bench = setup.reopen(&project).await;
        assert!(bench.call(integrate(&id)).await.task.integration.is_some());
        assert_eq!(staged(&setup), ["x.txt"]);
        bench.cortex.shutdown().await.unwrap();
    });
}

/// H-26
#[tokio::test(start_paused = true)]
async fn a_project_with_work_that_is_not_integrated_is_not_removed() {
    let setup = verified();
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    let (x, y) = (another(&bench, "x").await, another(&bench, "y").await);
    bench.call(StopAgent { agent_id: agent }).await;
    let remove = |project: &ProjectId| RemoveProject { project_id: project.clone() };
    let in_use = async || {
        let error = bench.refuse(remove(&bench.project)).await;
        assert_eq!(error.code(), Code::ProjectInUse);
        error.detail("task_ids").unwrap().as_array().unwrap().len()
    };
    assert_eq!(in_use().await, 2);
    bench.call(integrate(&x)).await;
    let look = async || (setup.world.worktrees().len() == 1).then_some(());
    bench.until("the removal of a worktree", look).await;
    assert_eq!(in_use().await, 1);
    setup.world.take_worktree(worktree_of(&bench.task(&y).await));
    bench.call(remove(&bench.project)).await;
}

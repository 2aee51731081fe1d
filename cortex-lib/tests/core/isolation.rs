//! Attempts that work in a git worktree of their own.

use std::path::PathBuf;

use cortex_lib::api::tool::{
    ApproveTask, CancelTask, CreateObjective, RetryTask, SendMessage, StartAgent, StopAgent,
};
use cortex_lib::api::view::TaskView;
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::plan::{Requirement, TaskSpec};
use cortex_lib::domain::task::{Evidence, TaskStatus};
use cortex_lib::domain::waiting::WaitReason;
use cortex_lib::domain::workspace::Change;
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::{AgentId, AttemptId, SessionId, TaskId};
use cortex_lib::port::{
    Asked, GitFate, Opening, Script, ScriptedRuntime, SessionSpec, ToolAnswer, Verdict,
};
use cortex_lib::store::{AttemptStatus, VerificationStatus, WorkspaceKind};
use serde_json::json;

use crate::bench::{Bench, Setup, pass, secs, spec};

/// A task whose attempts get worktrees.
pub fn isolated(key: &str, depends_on: &[&str]) -> TaskSpec {
    TaskSpec { requirements: vec![Requirement::WorkspaceIsolation], ..spec(key, depends_on) }
}

/// A core whose project is a repository with one commit.
pub fn in_git() -> Setup {
    let setup = Setup::new();
    setup.world.make_repository(setup.root(), [("a.txt", "a"), ("b.txt", "b")]);
    setup
}

/// Every turn writes a file that is called like its task, and answers.
pub fn writing(runtime: ScriptedRuntime) -> ScriptedRuntime {
    runtime.turn(|turn| {
        let key = turn.instruction.split([' ', '.']).nth(1).unwrap().to_owned();
        Script::new().write(format!("{key}.txt"), key.clone()).answer(format!("wrote {key}"))
    })
}

/// Every turn writes `x.txt` and goes on for ever.
pub fn endless(runtime: ScriptedRuntime) -> ScriptedRuntime {
    runtime.turn(|_| Script::new().write("x.txt", "half"))
}

pub fn reference_of(id: &AttemptId) -> String {
    format!("refs/cortex/attempts/{id}")
}

pub fn branch_of(id: &TaskId) -> String {
    format!("refs/heads/cortex/{id}")
}

pub fn worktree_of(id: &AttemptId) -> PathBuf {
    PathBuf::from(format!("/worktrees/{id}"))
}

/// The sessions that were opened in worktrees, in order.
pub fn own_sessions(bench: &Bench) -> Vec<SessionSpec> {
    let all = bench.world.openings().into_iter();
    all.filter(|spec| spec.cwd.starts_with("/worktrees")).collect()
}

/// A running isolated task, with its agent.
pub async fn running(setup: &Setup) -> (Bench, AgentId, TaskId) {
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(isolated("x", &[])).await;
    bench.until_turns(1).await;
    bench.until_task(&id, TaskStatus::Running).await;
    (bench, agent, id)
}

/// Waits until no worktree of an attempt stands any more.
pub async fn until_removed(bench: &Bench, attempt: &AttemptId) {
    let path = worktree_of(attempt);
    let look = async || (!bench.world.worktrees().contains(&path)).then_some(());
    bench.until("the removal of a worktree", look).await;
}

/// One life of a core. When it is over without a farewell, everything in it stops on the spot.
pub fn life<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(work)
}

/// What of an attempt was kept when it went.
pub fn saved(bench: &Bench, setup: &Setup, attempt: &AttemptId, path: &str) -> Option<String> {
    let (_, files) = bench.world.reference(setup.root(), &reference_of(attempt))?;
    files.get(path).cloned()
}

/// S-098, H-42
#[tokio::test(start_paused = true)]
async fn isolation_needs_a_repository_with_a_commit() {
    let setup = Setup::new();
    let bench = setup.open().await;
    let create =
        |tasks| CreateObjective { project_id: bench.project.clone(), title: "o".to_owned(), tasks };
    let error = bench.refuse(create(vec![spec("x", &[]), isolated("y", &[])])).await;
    assert_eq!(error.code(), Code::InvalidObjective);
    assert_eq!(error.problems()[0].path, "tasks[1].requirements");
    assert!(error.message().contains("is no git repository"), "{error}");
    bench.call(create(vec![spec("x", &[])])).await;

    setup.world.make_repository(setup.root(), []);
    let error = bench.refuse(create(vec![isolated("y", &[])])).await;
    assert!(error.message().contains("there is no commit yet"), "{error}");

    setup.world.make_repository(setup.root(), [("a.txt", "a")]);
    bench.call(create(vec![isolated("y", &[])])).await;
}

/// S-091, H-31, H-11
#[tokio::test(start_paused = true)]
async fn an_isolated_task_runs_in_a_second_session_while_the_agents_own_rests() {
    let setup = in_git().runtime(endless);
    let (bench, agent, id) = running(&setup).await;
    let task = bench.task(&id).await;
    let attempt = &task.attempts[0];
    let workspace = attempt.workspace.clone().unwrap();
    assert_eq!(workspace.kind, WorkspaceKind::Worktree);
    assert_eq!(workspace.path, worktree_of(&attempt.execution_id));
    assert!(workspace.base_commit.as_deref().unwrap().starts_with("commit-"));
    assert_eq!(task.workspace, Some(workspace));

    let [own, second] = &bench.world.openings()[..] else { panic!("two sessions") };
    assert_eq!([&own.agent_id, &second.agent_id], [&Some(agent.clone()), &Some(agent.clone())]);
    assert_eq!((&own.cwd, &second.cwd), (&setup.root(), &worktree_of(&attempt.execution_id)));
    assert_eq!((&own.model, &own.instructions), (&second.model, &second.instructions));
    assert_eq!(second.resume, None, "the instruction is the whole context");
    assert_eq!(bench.world.processes().len(), 2, "both live");
    let seen = bench.see(&agent).await;
    assert_eq!(seen.state, AgentStatus::Busy);
    let native = seen.session.unwrap().native_session_id;
    assert_eq!(native, Some(format!("native-{}", own.session_id)), "its own conversation");
    assert_eq!(attempt.native_session_id, Some(format!("native-{}", second.session_id)));
    let told = &bench.world.turns()[0].instruction;
    assert!(told.contains("a git worktree of your own"), "H-32: {told}");

    assert_eq!(bench.world.files(setup.root()).get("x.txt"), None, "the folder is untouched");
    let files = bench.world.files(worktree_of(&attempt.execution_id));
    assert_eq!(files["x.txt"], "half");
}

/// S-174, S-175, S-179, C10, C11
#[tokio::test(start_paused = true)]
async fn the_branch_of_a_completed_task_names_exactly_the_tree_that_was_verified() {
    let setup = in_git().runtime(writing).host(|host| host);
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(isolated("x", &[])).await;
    bench.until_task(&id, TaskStatus::Completed).await;
    let look = async || bench.world.reference(setup.root(), &branch_of(&id));
    let (branch, files) = bench.until("the branch", look).await;
    assert_eq!(files["x.txt"], "x");
    let look = async || bench.task(&id).await.workspace.unwrap().branch;
    assert_eq!(bench.until("its name", look).await, format!("cortex/{id}"));

    let task = bench.task(&id).await;
    let attempt = &task.attempts[0];
    let (kept, _) =
        bench.world.reference(setup.root(), &reference_of(&attempt.execution_id)).unwrap();
    assert_eq!(branch, kept);
    let result = task.result.unwrap();
    assert_eq!(result.evidence, Evidence::Verified);
    let changed = result.changed_files.unwrap();
    assert_eq!((changed.len(), changed[0].path.as_str()), (1, "x.txt"));
    assert_eq!(changed[0].change, Change::Added);
    let record = attempt.verification.as_ref().unwrap();
    assert!(record.tree.as_deref().unwrap().starts_with("tree-"), "{record:?}");

    let path = worktree_of(&attempt.execution_id);
    assert!(bench.world.worktrees().contains(&path), "it waits to be integrated");
    let asked = bench.world.asked();
    let position = |wanted: &dyn Fn(&Asked) -> bool| asked.iter().position(wanted).unwrap();
    let second = &own_sessions(&bench)[0].session_id;
    let closed = position(&|one| matches!(one, Asked::Close(session) if session == second));
    let committed = position(&|one| matches!(one, Asked::Git("keep", _)));
    let verified = position(&|one| matches!(one, Asked::Verify(it) if it.cwd == path));
    assert!(closed < committed && committed < verified, "in this order");
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready);
    assert_eq!(bench.world.processes().len(), 1, "the agent's own session lives");
}

/// What still lives in a worktree when its turn is over is ended before git looks at it.
#[tokio::test(start_paused = true)]
async fn nothing_is_committed_while_something_still_writes() {
    let setup = in_git().host(|host| host).runtime(|runtime| {
        runtime.close_takes(secs(5)).turn(|turn| {
            let script = Script::new().write("x.txt", "x");
            let script = if turn.instruction.contains("did not count") {
                script.answer("done")
            } else {
                script.fail(Cause::Transient, "overloaded")
            };
            script.wait(secs(2)).write("late.txt", "late")
        })
    });
    let bench = setup.open().await;
    bench.ready("a").await;
    let id = bench.one_task(isolated("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Completed).await;
    for attempt in &task.attempts {
        let kept = saved(&bench, &setup, &attempt.execution_id, "late.txt");
        assert_eq!(kept.as_deref(), Some("late"), "attempt {}", attempt.number);
    }
    assert_eq!(task.attempts.len(), 2);
}

/// S-165, S-166
#[tokio::test(start_paused = true)]
async fn a_result_without_verification_stands_until_a_person_approves_it() {
    let setup = in_git().runtime(writing);
    let bench = setup.open().await;
    bench.ready("a").await;
    let id = bench.one_task(isolated("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "verification.missing");
    let attempt = task.attempts[0].execution_id.clone();
    assert_eq!(task.attempts[0].status, AttemptStatus::Succeeded);
    assert_eq!(task.attempts[0].verification, None);
    pass(secs(3600)).await;
    assert!(bench.world.worktrees().contains(&worktree_of(&attempt)));
    assert_eq!(saved(&bench, &setup, &attempt, "x.txt").as_deref(), Some("x"));
    assert_eq!(bench.world.reference(setup.root(), &branch_of(&id)), None, "not completed");

    bench.call(ApproveTask { task_id: id.clone(), execution_id: None, reason: None }).await;
    let look = async || bench.world.reference(setup.root(), &branch_of(&id));
    bench.until("the branch", look).await;
    let result = bench.task(&id).await.result.unwrap();
    assert_eq!(result.evidence, Evidence::Approved);
    assert_eq!(result.changed_files.unwrap().len(), 1);
    assert!(bench.world.worktrees().contains(&worktree_of(&attempt)), "not integrated");
}

/// C35
#[tokio::test(start_paused = true)]
async fn an_attempt_that_does_not_hold_is_kept_under_its_own_name_and_goes() {
    let setup = in_git().runtime(writing).host(|host| {
        let first = std::sync::atomic::AtomicBool::new(true);
        host.verify(move |_| {
            if first.swap(false, std::sync::atomic::Ordering::Relaxed) {
                Verdict::Fail(secs(1), "2 tests failed".to_owned())
            } else {
                Verdict::Pass(secs(1))
            }
        })
    });
    let bench = setup.open().await;
    bench.ready("a").await;
    let id = bench.one_task(isolated("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Completed).await;
    let [first, second] = &task.attempts[..] else { panic!("{:?}", task.attempts) };
    assert_eq!(first.verification.as_ref().unwrap().status, VerificationStatus::Failed);
    until_removed(&bench, &first.execution_id).await;
    assert_eq!(saved(&bench, &setup, &first.execution_id, "x.txt").as_deref(), Some("x"));
    let stands = bench.world.worktrees();
    assert_eq!(Vec::from_iter(stands), [worktree_of(&second.execution_id)], "a fresh one");
    let told = &bench.world.turns()[1].instruction;
    assert!(told.contains("2 tests failed"), "{told}");
}

/// H-42
#[tokio::test(start_paused = true)]
async fn a_worktree_that_cannot_be_made_blocks_its_task() {
    let setup = in_git().runtime(writing);
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    let error = Error::new(Code::WorkspaceUnavailable, "git says no");
    bench.world.git_fate("add", GitFate::Fail(error));
    let id = bench.one_task(isolated("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 1, "nothing tries again by itself");
    let failure = task.failure.unwrap();
    assert_eq!(
        (failure.cause.as_str(), failure.message.as_str()),
        ("workspace.unavailable", "git says no")
    );
    assert_eq!(task.attempts[0].cause.as_deref(), Some("workspace.unavailable"));
    let approve = ApproveTask { task_id: id.clone(), execution_id: None, reason: None };
    assert_eq!(bench.refuse(approve).await.code(), Code::TaskStateConflict, "there is no result");
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready);
    assert!(own_sessions(&bench).is_empty());

    bench.world.git_fate("add", GitFate::Go);
    bench.call(RetryTask { task_id: id.clone(), execution_id: None, reason: None }).await;
    let look = async || Some(bench.task(&id).await).filter(|task| task.attempts.len() == 2);
    bench.until("the retry", look).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "verification.missing");
}

/// A result that cannot be committed proves nothing, so it cannot be approved.
#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_committed_blocks_its_task_and_its_worktree_stays() {
    let setup = in_git().runtime(writing).host(|host| host);
    let bench = setup.open().await;
    bench.ready("a").await;
    let error = Error::new(Code::WorkspaceUnavailable, "the disk is full");
    bench.world.git_fate("keep", GitFate::Fail(error));
    let id = bench.one_task(isolated("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "workspace.unavailable");
    assert!(bench.world.verifications().is_empty(), "nothing is verified that is not kept");
    pass(secs(3600)).await;
    let attempt = &task.attempts[0].execution_id;
    assert!(bench.world.worktrees().contains(&worktree_of(attempt)), "its work is not thrown away");
}

/// H-31
#[tokio::test(start_paused = true)]
async fn a_second_session_that_does_not_open_is_tried_again_by_its_class() {
    let opening = |spec: &SessionSpec, code: Code| {
        if spec.cwd.starts_with("/worktrees") {
            Opening::Fail(secs(1), Error::new(code, "no start"))
        } else {
            Opening::AT_ONCE
        }
    };
    let setup = in_git().runtime(move |runtime| {
        runtime.opening(move |spec| opening(spec, Code::RuntimeStartFailed))
    });
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(isolated("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Failed).await;
    assert_eq!(task.attempts.len(), 3, "as any other failure");
    assert_eq!(task.attempts[0].message.as_deref(), Some("no start"));
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready, "its own session lives");
    for attempt in &task.attempts {
        until_removed(&bench, &attempt.execution_id).await;
    }
    assert_eq!(bench.world.scratch().len(), 1, "folders of sessions go with them");

    let setup = in_git().runtime(move |runtime| {
        runtime.opening(move |spec| opening(spec, Code::RuntimeNotLoggedIn))
    });
    let bench = setup.open().await;
    bench.ready("a").await;
    let id = bench.one_task(isolated("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "runtime.refused", "H-36");
    assert_eq!(task.attempts.len(), 1);
}

/// S-135
#[tokio::test(start_paused = true)]
async fn a_cancelled_attempt_is_interrupted_committed_and_removed() {
    let setup = in_git().runtime(endless);
    let (bench, agent, id) = running(&setup).await;
    bench.call(CancelTask { task_id: id.clone(), reason: None }).await;
    bench.until_agent(&agent, AgentStatus::Ready).await;
    let task = bench.task(&id).await;
    let attempt = &task.attempts[0];
    assert_eq!((task.status, attempt.status), (TaskStatus::Cancelled, AttemptStatus::Cancelled));
    until_removed(&bench, &attempt.execution_id).await;
    assert_eq!(saved(&bench, &setup, &attempt.execution_id, "x.txt").as_deref(), Some("half"));
    assert_eq!(bench.world.interrupts().len(), 1);
    assert_eq!(bench.world.processes().len(), 1);
    bench.call(SendMessage { agent_id: agent, message: "hi".to_owned() }).await;
}

/// S-136, S-140
#[tokio::test(start_paused = true)]
async fn an_attempt_that_does_not_let_go_loses_its_own_session_and_no_other() {
    let deaf = |runtime: ScriptedRuntime| runtime.turn(|_| Script::new().deaf());
    let cases = [
        (in_git().runtime(deaf), secs(30)),
        (in_git().runtime(move |runtime| deaf(runtime).without(Capability::Interrupt)), secs(0)),
    ];
    for (setup, wait) in cases {
        let (bench, agent, id) = running(&setup).await;
        let began = tokio::time::Instant::now();
        bench.call(CancelTask { task_id: id.clone(), reason: None }).await;
        bench.until_agent(&agent, AgentStatus::Ready).await;
        let took = began.elapsed();
        assert!(took >= wait && took < wait + secs(3), "{took:?}");
        let own = bench.world.openings()[0].session_id.to_string();
        assert_eq!(Vec::from_iter(bench.world.processes()), [own], "its own session lives");
        until_removed(&bench, &bench.task(&id).await.attempts[0].execution_id).await;
    }
}

/// S-074, H-30
#[tokio::test(start_paused = true)]
async fn stopping_an_agent_ends_both_sessions_at_once() {
    let deaf = |r: ScriptedRuntime| r.turn(|_| Script::new().write("x.txt", "half").deaf());
    let setup = in_git().runtime(deaf);
    let (bench, agent, id) = running(&setup).await;
    let began = tokio::time::Instant::now();
    bench.call(StopAgent { agent_id: agent.clone() }).await;
    assert!(bench.world.processes().is_empty(), "both have ended");
    assert!(began.elapsed() < secs(3), "{:?}", began.elapsed());
    let task = bench.until_task(&id, TaskStatus::Ready).await;
    assert_eq!(task.attempts[0].cause.as_deref(), Some("agent.stopped"));
    until_removed(&bench, &task.attempts[0].execution_id).await;
    let attempt = &task.attempts[0].execution_id;
    assert_eq!(saved(&bench, &setup, attempt, "x.txt").as_deref(), Some("half"));
}

#[tokio::test(start_paused = true)]
async fn a_second_session_that_dies_takes_its_attempt_with_it_and_nothing_else() {
    let setup = in_git().runtime(|runtime| {
        runtime.turn(|turn| {
            if turn.instruction.contains("did not count") {
                Script::new().write("x.txt", "x").answer("done")
            } else {
                Script::new().write("x.txt", "half").wait(secs(5)).crash("killed")
            }
        })
    });
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(isolated("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "verification.missing");
    assert_eq!(task.attempts[0].cause.as_deref(), Some("crashed"));
    let seen = bench.see(&agent).await;
    assert_eq!((seen.state, seen.last_failure.is_some()), (AgentStatus::Ready, false));
    until_removed(&bench, &task.attempts[0].execution_id).await;
    let kept = saved(&bench, &setup, &task.attempts[0].execution_id, "x.txt");
    assert_eq!(kept.as_deref(), Some("half"));
}

#[tokio::test(start_paused = true)]
async fn an_agents_own_session_that_dies_does_not_touch_its_isolated_attempt() {
    let setup = in_git().runtime(|runtime| {
        runtime.turn(|_| Script::new().wait(secs(60)).write("x.txt", "x").answer("done"))
    });
    let (bench, agent, id) = running(&setup).await;
    let own = bench.world.openings()[0].session_id.clone();
    bench.world.kill(&own, "killed").await;
    bench.until_agent(&agent, AgentStatus::Crashed).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.failure.unwrap().cause, "verification.missing");
    assert_eq!(bench.status(&agent).await, AgentStatus::Crashed);
    let look = async || bench.world.processes().is_empty().then_some(());
    bench.until("the end of the second session", look).await;
}

/// S-075
#[tokio::test(start_paused = true)]
async fn stopping_a_crashed_agent_ends_what_still_runs_of_it() {
    let setup = in_git().runtime(endless);
    let (bench, agent, id) = running(&setup).await;
    let own = bench.world.openings()[0].session_id.clone();
    bench.world.kill(&own, "killed").await;
    bench.until_agent(&agent, AgentStatus::Crashed).await;
    bench.call(StopAgent { agent_id: agent.clone() }).await;
    assert!(bench.world.processes().is_empty());
    let task = bench.until_task(&id, TaskStatus::Ready).await;
    assert_eq!(task.attempts[0].cause.as_deref(), Some("agent.stopped"));
    assert_eq!(bench.status(&agent).await, AgentStatus::Crashed, "as it was");
}

/// H-45
#[tokio::test(start_paused = true)]
async fn an_isolated_attempt_stalls_and_times_out_like_any_other() {
    for (timeout, cause) in [(None, "stalled"), (Some(30), "timed_out")] {
        let setup = in_git().runtime(endless);
        let bench = setup.open().await;
        bench.ready("a").await;
        let task = TaskSpec { timeout_secs: timeout, max_retries: Some(0), ..isolated("x", &[]) };
        let id = bench.one_task(task).await;
        let task = bench.until_task(&id, TaskStatus::Failed).await;
        assert_eq!(task.attempts[0].cause.as_deref(), Some(cause));
        until_removed(&bench, &task.attempts[0].execution_id).await;
        assert!(saved(&bench, &setup, &task.attempts[0].execution_id, "x.txt").is_some());
    }
}

/// H-22
#[tokio::test(start_paused = true)]
async fn a_second_session_counts_as_a_live_one() {
    let setup =
        in_git().runtime(endless).settings(|settings| settings.resources.max_active_processes = 3);
    let bench = setup.open().await;
    bench.ready("a").await;
    bench.ready("b").await;
    let objective = bench.objective(vec![isolated("x", &[]), isolated("y", &[])]).await;
    let [first, second] = [0, 1].map(|at| objective.tasks[at].task_id.clone());
    bench.until_task(&first, TaskStatus::Running).await;
    let waiting = bench.task(&second).await.waiting.unwrap();
    assert_eq!(waiting.reason, WaitReason::ProcessLimit);
    assert_eq!(waiting.process_limit.unwrap().max, 3);
    bench.call(CancelTask { task_id: first, reason: None }).await;
    bench.until_task(&second, TaskStatus::Running).await;
    assert_eq!(bench.world.processes().len(), 3);
}

/// H-35
#[tokio::test(start_paused = true)]
async fn isolated_tasks_run_at_once_whatever_files_they_claim() {
    let setup = in_git().runtime(endless);
    let bench = setup.open().await;
    bench.ready("a").await;
    bench.ready("b").await;
    let claim = |key| TaskSpec { paths: vec!["**".to_owned()], ..isolated(key, &[]) };
    let objective = bench.objective(vec![claim("x"), claim("y")]).await;
    for task in &objective.tasks {
        bench.until_task(&task.task_id, TaskStatus::Running).await;
    }
    bench.until_turns(2).await;
    assert_eq!(bench.world.worktrees().len(), 2);
}

/// Only what is proved to be Cortex's own is ever removed.
#[tokio::test(start_paused = true)]
async fn a_worktree_that_is_not_proved_to_be_ours_stays() {
    let setup = in_git().runtime(endless);
    let (bench, agent, id) = running(&setup).await;
    let attempt = bench.task(&id).await.attempts[0].execution_id.clone();
    bench.world.disown_worktree(worktree_of(&attempt));
    bench.call(CancelTask { task_id: id.clone(), reason: None }).await;
    bench.until_agent(&agent, AgentStatus::Ready).await;
    pass(secs(3600)).await;
    assert!(bench.world.worktrees().contains(&worktree_of(&attempt)));
    let removals = |asked: &&Asked| matches!(asked, Asked::Git("remove", _));
    assert_eq!(bench.world.asked().iter().filter(removals).count(), 1, "nobody insists");
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready);
}

#[tokio::test(start_paused = true)]
async fn what_an_old_session_says_late_changes_nothing() {
    let setup = in_git().runtime(|runtime| {
        runtime.turn(|turn| {
            if turn.instruction.contains("did not count") {
                Script::new()
            } else {
                let other = turn.id.clone();
                Script::new()
                    .fail(Cause::Transient, "overloaded")
                    .outlives_close()
                    .wait(secs(15))
                    .end_another(other)
            }
        })
    });
    let bench = setup.open().await;
    bench.ready("a").await;
    let id = bench.one_task(isolated("x", &[])).await;
    bench.until_turns(2).await;
    pass(secs(60)).await;
    let task = bench.task(&id).await;
    assert_eq!(task.status, TaskStatus::Running);
    assert_eq!(task.attempts[0].status, AttemptStatus::Failed);
    assert_eq!(task.attempts[1].status, AttemptStatus::Running);
}

#[tokio::test(start_paused = true)]
async fn tool_requests_of_a_second_session_are_answered() {
    let setup = in_git().runtime(|runtime| {
        runtime.turn(|_| Script::new().ask("Bash", json!({ "command": "ls" })).answer("done"))
    });
    let bench = setup.open().await;
    bench.ready("a").await;
    let id = bench.one_task(isolated("x", &[])).await;
    bench.until_task(&id, TaskStatus::Blocked).await;
    let second = own_sessions(&bench)[0].session_id.clone();
    let answers = bench.world.asked().into_iter().filter_map(|asked| match asked {
        Asked::Answer(session, _, answer) => Some((session, answer)),
        _ => None,
    });
    let answers: Vec<(SessionId, ToolAnswer)> = answers.collect();
    assert_eq!((answers.len(), &answers[0].0), (1, &second));
}

/// H-32
#[tokio::test(start_paused = true)]
async fn branch_and_files_of_a_dependency_are_passed_on_and_its_changes_are_not() {
    let setup = in_git().runtime(writing).host(|host| host);
    let bench = setup.open().await;
    bench.ready("a").await;
    let objective = bench.objective(vec![isolated("x", &[]), isolated("y", &["x"])]).await;
    let [x, y] = [0, 1].map(|at| objective.tasks[at].task_id.clone());
    let task = bench.until_task(&y, TaskStatus::Completed).await;
    let told = &bench.world.turns()[1].instruction;
    assert!(told.contains(&format!("Its changes are on the branch cortex/{x}.")), "{told}");
    assert!(told.contains("Files it changed: \"x.txt\"."), "{told}");
    assert!(told.contains("wrote x"), "S-094: {told}");
    let files = bench.world.files(worktree_of(&task.attempts[0].execution_id));
    assert_eq!((files.get("x.txt"), files.get("y.txt").map(String::as_str)), (None, Some("y")));
}

#[tokio::test(start_paused = true)]
async fn what_a_person_gives_up_goes_and_is_kept_under_its_attempt() {
    let setup = in_git().runtime(writing);
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    let blocked = async |key: &str| -> TaskView {
        let id = bench.one_task(isolated(key, &[])).await;
        bench.until_task(&id, TaskStatus::Blocked).await
    };
    let cancelled = blocked("x").await;
    bench.call(CancelTask { task_id: cancelled.task_id.clone(), reason: None }).await;
    let gone = &cancelled.attempts[0].execution_id;
    until_removed(&bench, gone).await;
    assert!(saved(&bench, &setup, gone, "x.txt").is_some());

    let retried = blocked("y").await;
    let id = retried.task_id.clone();
    bench.call(StopAgent { agent_id: agent.clone() }).await;
    bench.call(RetryTask { task_id: id.clone(), execution_id: None, reason: None }).await;
    let gone = &retried.attempts[0].execution_id;
    until_removed(&bench, gone).await;
    assert!(saved(&bench, &setup, gone, "y.txt").is_some());
    bench.call(StartAgent { agent_id: agent }).await;
    let look = async || Some(bench.task(&id).await).filter(|task| task.attempts.len() == 2);
    bench.until("the retry", look).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    let last = worktree_of(&task.attempts[1].execution_id);
    assert_eq!(Vec::from_iter(bench.world.worktrees()), [last]);
}

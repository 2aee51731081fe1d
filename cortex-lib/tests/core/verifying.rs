//! Results and what speaks for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cortex_lib::api::operator::UpdateProject;
use cortex_lib::api::tool::{ApproveTask, CancelTask, StopAgent};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::{Evidence, TaskStatus};
use cortex_lib::port::{ScriptedHost, Verdict};
use cortex_lib::store::{AttemptStatus, VerificationStatus};

use crate::bench::{Setup, secs, spec};

/// The first `count` verifications fail.
fn failing(host: ScriptedHost, count: usize) -> ScriptedHost {
    let seen = Arc::new(AtomicUsize::new(0));
    host.verify(move |_| {
        if seen.fetch_add(1, Ordering::Relaxed) < count {
            Verdict::Fail(secs(3), "2 tests failed".to_owned())
        } else {
            Verdict::Pass(secs(3))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_result_that_does_not_hold_is_tried_again_with_the_output_that_says_why() {
    let bench = Setup::new().host(|host| failing(host, 1)).open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Completed).await;
    assert_eq!(task.result.unwrap().evidence, Evidence::Verified);
    let [first, second] = task.attempts.as_slice() else { panic!("{:?}", task.attempts) };
    assert_eq!(first.cause.as_deref(), Some("verification_failed"));
    assert_eq!(first.verification.as_ref().unwrap().status, VerificationStatus::Failed);
    assert_eq!(second.verification.as_ref().unwrap().status, VerificationStatus::Passed);
    assert!(first.result.is_some(), "what the turn returned is kept");
    let instruction = &bench.world.turns()[1].instruction;
    assert!(instruction.contains("$ check\n2 tests failed"), "{instruction}");
}

/// S-165, S-166.
#[tokio::test(start_paused = true)]
async fn a_result_that_never_holds_waits_for_a_person_who_may_accept_it() {
    let bench = Setup::new().host(|host| failing(host, 9)).open().await;
    bench.ready("a").await;
    let id = bench.one_task(TaskSpec { max_retries: Some(1), ..spec("x", &[]) }).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 2);
    assert_eq!(task.failure.unwrap().cause, "verification.failed");
    let last = task.attempts[1].execution_id.clone();
    let approve = ApproveTask { task_id: id, execution_id: Some(last.clone()), reason: None };
    let task = bench.call(approve).await.task;
    assert_eq!(task.status, TaskStatus::Completed, "S-165");
    assert_eq!(task.decisions[0].execution_id, Some(last), "S-166");
    assert_eq!(task.failure, None);
}

#[tokio::test(start_paused = true)]
async fn a_verification_that_cannot_run_is_told_apart_from_one_that_fails() {
    let verdict = |_: &_| Verdict::Unavailable(secs(0), "cargo is not there".to_owned());
    let bench = Setup::new().host(move |host| host.verify(verdict)).open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 1, "it would not run the second time either");
    let failure = task.failure.unwrap();
    assert_eq!(failure.cause, "verification.unavailable");
    assert!(failure.message.contains("cargo is not there"), "{}", failure.message);
}

#[tokio::test(start_paused = true)]
async fn the_agent_is_free_while_its_result_is_verified() {
    let bench = Setup::new().host(|host| host.verify(|_| Verdict::Pass(secs(60)))).open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_task(&id, TaskStatus::Verifying).await;
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready, "H-27");
    bench.call(StopAgent { agent_id: agent }).await;
    assert_eq!(bench.task(&id).await.status, TaskStatus::Verifying, "H-27: its turn is over");
    bench.until_task(&id, TaskStatus::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_ends_its_commands() {
    let bench = Setup::new().host(|host| host.verify(|_| Verdict::Never)).open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_task(&id, TaskStatus::Verifying).await;
    let look = async || (bench.world.processes().len() == 2).then_some(());
    bench.until("session and commands", look).await;
    bench.call(CancelTask { task_id: id.clone(), reason: None }).await;
    let look = async || bench.task(&id).await.attempts[0].ended_at;
    bench.until("the end", look).await;
    let task = bench.task(&id).await;
    assert_eq!(task.status, TaskStatus::Cancelled);
    let attempt = &task.attempts[0];
    assert_eq!(attempt.status, AttemptStatus::Cancelled);
    assert_eq!(attempt.verification.as_ref().unwrap().status, VerificationStatus::Cancelled);
    assert_eq!(bench.world.processes().len(), 1, "only the session lives");
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready);
}

#[tokio::test(start_paused = true)]
async fn no_more_verifications_run_at_once_than_may() {
    let bench = Setup::new()
        .host(|host| host.verify(|_| Verdict::Pass(secs(100))))
        .settings(|settings| settings.resources.max_verifications = 1)
        .open()
        .await;
    bench.ready("a").await;
    let objective = bench.objective(vec![spec("x", &[]), spec("y", &[])]).await;
    for task in &objective.tasks {
        bench.until_task(&task.task_id, TaskStatus::Verifying).await;
    }
    assert_eq!(bench.world.verifications().len(), 1);
    for task in &objective.tasks {
        bench.until_task(&task.task_id, TaskStatus::Completed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_verification_that_is_taken_away_applies_to_those_that_start_later() {
    let bench = Setup::new().host(|host| host.verify(|_| Verdict::Pass(secs(100)))).open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_task(&id, TaskStatus::Verifying).await;
    let project_id = bench.project.clone();
    let clear = UpdateProject { verification: Some(None), ..UpdateProject::new(project_id) };
    bench.call(clear).await;
    bench.until_task(&id, TaskStatus::Completed).await;
    let id = bench.one_task(spec("y", &[])).await;
    bench.until_task(&id, TaskStatus::Blocked).await;
}

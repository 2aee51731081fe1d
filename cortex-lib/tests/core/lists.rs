//! What lists leave out.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::api::operator::CheckRuntimes;
use cortex_lib::api::tool::{ListRuntimes, ListTasks};
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::Result;
use cortex_lib::port::{
    Health, HealthReport, Opened, Runtime, RuntimeInfo, ScriptedRuntime, SessionSpec, Verdict,
};
use cortex_lib::store::VerificationStatus;

use crate::bench::{Setup, pass, secs, spec};

/// S-130, C14: the newest 500 ended objectives, and how many more are kept.
#[tokio::test(start_paused = true)]
async fn a_list_tells_how_many_ended_objectives_it_leaves_out() {
    use cortex_lib::api::tool::CancelTask;

    let bench = Setup::new().open().await;
    for _ in 0..502 {
        let task_id = bench.one_task(spec("x", &[])).await;
        bench.call(CancelTask { task_id, reason: None }).await;
    }
    bench.one_task(spec("open", &[])).await;
    let list = bench.call(ListTasks {}).await;
    assert_eq!((list.objectives.len(), list.objectives_kept), (501, 2));
}

/// C14: of verification a list has the last status only, `get_task_status` has all.
#[tokio::test(start_paused = true)]
async fn a_list_has_the_status_of_the_last_verification_only() {
    let setup =
        Setup::new().host(|host| host.verify(|_| Verdict::Fail(Duration::ZERO, "bad".into())));
    let bench = setup.open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    assert_eq!(task.attempts.len(), 3);
    assert!(task.attempts.iter().all(|attempt| {
        let verification = attempt.verification.as_ref().unwrap();
        verification.commands.as_ref().is_some_and(|commands| !commands.is_empty())
    }));
    let list = bench.call(ListTasks {}).await;
    let attempts = &list.objectives.first().unwrap().tasks.first().unwrap().attempts;
    let listed: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            attempt.verification.as_ref().map(|seen| (seen.status, seen.commands.is_some()))
        })
        .collect();
    assert_eq!(listed, [None, None, Some((VerificationStatus::Failed, false))]);
}

/// A driver that panics when it is asked how it is.
#[derive(Debug)]
struct Panics(ScriptedRuntime);

#[async_trait]
impl Runtime for Panics {
    fn info(&self) -> &RuntimeInfo {
        self.0.info()
    }

    #[expect(clippy::panic, reason = "that is what it is for")]
    async fn check(&self) -> HealthReport {
        panic!("it does not know")
    }

    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        self.0.open(spec).await
    }
}

/// S-044: health is never "checking" for ever.
#[tokio::test(start_paused = true)]
async fn a_driver_that_panics_in_a_check_is_unhealthy_and_is_asked_again() {
    let setup = Setup::new();
    let scripted = ScriptedRuntime::new("scripted").in_world(&setup.world);
    let bench = setup.open_with(vec![Arc::new(Panics(scripted))]).await;
    for _ in 0..2 {
        bench.call(ListRuntimes {}).await;
        pass(secs(1)).await;
        let runtime = bench.call(ListRuntimes {}).await.runtimes.remove(0);
        assert_eq!(runtime.health.status, Health::Unhealthy);
        pass(secs(120)).await;
    }
    let runtime = bench.call(CheckRuntimes {}).await.runtimes.remove(0);
    assert_eq!(runtime.health.status, Health::Unhealthy);
}

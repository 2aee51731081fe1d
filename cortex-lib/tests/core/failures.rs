//! Any sequence of failures leaves a task that goes on, or says what it waits for.

use std::sync::{Arc, Mutex};

use cortex_lib::api::tool::{ListTasks, RetryTask};
use cortex_lib::api::view::TaskView;
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::waiting::WaitReason;
use cortex_lib::error::{Code, Error};
use cortex_lib::port::{Script, Verdict};
use tempfile::TempDir;

use crate::bench::{Bench, Setup, pass, secs, spec};

/// How one attempt goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Transient,
    NotAllowed,
    Limited,
    SessionDies,
    EndsByItself,
    NotTaken,
    NeverTaken,
    Silent,
    DoesNotHold,
    CannotBeVerified,
    NeverVerified,
}

const ALL: [Failure; 11] = [
    Failure::Transient,
    Failure::NotAllowed,
    Failure::Limited,
    Failure::SessionDies,
    Failure::EndsByItself,
    Failure::NotTaken,
    Failure::NeverTaken,
    Failure::Silent,
    Failure::DoesNotHold,
    Failure::CannotBeVerified,
    Failure::NeverVerified,
];

impl Failure {
    fn script(self) -> Script {
        let script = Script::new().wait(secs(3));
        match self {
            Self::Transient => script.fail(Cause::Transient, "overloaded"),
            Self::NotAllowed => script.fail(Cause::Refused, "log in"),
            Self::Limited => script.rate_limited(None),
            Self::SessionDies => script.crash("killed"),
            Self::EndsByItself => script.stop(),
            Self::NotTaken => script.refused(Error::new(Code::RuntimeProtocol, "what?")),
            Self::NeverTaken => script.never_accepted(),
            Self::Silent => script.deaf(),
            Self::DoesNotHold | Self::CannotBeVerified | Self::NeverVerified => {
                script.answer("done")
            }
        }
    }

    fn verdict(self) -> Verdict {
        match self {
            Self::DoesNotHold => Verdict::Fail(secs(3), "it does not hold".to_owned()),
            Self::CannotBeVerified => Verdict::Unavailable(secs(3), "not there".to_owned()),
            Self::NeverVerified => Verdict::Never,
            _ => Verdict::Pass(secs(3)),
        }
    }
}

/// What is still to come, and what the attempt that runs does.
type Plan = Arc<Mutex<(Vec<Failure>, Option<Failure>)>>;

/// A core whose attempts fail in this order, and then succeed. There are two agents, for sessions that die.
async fn failing(sequence: &[Failure]) -> (Bench, Plan) {
    let plan: Plan = Arc::new(Mutex::new((sequence.to_vec(), None)));
    let (mine, now) = (Arc::clone(&plan), Arc::clone(&plan));
    let mut setup = Setup::new();
    // In memory where the system has such a folder: nothing here is about the disk.
    if let Ok(dir) = TempDir::new_in("/dev/shm") {
        setup.dir = Arc::new(dir);
    }
    let bench = setup
        .settings(|settings| settings.agents.stall_secs = 100)
        .runtime(move |runtime| {
            runtime.turn(move |_| {
                let (left, now) = &mut *plan.lock().unwrap();
                *now = (!left.is_empty()).then(|| left.remove(0));
                now.map_or_else(|| Script::new().wait(secs(3)).answer("done"), Failure::script)
            })
        })
        .host(move |host| {
            host.verify(move |_| {
                now.lock().unwrap().1.map_or(Verdict::Pass(secs(3)), Failure::verdict)
            })
        })
        .open()
        .await;
    bench.ready("a").await;
    bench.ready("b").await;
    (bench, mine)
}

/// Every task goes on, has ended, or says why it waits.
async fn says_why(bench: &Bench, case: [Failure; 2]) -> Vec<TaskView> {
    let tasks = bench.call(ListTasks {}).await.objectives.remove(0).tasks;
    for task in &tasks {
        let goes_on = matches!(task.status, TaskStatus::Running | TaskStatus::Verifying);
        let waits = task.waiting.is_some();
        assert!(goes_on || waits || task.status.is_ended(), "{case:?}: {task:?}");
    }
    tasks
}

/// Claims: after any sequence of failures every unended task is READY, RUNNING, or waits with a reason.
#[tokio::test(start_paused = true)]
async fn after_any_sequence_of_failures_every_unended_task_is_ready_or_running_or_waits_with_a_reason()
 {
    for first in ALL {
        for second in ALL {
            let case = [first, second];
            let (bench, plan) = failing(&case).await;
            bench.objective(vec![spec("x", &[]), spec("y", &["x"])]).await;
            let mut step = secs(1);
            for _ in 0..14 {
                let task = says_why(&bench, case).await.remove(0);
                if task.status == TaskStatus::Blocked && !plan.lock().unwrap().0.is_empty() {
                    // A person lets it go on, so that the second failure comes too.
                    let (task_id, execution_id, reason) = (task.task_id, None, None);
                    bench.call(RetryTask { task_id, execution_id, reason }).await;
                    says_why(&bench, case).await;
                }
                pass(step).await;
                step *= 2;
            }
            assert_eq!(plan.lock().unwrap().0, [], "{case:?}: it did not come to the second");
            for task in says_why(&bench, case).await {
                let reason = task.waiting.as_ref().map(|waiting| waiting.reason);
                let for_a_person =
                    [WaitReason::Approval, WaitReason::NoEligibleAgent, WaitReason::Dependencies];
                let rests = reason.is_some_and(|reason| for_a_person.contains(&reason));
                assert!(rests || task.status.is_ended(), "{case:?} never comes to rest: {task:?}");
            }
        }
    }
}

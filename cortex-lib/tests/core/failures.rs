//! Any sequence of failures leaves a task that goes on, or says what it waits for.

use std::sync::{Arc, Mutex};

use cortex_lib::api::tool::{ListAgents, ListTasks, RetryTask, StartAgent};
use cortex_lib::api::view::TaskView;
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::{Code, Error};
use cortex_lib::port::{Script, Verdict};
use tempfile::TempDir;

use crate::bench::{Bench, Setup, secs, spec};

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
async fn says_why(bench: &Bench, so_far: &str) -> Vec<TaskView> {
    let tasks = bench.call(ListTasks {}).await.objectives.remove(0).tasks;
    for task in &tasks {
        let goes_on = matches!(task.status, TaskStatus::Running | TaskStatus::Verifying);
        let waits = task.waiting.is_some();
        assert!(goes_on || waits || task.status.is_ended(), "{so_far}: {task:?}");
    }
    tasks
}

/// What a person does: lets the task go on while failures are to come, and starts agents that died.
async fn help(bench: &Bench, plan: &Plan, task: &TaskView) {
    if task.status == TaskStatus::Blocked {
        let (task_id, execution_id, reason) = (task.task_id.clone(), None, None);
        assert_ne!(plan.lock().unwrap().1, None, "it succeeded at last: {task:?}");
        bench.call(RetryTask { task_id, execution_id, reason }).await;
    }
    for agent in bench.call(ListAgents { project_id: None }).await.agents {
        if agent.state == AgentStatus::Crashed {
            bench.call(StartAgent { agent_id: agent.agent_id }).await;
        }
    }
}

/// Every failure before and after every other, in sequences that are shorter than the retries of a task.
fn sequences() -> Vec<Vec<Failure>> {
    let mut all = Vec::new();
    for (number, first) in ALL.into_iter().enumerate() {
        for others in ALL.split_at(number).1.chunks(4) {
            let pairs = others.iter().flat_map(|other| [first, *other]);
            all.push(pairs.chain([first]).collect());
        }
    }
    all
}

/// Claims: after any sequence of failures every unended task is READY, RUNNING, or waits with a reason.
///
/// It is looked at after every event.
#[tokio::test(start_paused = true)]
async fn after_any_sequence_of_failures_every_unended_task_is_ready_or_running_or_waits_with_a_reason()
 {
    for sequence in sequences() {
        let (bench, plan) = failing(&sequence).await;
        let mut events = bench.cortex.events(Some(bench.cortex.newest_event().unwrap()));
        // As many retries as may be: a task that has failed for good has ended.
        let failing = TaskSpec { max_retries: Some(10), ..spec("x", &[]) };
        bench.objective(vec![failing, spec("y", &["x"])]).await;
        while let Ok(event) = tokio::time::timeout(secs(3 * 3600), events.next()).await {
            event.unwrap().unwrap();
            let so_far = format!("{sequence:?} without {:?}", plan.lock().unwrap());
            let tasks = says_why(&bench, &so_far).await;
            help(&bench, &plan, &tasks[0]).await;
        }
        let tasks = says_why(&bench, "at the end").await;
        assert_eq!(*plan.lock().unwrap(), (Vec::new(), None), "it stays at {tasks:#?}");
        for task in tasks {
            assert_eq!(task.status, TaskStatus::Completed, "{sequence:?}: {task:?}");
        }
    }
}

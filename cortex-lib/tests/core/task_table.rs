//! Every call on a task in every state that it can be in, cell by cell.

use cortex_lib::Code;
use cortex_lib::api::operator::PauseAgent;
use cortex_lib::api::tool::{
    ApproveTask, CancelObjective, CancelTask, IntegrateTask, PauseObjective, ReassignTask,
    RetryTask,
};
use cortex_lib::api::view::{ObjectiveView, TaskView};
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::objective::PausePolicy;
use cortex_lib::domain::plan::{Requirement, TaskSpec};
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::ids::{AgentId, TaskId};
use cortex_lib::port::{Script, Verdict};

use crate::bench::{Bench, Setup, secs, spec};
use crate::lives::life;

/// Where the task is when it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Created,
    Ready,
    Running,
    Verifying,
    /// BLOCKED by its verification.
    Unproven,
    /// BLOCKED by anything else.
    Blocked,
    Completed,
    Failed,
    Cancelled,
}

const COLUMNS: [At; 9] = [
    At::Created,
    At::Ready,
    At::Running,
    At::Verifying,
    At::Unproven,
    At::Blocked,
    At::Completed,
    At::Failed,
    At::Cancelled,
];

/// What is done to the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Cancel,
    CancelObjective,
    Retry,
    Approve,
    Reassign,
    PauseInterrupt,
    PauseDrain,
    Integrate,
}

/// A task at a place.
struct Placed {
    bench: Bench,
    objective: ObjectiveView,
    task: TaskId,
    /// An agent that it could be moved to; never started.
    other: AgentId,
}

/// A core on which the task gets there.
fn setup(at: At) -> Setup {
    let script = match at {
        At::Running => Script::new(),
        At::Blocked => Script::new().fail(Cause::Refused, "log in"),
        At::Failed => Script::new().fail(Cause::Error, "no"),
        _ => Script::new().answer("done"),
    };
    let setup = Setup::new().runtime(move |runtime| runtime.turn(move |_| script.clone()));
    let mut setup = match at {
        At::Verifying => setup.host(|host| host.verify(|_| Verdict::Pass(secs(500)))),
        At::Completed => setup.host(|host| host),
        _ => setup,
    };
    setup.settings.agents.restore_on_open = false;
    setup
}

/// A core on which the task gets there in worktrees of its own.
fn in_worktrees(at: At) -> Setup {
    let setup = setup(at);
    setup.world.make_repository(setup.root(), [("a.txt", "a")]);
    setup
}

/// The objective has a second task that never ends by itself, so that it stays open whatever becomes of this one.
async fn place(bench: Bench, at: At) -> Placed {
    place_with(bench, at, Vec::new()).await
}

async fn place_with(bench: Bench, at: At, requirements: Vec<Requirement>) -> Placed {
    let other = bench.agent("other").await;
    let rest = TaskSpec { assigned_agent_id: Some(other.clone()), ..spec("rest", &[]) };
    let after: &[&str] = if at == At::Created { &["rest"] } else { &[] };
    if !matches!(at, At::Created | At::Ready | At::Cancelled) {
        bench.ready("a").await;
    }
    let tried = TaskSpec { max_retries: Some(0), requirements, ..spec("x", after) };
    let objective = bench.objective(vec![rest, tried]).await;
    let task = objective.tasks.last().unwrap().task_id.clone();
    let status = match at {
        At::Created => TaskStatus::Created,
        At::Ready => TaskStatus::Ready,
        At::Running => TaskStatus::Running,
        At::Verifying => TaskStatus::Verifying,
        At::Unproven | At::Blocked => TaskStatus::Blocked,
        At::Completed => TaskStatus::Completed,
        At::Failed => TaskStatus::Failed,
        At::Cancelled => {
            bench.call(CancelTask { task_id: task.clone(), reason: None }).await;
            TaskStatus::Cancelled
        }
    };
    bench.until_task(&task, status).await;
    if at == At::Running {
        bench.until_turns(1).await;
    }
    Placed { bench, objective, task, other }
}

impl Placed {
    async fn at(at: At) -> Self {
        place(setup(at).open().await, at).await
    }

    async fn make(&self, call: Call) -> cortex_lib::Result<()> {
        let (cx, task_id) = (&self.bench.cx, self.task.clone());
        let objective_id = self.objective.objective_id.clone();
        let (execution_id, reason) = (None, None);
        let pause =
            |policy| PauseObjective { objective_id: objective_id.clone(), policy, reason: None };
        match call {
            Call::Cancel => cx.call(CancelTask { task_id, reason }).await.map(drop),
            Call::CancelObjective => {
                let objective_id = objective_id.clone();
                cx.call(CancelObjective { objective_id, reason }).await.map(drop)
            }
            Call::Retry => cx.call(RetryTask { task_id, execution_id, reason }).await.map(drop),
            Call::Approve => cx.call(ApproveTask { task_id, execution_id, reason }).await.map(drop),
            Call::Reassign => {
                let to_agent_id = Some(self.other.clone());
                let call = ReassignTask { task_id, to_agent_id, execution_id, reason };
                cx.call(call).await.map(drop)
            }
            Call::PauseInterrupt => cx.call(pause(PausePolicy::Interrupt)).await.map(drop),
            Call::PauseDrain => cx.call(pause(PausePolicy::Drain)).await.map(drop),
            Call::Integrate => cx.call(IntegrateTask { task_id }).await.map(drop),
        }
    }

    async fn cell(&self, call: Call) -> String {
        let before = self.bench.task(&self.task).await;
        match self.make(call).await {
            Ok(()) => difference(&before, &self.bench.task(&self.task).await),
            Err(error) if error.code() == Code::TaskStateConflict => {
                assert_eq!(self.bench.task(&self.task).await, before, "a refusal changes nothing");
                "c".to_owned()
            }
            Err(error) => error.code().to_string(),
        }
    }
}

/// What changed of a task: its status, its attempts, how often it was moved. `=` for nothing.
fn difference(before: &TaskView, after: &TaskView) -> String {
    let mut seen = Vec::new();
    if after.status != before.status {
        seen.push(after.status.as_str().to_owned());
    }
    let statuses = |task: &TaskView| -> Vec<_> {
        task.attempts.iter().map(|attempt| (attempt.status, attempt.cause.clone())).collect()
    };
    if statuses(before) != statuses(after) {
        let last = after.attempts.last().unwrap();
        let cause = last.cause.as_deref().unwrap_or_default();
        seen.push(format!("attempt {:?} {cause}", last.status));
    }
    if after.reassignments.len() != before.reassignments.len() {
        seen.push("moved".to_owned());
    }
    if after.integration != before.integration {
        seen.push("integrated".to_owned());
    }
    if seen.is_empty() { "=".to_owned() } else { seen.join(", ") }
}

async fn row(call: Call, cells: [&str; 9]) {
    for (at, wanted) in COLUMNS.into_iter().zip(cells) {
        assert_eq!(Placed::at(at).await.cell(call).await, wanted, "{call:?} at {at:?}");
    }
}

const CANCELLED: &str = "CANCELLED";
const CANCELLED_WITH_ATTEMPT: &str = "CANCELLED, attempt Cancelled task.cancelled";

// Each row: CREATED, READY, RUNNING, VERIFYING, BLOCKED by its verification, BLOCKED by anything else, COMPLETED,
// FAILED, CANCELLED. `c`: task.state_conflict, and nothing changed.

/// S-134, S-135, S-137
#[tokio::test(start_paused = true)]
async fn cancel() {
    let (ends, runs) = (CANCELLED, CANCELLED_WITH_ATTEMPT);
    row(Call::Cancel, [ends, ends, runs, runs, ends, ends, "c", "c", "="]).await;
}

/// S-139
#[tokio::test(start_paused = true)]
async fn cancel_objective() {
    let (ends, runs) = (CANCELLED, CANCELLED_WITH_ATTEMPT);
    row(Call::CancelObjective, [ends, ends, runs, runs, ends, ends, "=", "=", "="]).await;
}

/// S-167, S-170
#[tokio::test(start_paused = true)]
async fn retry() {
    for (at, wanted) in
        COLUMNS.into_iter().zip(["c", "c", "c", "c", "READY", "READY", "c", "c", "c"])
    {
        let placed = Placed::at(at).await;
        // So that it stays READY long enough to be seen.
        let agents =
            placed.bench.call(cortex_lib::api::tool::ListAgents { project_id: None }).await.agents;
        if let Some(agent) = agents.iter().find(|agent| agent.name == "a" && wanted == "READY") {
            placed.bench.call(PauseAgent { agent_id: agent.agent_id.clone() }).await;
        }
        assert_eq!(placed.cell(Call::Retry).await, wanted, "{at:?}");
    }
}

/// S-165, S-167
#[tokio::test(start_paused = true)]
async fn approve() {
    row(Call::Approve, ["c", "c", "c", "c", "COMPLETED", "c", "c", "c", "c"]).await;
}

/// S-158
#[tokio::test(start_paused = true)]
async fn reassign() {
    row(Call::Reassign, ["moved", "moved", "c", "c", "moved", "moved", "c", "c", "c"]).await;
}

/// S-143, S-145, S-147, S-149
#[tokio::test(start_paused = true)]
async fn pause_interrupt() {
    let ends = "READY, attempt Cancelled objective.paused";
    row(Call::PauseInterrupt, ["=", "=", ends, "=", "=", "=", "=", "=", "="]).await;
}

/// S-143, S-146
#[tokio::test(start_paused = true)]
async fn pause_drain() {
    row(Call::PauseDrain, ["="; 9]).await;
}

/// S-173, S-177
#[tokio::test(start_paused = true)]
async fn integrate() {
    let isolated = vec![Requirement::WorkspaceIsolation];
    for (at, wanted) in COLUMNS.into_iter().zip(["c", "c", "c", "c", "c", "c", "once", "c", "c"]) {
        let bench = in_worktrees(at).open().await;
        let placed = place_with(bench, at, isolated.clone()).await;
        let first = placed.cell(Call::Integrate).await;
        if wanted == "once" {
            assert_eq!(first, "integrated", "{at:?}");
            assert_eq!(placed.cell(Call::Integrate).await, "c", "{at:?}, again");
        } else {
            assert_eq!(first, wanted, "{at:?}");
        }
    }
}

/// What ran in a worktree of its own is tried again.
#[test]
fn core_crash_with_a_worktree() {
    let mut setup = in_worktrees(At::Running);
    let (project, id, before) = life(async {
        let isolated = vec![Requirement::WorkspaceIsolation];
        let placed = place_with(setup.open().await, At::Running, isolated).await;
        let before = placed.bench.task(&placed.task).await;
        setup.world.lose_core();
        (placed.bench.project.clone(), placed.task, before)
    });
    life(async {
        let bench = setup.reopen(&project).await;
        let seen = difference(&before, &bench.task(&id).await);
        assert_eq!(seen, "READY, attempt Lost recovery.outcome_unknown");
    });
}

/// What ran in the project's folder is a person's to decide.
#[test]
fn core_crash() {
    let lost = "BLOCKED, attempt Lost recovery.outcome_unknown";
    for (at, wanted) in COLUMNS.into_iter().zip(["=", "=", lost, "=", "=", "=", "=", "=", "="]) {
        let mut setup = setup(at);
        let (project, id, before) = life(async {
            let placed = place(setup.open().await, at).await;
            let before = placed.bench.task(&placed.task).await;
            setup.world.lose_core();
            (placed.bench.project.clone(), placed.task, before)
        });
        life(async {
            let bench = setup.reopen(&project).await;
            assert_eq!(difference(&before, &bench.task(&id).await), wanted, "{at:?}");
            if at == At::Verifying {
                let anew = async || (bench.world.verifications().len() == 2).then_some(());
                bench.until("the verification, anew", anew).await;
            }
        });
    }
}

/// The first turn is refused, the second is answered after a while, its verification takes long.
async fn retried(until: TaskStatus) -> (Placed, RetryTask) {
    let setup = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|turn| {
                if turn.instruction.contains("log in") {
                    Script::new().wait(secs(20)).answer("done")
                } else {
                    Script::new().fail(Cause::Refused, "log in")
                }
            })
        })
        .host(|host| host.verify(|_| Verdict::Pass(secs(100))));
    let bench = setup.open().await;
    let other = bench.agent("other").await;
    let agent = bench.ready("a").await;
    let objective = bench.objective(vec![spec("x", &[])]).await;
    let task = objective.tasks.first().unwrap().task_id.clone();
    let blocked = bench.until_task(&task, TaskStatus::Blocked).await;
    if until == TaskStatus::Ready {
        bench.call(PauseAgent { agent_id: agent }).await;
    }
    let execution_id = blocked.attempts.first().map(|attempt| attempt.execution_id.clone());
    let retry = RetryTask { task_id: task.clone(), execution_id, reason: None };
    bench.call(retry.clone()).await;
    bench.until_task(&task, until).await;
    (Placed { bench, objective, task, other }, retry)
}

/// S-172
#[tokio::test(start_paused = true)]
async fn a_retry_that_is_recorded_is_no_second_one_wherever_its_task_is() {
    for status in [TaskStatus::Ready, TaskStatus::Running, TaskStatus::Verifying] {
        let (placed, retry) = retried(status).await;
        let before = placed.bench.task(&placed.task).await;
        let again = placed.bench.call(retry).await.task;
        assert_eq!(difference(&before, &again), "=", "{status:?}");
        assert_eq!(again.decisions.len(), 1, "{status:?}");
    }
}

/// S-168, S-172
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_not_the_tasks_last_one_decides_nothing() {
    let one = Placed::at(At::Blocked).await;
    let foreign = one.bench.task(&one.task).await.attempts.remove(0).execution_id;
    let none_yet = one.objective.tasks.first().unwrap().task_id.clone();
    let bench = &one.bench;
    for task_id in [none_yet, one.bench.one_task(spec("another", &[])).await] {
        let (execution_id, reason) = (Some(foreign.clone()), None);
        let retry = RetryTask { task_id: task_id.clone(), execution_id, reason };
        assert_eq!(bench.refuse(retry).await.code(), Code::TaskStateConflict);
        let (execution_id, reason) = (Some(foreign.clone()), None);
        let approve = ApproveTask { task_id, execution_id, reason };
        assert_eq!(bench.refuse(approve).await.code(), Code::TaskStateConflict);
    }
}

/// S-169
#[tokio::test(start_paused = true)]
async fn an_approval_that_is_recorded_is_no_second_one() {
    let placed = Placed::at(At::Unproven).await;
    assert_eq!(placed.cell(Call::Approve).await, "COMPLETED");
    assert_eq!(placed.cell(Call::Approve).await, "=");
    assert_eq!(placed.bench.task(&placed.task).await.decisions.len(), 1);
}

/// S-163
#[tokio::test(start_paused = true)]
async fn a_move_that_is_recorded_is_no_second_one_wherever_its_task_is() {
    for at in [At::Created, At::Ready, At::Unproven, At::Blocked] {
        let placed = Placed::at(at).await;
        assert_eq!(placed.cell(Call::Reassign).await, "moved", "{at:?}");
        assert_eq!(placed.cell(Call::Reassign).await, "=", "{at:?}");
        placed.make(Call::Cancel).await.unwrap();
        assert_eq!(placed.cell(Call::Reassign).await, "=", "{at:?}: also when it has ended");
    }
}

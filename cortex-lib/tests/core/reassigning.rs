//! Moving tasks from one agent to another.

use cortex_lib::Code;
use cortex_lib::api::SessionKind;
use cortex_lib::api::operator::{AddProject, RemoveAgent};
use cortex_lib::api::tool::{
    PauseObjective, ReassignTask, ResumeObjective, RetryTask, StopAgent, UpdateAgent,
};
use cortex_lib::api::view::TaskView;
use cortex_lib::domain::agent::{AgentStatus, Role};
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::objective::PausePolicy;
use cortex_lib::domain::plan::{Requirement, TaskSpec};
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::waiting::{NotEligibleReason, WaitReason};
use cortex_lib::ids::{AgentId, AttemptId, RuntimeId, TaskId};
use cortex_lib::port::{Script, ScriptedRuntime, Verdict};
use serde_json::json;

use crate::bench::{SCRIPTED, Setup, new_agent, pass, secs, spec};

fn to(task: &TaskId, agent: Option<&AgentId>) -> ReassignTask {
    ReassignTask {
        task_id: task.clone(),
        to_agent_id: agent.cloned(),
        execution_id: None,
        reason: None,
    }
}

fn pinned(key: &str, agent: &AgentId) -> TaskSpec {
    TaskSpec { assigned_agent_id: Some(agent.clone()), ..spec(key, &[]) }
}

fn endless(runtime: ScriptedRuntime) -> ScriptedRuntime {
    runtime.turn(|_| Script::new())
}

/// The first turn is refused, later ones go on for ever.
fn refused_once(runtime: ScriptedRuntime) -> ScriptedRuntime {
    runtime.turn(|turn| {
        if turn.instruction.contains("log in") {
            Script::new()
        } else {
            Script::new().fail(Cause::Refused, "log in")
        }
    })
}

fn last(task: &TaskView) -> AttemptId {
    task.attempts.last().unwrap().execution_id.clone()
}

/// S-158, S-160
#[tokio::test(start_paused = true)]
async fn a_task_that_waits_moves_and_keeps_its_status() {
    let bench = Setup::new().runtime(refused_once).open().await;
    let agent = bench.ready("a").await;
    let (from, new) = (bench.agent("from").await, bench.agent("new").await);
    let plan = vec![spec("blocked", &[]), pinned("ready", &from), spec("created", &["ready"])];
    let tasks = bench.objective(plan).await.tasks;
    bench.until_task(&tasks[0].task_id, TaskStatus::Blocked).await;
    for (task, status, pin) in [
        (&tasks[0], TaskStatus::Blocked, None),
        (&tasks[1], TaskStatus::Ready, Some(from)),
        (&tasks[2], TaskStatus::Created, None),
    ] {
        let before = bench.task(&task.task_id).await;
        let seen = bench.cortex.newest_event().unwrap();
        let reason = Some("it knows the code".to_owned());
        let call = ReassignTask { reason, ..to(&task.task_id, Some(&new)) };
        let moved = bench.call(call).await.task;
        assert_eq!(moved.status, status);
        assert_eq!(moved.assigned_agent_id.as_ref(), Some(&new));
        assert_eq!(moved.attempts, before.attempts);
        let execution_id = before.attempts.last().map(|attempt| attempt.execution_id.clone());
        let record = serde_json::to_value(&moved.reassignments).unwrap();
        let at = record[0]["at"].clone();
        assert!(at.is_string(), "{record}");
        let fields = json!({
            "by": "user", "from_agent_id": pin, "to_agent_id": new, "execution_id": execution_id,
            "reason": "it knows the code",
        });
        let mut wanted = fields.clone();
        wanted["at"] = at;
        assert_eq!(record, json!([wanted]), "H-11");

        let told = bench.told_after(seen);
        assert_eq!(told[0].kind, EventKind::TaskReassigned);
        assert_eq!(told[0].data["task_id"], json!(task.task_id));
        for field in ["by", "from_agent_id", "to_agent_id", "execution_id", "reason"] {
            assert_eq!(told[0].data[field], fields[field], "{field}");
        }
    }
    assert_eq!(bench.status(&agent).await, AgentStatus::Ready);
}

/// S-158
#[tokio::test(start_paused = true)]
async fn a_moved_task_starts_on_its_new_agent_and_on_no_other() {
    let bench = Setup::new().runtime(endless).open().await;
    let absent = bench.agent("absent").await;
    let id = bench.one_task(pinned("x", &absent)).await;
    let (_, new) = (bench.ready("idle longest").await, bench.ready("new").await);
    bench.call(to(&id, Some(&new))).await;
    let task = bench.until_task(&id, TaskStatus::Running).await;
    assert_eq!(task.attempts[0].agent_id, new);
}

/// S-159
#[tokio::test(start_paused = true)]
async fn a_task_that_is_moved_to_none_runs_on_any_agent() {
    for arguments in [json!({}), json!({ "to_agent_id": null })] {
        let bench = Setup::new().runtime(endless).open().await;
        let absent = bench.agent("absent").await;
        let id = bench.one_task(pinned("x", &absent)).await;
        let any = bench.ready("any").await;
        let mut call = arguments;
        call["task_id"] = json!(id);
        let moved = bench.cx.call_json("reassign_task", call).await.unwrap();
        assert_eq!(moved["task"]["assigned_agent_id"], json!(null));
        assert_eq!(moved["task"]["reassignments"][0]["from_agent_id"], json!(absent));
        assert_eq!(moved["task"]["reassignments"][0]["to_agent_id"], json!(null), "H-11");
        let task = bench.until_task(&id, TaskStatus::Running).await;
        assert_eq!(task.attempts[0].agent_id, any);
    }
}

/// S-158, S-162
#[tokio::test(start_paused = true)]
async fn a_blocked_task_is_retried_on_its_new_agent() {
    let bench = Setup::new().runtime(refused_once).open().await;
    let first = bench.ready("first").await;
    let id = bench.one_task(pinned("x", &first)).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    let new = bench.ready("new").await;
    let call = ReassignTask { execution_id: Some(last(&task)), ..to(&id, Some(&new)) };
    let moved = bench.call(call).await.task;
    assert_eq!(moved.reassignments[0].execution_id, Some(last(&task)));
    bench.call(RetryTask { task_id: id.clone(), execution_id: None, reason: None }).await;
    let task = bench.until_task(&id, TaskStatus::Running).await;
    assert_eq!(task.attempts[1].agent_id, new);
}

/// S-161
#[tokio::test(start_paused = true)]
async fn a_task_does_not_move_while_the_agent_of_its_last_attempt_lets_go() {
    let letting_go =
        |runtime: ScriptedRuntime| runtime.turn(|_| Script::new().interrupted_after(secs(20)));
    let bench = Setup::new().runtime(letting_go).open().await;
    let agent = bench.ready("a").await;
    let new = bench.agent("new").await;
    let objective = bench.objective(vec![spec("x", &[])]).await;
    let id = objective.tasks[0].task_id.clone();
    bench.until_turns(1).await;
    bench.until_task(&id, TaskStatus::Running).await;
    let policy = PausePolicy::Interrupt;
    let pause = PauseObjective { objective_id: objective.objective_id, policy, reason: None };
    bench.call(pause).await;
    assert_eq!(bench.task(&id).await.status, TaskStatus::Ready);
    let error = bench.refuse(to(&id, Some(&new))).await;
    assert_eq!(error.code(), Code::TaskStateConflict);
    assert!(error.message().contains("still lets go"), "{error}");
    assert_eq!(bench.task(&id).await.reassignments, []);
    bench.until_agent(&agent, AgentStatus::Ready).await;
    let moved = bench.call(to(&id, Some(&new))).await.task;
    assert_eq!(moved.reassignments[0].execution_id, Some(last(&moved)));
}

/// S-161
#[tokio::test(start_paused = true)]
async fn a_task_does_not_move_while_its_verification_runs() {
    let bench = Setup::new().host(|host| host.verify(|_| Verdict::Pass(secs(60)))).open().await;
    bench.ready("a").await;
    let new = bench.agent("new").await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_task(&id, TaskStatus::Verifying).await;
    assert_eq!(bench.refuse(to(&id, Some(&new))).await.code(), Code::TaskStateConflict);
}

/// S-162
#[tokio::test(start_paused = true)]
async fn a_move_counts_only_for_the_attempt_that_was_read() {
    let refuse =
        |runtime: ScriptedRuntime| runtime.turn(|_| Script::new().fail(Cause::Refused, "log in"));
    let bench = Setup::new().runtime(refuse).open().await;
    let (new, absent) = (bench.agent("new").await, bench.agent("absent").await);
    let untried = bench.one_task(pinned("untried", &absent)).await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let first = last(&bench.until_task(&id, TaskStatus::Blocked).await);
    bench.call(RetryTask { task_id: id.clone(), execution_id: None, reason: None }).await;
    let tried_again = async || Some(bench.task(&id).await).filter(|task| task.attempts.len() == 2);
    bench.until("the second attempt", tried_again).await;
    let second = last(&bench.until_task(&id, TaskStatus::Blocked).await);

    let about = |task: &TaskId, execution: &AttemptId| ReassignTask {
        execution_id: Some(execution.clone()),
        ..to(task, Some(&new))
    };
    for (task, execution, why) in [
        (&id, &first, "an old one"),
        (&untried, &first, "one of another task, and there is none yet"),
        (&id, &AttemptId::new("made-up"), "one that never was"),
    ] {
        let error = bench.refuse(about(task, execution)).await;
        assert_eq!(error.code(), Code::TaskStateConflict, "{why}");
    }
    assert_eq!(bench.task(&id).await.reassignments, []);
    bench.call(about(&id, &second)).await;
    let foreign = bench.refuse(about(&untried, &second)).await;
    assert_eq!(foreign.code(), Code::TaskStateConflict);
}

/// S-163
#[tokio::test(start_paused = true)]
async fn the_same_move_again_is_no_error_whatever_came_since() {
    let bench = Setup::new().runtime(refused_once).open().await;
    bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let read = last(&bench.until_task(&id, TaskStatus::Blocked).await);
    let new = bench.ready("new").await;
    let call = ReassignTask { execution_id: Some(read.clone()), ..to(&id, Some(&new)) };
    bench.call(call.clone()).await;
    bench.call(RetryTask { task_id: id.clone(), execution_id: None, reason: None }).await;
    let running = bench.until_task(&id, TaskStatus::Running).await;
    assert_ne!(last(&running), read, "a newer attempt runs");
    let again = bench.call(call.clone()).await.task;
    assert_eq!((again.status, again.reassignments.len()), (TaskStatus::Running, 1));
    assert_eq!(bench.call(to(&id, Some(&new))).await.task.reassignments.len(), 1);

    // A move that names another attempt, or another agent, is another matter.
    let made_up = Some(AttemptId::new("made-up"));
    let error = bench.refuse(ReassignTask { execution_id: made_up, ..call.clone() }).await;
    assert_eq!(error.code(), Code::TaskStateConflict);
    let error = bench.refuse(ReassignTask { to_agent_id: None, ..call }).await;
    assert_eq!(error.code(), Code::TaskStateConflict);
}

/// S-163
#[tokio::test(start_paused = true)]
async fn a_move_to_the_agent_that_it_has_leaves_no_record() {
    let bench = Setup::new().runtime(endless).open().await;
    let (agent, other) = (bench.agent("a").await, bench.agent("b").await);
    let id = bench.one_task(pinned("x", &agent)).await;
    let seen = bench.cortex.newest_event().unwrap();
    assert_eq!(bench.call(to(&id, Some(&agent))).await.task.reassignments, []);
    assert_eq!(bench.told_after(seen), []);
    let error = bench
        .refuse(ReassignTask { execution_id: Some(AttemptId::new("old")), ..to(&id, Some(&agent)) })
        .await;
    assert_eq!(error.code(), Code::TaskStateConflict, "that move is not recorded");

    bench.call(to(&id, Some(&other))).await;
    let back = bench.call(to(&id, Some(&agent))).await.task;
    assert_eq!(back.assigned_agent_id, Some(agent), "there and back are two moves");
    assert_eq!(back.reassignments.len(), 2);
}

/// S-164
#[tokio::test(start_paused = true)]
async fn a_task_moves_only_to_an_agent_that_could_run_it() {
    let limited = ScriptedRuntime::new("limited").without(Capability::Skills);
    let setup = Setup::new().runtime(endless).another(limited);
    let bench = setup.open().await;
    let root = setup.root().join("other");
    fs_err::create_dir(&root).unwrap();
    let add = AddProject { name: "other".into(), root, verification: None };
    let project = bench.call(add).await.project.project_id;
    let foreign = bench.call(new_agent(&project, "f", SCRIPTED)).await.agent.agent_id;
    let mut boss = new_agent(&bench.project, "o", SCRIPTED);
    boss.role = Role::Orchestrator;
    let boss = bench.call(boss).await.agent.agent_id;
    let limited = bench.agent_on("l", "limited").await;
    let removed = bench.agent("gone").await;
    bench.call(RemoveAgent { agent_id: removed.clone() }).await;
    let skilled = TaskSpec {
        requirements: vec![Requirement::Capability(Capability::Skills)],
        ..spec("x", &[])
    };
    let id = bench.one_task(skilled).await;
    for (agent, code, says) in [
        (AgentId::new("nobody"), Code::AgentNotFound, "there is no agent"),
        (removed, Code::AgentNotFound, "there is no agent"),
        (foreign, Code::TaskAgentNotEligible, "belongs to another project"),
        (boss, Code::TaskAgentNotEligible, "is an orchestrator"),
        (limited.clone(), Code::TaskAgentNotEligible, "lacks skills"),
    ] {
        let error = bench.refuse(to(&id, Some(&agent))).await;
        assert_eq!(error.code(), code, "H-33: {error}");
        assert!(error.message().contains(says), "{error}");
        assert_eq!(error.detail("agent_id").unwrap(), agent.as_str());
    }
    let plain = bench.one_task(spec("y", &[])).await;
    let moved = bench.call(to(&plain, Some(&limited))).await.task;
    let waiting = moved.waiting.unwrap();
    assert_eq!(waiting.reason, WaitReason::AssignedAgentUnavailable, "H-33: it may come later");
    assert_eq!(waiting.assigned_agent_unavailable.unwrap().agent_id, limited);

    let busy = bench.ready("busy").await;
    bench.until_task(&id, TaskStatus::Running).await;
    assert_eq!(bench.task(&id).await.attempts[0].agent_id, busy);
    let error = bench.refuse(to(&id, Some(&AgentId::new("nobody")))).await;
    assert_eq!(error.code(), Code::AgentNotFound, "H-03: what is named, then the state");
}

/// S-158
#[tokio::test(start_paused = true)]
async fn a_task_whose_agent_was_stopped_waits_for_it_until_it_is_moved() {
    let bench = Setup::new().runtime(endless).open().await;
    let agent = bench.ready("a").await;
    bench.ready("idle").await;
    let id = bench.one_task(pinned("x", &agent)).await;
    bench.until_task(&id, TaskStatus::Running).await;
    bench.call(StopAgent { agent_id: agent.clone() }).await;
    pass(secs(3_600)).await;
    let task = bench.task(&id).await;
    assert_eq!((task.status, task.attempts.len()), (TaskStatus::Ready, 1), "H-30, H-34");
    assert_eq!(task.attempts[0].cause.as_deref(), Some("agent.stopped"), "H-30");
    let waiting = task.waiting.unwrap();
    assert_eq!(waiting.reason, WaitReason::AssignedAgentUnavailable, "H-30");
    let no = waiting.assigned_agent_unavailable.unwrap();
    assert_eq!((no.state, no.reason), (Some(AgentStatus::Stopped), NotEligibleReason::NotReady));
    bench.call(to(&id, None)).await;
    bench.until_task(&id, TaskStatus::Running).await;
}

/// S-164
#[tokio::test(start_paused = true)]
async fn a_task_whose_agent_lost_a_capability_says_so_and_stays_with_it() {
    let limited = ScriptedRuntime::new("limited").without(Capability::Skills);
    let bench = Setup::new().runtime(endless).another(limited).open().await;
    let agent = bench.agent("a").await;
    bench.ready("idle").await;
    let skilled = TaskSpec {
        requirements: vec![Requirement::Capability(Capability::Skills)],
        ..pinned("x", &agent)
    };
    let id = bench.one_task(skilled).await;
    let runtime_id = Some(RuntimeId::new("limited"));
    let (name, model, instructions, skills) = (None, None, None, None);
    let change =
        UpdateAgent { agent_id: agent.clone(), runtime_id, name, model, instructions, skills };
    bench.call(change).await;
    pass(secs(3_600)).await;
    let task = bench.task(&id).await;
    assert_eq!(task.assigned_agent_id, Some(agent.clone()), "H-34: never moved by itself");
    let no = task.waiting.unwrap().assigned_agent_unavailable.unwrap();
    assert_eq!(no.reason, NotEligibleReason::MissingCapability, "H-34");
    assert_eq!(no.missing, [Capability::Skills]);
    // It has that agent already, but could not be given to it now.
    assert_eq!(bench.refuse(to(&id, Some(&agent))).await.code(), Code::TaskAgentNotEligible);
}

/// S-158, S-143
#[tokio::test(start_paused = true)]
async fn a_task_moves_while_its_objective_is_paused_and_starts_after_it() {
    let bench = Setup::new().runtime(endless).open().await;
    let absent = bench.agent("absent").await;
    let objective = bench.objective(vec![pinned("x", &absent)]).await;
    let (objective_id, id) = (objective.objective_id, objective.tasks[0].task_id.clone());
    let (policy, reason) = (PausePolicy::Drain, None);
    bench.call(PauseObjective { objective_id: objective_id.clone(), policy, reason }).await;
    let new = bench.ready("new").await;
    let moved = bench.call(to(&id, Some(&new))).await.task;
    assert_eq!(moved.waiting.unwrap().reason, WaitReason::ObjectivePaused);
    pass(secs(60)).await;
    assert_eq!(bench.world.turns(), []);
    assert_eq!(bench.listed(&objective_id).await.flow.generation, 1, "a move is not of the flow");
    bench.call(ResumeObjective { objective_id }).await;
    let task = bench.until_task(&id, TaskStatus::Running).await;
    assert_eq!(task.attempts[0].agent_id, new);
}

/// S-157
#[tokio::test(start_paused = true)]
async fn no_session_moves_a_task() {
    let bench = Setup::new().open().await;
    let id = bench.one_task(spec("x", &[])).await;
    for kind in [SessionKind::Orchestrator, SessionKind::Agent, SessionKind::Hook] {
        let error = bench.session(kind).call(to(&id, None)).await.unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied, "{kind:?}");
    }
}

//! Tools that agents want to use, and people who answer, late, twice or never.

use std::collections::BTreeMap;

use cortex_lib::api::operator::{
    AllowApproval, AnswerApproval, DenyApproval, GetApproval, ListApprovals,
};
use cortex_lib::api::tool::{CancelTask, RetryTask, SendMessage, StopAgent};
use cortex_lib::api::view::ApprovalView;
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::approval::{ApprovalStatus, Decide, Rule};
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::Code;
use cortex_lib::ids::{AgentId, ApprovalId, TaskId};
use cortex_lib::port::{
    Asked, Choice, Question, Script, ScriptedRuntime, SessionEvent, ToolAnswer, ToolRequest,
};
use cortex_lib::store::AttemptStatus;
use serde_json::json;

use crate::bench::{Bench, Setup, pass, secs, spec};
use crate::lives::life;

/// A turn that asks for a tool and tells the answer as its result.
pub(crate) fn asks(script: Script) -> impl FnOnce(ScriptedRuntime) -> ScriptedRuntime {
    move |runtime| runtime.turn(move |_| script.clone())
}

pub(crate) fn one() -> Script {
    Script::new().ask("Bash", json!({ "command": "make" })).answer("done")
}

/// A request that a turn does not wait for.
pub(crate) fn request(id: &str) -> SessionEvent {
    SessionEvent::ToolRequest(ToolRequest {
        request_id: id.to_owned(),
        turn_id: None,
        tool: "Bash".to_owned(),
        summary: "make".to_owned(),
        input: json!({}),
        questions: Vec::new(),
        of_cortex: None,
    })
}

/// The requests of a state, the newest first.
pub(crate) async fn listed(bench: &Bench, state: ApprovalStatus) -> Vec<ApprovalView> {
    bench.call(ListApprovals { state: Some(state), ..ListApprovals::default() }).await.approvals
}

/// The request that waits.
pub(crate) async fn pending(bench: &Bench) -> ApprovalView {
    let look = async || listed(bench, ApprovalStatus::Pending).await.into_iter().next();
    bench.until("a request", look).await
}

pub(crate) async fn get(bench: &Bench, id: &ApprovalId) -> ApprovalView {
    bench.call(GetApproval { approval_id: id.clone() }).await.approval
}

pub(crate) fn allow(id: &ApprovalId) -> AllowApproval {
    AllowApproval { approval_id: id.clone() }
}

pub(crate) fn deny(id: &ApprovalId) -> DenyApproval {
    DenyApproval { approval_id: id.clone(), reason: Some("not here".to_owned()) }
}

/// What sessions were answered so far.
pub(crate) fn answers(bench: &Bench) -> Vec<ToolAnswer> {
    let asked = bench.world.asked().into_iter();
    let answer = |asked| match asked {
        Asked::Answer(_, _, answer) => Some(answer),
        _ => None,
    };
    asked.filter_map(answer).collect()
}

fn denied(reason: &str) -> ToolAnswer {
    ToolAnswer::Deny { reason: reason.to_owned() }
}

/// A task whose agent waits for a person.
async fn asking(setup: &Setup) -> (Bench, AgentId, TaskId, ApprovalView) {
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    let task = bench.one_task(spec("x", &[])).await;
    let approval = pending(&bench).await;
    (bench, agent, task, approval)
}

#[tokio::test(start_paused = true)]
async fn a_person_decides_what_no_rule_does() {
    let (bench, agent, task, approval) = asking(&Setup::new().runtime(asks(one()))).await;
    let attempt = bench.task(&task).await.attempts.remove(0);
    assert_eq!((attempt.status, bench.task(&task).await.waiting), (AttemptStatus::Running, None));
    assert_eq!((&approval.agent_id, approval.agent_name.as_str()), (&agent, "a"));
    assert_eq!(approval.execution_id, Some(attempt.execution_id));
    assert_eq!(approval.task_id.as_ref(), Some(&task));
    assert_eq!((approval.tool.as_str(), &approval.input), ("Bash", &json!({ "command": "make" })));
    assert_eq!((approval.decided_by, approval.decided_at), (None, None));
    assert_eq!(approval.reason.as_deref(), Some("no rule matches Bash: a person decides"));
    assert_eq!(answers(&bench), [], "nobody has decided");

    let allowed = bench.call(allow(&approval.approval_id)).await.approval;
    assert_eq!(
        (allowed.state, allowed.decided_by.as_deref()),
        (ApprovalStatus::Allowed, Some("user"))
    );
    bench.until_task(&task, TaskStatus::Blocked).await;
    assert_eq!(answers(&bench), [ToolAnswer::Allow]);
    let told = bench.told_after(0).into_iter().map(|event| event.kind);
    let told: Vec<_> = told.filter(|kind| kind.as_str().starts_with("approval.")).collect();
    assert_eq!(told, [EventKind::ApprovalRequested, EventKind::ApprovalDecided]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_reads_why_a_person_denied_it() {
    let script = Script::new().ask("Bash", json!({})).ask("Bash", json!({})).answer("done");
    let (bench, _, task, first) = asking(&Setup::new().runtime(asks(script))).await;
    let reply = bench.call(deny(&first.approval_id)).await.approval;
    assert_eq!((reply.state, reply.reason.as_deref()), (ApprovalStatus::Denied, Some("not here")));
    let second = pending(&bench).await.approval_id;
    bench.call(DenyApproval { approval_id: second, reason: None }).await;
    bench.until_task(&task, TaskStatus::Blocked).await;
    assert_eq!(answers(&bench), [denied("not here"), denied("denied by the user")]);
}

#[tokio::test(start_paused = true)]
async fn a_person_answers_what_an_agent_asks() {
    let choice = |label: &str| Choice { label: label.to_owned(), description: None };
    let question = Question {
        id: "q1".to_owned(),
        text: "Which database?".to_owned(),
        choices: vec![choice("SQLite"), choice("Postgres")],
        multiple: false,
        free_text: false,
    };
    let request = ToolRequest {
        request_id: String::new(),
        turn_id: None,
        tool: "AskUserQuestion".to_owned(),
        summary: "asks a question".to_owned(),
        input: json!({}),
        questions: vec![question],
        of_cortex: None,
    };
    // A rule that allows everything has no answer either.
    let all = rule("all", "*", Decide::Allow);
    let setup = Setup::new()
        .runtime(asks(Script::new().request(request).answer("done")))
        .settings(|settings| settings.approvals.rules = vec![all]);
    let (bench, _, task, approval) = asking(&setup).await;
    let id = approval.approval_id;
    assert_eq!(approval.questions.len(), 1);
    let refused = bench.refuse(allow(&id)).await;
    assert_eq!(refused.code(), Code::InvalidArguments);
    assert!(refused.remediation().contains("answer_approval"), "{refused:?}");
    let answer = |word: &str| AnswerApproval {
        approval_id: id.clone(),
        answers: BTreeMap::from([("q1".to_owned(), vec![word.to_owned()])]),
    };
    let refused = bench.refuse(answer("Oracle")).await;
    assert!(refused.message().contains("answers.q1"), "{refused:?}");
    let answered = bench.call(answer("SQLite")).await.approval;
    assert_eq!(answered.state, ApprovalStatus::Allowed);
    bench.until_task(&task, TaskStatus::Blocked).await;
    assert_eq!(answers(&bench), [ToolAnswer::Answers(answer("SQLite").answers)]);
    assert_eq!(bench.refuse(answer("Postgres")).await.code(), Code::ApprovalNotPending);
}

/// A tool has no question, so no answer fits.
#[tokio::test(start_paused = true)]
async fn a_tool_is_allowed_or_denied_but_not_answered() {
    let (bench, _, _, approval) = asking(&Setup::new().runtime(asks(one()))).await;
    let answer =
        AnswerApproval { approval_id: approval.approval_id.clone(), answers: BTreeMap::new() };
    assert_eq!(bench.refuse(answer).await.code(), Code::InvalidArguments);
    assert_eq!(get(&bench, &approval.approval_id).await.state, ApprovalStatus::Pending);
}

/// Approvals: answer to a request that no longer waits → `approval.not_pending`.
#[tokio::test(start_paused = true)]
async fn an_answer_to_a_request_that_no_longer_waits_is_approval_not_pending() {
    let setup = Setup::new().runtime(asks(one().deaf()));
    let (bench, agent, task, first) = asking(&setup).await;
    bench.call(allow(&first.approval_id)).await;
    let refused = bench.refuse(deny(&first.approval_id)).await;
    assert_eq!(refused.code(), Code::ApprovalNotPending);
    assert!(refused.message().contains("is allowed by user"), "{refused:?}");
    bench.until_task(&task, TaskStatus::Blocked).await;

    // Its turn was told to end.
    let second = bench.one_task(spec("y", &[])).await;
    let id = pending(&bench).await.approval_id;
    bench.call(CancelTask { task_id: second, reason: None }).await;
    assert_eq!(get(&bench, &id).await.state, ApprovalStatus::Cancelled);
    assert_eq!(bench.refuse(allow(&id)).await.code(), Code::ApprovalNotPending);

    // Its session ended.
    bench.until_agent(&agent, AgentStatus::Stopped).await;
    let agent = bench.ready("b").await;
    bench.call(SendMessage { agent_id: agent.clone(), message: "go".to_owned() }).await;
    let id = pending(&bench).await.approval_id;
    bench.call(StopAgent { agent_id: agent }).await;
    assert_eq!(get(&bench, &id).await.state, ApprovalStatus::Cancelled);
    assert_eq!(bench.refuse(deny(&id)).await.code(), Code::ApprovalNotPending);

    let nothing = ApprovalId::new("none");
    assert_eq!(bench.refuse(allow(&nothing)).await.code(), Code::ApprovalNotFound);
    assert_eq!(answers(&bench), [ToolAnswer::Allow], "what ended is not answered");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_runtime_withdraws_or_whose_session_dies_is_cancelled() {
    let withdrawn = |turn: &str| SessionEvent::ToolRequestWithdrawn { request_id: turn.to_owned() };
    // Asked twice, it is one request.
    let script = Script::new()
        .emit(request("one"))
        .emit(request("one"))
        .emit(request("two"))
        .wait(secs(5))
        .emit(withdrawn("one"))
        .wait(secs(5))
        .crash("it fell over");
    let (bench, _, _, _) = asking(&Setup::new().runtime(asks(script))).await;
    pass(secs(1)).await;
    assert_eq!(listed(&bench, ApprovalStatus::Pending).await.len(), 2);
    pass(secs(5)).await;
    assert_eq!(listed(&bench, ApprovalStatus::Pending).await.len(), 1);
    let ended = listed(&bench, ApprovalStatus::Cancelled).await.remove(0);
    assert_eq!(ended.reason.as_deref(), Some("the runtime withdrew it"));
    pass(secs(5)).await;
    let ended = listed(&bench, ApprovalStatus::Cancelled).await.remove(0);
    assert_eq!(ended.reason.as_deref(), Some("its session ended"));
}

/// Approvals: nobody answers → denied with a reason at the stated time, turn ends, task BLOCKED, no loop.
#[tokio::test(start_paused = true)]
async fn nobody_answers_so_it_is_denied_its_turn_ends_and_its_task_is_blocked() {
    let (bench, agent, task, approval) = asking(&Setup::new().runtime(asks(one().deaf()))).await;
    pass(secs(1_795)).await;
    assert_eq!(get(&bench, &approval.approval_id).await.state, ApprovalStatus::Pending);
    pass(secs(10)).await;
    let seen = get(&bench, &approval.approval_id).await;
    assert_eq!((seen.state, seen.decided_by.as_deref()), (ApprovalStatus::Denied, Some("timeout")));
    let why = "denied: nobody answered the request to use Bash within 1800 s";
    assert_eq!(seen.reason.as_deref(), Some(why));
    assert_eq!(answers(&bench), [denied(why)]);

    let blocked = bench.until_task(&task, TaskStatus::Blocked).await;
    let failure = blocked.failure.unwrap();
    assert_eq!(failure.cause, "approval.timed_out");
    assert!(failure.message.contains("nobody answered"), "{failure:?}");
    assert_eq!(blocked.attempts[0].status, AttemptStatus::Failed);
    pass(secs(10_000)).await;
    assert_eq!(bench.task(&task).await.attempts.len(), 1, "no retry, no loop");
    // A deaf agent comes back all the same, and a person can have it tried again.
    bench.until_agent(&agent, AgentStatus::Ready).await;
    bench.call(RetryTask { task_id: task.clone(), execution_id: None, reason: None }).await;
    let again = pending(&bench).await.approval_id;
    bench.call(allow(&again)).await;
    bench.until_task(&task, TaskStatus::Blocked).await;
    assert_eq!(bench.task(&task).await.failure.unwrap().cause, "verification.missing");
}

#[tokio::test(start_paused = true)]
async fn a_direct_turn_that_nobody_answers_fails_with_that_cause() {
    for script in [one(), one().deaf()] {
        let setup = Setup::new()
            .runtime(asks(script))
            .settings(|settings| settings.approvals.timeout_secs = 60);
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        bench.call(SendMessage { agent_id: agent.clone(), message: "go".to_owned() }).await;
        let id = pending(&bench).await.approval_id;
        assert_eq!(get(&bench, &id).await.execution_id, None);
        pass(secs(100)).await;
        let events = bench.agent_events().await.into_iter();
        let failed = events.filter(|event| event.kind == EventKind::SessionTurnFailed);
        let causes: Vec<_> = failed.map(|event| event.data["cause"].clone()).collect();
        assert_eq!(causes, ["approval.timed_out"]);
        assert_eq!(bench.until_agent(&agent, AgentStatus::Ready).await.current, None);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_a_request_waits_as_long_as_its_turn() {
    let setup =
        Setup::new().runtime(asks(one())).settings(|settings| settings.approvals.timeout_secs = 0);
    let (bench, _, task, approval) = asking(&setup).await;
    assert_eq!(approval.due_at, None);
    pass(secs(100_000)).await;
    assert_eq!(get(&bench, &approval.approval_id).await.state, ApprovalStatus::Pending);
    bench.call(allow(&approval.approval_id)).await;
    bench.until_task(&task, TaskStatus::Blocked).await;
    assert_eq!(bench.task(&task).await.failure.unwrap().cause, "verification.missing");
}

/// Approvals: restart with a pending request → it ends `expired`, whether the core stops or is lost.
#[test]
fn a_restart_with_a_pending_request_ends_it_expired() {
    for (direct, end) in
        [false, true].into_iter().flat_map(|direct| End::ALL.map(|end| (direct, end)))
    {
        let mut setup = Setup::new().runtime(asks(one()));
        let (project, id) = life(async {
            let bench = setup.open().await;
            let agent = bench.ready("a").await;
            if direct {
                bench.call(SendMessage { agent_id: agent, message: "go".to_owned() }).await;
            } else {
                bench.one_task(spec("x", &[])).await;
            }
            let id = pending(&bench).await.approval_id;
            match end {
                End::Lost => setup.world.lose_core(),
                End::AtOnce => bench.cortex.shutdown_at_once().await.unwrap(),
                End::InOrder => bench.cortex.shutdown().await.unwrap(),
            }
            (bench.project.clone(), id)
        });
        life(async {
            let bench = setup.reopen(&project).await;
            let ended = get(&bench, &id).await;
            assert_eq!(ended.state, ApprovalStatus::Expired, "{end:?} {direct}: {ended:?}");
            assert_eq!(ended.reason.as_deref(), Some("the core went down"));
            assert_eq!(bench.refuse(allow(&id)).await.code(), Code::ApprovalNotPending);
            assert_eq!(listed(&bench, ApprovalStatus::Allowed).await, []);
        });
    }
}

/// How a core ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Lost,
    AtOnce,
    InOrder,
}

impl End {
    const ALL: [Self; 3] = [Self::Lost, Self::AtOnce, Self::InOrder];
}

/// H-45: while a request waits, silence is no stall and the time of the task does not run.
#[tokio::test(start_paused = true)]
async fn while_a_request_waits_neither_silence_nor_time_counts() {
    let script = Script::new()
        .ask("Bash", json!({}))
        .say("it goes on")
        .wait(secs(400))
        .say("still here")
        .wait(secs(400))
        .answer("done");
    let setup =
        Setup::new().runtime(asks(script)).settings(|settings| settings.approvals.timeout_secs = 0);
    let bench = setup.open().await;
    bench.ready("a").await;
    let short = TaskSpec { timeout_secs: Some(1_000), ..spec("x", &[]) };
    let task = bench.one_task(short.clone()).await;
    let id = pending(&bench).await.approval_id;
    pass(secs(50_000)).await;
    assert_eq!(bench.task(&task).await.status, TaskStatus::Running, "it waits for a person");
    bench.call(allow(&id)).await;
    let done = bench.until_task(&task, TaskStatus::Blocked).await;
    assert_eq!(done.failure.unwrap().cause, "verification.missing", "it had its 1000 s");
}

/// H-45: after the answer both count on.
#[tokio::test(start_paused = true)]
async fn after_the_answer_silence_and_time_count_on() {
    for (stall, timeout, cause) in [(600, 3_600, "stalled"), (86_400, 1_000, "timed_out")] {
        let script = Script::new().wait(secs(500)).say("hm").ask("Bash", json!({})).say("well");
        let setup = Setup::new().runtime(asks(script)).settings(move |settings| {
            settings.agents.stall_secs = stall;
            settings.approvals.timeout_secs = 0;
        });
        let bench = setup.open().await;
        bench.ready("a").await;
        let spec = TaskSpec { timeout_secs: Some(timeout), max_retries: Some(0), ..spec("x", &[]) };
        let task = bench.one_task(spec).await;
        let id = pending(&bench).await.approval_id;
        pass(secs(20_000)).await;
        bench.call(deny(&id)).await;
        pass(secs(490)).await;
        assert_eq!(bench.task(&task).await.status, TaskStatus::Running, "{cause}: too early");
        pass(secs(120)).await;
        let failed = bench.until_task(&task, TaskStatus::Failed).await;
        assert_eq!(failed.failure.unwrap().cause, cause);
    }
}

/// A second request of the same turn does not let the time run while the first one waits.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_task_stands_as_long_as_any_of_its_requests_waits() {
    let script = Script::new().emit(request("one")).emit(request("two")).say("both").use_tool("x");
    let setup =
        Setup::new().runtime(asks(script)).settings(|settings| settings.approvals.timeout_secs = 0);
    let bench = setup.open().await;
    bench.ready("a").await;
    let spec = TaskSpec { timeout_secs: Some(100), max_retries: Some(0), ..spec("x", &[]) };
    let task = bench.one_task(spec).await;
    pending(&bench).await;
    pass(secs(1)).await;
    let waiting = listed(&bench, ApprovalStatus::Pending).await;
    let [two, one] = waiting.as_slice() else { panic!("{waiting:?}") };
    pass(secs(500)).await;
    bench.call(allow(&one.approval_id)).await;
    pass(secs(500)).await;
    assert_eq!(bench.task(&task).await.status, TaskStatus::Running);
    bench.call(allow(&two.approval_id)).await;
    pass(secs(90)).await;
    assert_eq!(bench.task(&task).await.status, TaskStatus::Running, "its time had not begun");
    pass(secs(20)).await;
    assert_eq!(
        bench.until_task(&task, TaskStatus::Failed).await.failure.unwrap().cause,
        "timed_out"
    );
}

/// A runtime that floods does not fill the store.
#[tokio::test(start_paused = true)]
async fn no_more_requests_of_a_session_wait_than_may() {
    let script = (0..40).fold(Script::new(), |script, id| script.emit(request(&format!("r{id}"))));
    let (bench, ..) = asking(&Setup::new().runtime(asks(script))).await;
    pass(secs(1)).await;
    assert_eq!(listed(&bench, ApprovalStatus::Pending).await.len(), 32);
    let denied = listed(&bench, ApprovalStatus::Denied).await;
    assert_eq!(denied.len(), 8);
    assert!(denied.iter().all(|one| one.decided_by.as_deref() == Some("limit")), "{denied:?}");
}

/// Rules see what was asked; what is kept of it has no secret and no end.
#[tokio::test(start_paused = true)]
async fn what_is_kept_of_a_request_has_no_secrets_and_is_bounded() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let command = format!("curl -H 'Authorization: Bearer {token}' https://example.com");
    let input = json!({ "command": command, "content": "x".repeat(100_000) });
    let script = Script::new().ask("Bash", input.clone()).ask("Other", input).answer("done");
    let raw = Rule { input: Some(format!("*{token}*")), ..rule("raw", "Bash", Decide::Allow) };
    let setup = Setup::new()
        .runtime(asks(script))
        .settings(|settings| settings.approvals.rules = vec![raw]);
    let (bench, _, _, approval) = asking(&setup).await;
    let all = bench.call(ListApprovals::default()).await.approvals;
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].decided_by.as_deref(), Some("rule:raw"), "{:?}", all[1]);
    for seen in all {
        let text = seen.input.to_string();
        assert!(!text.contains(&token) && text.contains("[secret]"), "{text}");
        assert!(seen.input_truncated && text.len() <= 16_384);
    }
    assert_eq!(approval.state, ApprovalStatus::Pending);
    let told = serde_json::to_string(&bench.told_after(0)).unwrap();
    assert!(!told.contains(&token));
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_cortex_is_a_workers_by_its_role() {
    let request = ToolRequest {
        request_id: String::new(),
        turn_id: None,
        tool: "mcp__cortex__post_message".to_owned(),
        summary: "post_message".to_owned(),
        input: json!({ "body": "hi" }),
        questions: Vec::new(),
        of_cortex: Some("post_message".to_owned()),
    };
    let none = rule("none", "*", Decide::Deny);
    let setup = Setup::new()
        .runtime(asks(Script::new().request(request).answer("done")))
        .settings(|settings| settings.approvals.rules = vec![none]);
    let bench = setup.open().await;
    bench.ready("a").await;
    let task = bench.one_task(spec("x", &[])).await;
    bench.until_task(&task, TaskStatus::Blocked).await;
    assert_eq!(answers(&bench), [ToolAnswer::Allow]);
    let decided = listed(&bench, ApprovalStatus::Allowed).await.remove(0);
    assert_eq!(decided.decided_by.as_deref(), Some("role"));
}

/// A server of a project may be named so that its tools look like those of Cortex.
#[tokio::test(start_paused = true)]
async fn a_tool_that_only_begins_as_those_of_cortex_do_is_decided_by_rules() {
    for (tool, of_cortex) in
        [("mcp__cortex__x__run", "x__run"), ("mcp__cortex___post_message", "_post_message")]
    {
        let request = ToolRequest {
            request_id: String::new(),
            turn_id: None,
            tool: tool.to_owned(),
            summary: tool.to_owned(),
            input: json!({}),
            questions: Vec::new(),
            of_cortex: Some(of_cortex.to_owned()),
        };
        let none = rule("none", "*", Decide::Deny);
        let setup = Setup::new()
            .runtime(asks(Script::new().request(request).answer("done")))
            .settings(|settings| settings.approvals.rules = vec![none]);
        let bench = setup.open().await;
        bench.ready("a").await;
        let task = bench.one_task(spec("x", &[])).await;
        bench.until_task(&task, TaskStatus::Blocked).await;
        assert_eq!(answers(&bench), [denied("denied by rule 2: none")], "{tool}");
    }
}

/// Answers go by what is asked, so it is not cut: what is too long is not taken.
#[tokio::test(start_paused = true)]
async fn questions_and_answers_are_bounded() {
    let question = |text: String| ToolRequest {
        request_id: String::new(),
        turn_id: None,
        tool: "AskUserQuestion".to_owned(),
        summary: "asks a question".to_owned(),
        input: json!({}),
        questions: vec![Question {
            id: "q1".to_owned(),
            text,
            choices: Vec::new(),
            multiple: false,
            free_text: true,
        }],
        of_cortex: None,
    };
    let unnamed = question("Which?".to_owned());
    let script = Script::new().request(question("x".repeat(20_000))).request(unnamed.clone());
    let named = ToolRequest { request_id: "x".repeat(300), ..unnamed };
    let script = script.emit(SessionEvent::ToolRequest(named)).answer("done");
    let (bench, _, task, approval) = asking(&Setup::new().runtime(asks(script))).await;
    let answer = |words: String| AnswerApproval {
        approval_id: approval.approval_id.clone(),
        answers: BTreeMap::from([("q1".to_owned(), vec![words])]),
    };
    let refused = bench.refuse(answer("x".repeat(20_000))).await;
    assert_eq!(refused.code(), Code::InvalidArguments);
    bench.call(answer("SQLite".to_owned())).await;
    bench.until_task(&task, TaskStatus::Blocked).await;
    let told: Vec<_> = answers(&bench).into_iter().map(|answer| format!("{answer:?}")).collect();
    let [long, short, id] = told.as_slice() else { panic!("{told:?}") };
    assert!(long.contains("its questions have more than 16384 bytes"), "{long}");
    assert!(short.contains("SQLite"), "{short}");
    assert!(id.contains("its id has more than 256 bytes"), "{id}");
    assert_eq!(bench.call(ListApprovals::default()).await.approvals.len(), 1, "one is kept");
}

/// A reason names the tool, and the runtime chose that name.
#[tokio::test(start_paused = true)]
async fn a_reason_has_no_secret_and_no_end() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let script = Script::new().ask(format!("{token} {}", "x".repeat(100_000)), json!({}));
    let (bench, _, _, approval) = asking(&Setup::new().runtime(asks(script))).await;
    let reason = approval.reason.unwrap();
    assert!(reason.starts_with("no rule matches [secret]") && reason.len() <= 4_096, "{reason}");
    assert!(!serde_json::to_string(&bench.told_after(0)).unwrap().contains(&token));
}

pub(crate) fn rule(id: &str, tool: &str, decide: Decide) -> Rule {
    Rule { id: id.to_owned(), tool: tool.to_owned(), input: None, agent: None, decide }
}

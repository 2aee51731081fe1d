//! The message bus: who may write to whom, how much may wait, and what is read.

use std::collections::BTreeMap;

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{AckMessage, PollAgentEvents, PostMessage, ReadMessages};
use cortex_lib::api::view::{MessageFromKind, MessageView};
use cortex_lib::api::{Caller, Cx, SessionCaller, SessionKind};
use cortex_lib::domain::agent::Role;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::message::{Addressee, Channel, MessageKind, MessageState, Purpose};
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::{Code, Error, Kind};
use cortex_lib::ids::{AgentId, AttemptId, MessageId, ObjectiveId, ProjectId, SessionId, TaskId};
use cortex_lib::limits::{INBOX_MAX, SENT_WAITING_MAX};
use cortex_lib::port::{Script, ScriptedRuntime};
use cortex_lib::store::Event;
use serde_json::json;

use crate::bench::{Bench, SCRIPTED, Setup, new_agent, spec};

/// A session of a worker.
pub fn agent(bench: &Bench, id: &AgentId) -> Cx {
    caller(bench, id, &bench.project, SessionKind::Agent)
}

fn caller(bench: &Bench, id: &AgentId, project: &ProjectId, kind: SessionKind) -> Cx {
    bench.cortex.as_caller(Caller::Session(SessionCaller {
        kind,
        agent_id: id.clone(),
        project_id: project.clone(),
        session_id: SessionId::new("s1"),
    }))
}

/// A note to an agent in the channel of the project.
pub fn to(bench: &Bench, reader: &AgentId) -> PostMessage {
    let channel = Channel::Project(bench.project.clone());
    PostMessage::new(channel, Addressee::Agent(reader.clone()), "look at the parser")
}

pub fn to_attempt(bench: &Bench, id: &AttemptId) -> PostMessage {
    let channel = Channel::Project(bench.project.clone());
    PostMessage::new(channel, Addressee::Attempt(id.clone()), "the tests moved")
}

pub fn in_objective(id: &ObjectiveId, reader: &AgentId) -> PostMessage {
    PostMessage::new(Channel::Objective(id.clone()), Addressee::Agent(reader.clone()), "hi")
}

pub async fn inbox(cx: &Cx) -> Vec<MessageView> {
    cx.call(ReadMessages::default()).await.unwrap().messages
}

pub async fn post(cx: &Cx, call: PostMessage) -> MessageView {
    let posted = cx.call(call).await.unwrap();
    assert!(!posted.duplicate);
    posted.message
}

pub async fn ack(cx: &Cx, message: &MessageView) -> Result<MessageView, Code> {
    let ack = AckMessage { message_id: message.message_id.clone() };
    cx.call(ack).await.map(|reply| reply.message).map_err(|error| error.code())
}

pub async fn refused(cx: &Cx, call: PostMessage) -> Error {
    cx.call(call).await.unwrap_err()
}

/// Every event of a kind, of the core's own stream.
pub fn events(bench: &Bench, kind: EventKind) -> Vec<Event> {
    let all = bench.store.read(|tx| tx.events_after(None, 100_000)).unwrap();
    all.into_iter().filter(|event| event.kind == kind).collect()
}

pub fn endless(runtime: ScriptedRuntime) -> ScriptedRuntime {
    runtime.turn(|_| Script::new())
}

/// A core with two agents.
pub async fn two() -> (Bench, AgentId, AgentId) {
    let bench = Setup::new().runtime(endless).open().await;
    let (ann, bob) = (bench.agent("ann").await, bench.agent("bob").await);
    (bench, ann, bob)
}

/// An attempt of `agent` that runs: its objective and itself.
pub async fn running(bench: &Bench, agent: &AgentId) -> (ObjectiveId, TaskId, AttemptId) {
    let mut spec = spec("x", &[]);
    spec.assigned_agent_id = Some(agent.clone());
    let mut objective = bench.objective(vec![spec]).await;
    let id = objective.tasks.remove(0).task_id;
    let mut task = bench.until_task(&id, TaskStatus::Running).await;
    (objective.objective_id, id, task.attempts.remove(0).execution_id)
}

/// S-210, S-211, S-220, S-221, S-223
#[tokio::test(start_paused = true)]
async fn a_message_waits_in_its_readers_inbox_until_it_is_acknowledged() {
    let (bench, ann, bob) = two().await;
    let (as_ann, as_bob) = (agent(&bench, &ann), agent(&bench, &bob));
    let posted = post(&as_ann, to(&bench, &bob)).await;
    assert_eq!(posted.status, MessageState::Waiting);
    assert_eq!((posted.from.kind, &posted.from.agent_id), (MessageFromKind::Agent, &Some(ann)));
    assert_eq!((&posted.to_agent_id, posted.kind), (&Some(bob.clone()), MessageKind::Note));
    assert_eq!(bench.world.turns().len(), 0, "nobody's process is reached");

    for _ in 0..2 {
        assert_eq!(inbox(&as_bob).await, std::slice::from_ref(&posted), "reading changes nothing");
    }
    assert_eq!(inbox(&as_ann).await, [], "an agent reads its own inbox");
    assert_eq!(inbox(&bench.cx).await, std::slice::from_ref(&posted), "the user reads all");

    assert_eq!(ack(&as_ann, &posted).await, Err(Code::MessageNotFound), "it is not ann's to read");
    let acked = ack(&as_bob, &posted).await.unwrap();
    assert_eq!(acked.status, MessageState::Acked);
    assert!(acked.acked_at.is_some());
    assert_eq!(ack(&as_bob, &posted).await, Ok(acked.clone()), "again: unchanged");
    assert_eq!(ack(&bench.cx, &posted).await, Ok(acked));
    assert_eq!(inbox(&as_bob).await, []);

    let reply = PostMessage {
        in_reply_to: Some(posted.message_id.clone()),
        purpose: Purpose::Reply,
        ..to(&bench, posted.from.agent_id.as_ref().unwrap())
    };
    let reply = post(&as_bob, reply).await;
    assert_eq!((reply.kind, reply.in_reply_to), (MessageKind::Reply, Some(posted.message_id)));
    assert!(reply.sequence > posted.sequence);
}

/// S-036
#[tokio::test(start_paused = true)]
async fn every_key_of_a_message_is_always_there() {
    let (bench, _, bob) = two().await;
    let args = json!({ "project_id": bench.project, "to_agent_id": bob, "body": "hi" });
    let answer = bench.cx.call_json("post_message", args).await.unwrap();
    assert_eq!(answer["duplicate"], false);
    let keys: Vec<_> = answer["message"].as_object().unwrap().keys().cloned().collect();
    let mut wanted = [
        "message_id",
        "sequence",
        "project_id",
        "objective_id",
        "from",
        "to_agent_id",
        "to_execution_id",
        "kind",
        "action",
        "in_reply_to",
        "body",
        "status",
        "created_at",
        "expires_at",
        "acked_at",
    ];
    let mut found: Vec<_> = keys.iter().map(String::as_str).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    assert_eq!(answer["message"]["from"], json!({ "kind": "user", "agent_id": null }));
    assert_eq!(answer["message"]["status"], "WAITING");
    assert_eq!(answer["message"]["expires_at"], "2026-09-22T14:13:20.000Z", "24 h by default");
}

/// S-211
#[tokio::test(start_paused = true)]
async fn the_sender_is_never_a_field() {
    let (bench, ann, bob) = two().await;
    let args =
        json!({ "project_id": bench.project, "to_agent_id": bob, "body": "hi", "from": ann });
    let error = bench.cx.call_json("post_message", args).await.unwrap_err();
    assert_eq!(error.problems()[0].to_string(), "from: is not a known property");
}

/// S-212
#[tokio::test(start_paused = true)]
async fn arguments_are_bounded_and_choices_are_exact() {
    let (bench, _, bob) = two().await;
    let good = json!({ "project_id": bench.project, "to_agent_id": bob, "body": "hi" });
    let cases = [
        (
            json!({ "objective_id": "o" }),
            "give exactly one of `project_id`, `objective_id`; several are given",
        ),
        (
            json!({ "project_id": null }),
            "give exactly one of `project_id`, `objective_id`; none is given",
        ),
        (
            json!({ "to_execution_id": "e" }),
            "give exactly one of `to_agent_id`, `to_execution_id`; several are given",
        ),
        (
            json!({ "to_agent_id": null }),
            "give exactly one of `to_agent_id`, `to_execution_id`; none is given",
        ),
        (json!({ "body": "" }), "body: must not be empty"),
        (json!({ "body": "ä".repeat(8193) }), "body: must have at most 16384 bytes, has 16386"),
        (json!({ "ttl_secs": 59 }), "ttl_secs: must be at least 60, is 59"),
        (json!({ "ttl_secs": 604_801 }), "ttl_secs: must be at most 604800, is 604801"),
        (json!({ "kind": "order" }), "kind: must be one of `note`, `request`, `reply`"),
        (json!({ "action": "list_tasks" }), "give `action` with the kind `request` only"),
        (json!({ "idempotency_key": "" }), "idempotency_key: must not be empty"),
    ];
    for (change, problem) in cases {
        let mut args = good.clone();
        args.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let error = bench.cx.call_json("post_message", args).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArguments, "{change}");
        assert_eq!(error.message(), problem, "{change}");
    }
    assert_eq!(events(&bench, EventKind::MessageRejected), [], "no post was made");
    for change in [json!({ "body": "x".repeat(16_384) }), json!({ "ttl_secs": 604_800 })] {
        let mut args = good.clone();
        args.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        bench.cx.call_json("post_message", args).await.unwrap();
    }
}

/// S-215
#[tokio::test(start_paused = true)]
async fn a_body_is_stored_without_its_secrets_and_never_in_an_event() {
    let (bench, _, bob) = two().await;
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let body = format!("cancel_task everything; my token is {secret}, keep walking");
    let posted = post(&bench.cx, PostMessage { body, ..to(&bench, &bob) }).await;
    assert!(!posted.body.contains(&secret), "{}", posted.body);
    assert!(posted.body.starts_with("cancel_task everything;"), "text stays text");
    ack(&bench.cx, &posted).await.unwrap();
    let all = bench.store.read(|tx| tx.events_after(None, 100_000)).unwrap();
    assert!(all.iter().all(|event| !event.data.to_string().contains("walking")));
    let posted = &events(&bench, EventKind::MessagePosted)[0];
    assert_eq!(posted.agent_id, Some(bob));
    assert_eq!(events(&bench, EventKind::MessageAcked).len(), 1);
}

/// S-212, S-213, S-214, S-217
#[tokio::test(start_paused = true)]
async fn the_channel_of_an_objective_is_for_those_who_run_or_ran_its_attempts() {
    let setup = Setup::new().runtime(|r| r.turn(|_| Script::new().answer("done")));
    let bench = setup.open().await;
    let mut ids = BTreeMap::new();
    for name in ["ann", "bob", "cid"] {
        ids.insert(name, bench.ready(name).await);
    }
    let pinned = |key: &str, agent: &str| {
        let mut spec = spec(key, &[]);
        spec.assigned_agent_id = Some(ids[agent].clone());
        spec
    };
    let objective = bench.objective(vec![pinned("x", "ann"), pinned("y", "bob")]).await;
    for task in &objective.tasks {
        bench.until_task(&task.task_id, TaskStatus::Blocked).await;
    }
    let id = &objective.objective_id;
    let (as_ann, as_cid) = (agent(&bench, &ids["ann"]), agent(&bench, &ids["cid"]));
    let message = post(&as_ann, in_objective(id, &ids["bob"])).await;
    assert_eq!((message.objective_id.as_ref(), &message.project_id), (Some(id), &bench.project));
    post(&bench.cx, in_objective(id, &ids["ann"])).await;

    let error = refused(&as_cid, in_objective(id, &ids["ann"])).await;
    assert_eq!(
        (error.code(), error.code().kind()),
        (Code::MessageOutOfScope, Kind::AuthorizationError)
    );
    assert!(error.message().starts_with("you do not belong"), "{error}");
    let error = refused(&as_ann, in_objective(id, &ids["cid"])).await;
    assert_eq!(error.code(), Code::MessageOutOfScope);
    assert!(error.message().starts_with("the reader does not belong"), "{error}");
    let error = refused(&bench.cx, in_objective(id, &ids["cid"])).await;
    assert_eq!(
        error.code(),
        Code::MessageOutOfScope,
        "the user, too, writes to readers of it only"
    );

    let boss = bench.call({
        let mut boss = new_agent(&bench.project, "boss", SCRIPTED);
        boss.role = Role::Orchestrator;
        boss
    });
    let boss = boss.await.agent.agent_id;
    let as_boss = caller(&bench, &boss, &bench.project, SessionKind::Orchestrator);
    let error = refused(&as_boss, in_objective(id, &ids["ann"])).await;
    assert_eq!(error.code(), Code::MessageOutOfScope, "it has the project's channel only");
    post(&as_boss, to(&bench, &ids["ann"])).await;
    post(&as_ann, to(&bench, &boss)).await;
}

/// S-212, S-217
#[tokio::test(start_paused = true)]
async fn what_an_agent_may_not_see_is_not_there_for_it() {
    let setup = Setup::new().runtime(endless);
    let bench = setup.open().await;
    let (ann, bob) = (bench.ready("ann").await, bench.agent("bob").await);
    let (objective, _, attempt) = running(&bench, &ann).await;
    let secret = post(&bench.cx, to(&bench, &ann)).await.message_id;
    let root = setup.root().join("other");
    fs_err::create_dir(&root).unwrap();
    let add = AddProject { name: "other".into(), root, verification: None };
    let other = bench.call(add).await.project.project_id;
    let eve = bench.call(new_agent(&other, "eve", SCRIPTED)).await.agent.agent_id;
    let fay = bench.call(new_agent(&other, "fay", SCRIPTED)).await.agent.agent_id;
    let as_eve = caller(&bench, &eve, &other, SessionKind::Agent);

    let own = PostMessage::new(Channel::Project(other.clone()), Addressee::Agent(fay), "hi");
    post(&as_eve, own.clone()).await;
    let of = |to| PostMessage { to, ..own.clone() };
    let cases = [
        (to(&bench, &bob), Code::ProjectNotFound),
        (in_objective(&objective, &ann), Code::ObjectiveNotFound),
        (of(Addressee::Agent(ann.clone())), Code::AgentNotFound),
        (of(Addressee::Attempt(attempt.clone())), Code::ExecutionNotFound),
        (PostMessage { in_reply_to: Some(secret.clone()), ..own.clone() }, Code::MessageNotFound),
    ];
    for (call, code) in cases {
        assert_eq!(refused(&as_eve, call).await.code(), code);
    }
    // The user sees all of them, and only puts them together wrongly.
    for to in [Addressee::Agent(ann.clone()), Addressee::Attempt(attempt.clone())] {
        assert_eq!(refused(&bench.cx, of(to)).await.code(), Code::MessageOutOfScope);
    }
    let as_bob = agent(&bench, &bob);
    let reply = PostMessage { in_reply_to: Some(secret.clone()), ..to(&bench, &ann) };
    assert_eq!(refused(&as_bob, reply.clone()).await.code(), Code::MessageNotFound, "not bob's");
    post(&bench.cx, reply).await;
    let ack = AckMessage { message_id: secret };
    assert_eq!(as_eve.call(ack).await.unwrap_err().code(), Code::MessageNotFound);
}

/// S-217
#[tokio::test(start_paused = true)]
async fn nobody_writes_to_itself() {
    let bench = Setup::new().runtime(endless).open().await;
    let ann = bench.ready("ann").await;
    let (_, _, attempt) = running(&bench, &ann).await;
    let as_ann = agent(&bench, &ann);
    for call in [to(&bench, &ann), to_attempt(&bench, &attempt)] {
        assert_eq!(refused(&as_ann, call).await.code(), Code::MessageOutOfScope);
    }
}

/// S-216
#[tokio::test(start_paused = true)]
async fn a_request_names_only_a_tool_that_both_may_use() {
    let (bench, ann, bob) = two().await;
    let mut boss = new_agent(&bench.project, "boss", SCRIPTED);
    boss.role = Role::Orchestrator;
    let boss = bench.call(boss).await.agent.agent_id;
    let as_ann = agent(&bench, &ann);
    let as_boss = caller(&bench, &boss, &bench.project, SessionKind::Orchestrator);
    let ask = |reader: &AgentId, action: &str| PostMessage {
        purpose: Purpose::Request { action: Some(action.to_owned()) },
        ..to(&bench, reader)
    };
    let message = post(&as_ann, ask(&bob, "list_tasks")).await;
    assert_eq!(
        (message.kind, message.action.as_deref()),
        (MessageKind::Request, Some("list_tasks"))
    );
    post(&bench.cx, ask(&boss, "start_agent")).await;
    post(&as_ann, PostMessage { purpose: Purpose::Request { action: None }, ..to(&bench, &bob) })
        .await;
    for (cx, call) in [
        (&as_ann, ask(&bob, "cancel_task")),
        (&as_ann, ask(&boss, "start_agent")),
        (&as_boss, ask(&bob, "start_agent")),
        (&bench.cx, ask(&bob, "cancel_task")),
        (&bench.cx, ask(&bob, "no_such_tool")),
    ] {
        let error = refused(cx, call).await;
        assert_eq!(error.code(), Code::MessageActionNotAllowed);
        assert_eq!(error.code().kind(), Kind::AuthorizationError);
    }
}

/// S-217, S-218
/// Messages: 33rd message → `inbox_full`.
#[tokio::test(start_paused = true)]
async fn the_33rd_message_is_inbox_full_until_one_is_acknowledged() {
    let (bench, ann, bob) = two().await;
    let mut posted = Vec::new();
    for _ in 0..INBOX_MAX {
        posted.push(post(&bench.cx, to(&bench, &bob)).await);
    }
    for cx in [&bench.cx, &agent(&bench, &ann)] {
        let error = refused(cx, to(&bench, &bob)).await;
        assert_eq!(
            (error.code(), error.code().kind()),
            (Code::MessageInboxFull, Kind::StateConflict)
        );
    }
    post(&bench.cx, to(&bench, &ann)).await;
    ack(&bench.cx, &posted[7]).await.unwrap();
    post(&bench.cx, to(&bench, &bob)).await;
    assert_eq!(refused(&bench.cx, to(&bench, &bob)).await.code(), Code::MessageInboxFull);
}

/// S-217, S-218
#[tokio::test(start_paused = true)]
async fn an_agent_has_32_messages_waiting_at_most_and_the_user_has_no_such_limit() {
    let (bench, ann, bob) = two().await;
    let cid = bench.agent("cid").await;
    let as_ann = agent(&bench, &ann);
    let mut posted = Vec::new();
    for at in 0..SENT_WAITING_MAX {
        posted.push(post(&as_ann, to(&bench, if at % 2 == 0 { &bob } else { &cid })).await);
    }
    let error = refused(&as_ann, to(&bench, &cid)).await;
    assert_eq!(
        (error.code(), error.code().kind()),
        (Code::MessageSenderLimit, Kind::StateConflict)
    );
    ack(&agent(&bench, &bob), &posted[0]).await.unwrap();
    post(&as_ann, to(&bench, &cid)).await;
    for reader in [&ann, &bob, &cid].repeat(15) {
        post(&bench.cx, to(&bench, reader)).await;
    }
}

/// S-219
#[tokio::test(start_paused = true)]
async fn every_refusal_is_told_as_message_rejected_with_its_reason() {
    let (bench, ann, bob) = two().await;
    let as_ann = agent(&bench, &ann);
    let first = PostMessage { idempotency_key: Some("k".into()), ..to(&bench, &bob) };
    post(&as_ann, first.clone()).await;
    let nobody = AgentId::new("nobody");
    let action = Some("stop_agent".to_owned());
    let calls = [
        to(&bench, &ann),
        to(&bench, &nobody),
        PostMessage { purpose: Purpose::Request { action }, ..to(&bench, &bob) },
        PostMessage { body: "other".into(), ..first },
        in_objective(&ObjectiveId::new("none"), &bob),
        PostMessage { in_reply_to: Some(MessageId::new("none")), ..to(&bench, &bob) },
        to_attempt(&bench, &AttemptId::new("none")),
    ];
    let mut reasons = Vec::new();
    for call in calls {
        let error = refused(&as_ann, call).await;
        assert!(error.correlation_id().is_some());
        reasons.push(error.code().as_str());
    }
    let poll = PollAgentEvents { after: None, limit: 500, agent_id: Some(ann.clone()), wait_ms: 0 };
    let shown = as_ann.call(poll).await.unwrap().events;
    let shown: Vec<_> =
        shown.iter().filter(|event| event.kind == EventKind::MessageRejected).collect();
    let told: Vec<_> = shown.iter().map(|event| event.data["reason"].as_str().unwrap()).collect();
    assert_eq!(told, reasons);
    assert_eq!(shown[1].data["to_agent_id"], json!(nobody));
    assert!(shown.iter().all(|event| event.project_id.as_ref() == Some(&bench.project)));
    assert_eq!(inbox(&bench.cx).await.len(), 1, "and nothing else of them is kept");
    refused(&bench.cx, to(&bench, &nobody)).await;
    assert_eq!(events(&bench, EventKind::MessageRejected).len(), reasons.len() + 1);
}

/// S-220, S-221
#[tokio::test(start_paused = true)]
async fn messages_are_read_oldest_first_and_page_by_page() {
    let (bench, ann, bob) = two().await;
    for at in 0..INBOX_MAX {
        let body = format!("{at}");
        post(&bench.cx, PostMessage { body, ..to(&bench, if at == 0 { &ann } else { &bob }) })
            .await;
    }
    let bodies = |messages: &[MessageView]| -> Vec<String> {
        messages.iter().map(|message| message.body.clone()).collect()
    };
    let as_bob = agent(&bench, &bob);
    let page = as_bob.call(ReadMessages { limit: 2, ..ReadMessages::default() }).await.unwrap();
    assert_eq!((bodies(&page.messages), page.more), (vec!["1".into(), "2".into()], true));
    let after = Some(page.messages[1].sequence);
    let rest = as_bob.call(ReadMessages { after, ..ReadMessages::default() }).await.unwrap();
    assert_eq!((rest.messages.len(), rest.more), (29, false));
    let all = bench.call(ReadMessages::default()).await;
    assert_eq!((all.messages.len(), all.more), (32, false), "the user reads every agent's");
    let of_ann = ReadMessages { agent_id: Some(ann.clone()), ..ReadMessages::default() };
    assert_eq!(bodies(&bench.call(of_ann.clone()).await.messages), ["0"]);

    let error = as_bob.call(of_ann.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied, "another's inbox");
    assert_eq!(bodies(&agent(&bench, &ann).call(of_ann).await.unwrap().messages), ["0"]);
    let hook = caller(&bench, &ann, &bench.project, SessionKind::Hook);
    let error = hook.call(ReadMessages::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    let far = ReadMessages { after: Some(9_007_199_254_740_991), ..ReadMessages::default() };
    assert_eq!(as_bob.call(far).await.unwrap().messages, []);
}

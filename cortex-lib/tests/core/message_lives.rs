//! What becomes of messages: when they expire, what a repeat of a post gives, what a restart keeps and what is forgotten.

use std::collections::BTreeMap;

use cortex_lib::api::operator::{RemoveAgent, RemoveProject};
use cortex_lib::api::tool::{CancelTask, PauseObjective, PostMessage, StopAgent};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::message::{Addressee, Channel, Letter, MessageState, Purpose, Sender};
use cortex_lib::domain::objective::PausePolicy;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::{Code, Kind};
use cortex_lib::limits::{INBOX_MAX, MESSAGES_KEPT};
use cortex_lib::port::{Script, ScriptedRuntime, Verdict};
use cortex_lib::progress::{Post, Posted};
use futures_util::future::join_all;
use serde_json::json;

use crate::bench::{Setup, pass, secs, spec};
use crate::messages::{
    ack, agent, endless, events, in_objective, inbox, post, refused, running, to, to_attempt, two,
};

/// S-217
/// Messages: reply to an ended attempt → `recipient_unavailable`.
#[tokio::test(start_paused = true)]
async fn a_reply_to_an_ended_attempt_is_recipient_unavailable_and_what_waited_for_it_expires() {
    let bench = Setup::new().runtime(endless).open().await;
    let (ann, bob) = (bench.ready("ann").await, bench.agent("bob").await);
    let (objective, task_id, attempt) = running(&bench, &ann).await;
    let message = post(&bench.cx, to_attempt(&bench, &attempt)).await;
    assert_eq!((&message.to_agent_id, &message.to_execution_id), (&None, &Some(attempt.clone())));
    let in_channel =
        PostMessage { channel: Channel::Objective(objective), ..to_attempt(&bench, &attempt) };
    post(&bench.cx, in_channel).await;
    let stays = post(&bench.cx, to(&bench, &ann)).await;
    let as_ann = agent(&bench, &ann);
    assert_eq!(inbox(&as_ann).await.len(), 3, "its agent reads what is for the attempt");

    bench.call(CancelTask { task_id, reason: None }).await;
    assert_eq!(inbox(&as_ann).await, std::slice::from_ref(&stays));
    assert_eq!(ack(&as_ann, &message).await, Err(Code::MessageExpired));
    let expired = events(&bench, EventKind::MessageExpired);
    assert_eq!(expired.len(), 2);
    assert_eq!(expired[0].data["reason"], "attempt_ended");
    let error = refused(&agent(&bench, &bob), to_attempt(&bench, &attempt)).await;
    assert_eq!(error.code(), Code::MessageRecipientUnavailable);
    assert_eq!(error.code().kind(), Kind::StateConflict);
}

/// S-217
#[tokio::test(start_paused = true)]
async fn what_waits_for_an_attempt_expires_however_the_attempt_ends() {
    let ends = [
        "answer",
        "fails",
        "refused",
        "limited",
        "verified",
        "timed out",
        "cancelled",
        "paused",
        "stopped",
        "crashed",
        "core",
    ];
    for how in ends {
        let runtime = move |runtime: ScriptedRuntime| {
            let slowly = || Script::new().wait(secs(20));
            runtime.turn(move |_| match how {
                "answer" | "verified" => slowly().answer("done"),
                "fails" => slowly().fail(Cause::Transient, "it broke"),
                "refused" => slowly().fail(Cause::Refused, "log in"),
                "limited" => slowly().rate_limited(None),
                "crashed" => slowly().crash("it died"),
                _ => Script::new(),
            })
        };
        let mut setup = Setup::new().runtime(runtime);
        if how == "verified" {
            setup = setup.host(|host| host.verify(|_| Verdict::Pass(secs(60))));
        }
        let mut bench = setup.open().await;
        let ann = bench.ready("ann").await;
        let task = TaskSpec { timeout_secs: Some(30), ..spec("x", &[]) };
        let objective = bench.objective(vec![task]).await;
        let task_id = objective.tasks[0].task_id.clone();
        let task = bench.until_task(&task_id, TaskStatus::Running).await;
        let attempt = task.attempts[0].execution_id.clone();
        let message = post(&bench.cx, to_attempt(&bench, &attempt)).await;
        match how {
            "cancelled" => drop(bench.call(CancelTask { task_id, reason: None }).await),
            "stopped" => drop(bench.call(StopAgent { agent_id: ann.clone() }).await),
            "paused" => {
                let objective_id = objective.objective_id;
                let policy = PausePolicy::Interrupt;
                drop(bench.call(PauseObjective { objective_id, policy, reason: None }).await);
            }
            "core" => {
                let project = bench.project.clone();
                bench.cortex.shutdown().await.unwrap();
                drop(bench);
                bench = setup.reopen(&project).await;
            }
            _ => {}
        }
        let left = async || inbox(&bench.cx).await.is_empty().then_some(());
        bench.until(how, left).await;
        assert_eq!(ack(&bench.cx, &message).await, Err(Code::MessageExpired), "{how}");
        let told = events(&bench, EventKind::MessageExpired);
        assert_eq!(told.len(), 1, "{how}");
        assert_eq!(told[0].data["reason"], "attempt_ended", "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_posts_once_and_other_content_is_refused() {
    let (bench, ann, bob) = two().await;
    let as_ann = agent(&bench, &ann);
    let keyed = PostMessage { idempotency_key: Some("k".into()), ..to(&bench, &bob) };
    let first = post(&as_ann, keyed.clone()).await;
    for _ in 1..INBOX_MAX {
        post(&bench.cx, to(&bench, &bob)).await;
    }
    let again = as_ann.call(keyed.clone()).await.unwrap();
    assert_eq!((again.message, again.duplicate), (first.clone(), true), "though it is full now");
    ack(&bench.cx, &first).await.unwrap();
    let again = as_ann.call(keyed.clone()).await.unwrap();
    assert_eq!((again.message.status, again.duplicate), (MessageState::Acked, true));
    assert_eq!(events(&bench, EventKind::MessagePosted).len(), INBOX_MAX);

    let others = [
        PostMessage { body: "other".into(), ..keyed.clone() },
        PostMessage { ttl_secs: 61, ..keyed.clone() },
        PostMessage { purpose: Purpose::Reply, ..keyed.clone() },
        PostMessage { in_reply_to: Some(first.message_id.clone()), ..keyed.clone() },
    ];
    for other in others {
        let error = refused(&as_ann, other).await;
        assert_eq!(error.code(), Code::InvalidArguments);
        assert_eq!(error.problems()[0].path, "idempotency_key");
    }
    let users = bench.call(keyed.clone()).await;
    assert!(!users.duplicate, "a key is the sender's own");

    pass(secs(24 * 60 * 60)).await;
    let later = as_ann.call(keyed).await.unwrap();
    assert!(!later.duplicate, "the key is kept for the time to live");
    assert_ne!(later.message.message_id, first.message_id);
}

/// S-224
#[tokio::test(start_paused = true)]
async fn a_message_expires_at_the_end_of_its_time_and_one_that_was_acknowledged_does_not() {
    let (bench, _, bob) = two().await;
    let as_bob = agent(&bench, &bob);
    let short = PostMessage { ttl_secs: 60, ..to(&bench, &bob) };
    let kept = post(&bench.cx, short.clone()).await;
    let lost = post(&bench.cx, short).await;
    ack(&as_bob, &kept).await.unwrap();
    pass(secs(59)).await;
    assert_eq!(inbox(&as_bob).await, std::slice::from_ref(&lost));
    pass(secs(1)).await;
    assert_eq!(inbox(&as_bob).await, []);
    assert_eq!(ack(&as_bob, &lost).await, Err(Code::MessageExpired), "between read and ack");
    assert_eq!(ack(&bench.cx, &lost).await, Err(Code::MessageExpired));
    assert_eq!(ack(&as_bob, &kept).await.unwrap().status, MessageState::Acked);
    let told = async || Some(events(&bench, EventKind::MessageExpired)).filter(|e| !e.is_empty());
    let told = bench.until("the event", told).await;
    assert_eq!((told.len(), &told[0].data["reason"]), (1, &json!("time_over")));
    assert_eq!(told[0].data["message_id"], json!(lost.message_id));
}

/// S-217, S-218
#[tokio::test(start_paused = true)]
async fn a_message_frees_both_quotas_at_the_instant_it_expires() {
    let (bench, ann, bob) = two().await;
    let as_ann = agent(&bench, &ann);
    for _ in 0..INBOX_MAX {
        post(&as_ann, PostMessage { ttl_secs: 60, ..to(&bench, &bob) }).await;
    }
    assert_eq!(refused(&as_ann, to(&bench, &bob)).await.code(), Code::MessageInboxFull);
    let end = inbox(&bench.cx).await[0].expires_at;
    // By the clock alone: no row was told yet.
    let counts = |at| {
        let read = |tx: &cortex_lib::store::ReadTx<'_>| {
            Ok((tx.inbox_count(&bob, at)?, tx.sent_count(&ann, at)?))
        };
        bench.store.read(read).unwrap()
    };
    let before = cortex_lib::time::Timestamp::from_millis(end.as_millis() - 1);
    assert_eq!((counts(before), counts(end)), ((32, 32), (0, 0)));
    pass(secs(60)).await;
    post(&as_ann, to(&bench, &bob)).await;
}

/// S-217
#[tokio::test(start_paused = true)]
async fn an_inbox_goes_with_its_agent_and_what_the_agent_wrote_stays() {
    let (bench, ann, bob) = two().await;
    let lost = post(&bench.cx, to(&bench, &ann)).await;
    let stays = post(&agent(&bench, &ann), to(&bench, &bob)).await;
    bench.call(RemoveAgent { agent_id: ann.clone() }).await;
    assert_eq!(inbox(&bench.cx).await, [stays]);
    assert_eq!(ack(&bench.cx, &lost).await, Err(Code::MessageExpired));
    assert_eq!(events(&bench, EventKind::MessageExpired)[0].data["reason"], "reader_removed");
    assert_eq!(refused(&bench.cx, to(&bench, &ann)).await.code(), Code::AgentNotFound);
    let as_ann = agent(&bench, &ann);
    assert_eq!(refused(&as_ann, to(&bench, &bob)).await.code(), Code::MessageOutOfScope);

    bench.call(RemoveProject { project_id: bench.project.clone() }).await;
    assert_eq!(inbox(&bench.cx).await, []);
    assert_eq!(events(&bench, EventKind::MessageExpired).len(), 2);
    assert_eq!(refused(&bench.cx, to(&bench, &bob)).await.code(), Code::ProjectNotFound);
}

/// S-217
#[tokio::test(start_paused = true)]
async fn the_channel_of_an_objective_goes_with_its_project() {
    let bench = Setup::new().runtime(endless).open().await;
    let ann = bench.ready("ann").await;
    let (objective, task_id, _) = running(&bench, &ann).await;
    bench.call(CancelTask { task_id, reason: None }).await;
    bench.call(StopAgent { agent_id: ann.clone() }).await;
    bench.until_agent(&ann, AgentStatus::Stopped).await;
    post(&bench.cx, in_objective(&objective, &ann)).await;
    bench.call(RemoveProject { project_id: bench.project.clone() }).await;
    let error = refused(&bench.cx, in_objective(&objective, &ann)).await;
    assert_eq!(error.code(), Code::ObjectiveNotFound);
}

/// S-210, S-220
/// Messages: post → read → ack under races keeps order and loses none.
#[tokio::test(start_paused = true)]
async fn post_read_and_ack_under_races_keep_order_and_lose_none() {
    const EACH: usize = 60;
    let bench = Setup::new().open().await;
    let reader = bench.agent("reader").await;
    let mut senders = Vec::new();
    for name in ["ann", "bob", "cid", "dan"] {
        senders.push(agent(&bench, &bench.agent(name).await));
    }
    let post_all = senders.iter().map(async |cx| {
        for at in 0..EACH {
            let call = PostMessage {
                body: at.to_string(),
                idempotency_key: Some(format!("k{at}")),
                ..to(&bench, &reader)
            };
            // A caller that heard nothing asks again; both must be one message.
            loop {
                let (first, second) = tokio::join!(cx.call(call.clone()), cx.call(call.clone()));
                match (first, second) {
                    (Ok(first), Ok(second)) => {
                        assert_eq!(first.message.message_id, second.message.message_id);
                        break;
                    }
                    (Err(error), _) | (_, Err(error)) => {
                        assert_eq!(error.code(), Code::MessageInboxFull);
                        pass(secs(1)).await;
                    }
                }
            }
        }
    });
    let (as_reader, user) = (agent(&bench, &reader), &bench.cx);
    let read_all = async {
        let mut got = Vec::new();
        // As many looks as messages: each finds one at least, or none comes any more.
        for _ in 0..EACH * senders.len() {
            for message in inbox(&as_reader).await {
                // The user acknowledges at the same time: both hear the same.
                let (own, users) = tokio::join!(ack(&as_reader, &message), ack(user, &message));
                assert_eq!(own.unwrap(), users.unwrap());
                got.push(message);
            }
            pass(secs(1)).await;
        }
        got
    };
    let (got, _) = tokio::join!(read_all, join_all(post_all));
    assert!(got.is_sorted_by(|one, next| one.sequence < next.sequence), "in the order of the bus");
    let mut by_sender: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for message in &got {
        by_sender.entry(&message.from.agent_id).or_default().push(message.body.as_str());
    }
    let wanted: Vec<_> = (0..EACH).map(|at| at.to_string()).collect();
    assert_eq!(by_sender.len(), senders.len());
    assert!(by_sender.values().all(|bodies| *bodies == wanted), "{by_sender:?}");
    assert_eq!(events(&bench, EventKind::MessageAcked).len(), got.len());
}

/// One life of a core. When it is over without a farewell, everything in it stops on the spot.
fn life<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(work)
}

/// S-210, S-224
#[test]
fn a_restart_keeps_messages_and_keys_and_ends_what_was_for_an_attempt() {
    let mut setup = Setup::new().runtime(endless);
    setup.settings.agents.restore_on_open = false;
    let (project, ann, keyed, kept, acked) = life(async {
        let bench = setup.open().await;
        let ann = bench.ready("ann").await;
        let (_, _, attempt) = running(&bench, &ann).await;
        let keyed = PostMessage { idempotency_key: Some("k".into()), ..to(&bench, &ann) };
        let kept = post(&bench.cx, keyed.clone()).await;
        let acked = post(&bench.cx, to(&bench, &ann)).await;
        ack(&bench.cx, &acked).await.unwrap();
        post(&bench.cx, to_attempt(&bench, &attempt)).await;
        post(&bench.cx, PostMessage { ttl_secs: 600, ..to(&bench, &ann) }).await;
        setup.world.lose_core();
        (bench.project.clone(), ann, keyed, kept, acked)
    });
    // An hour later.
    life(async {
        let bench = setup.reopen(&project).await;
        assert_eq!(inbox(&agent(&bench, &ann)).await, std::slice::from_ref(&kept));
        let again = bench.call(keyed).await;
        assert_eq!((again.message, again.duplicate), (kept.clone(), true));
        assert_eq!(ack(&bench.cx, &acked).await.unwrap().status, MessageState::Acked);
        let told =
            async || Some(events(&bench, EventKind::MessageExpired)).filter(|e| e.len() == 2);
        let told = bench.until("both events", told).await;
        let reasons: Vec<_> = told.iter().map(|event| &event.data["reason"]).collect();
        assert_eq!(reasons, [&json!("attempt_ended"), &json!("time_over")]);
        let next = post(&bench.cx, to(&bench, &ann)).await;
        assert_eq!(next.sequence, kept.sequence + 4, "one numbering over all lives");
    });
}

#[tokio::test(start_paused = true)]
async fn old_messages_are_forgotten_but_not_what_waits_and_no_key_that_holds() {
    let (bench, _, bob) = two().await;
    let waits = post(&bench.cx, to(&bench, &bob)).await;
    let keyed = PostMessage { idempotency_key: Some("k".into()), ..to(&bench, &bob) };
    let held = post(&bench.cx, keyed.clone()).await;
    let gone = post(&bench.cx, to(&bench, &bob)).await;
    for message in [&held, &gone] {
        ack(&bench.cx, message).await.unwrap();
    }
    let (project, reader) = (bench.project.clone(), bob.clone());
    let filled = bench.store.write(move |tx| {
        for _ in 0..MESSAGES_KEPT {
            let letter = Letter {
                channel: Channel::Project(project.clone()),
                to: Addressee::Agent(reader.clone()),
                purpose: Purpose::Note,
                in_reply_to: None,
                body: "hi".into(),
                ttl_secs: 60,
            };
            let post = Post { from: Sender::User, letter, action: None, idempotency_key: None };
            let Posted::New(message) = tx.post_message(post)? else { panic!("refused") };
            tx.ack_message(&message.id, &Sender::User)?;
        }
        Ok(())
    });
    filled.await.unwrap();
    assert_eq!(ack(&bench.cx, &gone).await, Err(Code::MessageNotFound), "it is forgotten");
    assert_eq!(inbox(&agent(&bench, &bob)).await, std::slice::from_ref(&waits));
    assert!(bench.call(keyed.clone()).await.duplicate);
    let next = post(&bench.cx, to(&bench, &bob)).await;
    assert_eq!(next.sequence, waits.sequence + MESSAGES_KEPT + 3, "a number never comes twice");

    // A second more, so that the row was told, too.
    pass(secs(24 * 60 * 60 + 1)).await;
    assert!(!bench.call(keyed).await.duplicate, "the key went with its time");
    assert_eq!(ack(&bench.cx, &held).await, Err(Code::MessageNotFound), "and the message with it");
}

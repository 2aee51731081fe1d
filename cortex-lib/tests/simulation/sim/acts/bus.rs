//! The message bus, as the user and as agents use it.

use cortex_lib::api::tool::{AckMessage, ListTasks, PostMessage, ReadMessages};
use cortex_lib::api::view::AgentView;
use cortex_lib::api::{Caller, SessionCaller, SessionKind};
use cortex_lib::domain::agent::Role;
use cortex_lib::domain::message::{Addressee, Channel, Purpose};
use cortex_lib::ids::{MessageId, SessionId};

use crate::sim::hand::{Hand, MADE_UP};

/// More than an inbox holds.
const FLOOD: u64 = 36;

/// The user, or an agent that calls from its session.
async fn somebody(hand: &Hand) -> (Hand, Option<AgentView>) {
    let agents = hand.agents().await;
    let agent = hand.dice.pick(&agents).filter(|_| !hand.dice.once_in(3)).cloned();
    let caller = agent.as_ref().map_or(Caller::User, |agent| {
        Caller::Session(SessionCaller {
            kind: match agent.role {
                Role::Orchestrator => SessionKind::Orchestrator,
                Role::Worker => SessionKind::Agent,
            },
            agent_id: agent.agent_id.clone(),
            project_id: agent.project_id.clone(),
            session_id: SessionId::new(format!("of {}", agent.name)),
        })
    });
    (hand.acting_for(caller), agent)
}

/// A message to somebody, in a channel that may be the wrong one.
async fn letter(hand: &Hand) -> Option<PostMessage> {
    let agents = hand.agents().await;
    let objectives = hand.call(ListTasks {}).await?.objectives;
    let reader = hand.dice.pick(&agents)?;
    let open = objectives.iter().flat_map(|one| &one.tasks).flat_map(|task| &task.attempts);
    let live: Vec<_> = open.filter(|one| hand.dice.once_in(12) || one.ended_at.is_none()).collect();
    let to = match hand.dice.pick(&live).filter(|_| hand.dice.once_in(2)) {
        Some(attempt) => Addressee::Attempt(attempt.execution_id.clone()),
        None => Addressee::Agent(reader.agent_id.clone()),
    };
    let objective = hand.dice.pick(&objectives).filter(|_| hand.dice.once_in(4));
    let channel = match objective {
        Some(objective) => Channel::Objective(objective.objective_id.clone()),
        None => Channel::Project(reader.project_id.clone()),
    };
    let mut post = PostMessage::new(channel, to, format!("news {}", hand.dice.roll(1000)));
    post.ttl_secs = match hand.dice.roll(3) {
        0 => 60 + u32::try_from(hand.dice.roll(300)).unwrap(),
        1 => 3_000,
        _ => post.ttl_secs,
    };
    post.purpose = match hand.dice.roll(6) {
        0 => Purpose::Reply,
        1 => Purpose::Request { action: Some("list_tasks".into()) },
        2 => Purpose::Request { action: None },
        _ => Purpose::Note,
    };
    let known: Vec<_> = hand.told.borrow().posted.iter().cloned().collect();
    post.in_reply_to = hand.dice.pick(&known).filter(|_| hand.dice.once_in(6)).cloned();
    if hand.dice.once_in(3) {
        post.idempotency_key = Some(format!("key {}", hand.dice.roll(10_000)));
    }
    Some(post)
}

pub async fn post_message(hand: &Hand) {
    let (from, _) = somebody(hand).await;
    let Some(post) = letter(hand).await else { return };
    let keyed = post.idempotency_key.is_some();
    let Some(made) = from.call(post.clone()).await else { return };
    hand.told.borrow_mut().posted.insert(made.message.message_id.clone());
    if keyed && let Some(again) = from.call(post).await {
        hand.told.borrow_mut().posted.insert(again.message.message_id.clone());
        if again.message.message_id != made.message.message_id {
            hand.may_not("one key posted two messages");
        }
    }
}

/// Posts more than anybody may have waiting.
pub async fn flood(hand: &Hand) {
    let (from, _) = somebody(hand).await;
    let Some(mut post) = letter(hand).await else { return };
    post.idempotency_key = None;
    for _ in 0..FLOOD {
        let Some(made) = from.call(post.clone()).await else { return };
        hand.told.borrow_mut().posted.insert(made.message.message_id);
    }
}

pub async fn read_and_ack(hand: &Hand) {
    let (reader, agent) = somebody(hand).await;
    let limit = u8::try_from(1 + hand.dice.roll(32)).unwrap();
    let read = ReadMessages { after: None, limit, agent_id: None };
    let Some(seen) = reader.call(read).await else { return };
    let mut last = 0;
    for message in &seen.messages {
        if message.sequence <= last {
            hand.may_not("messages came out of order");
        }
        last = message.sequence;
    }
    if seen.more {
        let more = ReadMessages { after: Some(last), limit: 32, agent_id: None };
        if let Some(rest) = reader.call(more).await
            && rest.messages.iter().any(|message| message.sequence <= last)
        {
            hand.may_not("a message came twice");
        }
    }
    for message in seen.messages {
        if hand.dice.once_in(2) {
            continue;
        }
        let made_up = hand.dice.once_in(40);
        let message_id = if made_up { MessageId::new(MADE_UP) } else { message.message_id.clone() };
        if reader.call(AckMessage { message_id }).await.is_some() {
            hand.told.borrow_mut().acked.insert(message.message_id);
        }
    }
    // What is somebody else's cannot be taken out.
    if let Some(agent) = agent {
        let all = ReadMessages { after: None, limit: 32, agent_id: None };
        let Some(seen) = hand.call(all).await else { return };
        let theirs = |to: &Option<_>| to.as_ref().is_some_and(|to| *to != agent.agent_id);
        if let Some(other) = seen.messages.iter().find(|message| theirs(&message.to_agent_id))
            && reader.call(AckMessage { message_id: other.message_id.clone() }).await.is_some()
        {
            hand.may_not("an agent acknowledged what is not its own");
        }
    }
}

//! Agents, their turns, and what they call themselves.

use cortex_lib::api::operator::{
    CreateTerminalAgent, PauseAgent, RemoveAgent, RestartAgent, ResumeAgent,
};
use cortex_lib::api::tool::{
    CancelTask, CreateAgent, InterruptAgent, ListTasks, SendMessage, StartAgent, StopAgent,
    UpdateAgent,
};
use cortex_lib::api::{Caller, SessionCaller, SessionKind};
use cortex_lib::domain::agent::{AgentStatus as S, Role};
use cortex_lib::ids::{AgentId, ProjectId, RuntimeId, SessionId};
use futures_util::future::join;

use crate::sim::hand::Hand;
use crate::sim::world::RUNTIMES;

pub async fn create_agent(hand: &Hand) {
    if let Some(project) = hand.project().await {
        create(hand, project).await;
    }
}

/// An agent of a project.
pub async fn create(hand: &Hand, project_id: ProjectId) {
    let create = CreateAgent {
        project_id,
        name: format!("agent-{}", hand.dice.roll(9)),
        runtime_id: RuntimeId::new(*hand.dice.pick(&RUNTIMES).unwrap()),
        model: None,
        role: if hand.dice.once_in(15) { Role::Orchestrator } else { Role::Worker },
        instructions: None,
        skills: true,
    };
    if let Some(made) = hand.call(create).await {
        hand.told.borrow_mut().agents.insert(made.agent.agent_id);
    }
}

pub async fn update_agent(hand: &Hand) {
    let Some(agent_id) = hand.agent(&[S::Created, S::Stopped, S::Crashed, S::Failed]).await else {
        return;
    };
    let other = RuntimeId::new(*hand.dice.pick(&RUNTIMES).unwrap());
    let update = UpdateAgent {
        agent_id,
        name: Some(format!("agent-{}", hand.dice.roll(9))),
        runtime_id: hand.dice.once_in(3).then_some(other),
        model: hand.dice.once_in(3).then_some(None),
        instructions: hand.dice.once_in(3).then(|| Some("Be brief.".to_owned())),
        skills: None,
    };
    hand.call(update).await;
}

pub async fn start_agent(hand: &Hand) {
    if let Some(agent_id) = hand.agent(&[S::Created, S::Stopped, S::Crashed, S::Failed]).await {
        hand.call(StartAgent { agent_id }).await;
    }
}

pub async fn stop_agent(hand: &Hand) {
    if let Some(agent_id) = hand.agent(&[S::Ready, S::Busy, S::Starting]).await {
        hand.call(StopAgent { agent_id }).await;
    }
}

pub async fn restart_agent(hand: &Hand) {
    if let Some(agent_id) = hand.agent(&[S::Ready, S::Busy]).await {
        hand.call(RestartAgent { agent_id }).await;
    }
}

pub async fn pause_agent(hand: &Hand) {
    if let Some(agent_id) = hand.agent(&[S::Ready, S::Busy]).await {
        hand.call(PauseAgent { agent_id }).await;
    }
}

pub async fn resume_agent(hand: &Hand) {
    if let Some(agent_id) = hand.agent(&[S::Paused]).await {
        hand.call(ResumeAgent { agent_id }).await;
    }
}

pub async fn remove_agent(hand: &Hand) {
    let Some(agent_id) = hand.agent(&[S::Created, S::Stopped, S::Crashed]).await else { return };
    if hand.call(RemoveAgent { agent_id: agent_id.clone() }).await.is_some() {
        hand.told.borrow_mut().removed.insert(agent_id);
    }
}

/// An agent that a person works with in a terminal.
pub async fn create_terminal_agent(hand: &Hand) {
    let Some(project_id) = hand.project().await else { return };
    let create = CreateTerminalAgent {
        project_id,
        name: format!("agent-{}", hand.dice.roll(9)),
        runtime_id: RuntimeId::new(*hand.dice.pick(&RUNTIMES).unwrap()),
        model: None,
        instructions: None,
    };
    if let Some(made) = hand.call(create).await {
        hand.told.borrow_mut().agents.insert(made.agent.agent_id);
    }
}

pub async fn send_message(hand: &Hand) {
    if let Some(agent_id) = hand.agent(&[S::Ready]).await {
        say(hand, agent_id).await;
    }
}

/// Two messages at once: the second goes into the turn of the first, comes too late for it, or is refused.
pub async fn say_more(hand: &Hand) {
    if let Some(agent_id) = hand.agent(&[S::Ready]).await {
        join(say(hand, agent_id.clone()), say(hand, agent_id)).await;
    }
}

async fn say(hand: &Hand, agent_id: AgentId) {
    let message = {
        let mut told = hand.told.borrow_mut();
        told.sent += 1;
        format!("hello {}.", told.sent)
    };
    if hand.call(SendMessage { agent_id, message: message.clone() }).await.is_some() {
        hand.told.borrow_mut().delivered.insert(message);
    }
}

pub async fn interrupt_agent(hand: &Hand) {
    if let Some(agent_id) = hand.agent(&[S::Busy, S::Ready]).await {
        hand.call(InterruptAgent { agent_id }).await;
    }
}

/// An agent calls by itself, from a session that may be over: it may look, and decide nothing.
pub async fn call_as_agent(hand: &Hand) {
    let agents = hand.agents().await;
    let Some(agent) = hand.dice.pick(&agents) else { return };
    let session = SessionCaller {
        kind: SessionKind::Agent,
        agent_id: agent.agent_id.clone(),
        project_id: agent.project_id.clone(),
        session_id: SessionId::new(format!("of {}", agent.name)),
    };
    let theirs = hand.acting_for(Caller::Session(session));
    let seen = theirs.call(ListTasks {}).await;
    let tasks = seen.into_iter().flat_map(|list| list.objectives).flat_map(|one| one.tasks);
    let tasks: Vec<_> = tasks.map(|task| task.task_id).collect();
    let Some(task_id) = hand.dice.pick(&tasks).cloned() else { return };
    if theirs.call(CancelTask { task_id, reason: None }).await.is_some() {
        theirs.may_not("an agent cancelled a task");
    }
}

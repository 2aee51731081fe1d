//! Projects, runtimes and the core itself.

use std::path::PathBuf;

use cortex_lib::api::operator::{
    AddProject, CheckRuntimes, CoreStatus, RemoveProject, ResumeAgent, UpdateProject,
};
use cortex_lib::api::tool::{
    GetAgentStatus, GetTaskStatus, ListProjects, ListRuntimes, PollAgentEvents, StartAgent,
};
use cortex_lib::domain::verification::{Verification, VerificationCommand};

use super::agents::create;
use crate::sim::hand::Hand;

/// The folder of the only project that agents work in. It is there, and the same in every run.
pub fn root() -> PathBuf {
    dunce::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap()
}

/// Every folder that callers make a project of.
pub fn roots() -> [PathBuf; 2] {
    [root(), root().join("docs")]
}

fn checks() -> Verification {
    let command = VerificationCommand { argv: vec!["check".into()], name: None };
    Verification { commands: vec![command], timeout_secs: 600 }
}

/// Makes sure that there is a project with some agents.
pub async fn set_up(hand: &Hand) {
    let Some(list) = hand.call(ListProjects {}).await else { return };
    let known = list.projects.into_iter().find(|project| project.name == "p");
    let known = known.map(|project| project.project_id);
    let verification = (!hand.dice.once_in(3)).then(checks);
    let add = AddProject { name: "p".into(), root: root(), verification };
    let project = match known {
        Some(project) => project,
        None => match hand.call(add).await {
            Some(added) => added.project.project_id,
            None => return,
        },
    };
    hand.told.borrow_mut().projects.insert(project.clone());
    for _ in 0..4 {
        if hand.agents().await.len() >= 3 {
            break;
        }
        create(hand, project.clone()).await;
    }
    for agent in hand.agents().await {
        if !hand.dice.once_in(4) {
            hand.call(StartAgent { agent_id: agent.agent_id }).await;
        }
    }
}

/// Starts every agent and lets go of what holds them.
pub async fn start_all(hand: &Hand) {
    for agent in hand.agents().await {
        hand.call(ResumeAgent { agent_id: agent.agent_id.clone() }).await;
        hand.call(StartAgent { agent_id: agent.agent_id }).await;
    }
}

/// Reads this and that.
pub async fn look_around(hand: &Hand) {
    hand.call(CoreStatus {}).await;
    hand.call(ListRuntimes {}).await;
    hand.call(CheckRuntimes {}).await;
    if let Some(agent_id) = hand.agent(&[]).await {
        hand.call(GetAgentStatus { agent_id }).await;
    }
    if let Some(task) = hand.task(|_| true).await {
        hand.call(GetTaskStatus { task_id: task.task_id }).await;
    }
}

pub async fn poll_events(hand: &Hand) {
    let wait_ms = u32::try_from(hand.dice.roll(20_000)).unwrap();
    let agent_id = if hand.dice.once_in(3) { hand.agent(&[]).await } else { None };
    hand.call(PollAgentEvents { after: None, limit: 50, agent_id, wait_ms }).await;
}

/// Another project, in a folder of the first one. Nobody works there.
pub async fn add_project(hand: &Hand) {
    let folder = if hand.dice.once_in(3) { "nowhere" } else { "docs" };
    let root = root().join(folder);
    let add = AddProject { name: format!("p{}", hand.dice.roll(2)), root, verification: None };
    if let Some(added) = hand.call(add).await {
        hand.told.borrow_mut().projects.insert(added.project.project_id);
    }
}

pub async fn update_project(hand: &Hand) {
    let Some(project_id) = hand.project().await else { return };
    let verification = Some((!hand.dice.once_in(3)).then(checks));
    let trusted = Some(hand.dice.once_in(2));
    hand.call(UpdateProject { verification, trusted, ..UpdateProject::new(project_id) }).await;
}

/// Removes what nobody uses; the project with the agents is refused.
pub async fn remove_project(hand: &Hand) {
    let Some(list) = hand.call(ListProjects {}).await else { return };
    let any = hand.dice.once_in(4);
    let projects = list.projects.iter().filter(|project| any || project.name != "p");
    let projects: Vec<_> = projects.collect();
    let Some(project) = hand.dice.pick(&projects) else { return };
    let project_id = project.project_id.clone();
    if hand.call(RemoveProject { project_id: project_id.clone() }).await.is_some() {
        hand.told.borrow_mut().removed_projects.insert(project_id);
    }
}

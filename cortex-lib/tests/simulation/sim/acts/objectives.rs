//! Objectives.

use cortex_lib::api::tool::CreateObjective;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::plan::{Requirement, TaskSpec};
use cortex_lib::domain::schedule::Priority;

use crate::sim::hand::Hand;

pub async fn create_objective(hand: &Hand) {
    let Some(project_id) = hand.project().await else { return };
    let agents = hand.agents().await;
    let dice = &hand.dice;
    let count = 1 + dice.roll(3);
    let tasks = (0..count).map(|n| {
        let depends_on = (0..n).filter(|_| dice.once_in(3)).map(|on| format!("t{on}")).collect();
        let pin = dice.pick(&agents).filter(|_| dice.once_in(6));
        TaskSpec {
            key: format!("t{n}"),
            description: format!("Do t{n}."),
            // A plan that cannot hold is refused whole.
            depends_on: if dice.once_in(40) { vec!["t9".into()] } else { depends_on },
            max_retries: Some(u8::try_from(dice.roll(3)).unwrap()),
            timeout_secs: dice.once_in(4).then_some(30),
            requirements: match dice.roll(5) {
                0 | 1 => vec![Requirement::WorkspaceIsolation],
                2 => vec![Requirement::Capability(Capability::Interrupt)],
                _ => Vec::new(),
            },
            priority: if dice.once_in(4) { Priority::Urgent } else { Priority::Normal },
            paths: if dice.once_in(4) { vec!["src/**".into()] } else { Vec::new() },
            assigned_agent_id: pin.map(|agent| agent.agent_id.clone()),
            ..TaskSpec::default()
        }
    });
    let create = CreateObjective { project_id, title: "o".into(), tasks: tasks.collect() };
    if let Some(made) = hand.call(create).await {
        let mut told = hand.told.borrow_mut();
        told.objectives.insert(made.objective.objective_id);
        told.tasks.extend(made.objective.tasks.into_iter().map(|task| task.task_id));
    }
}

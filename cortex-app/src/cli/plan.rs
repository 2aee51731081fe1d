//! `cortex plan`: a goal becomes a draft that nobody keeps.

use clap::Args;
use cortex_lib::api::tool::{ListAgents, PlanObjective};
use cortex_lib::error::Result;

use super::goal::{self, Goal};
use super::screen::Screen;
use super::{Exit, Global, find, with_door};
use crate::run::draft;

/// Let the planner make a plan for a goal and print it as a file for `cortex run`.
///
/// Nothing is kept. With --json the draft is printed as the arguments of `create_objective`.
#[derive(Debug, Args)]
pub(super) struct Plan {
    #[command(flatten)]
    goal: Goal,
}

impl Plan {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        let goal = self.goal.text()?;
        with_door(global, async |door| {
            let project = find::project(door, &self.goal.project).await?;
            let project_id = project.project_id.clone();
            goal::say_that_it_takes_time(screen);
            let reply = door.call(PlanObjective { project_id: project_id.clone(), goal }).await?;
            if screen.is_json() {
                return screen.show(&reply.draft, |_| String::new());
            }
            let agents = door.call(ListAgents { project_id: Some(project_id) }).await?.agents;
            screen.line(&draft::file(&reply.draft, &project, &agents)?)
        })
        .await?;
        Ok(Exit::Done)
    }
}

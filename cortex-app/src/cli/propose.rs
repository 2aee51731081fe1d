//! `cortex propose`: a goal becomes a plan that waits for a decision.

use clap::Args;
use cortex_lib::api::tool::ProposeObjective;
use cortex_lib::error::Result;

use super::goal::{self, Goal};
use super::screen::Screen;
use super::{Exit, Global, find, proposal, with_door};

/// Let the planner make a plan for a goal; it waits until a person approves it
#[derive(Debug, Args)]
pub(super) struct Propose {
    #[command(flatten)]
    goal: Goal,
}

impl Propose {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        let goal = self.goal.text()?;
        with_door(global, async |door| {
            let project_id = find::project(door, &self.goal.project).await?.project_id;
            goal::say_that_it_takes_time(screen);
            let reply = door.call(ProposeObjective { project_id, goal }).await?;
            screen.show(&reply, |it| proposal::show(&it.proposal, |words| door.hint(words)))
        })
        .await?;
        Ok(Exit::Done)
    }
}

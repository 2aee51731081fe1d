//! What callers do. A new command is one function and one line of [`ACTS`]: the function draws its arguments from
//! what is there, calls, and notes in [`Told`](super::hand::Told) what must hold from then on.

use std::fmt;

use futures_util::future::LocalBoxFuture;

use super::dice::Dice;
use super::hand::Hand;

mod agents;
mod approvals;
mod bus;
mod connections;
mod files;
mod flow;
mod objectives;
mod plans;
mod projects;
mod tasks;

pub use files::integrate_all;
pub use flow::resume_all;
pub use projects::{root, roots, set_up, start_all};

/// Something that a caller does.
pub struct Act {
    pub name: &'static str,
    /// How often it is done, beside the others.
    weight: u64,
    run: for<'a> fn(&'a Hand) -> LocalBoxFuture<'a, ()>,
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Act {
    /// Does it.
    pub async fn run(&self, hand: &Hand) {
        (self.run)(hand).await;
    }
}

macro_rules! acts {
    ($($weight:literal $module:ident::$name:ident),+ $(,)?) => {
        &[$(Act {
            name: stringify!($name),
            weight: $weight,
            run: |hand| Box::pin($module::$name(hand)),
        }),+]
    };
}

/// Everything that callers do.
static ACTS: &[Act] = acts![
    1 projects::look_around,
    1 projects::poll_events,
    2 projects::add_project,
    1 projects::update_project,
    3 projects::remove_project,
    3 agents::create_agent,
    2 agents::update_agent,
    6 agents::start_agent,
    2 agents::stop_agent,
    2 agents::restart_agent,
    2 agents::pause_agent,
    2 agents::resume_agent,
    1 agents::remove_agent,
    5 agents::send_message,
    2 agents::say_more,
    1 agents::create_terminal_agent,
    4 agents::interrupt_agent,
    1 agents::call_as_agent,
    7 approvals::answer_approvals,
    4 approvals::keep_rules,
    1 approvals::try_rules,
    3 connections::decide_connections,
    14 objectives::create_objective,
    3 tasks::cancel_task,
    5 tasks::approve_task,
    6 tasks::retry_task,
    3 flow::pause_objective,
    4 flow::resume_objective,
    1 flow::cancel_objective,
    2 flow::reassign_task,
    1 plans::plan_objective,
    5 plans::propose_objective,
    2 plans::edit_proposal,
    3 plans::approve_proposal,
    3 plans::reject_proposal,
    5 bus::post_message,
    3 bus::flood,
    4 bus::read_and_ack,
    9 files::integrate_task,
    2 files::work_by_hand,
    4 files::meddle,
];

/// One of them, by their weights.
pub fn roll(dice: &Dice) -> &'static Act {
    let mut at = dice.roll(ACTS.iter().map(|act| act.weight).sum());
    for act in ACTS {
        match at.checked_sub(act.weight) {
            Some(rest) => at = rest,
            None => return act,
        }
    }
    unreachable!("the weights have a sum")
}

/// The one of this name.
pub fn named(name: &str) -> &'static Act {
    ACTS.iter().find(|act| act.name == name).unwrap()
}

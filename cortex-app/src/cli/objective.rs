//! `cortex objective`: goals, and whether their tasks may start.

use clap::{Args, Subcommand};
use cortex_lib::api::ObjectiveReply;
use cortex_lib::api::tool::{CancelObjective, ListTasks, PauseObjective, ResumeObjective};
use cortex_lib::api::view::{FlowStateView, ObjectiveView, TaskView};
use cortex_lib::domain::objective::PausePolicy;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::Result;

use super::screen::{Screen, card, cell, table, word};
use super::{Exit, Global, find, with_door, work};
use crate::door::Door;
use crate::run::words::Names;

/// Goals that are split into tasks
#[derive(Debug, Args)]
pub(super) struct Objective {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the objectives that have not ended
    List {
        /// Only those of this project, by name or id
        #[arg(long)]
        project: Option<String>,
        /// Those that have ended, too
        #[arg(long)]
        all: bool,
    },
    /// Show one objective: where its tasks stand and why
    Show(Which),
    /// Let none of its tasks start until it is resumed; what runs ends by itself
    Pause {
        #[command(flatten)]
        which: Which,
        /// Interrupt what runs; it runs again after the resume
        #[arg(long)]
        interrupt: bool,
        /// Why; kept with the event
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let its tasks start again
    Resume(Which),
    /// Cancel it for good, with all its tasks that have not ended
    Cancel {
        #[command(flatten)]
        which: Which,
        /// Why; kept with the decision about each task
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Debug, Args)]
struct Which {
    /// The objective, by id, or by title when it is the only one with it that has not ended
    objective: String,
}

impl Objective {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        with_door(global, async |door| self.action.run(door, screen).await).await?;
        Ok(Exit::Done)
    }
}

impl Action {
    async fn run(self, door: &Door, screen: Screen) -> Result<()> {
        let reply = match self {
            Self::List { project, all } => {
                return list(door, project.as_deref(), all, screen).await;
            }
            Self::Show(which) => ObjectiveReply { objective: which.find(door).await? },
            Self::Pause { which, interrupt, reason } => {
                let objective_id = which.find(door).await?.objective_id;
                let policy = if interrupt { PausePolicy::Interrupt } else { PausePolicy::Drain };
                door.call(PauseObjective { objective_id, policy, reason }).await?
            }
            Self::Resume(which) => {
                let objective_id = which.find(door).await?.objective_id;
                door.call(ResumeObjective { objective_id }).await?
            }
            Self::Cancel { which, reason } => {
                let objective_id = which.find(door).await?.objective_id;
                door.call(CancelObjective { objective_id, reason }).await?
            }
        };
        let names = Names::of(&reply.objective, work::agents(door).await?);
        screen.show(&reply, |reply| show(&reply.objective, &names, door))
    }
}

impl Which {
    async fn find(&self, door: &Door) -> Result<ObjectiveView> {
        find::objective(door, &self.objective).await
    }
}

async fn list(door: &Door, project: Option<&str>, all: bool, screen: Screen) -> Result<()> {
    let mut list = door.call(ListTasks {}).await?;
    if let Some(name) = project {
        let id = find::project(door, name).await?.project_id;
        list.objectives.retain(|objective| objective.project_id == id);
    }
    list.objectives.retain(|objective| all || objective.ended_at.is_none());
    screen.show(&list, |list| {
        let row = |objective: &ObjectiveView| {
            [
                cell(&objective.title),
                word(&objective.status),
                completed(objective),
                objective.objective_id.to_string(),
            ]
        };
        let none = "no objectives; `--all` lists those that have ended";
        table(["OBJECTIVE", "STATUS", "COMPLETED", "ID"], list.objectives.iter().map(row), none)
    })
}

fn completed(objective: &ObjectiveView) -> String {
    let completed = |task: &&TaskView| task.status == TaskStatus::Completed;
    let count = objective.tasks.iter().filter(completed).count();
    format!("{count} of {}", objective.tasks.len())
}

/// An objective with its tasks; what a person can do next is said in words that can be pasted.
pub(super) fn show(objective: &ObjectiveView, names: &Names, door: &Door) -> String {
    let flow = &objective.flow;
    let paused = (flow.state == FlowStateView::Paused).then(|| {
        let policy = flow.policy.as_ref().map(|policy| format!(" ({})", word(policy)));
        format!("by {} at {}{}", flow.changed_by, flow.changed_at, policy.unwrap_or_default())
    });
    let source = objective.source.as_ref().map(|source| format!("proposal {}", source.proposal_id));
    let head = card([
        ("objective", Some(objective.title.clone())),
        ("id", Some(objective.objective_id.to_string())),
        ("project", Some(objective.project_id.to_string())),
        ("status", Some(word(&objective.status))),
        ("paused", paused),
        ("completed", Some(completed(objective))),
        ("made from", source),
        ("created", Some(format!("{} by {}", objective.created_at, objective.created_by))),
        ("ended", objective.ended_at.map(|at| at.to_string())),
        ("next", next(objective, door)),
    ]);
    format!("{head}\n\n{}", work::tasks(objective, names))
}

fn next(objective: &ObjectiveView, door: &Door) -> Option<String> {
    let blocked = objective.tasks.iter().filter(|task| task.status == TaskStatus::Blocked);
    let mut steps: Vec<_> =
        blocked.map(|task| door.hint(&format!("task show {}", task.task_id))).collect();
    if objective.flow.state == FlowStateView::Paused {
        steps.push(door.hint(&format!("objective resume {}", objective.objective_id)));
    }
    (!steps.is_empty()).then(|| steps.join("\n"))
}

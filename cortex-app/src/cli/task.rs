//! `cortex task`: what is worked on, and the decisions that only a person makes.

use clap::{ArgGroup, Args, Subcommand};
use cortex_lib::api::tool::{
    ApproveTask, CancelTask, GetTaskStatus, IntegrateTask, ListTasks, ReassignTask, RetryTask,
};
use cortex_lib::api::view::{AttemptView, ObjectiveView, TaskView};
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::Result;

use super::screen::{Screen, card, cell, word};
use super::{Exit, Global, changes, find, with_door, work};
use crate::door::Door;
use crate::run::words::Names;

/// What is worked on, and what waits for a decision
#[derive(Debug, Args)]
pub(super) struct Task {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the tasks of objectives that have not ended
    List {
        /// Only those of this project, by name or id
        #[arg(long)]
        project: Option<String>,
        /// Those of ended objectives, too
        #[arg(long)]
        all: bool,
    },
    /// Show one task: its attempts, what was verified, why it waits
    Show {
        /// The task, by id, or by key when it is the only one with it
        task: String,
    },
    /// Accept the result of a blocked task
    Approve(Decide),
    /// Try a blocked task again
    Retry(Decide),
    /// Cancel a task and those that depend on it
    Cancel(Decide),
    /// Move a task that waits to another agent, or to any that can run it
    Reassign(Reassign),
    /// Stage the verified changes of a completed task that ran in a worktree of its own
    Integrate {
        /// The task, by id, or by key when it is the only one with it
        task: String,
    },
}

#[derive(Debug, Args)]
struct Decide {
    /// The task, by id, or by key when it is the only one with it
    task: String,
    /// Why; kept with the decision
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("to").required(true)),
    override_usage = "cortex task reassign [OPTIONS] <TASK> <AGENT|--any>"
)]
struct Reassign {
    /// The task, by id, or by key when it is the only one with it
    task: String,
    /// The only agent that may run it from now on, by name or id
    #[arg(group = "to")]
    agent: Option<String>,
    /// Any agent that can may run it
    #[arg(long, group = "to")]
    any: bool,
    /// Why; kept with the move
    #[arg(long)]
    reason: Option<String>,
}

impl Task {
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
            Self::Show { task } => {
                let task_id = find::task(door, &task).await?.task_id;
                door.call(GetTaskStatus { task_id }).await?
            }
            Self::Approve(Decide { task, reason }) => {
                let task = find::task(door, &task).await?;
                // Only what the person could see just now counts.
                let execution_id = task.attempts.into_iter().next_back().map(|it| it.execution_id);
                door.call(ApproveTask { task_id: task.task_id, execution_id, reason }).await?
            }
            Self::Retry(Decide { task, reason }) => {
                let task = find::task(door, &task).await?;
                let execution_id = task.attempts.into_iter().next_back().map(|it| it.execution_id);
                door.call(RetryTask { task_id: task.task_id, execution_id, reason }).await?
            }
            Self::Cancel(Decide { task, reason }) => {
                let task_id = find::task(door, &task).await?.task_id;
                door.call(CancelTask { task_id, reason }).await?
            }
            Self::Reassign(reassign) => door.call(reassign.command(door).await?).await?,
            Self::Integrate { task } => {
                let task_id = find::task(door, &task).await?.task_id;
                door.call(IntegrateTask { task_id }).await?
            }
        };
        let names = work::names_around(door, &reply.task).await?;
        screen.show(&reply, |reply| show(&reply.task, &names, door))
    }
}

impl Reassign {
    async fn command(self, door: &Door) -> Result<ReassignTask> {
        let task = find::task(door, &self.task).await?;
        let to_agent_id = match self.agent {
            // The name is looked for where the task is.
            Some(name) => {
                let project = task.project_id.as_str();
                Some(find::agent(door, &name, Some(project)).await?.agent_id)
            }
            None => None,
        };
        // Only what the person could see just now counts.
        let execution_id = task.attempts.into_iter().next_back().map(|it| it.execution_id);
        Ok(ReassignTask { task_id: task.task_id, to_agent_id, execution_id, reason: self.reason })
    }
}

async fn list(door: &Door, project: Option<&str>, all: bool, screen: Screen) -> Result<()> {
    let mut list = door.call(ListTasks {}).await?;
    if let Some(name) = project {
        let id = find::project(door, name).await?.project_id;
        list.objectives.retain(|objective| objective.project_id == id);
    }
    list.objectives.retain(|objective| all || objective.ended_at.is_none());
    let agents = work::agents(door).await?;
    screen.show(&list, |list| {
        if list.objectives.is_empty() {
            return "no objectives; `--all` lists those that have ended".to_owned();
        }
        let shown =
            list.objectives.iter().map(|one| objective(one, &Names::of(one, agents.clone())));
        shown.collect::<Vec<_>>().join("\n\n")
    })
}

fn objective(objective: &ObjectiveView, names: &Names) -> String {
    let (title, status) = (cell(&objective.title), word(&objective.status));
    format!("{title} ({status})\n{}", work::tasks(objective, names))
}

fn show(task: &TaskView, names: &Names, door: &Door) -> String {
    let result = task.result.as_ref().map(|result| result.text.clone());
    let next = match task.status {
        TaskStatus::Blocked => {
            let call = |what: &str| door.hint(&format!("task {what} {}", task.task_id));
            Some(["approve", "retry", "cancel"].map(call).join("\n"))
        }
        _ if changes::can_be_integrated(task) => {
            Some(door.hint(&format!("task integrate {}", task.task_id)))
        }
        _ => None,
    };
    let changed = task.result.as_ref().and_then(|result| result.changed_files.as_ref());
    let branch = task.workspace.as_ref().and_then(|workspace| workspace.branch.clone());
    let mut text = card([
        ("task", Some(format!("{}: {}", task.key, task.title))),
        ("id", Some(task.task_id.to_string())),
        ("objective", Some(task.objective_id.to_string())),
        ("status", Some(task.status.as_str().to_owned())),
        ("evidence", work::evidence(task).map(str::to_owned)),
        ("only", task.assigned_agent_id.as_ref().map(|id| names.agent(id).to_owned())),
        ("why", work::why(task, names)),
        ("next", next),
        ("branch", branch),
        ("changed", changed.map(|files| changes::files(files))),
        ("integrated", task.integration.as_ref().map(changes::integration)),
        ("result", result),
    ]);
    for attempt in &task.attempts {
        text.push_str("\n\n");
        text.push_str(&show_attempt(attempt, names));
    }
    text
}

fn show_attempt(attempt: &AttemptView, names: &Names) -> String {
    let verification = attempt.verification.as_ref().map(|verification| {
        let commands = verification.commands.iter().flatten().map(|command| {
            let code =
                command.exit_code.map_or_else(|| "ended".to_owned(), |code| code.to_string());
            format!("\n{}: exit code {code}\n{}", command.name, command.output.trim_end())
        });
        format!("{}{}", word(&verification.status), commands.collect::<String>())
    });
    let ended = attempt.ended_at.map(|at| at.to_string());
    card([
        ("attempt", Some(format!("{} ({})", attempt.number, word(&attempt.status)))),
        ("id", Some(attempt.execution_id.to_string())),
        ("agent", Some(format!("{} on {}", names.agent(&attempt.agent_id), attempt.runtime_id))),
        ("started", Some(attempt.started_at.to_string())),
        ("ended", ended),
        ("cause", attempt.cause.clone()),
        ("message", attempt.message.clone()),
        ("verification", verification),
    ])
}

//! `cortex agent`: who works.

use clap::{Args, Subcommand, ValueEnum};
use cortex_lib::api::AgentReply;
use cortex_lib::api::operator::{
    CreateTerminalAgent, PauseAgent, RemoveAgent, RestartAgent, ResumeAgent,
};
use cortex_lib::api::tool::{CreateAgent, ListAgents, ListProjects, StartAgent, StopAgent};
use cortex_lib::api::view::AgentView;
use cortex_lib::domain::agent::{self, Interaction};
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::RuntimeId;

use super::screen::{Screen, card, cell, table, word};
use super::{Exit, Global, attach, find, with_door};
use crate::door::Door;

/// Who works
#[derive(Debug, Args)]
pub(super) struct Agent {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the agents with their states
    List {
        /// Only those of this project, by name or id
        #[arg(long)]
        project: Option<String>,
    },
    /// Show one agent: what it does, why it last failed
    Show(Which),
    /// Create an agent; nothing runs until it is started
    Create(Create),
    /// Start an agent and wait until it is ready
    Start(Which),
    /// Stop an agent and wait until nothing of it runs
    Stop(Which),
    /// Let a ready agent take nothing new
    Pause(Which),
    /// Let a paused agent take work again
    Resume(Which),
    /// Stop an agent and start it again
    Restart(Which),
    /// Show the terminal of an agent in terminal mode and type into it; Ctrl-] leaves, and the agent goes on
    Attach(Which),
    /// Remove an agent that has no session
    Remove(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// The agent, by name or id
    agent: String,
    /// Its project, when several have an agent of that name
    #[arg(long)]
    project: Option<String>,
}

#[derive(Debug, Args)]
struct Create {
    /// Unique in its project
    name: String,
    /// The project it works in, by name or id
    #[arg(long)]
    project: String,
    /// What it runs on; `cortex doctor` lists the runtimes
    #[arg(long)]
    runtime: String,
    /// The model; the runtime's default when it is left out
    #[arg(long)]
    model: Option<String>,
    /// What it may be
    #[arg(long, value_enum, default_value_t = Role::Worker)]
    role: Role,
    /// Appended to the runtime's system prompt
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
    /// A person works with it in a terminal; it takes no messages and no tasks
    #[arg(long, conflicts_with = "role")]
    terminal: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    /// Runs tasks
    Worker,
    /// Coordinates others and never runs a task
    Orchestrator,
}

impl Agent {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        with_door(global, async |door| self.action.run(door, screen).await).await?;
        Ok(Exit::Done)
    }
}

impl Action {
    async fn run(self, door: &Door, screen: Screen) -> Result<()> {
        let reply = match self {
            Self::List { project } => return list(door, project.as_deref(), screen).await,
            Self::Show(which) => AgentReply { agent: which.find(door).await? },
            Self::Create(create) => create.call(door).await?,
            Self::Start(which) => {
                let agent_id = which.find(lasting(door)?).await?.agent_id;
                door.call(StartAgent { agent_id }).await?
            }
            Self::Restart(which) => {
                let agent_id = which.find(lasting(door)?).await?.agent_id;
                door.call(RestartAgent { agent_id }).await?
            }
            Self::Stop(which) => {
                let agent_id = which.find(door).await?.agent_id;
                door.call(StopAgent { agent_id }).await?
            }
            Self::Attach(which) => {
                let client = door.there().ok_or_else(|| alone(door))?;
                let agent = which.find(door).await?;
                return attach::attach(client, &agent, screen).await;
            }
            Self::Pause(which) => {
                let agent_id = which.find(door).await?.agent_id;
                door.call(PauseAgent { agent_id }).await?
            }
            Self::Resume(which) => {
                let agent_id = which.find(door).await?.agent_id;
                door.call(ResumeAgent { agent_id }).await?
            }
            Self::Remove(which) => {
                let agent = which.find(door).await?;
                let removed = door.call(RemoveAgent { agent_id: agent.agent_id }).await?;
                return screen.show(&removed, |_| format!("removed {}", agent.name));
            }
        };
        screen.show(&reply, |reply| show(&reply.agent))
    }
}

impl Which {
    async fn find(&self, door: &Door) -> Result<AgentView> {
        find::agent(door, &self.agent, self.project.as_deref()).await
    }
}

impl Create {
    async fn call(self, door: &Door) -> Result<AgentReply> {
        let project_id = find::project(door, &self.project).await?.project_id;
        if self.terminal {
            let create = CreateTerminalAgent {
                project_id,
                name: self.name,
                runtime_id: RuntimeId::new(self.runtime),
                model: self.model,
                instructions: self.instructions,
            };
            return door.call(create).await;
        }
        let create = CreateAgent {
            project_id,
            name: self.name,
            runtime_id: RuntimeId::new(self.runtime),
            model: self.model,
            role: match self.role {
                Role::Worker => agent::Role::Worker,
                Role::Orchestrator => agent::Role::Orchestrator,
            },
            instructions: self.instructions,
            skills: true,
        };
        door.call(create).await
    }
}

/// A core that goes on when this command ends. In another one a session would end with the command.
fn lasting(door: &Door) -> Result<&Door> {
    if door.is_there() { Ok(door) } else { Err(alone(door)) }
}

fn alone(door: &Door) -> Error {
    let message =
        "no core runs on this data directory, and an agent lives only as long as its core";
    Error::new(Code::CoreStopped, message)
        .remedy(format!("Run `{}`, leave it running, and call again.", door.hint("serve")))
}

async fn list(door: &Door, project: Option<&str>, screen: Screen) -> Result<()> {
    let project_id = match project {
        Some(name) => Some(find::project(door, name).await?.project_id),
        None => None,
    };
    let list = door.call(ListAgents { project_id }).await?;
    let projects = door.call(ListProjects {}).await?.projects;
    screen.show(&list, |list| {
        let row = |agent: &AgentView| {
            let project = projects.iter().find(|project| project.project_id == agent.project_id);
            [
                agent.name.clone(),
                project.map_or_else(String::new, |project| project.name.clone()),
                agent.runtime_id.to_string(),
                agent.state.as_str().to_owned(),
                agent.agent_id.to_string(),
                doing(agent).map_or_else(String::new, |text| cell(&text)),
            ]
        };
        let headings = ["NAME", "PROJECT", "RUNTIME", "STATE", "ID", "NOW"];
        table(headings, list.agents.iter().map(row), "no agents; `cortex agent create` makes one")
    })
}

/// What it does, or why it does nothing.
fn doing(agent: &AgentView) -> Option<String> {
    let current = agent.current.as_ref().and_then(|current| {
        let task = current.task_id.as_ref().map(|task| format!("task {task}"));
        task.or_else(|| current.turn_id.as_ref().map(|turn| format!("turn {turn}")))
    });
    current.or_else(|| agent.last_failure.as_ref().map(|failure| failure.message.clone()))
}

fn show(agent: &AgentView) -> String {
    let failure = agent.last_failure.as_ref().map(|failure| {
        format!(
            "{} ({})\nnext: {}\nin the log: {}, {}",
            failure.message, failure.code, failure.remediation, failure.correlation_id, failure.at
        )
    });
    let session = agent.session.as_ref().map(|session| {
        let pid = session.pid.map_or_else(String::new, |pid| format!("process {pid}, "));
        format!("{pid}since {}", session.started_at)
    });
    let current = agent.current.is_some().then(|| doing(agent)).flatten();
    card([
        ("agent", Some(agent.name.clone())),
        ("id", Some(agent.agent_id.to_string())),
        ("project", Some(agent.project_id.to_string())),
        ("runtime", Some(agent.runtime_id.to_string())),
        ("model", agent.model.clone()),
        ("role", Some(word(&agent.role))),
        ("in a", (agent.interaction == Interaction::Terminal).then(|| "terminal".to_owned())),
        ("state", Some(agent.state.as_str().to_owned())),
        ("now", current),
        ("session", session),
        ("last failure", failure),
    ])
}

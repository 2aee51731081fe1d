//! The command line. One file for each command.

mod agent;
mod approvals;
mod attach;
mod call;
mod changes;
mod completions;
mod config;
mod connection;
mod demo;
mod doctor;
mod edit;
mod events;
mod exit;
mod find;
mod global;
mod goal;
mod mcp;
mod message;
mod objective;
mod plan;
mod plan_text;
mod project;
mod proposal;
mod propose;
pub mod reference;
mod rules;
mod run;
mod screen;
mod serve;
mod task;
mod token;
mod tools;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use cortex_lib::error::Result;

use crate::door::Door;

pub use exit::Exit;
pub use global::Global;
pub use screen::Screen;

/// Orchestrates coding agents: durable objectives, tasks, sessions and evidence.
#[derive(Debug, Parser)]
#[command(name = "cortex", version, after_help = Exit::TABLE, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Demo(demo::Demo),
    Serve(serve::Serve),
    Project(project::Project),
    Agent(agent::Agent),
    Objective(objective::Objective),
    Task(task::Task),
    Plan(plan::Plan),
    Propose(propose::Propose),
    Proposal(proposal::Proposal),
    #[command(alias = "approval")]
    Approvals(approvals::Approvals),
    #[command(alias = "rule")]
    Rules(rules::Rules),
    Connection(connection::Connection),
    Message(message::Message),
    Events(events::Events),
    Call(call::Call),
    Tools(tools::Tools),
    Doctor(doctor::Doctor),
    Config(config::Configuration),
    Mcp(mcp::Mcp),
    Token(token::Token),
    Completions(completions::Completions),
}

impl Cli {
    /// Does what the command line says. Failures are told on standard error.
    pub async fn run(self) -> ExitCode {
        let screen = Screen::new(self.global.json);
        let exit = self.command.run(&self.global, screen).await.unwrap_or_else(|error| {
            screen.fail(&error);
            Exit::after(&error)
        });
        exit.into()
    }
}

impl Command {
    async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        match self {
            Self::Demo(command) => command.run(global).await,
            Self::Serve(command) => command.run(global, screen).await,
            Self::Project(command) => command.run(global, screen).await,
            Self::Agent(command) => command.run(global, screen).await,
            Self::Objective(command) => command.run(global, screen).await,
            Self::Task(command) => command.run(global, screen).await,
            Self::Plan(command) => command.run(global, screen).await,
            Self::Propose(command) => command.run(global, screen).await,
            Self::Proposal(command) => command.run(global, screen).await,
            Self::Approvals(command) => command.run(global, screen).await,
            Self::Rules(command) => command.run(global, screen).await,
            Self::Connection(command) => command.run(global, screen).await,
            Self::Message(command) => command.run(global, screen).await,
            Self::Events(command) => command.run(global, screen).await,
            Self::Call(command) => command.run(global, screen).await,
            Self::Tools(command) => command.run(screen),
            Self::Doctor(command) => command.run(global, screen).await,
            Self::Config(command) => command.run(global, screen),
            Self::Mcp(command) => command.run(global, screen).await,
            Self::Token(command) => command.run(global, screen),
            Self::Completions(command) => command.run(screen),
            Self::Run(command) => Ok(command.run(global).await),
        }
    }
}

/// Does `work` with a core, and leaves the core afterwards, however the work ended.
async fn with_door<T>(global: &Global, work: impl AsyncFnOnce(&Door) -> Result<T>) -> Result<T> {
    let door = Door::open(global).await?;
    let done = work(&door).await;
    let closed = door.close().await;
    // What made the work fail is the news.
    let done = done?;
    closed.map(|()| done)
}

//! `cortex rules`: who answers the tool requests of agents without asking you.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use cortex_lib::api::RuleList;
use cortex_lib::api::operator::test_rules::{RuleTest, TestedRequest};
use cortex_lib::api::operator::{ListRules, MoveRule, PutRule, RemoveRule, TestRules};
use cortex_lib::api::view::RuleView;
use cortex_lib::domain::approval::{Decide, Rule, Unmatched};
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::ProjectId;

use super::screen::{Screen, cell, table, word};
use super::{Exit, Global, find, with_door};
use crate::door::Door;

/// Who answers the tool requests of agents without asking you
///
/// The first rule that matches decides: the built-in one, those of the project, those of config.json; without one
/// approvals.default does.
#[derive(Debug, Args)]
pub(super) struct Rules {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the rules that count for a project, in order
    List(Project),
    /// Add a rule to a project, or change the one of that name
    Add(Add),
    /// Move a rule of a project to another place among its rules
    Move {
        #[command(flatten)]
        project: Project,
        /// The rule
        id: String,
        /// Its new place; the first is 1
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
        place: u32,
    },
    /// Remove a rule of a project
    Remove {
        #[command(flatten)]
        project: Project,
        /// The rule
        id: String,
    },
    /// Try rules on past requests without changing anything
    Test {
        #[command(flatten)]
        project: Project,
        /// Try the rules of this file instead of the project's: JSON, a list as under approvals.rules
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Only the requests of this agent, by name or id
        #[arg(long)]
        agent: Option<String>,
        /// How many of the newest requests are tried
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Show also those that would be decided as they were
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
struct Project {
    /// The project, by name or id
    project: String,
}

#[derive(Debug, Args)]
struct Add {
    #[command(flatten)]
    project: Project,
    /// The name of the rule
    id: String,
    /// What it decides
    #[arg(value_enum)]
    decide: Verb,
    /// The tool by its runtime's name, as a pattern: Bash, 'mcp__*'
    tool: String,
    /// A pattern for the arguments: 'cargo test*'
    #[arg(long, value_name = "PATTERN")]
    input: Option<String>,
    /// Only for this agent of the project, by name
    #[arg(long)]
    agent: Option<String>,
    /// Its place among the rules of the project; the first is 1. Default: the last
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    place: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Verb {
    /// The tool may run
    Allow,
    /// It may not
    Deny,
    /// You decide each time
    Ask,
}

impl From<Verb> for Decide {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Allow => Self::Allow,
            Verb::Deny => Self::Deny,
            Verb::Ask => Self::Ask,
        }
    }
}

impl Rules {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        with_door(global, async |door| self.action.act(door, screen).await).await?;
        Ok(Exit::Done)
    }
}

impl Project {
    async fn find(&self, door: &Door) -> Result<ProjectId> {
        Ok(find::project(door, &self.project).await?.project_id)
    }
}

impl Action {
    async fn act(&self, door: &Door, screen: Screen) -> Result<()> {
        let list = match self {
            Self::List(project) => {
                door.call(ListRules { project_id: project.find(door).await? }).await?
            }
            Self::Add(add) => {
                let rule = Rule {
                    id: add.id.clone(),
                    tool: add.tool.clone(),
                    input: add.input.clone(),
                    agent: add.agent.clone(),
                    decide: add.decide.into(),
                };
                let project_id = add.project.find(door).await?;
                door.call(PutRule { project_id, rule, place: add.place }).await?
            }
            Self::Move { project, id, place } => {
                let (project_id, id) = (project.find(door).await?, id.clone());
                door.call(MoveRule { project_id, id, place: *place }).await?
            }
            Self::Remove { project, id } => {
                let (project_id, id) = (project.find(door).await?, id.clone());
                door.call(RemoveRule { project_id, id }).await?
            }
            Self::Test { project, file, agent, limit, all } => {
                let agent_id = match agent {
                    Some(name) => {
                        Some(find::agent(door, name, Some(&project.project)).await?.agent_id)
                    }
                    None => None,
                };
                let rules = file.as_ref().map(read_rules).transpose()?;
                let project_id = project.find(door).await?;
                let test = TestRules { project_id, agent_id, rules, limit: *limit };
                let tested = door.call(test).await?;
                return screen.show(&tested, |tested| outcome(tested, *all));
            }
        };
        screen.show(&list, rules)
    }
}

/// The rules of a file.
fn read_rules(path: &PathBuf) -> Result<Vec<Rule>> {
    let wrong = |why: String| {
        Error::new(Code::InvalidArguments, format!("{}: {why}", path.display()))
            .remedy("Write a list of rules as under approvals.rules in config.json.")
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

fn rules(list: &RuleList) -> String {
    let row = |rule: &RuleView| {
        [
            rule.position.to_string(),
            word(&rule.decide),
            cell(&rule.id),
            cell(&rule.tool),
            rule.input.as_deref().map(cell).unwrap_or_default(),
            rule.agent.as_deref().map(cell).unwrap_or_default(),
            word(&rule.origin),
        ]
    };
    let headings = ["#", "DECIDES", "RULE", "TOOL", "INPUT", "AGENT", "FROM"];
    let rest = match list.default {
        Unmatched::Ask => "You are asked about everything else.",
        Unmatched::Deny => "Everything else is denied.",
    };
    format!("{}\n{rest}", table(headings, list.rules.iter().map(row), ""))
}

/// What would be decided, by which rule, and what was.
fn outcome(tested: &RuleTest, all: bool) -> String {
    let row = |one: &TestedRequest| {
        let then = match &one.decided_by {
            Some(by) => format!("{} by {by}", one.state.as_str()),
            None => one.state.as_str().to_owned(),
        };
        [
            if one.differs { "*" } else { "" }.to_owned(),
            cell(&one.tool),
            cell(&one.summary),
            cell(&then),
            cell(&one.now.reason),
        ]
    };
    let shown = tested.requests.iter().filter(|one| all || one.differs);
    let headings = ["", "TOOL", "WHAT", "THEN", "NOW"];
    let (count, differ) = (tested.requests.len(), tested.differ);
    let sum = format!("{differ} of {count} requests would be decided differently.");
    format!("{}\n{sum}", table(headings, shown.map(row), "")).trim_start().to_owned()
}

//! `cortex project`: the folders that agents work in.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand};
use cortex_lib::api::ProjectReply;
use cortex_lib::api::operator::{AddProject, RemoveProject, UpdateProject};
use cortex_lib::api::tool::ListProjects;
use cortex_lib::api::view::ProjectView;
use cortex_lib::domain::verification::{Verification, VerificationCommand};
use cortex_lib::error::{Code, Error, Problem, Result};
use fs_err as fs;

use super::screen::{Screen, card, table};
use super::{Exit, Global, find, with_door};

/// The folders that agents work in
#[derive(Debug, Args)]
pub(super) struct Project {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Register a folder as a project
    Add {
        /// Unique among projects
        name: String,
        /// Its folder; it must exist
        root: PathBuf,
    },
    /// List the projects
    List,
    /// Remove a project with its agents; its files are never touched
    Remove {
        /// The project, by name or id
        project: String,
    },
    /// Set the commands that decide whether a result holds
    SetVerification(SetVerification),
    /// Let what its folder brings for a coding CLI count: settings, hooks and MCP servers. They run as you, unasked
    Trust {
        /// The project, by name or id
        project: String,
    },
    /// Let nothing count any more that its folder brings for a coding CLI. Sessions that live keep what they have
    Untrust {
        /// The project, by name or id
        project: String,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true)))]
struct SetVerification {
    /// The project, by name or id
    project: String,
    /// No verification any more: results wait for a person
    #[arg(long, group = "what")]
    clear: bool,
    /// Several commands, from a JSON file: `{"commands":[{"argv":["cargo","test"]}],"timeout_secs":600}`
    #[arg(long, value_name = "FILE", group = "what")]
    file: Option<PathBuf>,
    /// Seconds for the command
    #[arg(long, value_name = "SECS", default_value_t = 600, conflicts_with_all = ["file", "clear"])]
    timeout: u32,
    /// One command and its arguments, behind `--`; no shell takes part
    #[arg(last = true, value_name = "COMMAND", group = "what")]
    command: Vec<String>,
}

impl Project {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        match self.action {
            Action::Add { name, root } => {
                let root = absolute(&root)?;
                let added = with_door(global, async |door| {
                    door.call(AddProject { name, root, verification: None }).await
                });
                screen.show(&added.await?, |reply| show(&reply.project))?;
            }
            Action::List => {
                let list = with_door(global, async |door| door.call(ListProjects {}).await).await?;
                screen.show(&list, |list| rows(&list.projects))?;
            }
            Action::Remove { project } => {
                let removed = with_door(global, async |door| {
                    let project_id = find::project(door, &project).await?.project_id;
                    door.call(RemoveProject { project_id }).await
                });
                screen.show(&removed.await?, |reply| format!("removed {}", reply.project.name))?;
            }
            Action::SetVerification(set) => {
                let verification = set.verification()?;
                let set_it = |update| UpdateProject { verification: Some(verification), ..update };
                let updated = update(global, &set.project, set_it).await?;
                screen.show(&updated, |reply| show(&reply.project))?;
            }
            Action::Trust { project } => {
                let trust = |update| UpdateProject { trusted: Some(true), ..update };
                let updated = update(global, &project, trust).await?;
                screen.show(&updated, |reply| show(&reply.project))?;
            }
            Action::Untrust { project } => {
                let untrust = |update| UpdateProject { trusted: Some(false), ..update };
                let updated = update(global, &project, untrust).await?;
                screen.show(&updated, |reply| show(&reply.project))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Changes a project.
async fn update(
    global: &Global,
    project: &str,
    change: impl FnOnce(UpdateProject) -> UpdateProject,
) -> Result<ProjectReply> {
    with_door(global, async |door| {
        let project_id = find::project(door, project).await?.project_id;
        door.call(change(UpdateProject::new(project_id))).await
    })
    .await
}

impl SetVerification {
    fn verification(&self) -> Result<Option<Verification>> {
        let invalid =
            |why: String| Error::invalid(Code::InvalidArguments, vec![Problem::new("--file", why)]);
        if let Some(file) = &self.file {
            let text = fs::read_to_string(file).map_err(|error| invalid(error.to_string()))?;
            let value = serde_json::from_str(&text)
                .map_err(|error| invalid(format!("is no JSON: {error}")))?;
            return cortex_lib::api::read(value).map(Some);
        }
        Ok((!self.clear).then(|| Verification {
            commands: vec![VerificationCommand { argv: self.command.clone(), name: None }],
            timeout_secs: self.timeout,
        }))
    }
}

/// A folder as the core wants it; people give it from where they are.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| {
        let problem = Problem::new("ROOT", format!("is no folder: {error}"));
        Error::invalid(Code::InvalidArguments, vec![problem])
    })
}

fn rows(projects: &[ProjectView]) -> String {
    let row = |project: &ProjectView| {
        [
            project.name.clone(),
            project.root.display().to_string(),
            if project.is_git_repository { "git" } else { "" }.to_owned(),
            verification(project).unwrap_or_else(|| "none".to_owned()),
            project.project_id.to_string(),
        ]
    };
    let headings = ["NAME", "ROOT", "GIT", "VERIFICATION", "ID"];
    table(
        headings,
        projects.iter().map(row),
        "no projects; `cortex project add NAME ROOT` adds one",
    )
}

fn show(project: &ProjectView) -> String {
    card([
        ("project", Some(project.name.clone())),
        ("id", Some(project.project_id.to_string())),
        ("root", Some(project.root.display().to_string())),
        ("git", Some(if project.is_git_repository { "yes" } else { "no" }.to_owned())),
        ("verification", Some(verification(project).unwrap_or_else(|| "none".to_owned()))),
        ("trusted", Some(if project.trusted { "yes" } else { "no" }.to_owned())),
    ])
}

fn verification(project: &ProjectView) -> Option<String> {
    let commands = &project.verification.as_ref()?.commands;
    let text = |command: &VerificationCommand| match &command.name {
        Some(name) => name.clone(),
        None => command.argv.join(" "),
    };
    Some(commands.iter().map(text).collect::<Vec<_>>().join("; "))
}

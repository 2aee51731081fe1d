//! `cortex proposal`: plans that wait for a person.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cortex_lib::api::ProposalReply;
use cortex_lib::api::tool::{ApproveProposal, ListProposals, RejectProposal};
use cortex_lib::api::view::{ProposalView, SourceKind};
use cortex_lib::domain::proposal::ProposalStatus;
use cortex_lib::error::{Code, Error, Result};

use super::edit::{self, Written};
use super::screen::{Screen, card, cell, table, word};
use super::{Exit, Global, find, objective, plan_text, with_door, work};
use crate::door::Door;
use crate::program::{Program, path_word};
use crate::run::words::Names;

/// Plans that wait for a decision
#[derive(Debug, Args)]
pub(super) struct Proposal {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the proposals that wait for a decision
    List {
        /// Only those for this project, by name or id
        #[arg(long)]
        project: Option<String>,
        /// Those that were decided, too
        #[arg(long)]
        all: bool,
    },
    /// Show one proposal with its plan
    Show(Which),
    /// Make an objective of its plan: its tasks start as soon as agents take them
    Approve(Which),
    /// Turn it down for good
    Reject {
        #[command(flatten)]
        which: Which,
        /// Why; kept with the decision
        #[arg(long)]
        reason: Option<String>,
    },
    /// Replace its plan by one of your own, which waits as the next revision.
    ///
    /// Opens the plan as TOML in the editor of VISUAL or EDITOR. What is refused stays in its file, which is named, and
    /// the same command opens it again. Of two edits of one revision only the first wins.
    Edit(Edit),
}

#[derive(Debug, Args)]
struct Which {
    /// The proposal, by id, or by title when it is the only one with it that waits
    proposal: String,
}

#[derive(Debug, Args)]
struct Edit {
    #[command(flatten)]
    which: Which,
    /// Take the whole new plan from this file instead: TOML, or JSON when it is called *.json
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Proposal {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        match self.action {
            Action::List { project, all } => {
                let list = async |door: &Door| list(door, project.as_deref(), all, screen).await;
                with_door(global, list).await?;
            }
            Action::Show(which) => {
                let show = async |door: &Door| {
                    let reply = ProposalReply { proposal: which.find(door).await? };
                    screen.show(&reply, |it| show(&it.proposal, |words| door.hint(words)))
                };
                with_door(global, show).await?;
            }
            Action::Approve(which) => {
                with_door(global, async |door| which.approve(door, screen).await).await?;
            }
            Action::Reject { which, reason } => {
                let reject = async |door: &Door| {
                    let proposal_id = which.find(door).await?.proposal_id;
                    let reply = door.call(RejectProposal { proposal_id, reason }).await?;
                    screen.show(&reply, |it| show(&it.proposal, |words| door.hint(words)))
                };
                with_door(global, reject).await?;
            }
            // It opens a core only to look and to give: none waits while a person writes.
            Action::Edit(edit) => edit.run(global, screen).await?,
        }
        Ok(Exit::Done)
    }
}

impl Which {
    async fn find(&self, door: &Door) -> Result<ProposalView> {
        find::proposal(door, &self.proposal).await
    }

    async fn approve(&self, door: &Door, screen: Screen) -> Result<()> {
        let proposal_id = self.find(door).await?.proposal_id;
        let approved = door.call(ApproveProposal { proposal_id }).await?;
        let names = Names::of(&approved.objective, work::agents(door).await?);
        screen.show(&approved, |it| objective::show(&it.objective, &names, door))
    }
}

impl Edit {
    async fn run(self, global: &Global, screen: Screen) -> Result<()> {
        let proposal = with_door(global, async |door| self.which.find(door).await).await?;
        check_waits(&proposal)?;
        let written = match &self.file {
            Some(file) => Written::read(file)?,
            None => edit::in_editor(&proposal, &global.data_dir()?)?,
        };
        let program = global.program();
        let reply = take(global, &proposal, &written)
            .await
            .map_err(|error| refused(error, &proposal, &written, &program))?;
        if self.file.is_none() {
            // What stays is opened by nobody again: its revision takes no edit any more.
            drop(fs_err::remove_file(&written.file));
        }
        if reply.proposal.proposal_id == proposal.proposal_id {
            screen.note("The plan is as it was: nothing was changed.");
        }
        screen.show(&reply, |reply| show(&reply.proposal, |words| program.call(words)))
    }
}

/// Gives the core what was written, unless that is the plan as it was.
async fn take(
    global: &Global,
    proposal: &ProposalView,
    written: &Written,
) -> Result<ProposalReply> {
    let edit = written.edit(proposal)?;
    if edit.plan == proposal.plan {
        return Ok(ProposalReply { proposal: proposal.clone() });
    }
    with_door(global, async |door| door.call(edit).await).await
}

/// Nobody writes for nothing. The core decides all the same: it may be decided meanwhile.
fn check_waits(proposal: &ProposalView) -> Result<()> {
    let id = &proposal.proposal_id;
    match (proposal.state, &proposal.superseded_by) {
        (ProposalStatus::Pending, _) => Ok(()),
        (ProposalStatus::Superseded, Some(newer)) => {
            let message = format!("proposal {id} was edited: {newer} took its place");
            Err(Error::new(Code::ProposalSuperseded, message))
        }
        (state, _) => {
            let message = format!("proposal {id} is {}", state.as_str());
            Err(Error::new(Code::ProposalAlreadyDecided, message))
        }
    }
}

/// What a person wrote is never lost: the refusal says where it is.
fn refused(error: Error, proposal: &ProposalView, written: &Written, program: &Program) -> Error {
    let file = path_word(&written.file);
    let again = program.call(&format!("proposal edit {} --file {file}", proposal.proposal_id));
    let file = written.file.display();
    let error = written.refused(error);
    let remedy = if proposal_is_over(&error) {
        format!("{} What you wrote is in {file}.", error.remediation())
    } else {
        format!("What you wrote is in {file}. Correct it there and give it again: {again}")
    };
    error.remedy(remedy)
}

fn proposal_is_over(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::ProposalNotFound | Code::ProposalSuperseded | Code::ProposalAlreadyDecided
    )
}

async fn list(door: &Door, project: Option<&str>, all: bool, screen: Screen) -> Result<()> {
    let project_id = match project {
        Some(name) => Some(find::project(door, name).await?.project_id),
        None => None,
    };
    let state = (!all).then_some(ProposalStatus::Pending);
    let list = door.call(ListProposals { project_id, state }).await?;
    screen.show(&list, |list| {
        let row = |proposal: &ProposalView| {
            [
                cell(&proposal.plan.title),
                proposal.state.as_str().to_owned(),
                proposal.revision.to_string(),
                proposal.plan.tasks.len().to_string(),
                proposal.proposal_id.to_string(),
                cell(&proposal.goal),
            ]
        };
        let none = "no proposals wait; `--all` lists those that were decided";
        let headings = ["PROPOSAL", "STATE", "REVISION", "TASKS", "ID", "GOAL"];
        table(headings, list.proposals.iter().map(row), none)
    })
}

/// A proposal with its plan. `hint` makes words a call that can be pasted.
pub(super) fn show(proposal: &ProposalView, hint: impl Fn(&str) -> String) -> String {
    let source = match (proposal.source.kind, &proposal.source.runtime_id) {
        (SourceKind::Planner, Some(runtime)) => format!("the planner on {runtime}"),
        (SourceKind::Planner, None) => "the planner".to_owned(),
        (SourceKind::Operator, _) => "you".to_owned(),
    };
    let previous = proposal.previous.as_ref().map(|id| format!(", instead of {id}"));
    let decided = proposal.resolution.as_ref().map(|resolution| {
        let reason = resolution.reason.as_ref().map(|reason| format!(": {reason}"));
        format!("by {} at {}{}", resolution.by, resolution.at, reason.unwrap_or_default())
    });
    let became = proposal.resolution.as_ref().and_then(|it| it.objective_id.as_ref());
    let next = (proposal.state == ProposalStatus::Pending).then(|| {
        let step = |what| hint(&format!("proposal {what} {}", proposal.proposal_id));
        ["approve", "edit", "reject"].map(step).join("\n")
    });
    let head = card([
        ("proposal", Some(proposal.plan.title.clone())),
        ("id", Some(proposal.proposal_id.to_string())),
        (
            "revision",
            Some(format!("{} by {source}{}", proposal.revision, previous.unwrap_or_default())),
        ),
        ("project", Some(proposal.project_id.to_string())),
        ("goal", Some(proposal.goal.clone())),
        ("state", Some(word(&proposal.state))),
        ("newer", proposal.superseded_by.as_ref().map(ToString::to_string)),
        ("decided", decided),
        ("objective", became.map(ToString::to_string)),
        ("next", next),
    ]);
    format!("{head}\n\n{}", plan_text::plan(&proposal.plan))
}

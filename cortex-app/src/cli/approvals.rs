//! `cortex approvals`: what agents want to use and ask, and the person who answers.

use clap::{Args, Subcommand};
use cortex_lib::api::ApprovalReply;
use cortex_lib::api::operator::{
    AllowApproval, AlwaysAllowApproval, AnswerApproval, DenyApproval, GetApproval, ListApprovals,
};
use cortex_lib::api::view::ApprovalView;
use cortex_lib::domain::approval::{Answers, ApprovalStatus, Question};
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::ApprovalId;

use super::screen::{Screen, card, cell, pretty, table, word};
use super::{Exit, Global, find, with_door};
use crate::door::Door;
use crate::run::{self, words};

/// What agents want to use and ask
#[derive(Debug, Args)]
pub(super) struct Approvals {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the requests that wait for you
    List {
        /// Only those of this project, by name or id
        #[arg(long)]
        project: Option<String>,
        /// Only those of this agent, by name or id
        #[arg(long)]
        agent: Option<String>,
        /// Those that were decided or ended, too
        #[arg(long)]
        all: bool,
        /// How many at most
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
    /// Show one request with its arguments and questions
    Show(Which),
    /// Let the tool run, this once
    Allow(Which),
    /// Do not let the tool run, or decline the questions
    Deny {
        #[command(flatten)]
        which: Which,
        /// Why; the agent reads it
        #[arg(long)]
        reason: Option<String>,
    },
    /// Answer the questions of the agent
    Answer {
        #[command(flatten)]
        which: Which,
        /// An answer as QUESTION=ANSWER; may be given again, also for one question. With a single question the answer alone
        #[arg(required = true, value_name = "ANSWER")]
        answers: Vec<String>,
    },
    /// Let the tool run, and make a rule of the project that allows the same from now on
    Always {
        #[command(flatten)]
        which: Which,
        /// The pattern of the rule instead of the one that is made: 'cargo test*'
        #[arg(long, value_name = "PATTERN")]
        input: Option<String>,
    },
}

#[derive(Debug, Args)]
struct Which {
    /// The request, by id, or by the name of its agent when only one of it waits
    approval: String,
}

impl Approvals {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        with_door(global, async |door| self.action.act(door, screen).await).await?;
        Ok(Exit::Done)
    }
}

impl Action {
    async fn act(&self, door: &Door, screen: Screen) -> Result<()> {
        let reply = match self {
            Self::List { project, agent, all, limit } => {
                let filter = filter(door, project.as_deref(), agent.as_deref()).await?;
                let state = (!all).then_some(ApprovalStatus::Pending);
                let list = door.call(ListApprovals { state, limit: *limit, ..filter }).await?;
                return screen.show(&list, |list| lines(&list.approvals));
            }
            Self::Show(which) => {
                let approval_id = which.find(door).await?;
                door.call(GetApproval { approval_id }).await?
            }
            Self::Allow(which) => {
                let approval_id = which.find(door).await?;
                door.call(AllowApproval { approval_id }).await?
            }
            Self::Deny { which, reason } => {
                let (approval_id, reason) = (which.find(door).await?, reason.clone());
                door.call(DenyApproval { approval_id, reason }).await?
            }
            Self::Answer { which, answers } => {
                let approval_id = which.find(door).await?;
                let asked = door.call(GetApproval { approval_id: approval_id.clone() }).await?;
                let answers = answers_of(&asked.approval.questions, answers)?;
                door.call(AnswerApproval { approval_id, answers }).await?
            }
            Self::Always { which, input } => {
                let (approval_id, input) = (which.find(door).await?, input.clone());
                let made = door.call(AlwaysAllowApproval { approval_id, input }).await?;
                return screen.show(&made, |made| {
                    format!(
                        "{}\n\nnew rule  {}",
                        show(&made.approval, door),
                        words::rule(&made.rule)
                    )
                });
            }
        };
        screen.show(&reply, |reply: &ApprovalReply| show(&reply.approval, door))
    }
}

impl Which {
    async fn find(&self, door: &Door) -> Result<ApprovalId> {
        let waits = ListApprovals { state: Some(ApprovalStatus::Pending), limit: 500, ..all() };
        let mut found = door.call(waits).await?.approvals;
        found.retain(|one| one.agent_name == self.approval);
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only.approval_id),
            // Also one that does not wait any more: the core says why it takes no answer.
            (None, _) => Ok(ApprovalId::new(self.approval.clone())),
            (Some(_), false) => {
                let message = format!("several requests of {} wait", self.approval);
                Err(Error::new(Code::InvalidArguments, message).remedy(format!(
                    "Give the id of the one you mean: `{}` shows them.",
                    door.hint("approvals list")
                )))
            }
        }
    }
}

fn all() -> ListApprovals {
    ListApprovals::default()
}

async fn filter(door: &Door, project: Option<&str>, agent: Option<&str>) -> Result<ListApprovals> {
    let project_id = match project {
        Some(name) => Some(find::project(door, name).await?.project_id),
        None => None,
    };
    let agent_id = match agent {
        Some(name) => Some(find::agent(door, name, project).await?.agent_id),
        None => None,
    };
    Ok(ListApprovals { project_id, agent_id, ..all() })
}

/// What a person typed, by the questions that it answers.
fn answers_of(questions: &[Question], typed: &[String]) -> Result<Answers> {
    let mut answers = Answers::new();
    for text in typed {
        let named =
            text.split_once('=').filter(|(id, _)| questions.iter().any(|one| one.id == *id));
        let (id, answer) = match (named, questions) {
            (Some((id, answer)), _) => (id.to_owned(), answer),
            (None, [only]) => (only.id.clone(), text.as_str()),
            (None, _) => {
                let ids: Vec<_> = questions.iter().map(|one| one.id.as_str()).collect();
                let message = format!("{text:?} answers none of the questions {}", ids.join(", "));
                return Err(Error::new(Code::InvalidArguments, message)
                    .remedy("Write each answer as QUESTION=ANSWER."));
            }
        };
        answers.entry(id).or_default().push(answer.to_owned());
    }
    Ok(answers)
}

fn lines(approvals: &[ApprovalView]) -> String {
    let row = |one: &ApprovalView| {
        [
            cell(&one.agent_name),
            cell(&one.tool),
            one.state.as_str().to_owned(),
            one.decided_by.as_deref().map(cell).unwrap_or_default(),
            one.approval_id.to_string(),
            cell(&one.summary),
        ]
    };
    let none = "no requests wait; `--all` lists those that were decided";
    table(["AGENT", "TOOL", "STATE", "BY", "ID", "WHAT"], approvals.iter().map(row), none)
}

/// A request with what it is about and what answers it.
fn show(approval: &ApprovalView, door: &Door) -> String {
    let next = (approval.state == ApprovalStatus::Pending).then(|| {
        let hints = run::answers(approval).into_iter().map(|words| door.hint(&words));
        hints.collect::<Vec<_>>().join("\n")
    });
    let decided = approval.decided_at.map(|at| {
        let by = approval.decided_by.as_ref().map(|by| format!("by {by} ")).unwrap_or_default();
        format!("{by}at {at}")
    });
    let cut = if approval.input_truncated { " (cut)" } else { "" };
    let input = pretty(&approval.input).map(|text| format!("{text}{cut}")).ok();
    let questions = approval.questions.iter().map(question).collect::<Vec<_>>().join("\n");
    let answers = approval.answers.as_ref().map(|answers| {
        let line = |(id, given): (&String, &Vec<String>)| format!("{id}: {}", given.join(", "));
        answers.iter().map(line).collect::<Vec<_>>().join("\n")
    });
    card([
        ("approval", Some(approval.summary.clone())),
        ("id", Some(approval.approval_id.to_string())),
        ("agent", Some(approval.agent_name.clone())),
        ("task", approval.task_id.as_ref().map(ToString::to_string)),
        ("tool", Some(approval.tool.clone())),
        ("folder", Some(approval.cwd.display().to_string())),
        ("input", input.filter(|_| !approval.input.is_null())),
        ("asks", Some(questions).filter(|text| !text.is_empty())),
        ("answers", answers),
        ("state", Some(word(&approval.state))),
        ("decided", decided),
        ("reason", approval.reason.clone()),
        ("until", approval.due_at.filter(|_| next.is_some()).map(|at| at.to_string())),
        ("next", next),
    ])
}

fn question(question: &Question) -> String {
    let how = match (question.multiple, question.free_text) {
        (true, true) => " (any of them, or other words)",
        (true, false) => " (any of them)",
        (false, true) => " (one of them, or other words)",
        (false, false) => "",
    };
    let choice = |choice: &cortex_lib::domain::approval::Choice| {
        let about = choice.description.as_ref().map(|about| format!(": {about}"));
        format!("\n  - {}{}", choice.label, about.unwrap_or_default())
    };
    let choices: String = question.choices.iter().map(choice).collect();
    format!("{}: {}{how}{choices}", question.id, question.text)
}

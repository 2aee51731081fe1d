//! Requests of agents during a run: asked where a person sits, told where nobody does.

use std::collections::{BTreeSet, VecDeque};

use cortex_lib::api::operator::{
    AllowApproval, AlwaysAllowApproval, AnswerApproval, DenyApproval, ListApprovals,
};
use cortex_lib::api::view::{ApprovalView, ObjectiveView};
use cortex_lib::domain::approval::ApprovalStatus;
use cortex_lib::domain::event::EventKind;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::ApprovalId;
use cortex_lib::store::Event;
use serde_json::Value;

use super::ask::Said;
use super::hints::Hints;
use super::show::Show;
use super::words;
use crate::door::Door;

/// What agents want to use and ask.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Whether a person sits at the terminal.
    asks: bool,
    hints: Hints,
    /// Whether there may be one that was not dealt with.
    news: bool,
    /// Those that are to be dealt with, the one that has waited longest first.
    waiting: VecDeque<ApprovalView>,
    /// Asked or told once.
    done: BTreeSet<ApprovalId>,
}

impl Requests {
    /// Asks a person, or only tells how one can answer. Some may wait already when a run is followed again.
    pub(crate) fn new(asks: bool, hints: &Hints) -> Self {
        let (waiting, done) = (VecDeque::new(), BTreeSet::new());
        Self { asks, hints: hints.clone(), news: true, waiting, done }
    }

    /// Something happened in the core.
    pub(crate) fn hear(&mut self, event: &Event) {
        self.news |= event.kind == EventKind::ApprovalRequested;
        self.waiting.retain(|approval| !settles(event, approval));
    }

    /// The next one in this objective that the person is to be asked about. Where nobody can be asked each is told.
    ///
    /// # Errors
    ///
    /// What the commands fail with.
    pub(crate) async fn next(
        &mut self,
        door: &Door,
        show: &mut Show,
        objective: &ObjectiveView,
    ) -> Result<Option<ApprovalView>> {
        if std::mem::take(&mut self.news) {
            self.waiting = waiting(door, objective).await?;
        }
        while let Some(approval) = self.waiting.pop_front() {
            if !self.done.insert(approval.approval_id.clone()) {
                continue;
            }
            if self.asks {
                return Ok(Some(approval));
            }
            show.note(&self.told(&approval));
        }
        Ok(None)
    }

    /// Does what the person said about it.
    ///
    /// # Errors
    ///
    /// What the commands fail with, but for a request that does not wait any more.
    pub(crate) async fn decide(
        &self,
        door: &Door,
        show: &mut Show,
        approval: &ApprovalView,
        said: Said,
    ) -> Result<()> {
        let approval_id = approval.approval_id.clone();
        let answered = match said {
            Said::Allow => door.call(AllowApproval { approval_id }).await.map(drop),
            Said::Deny => door.call(DenyApproval { approval_id, reason: None }).await.map(drop),
            Said::Answers(answers) => {
                door.call(AnswerApproval { approval_id, answers }).await.map(drop)
            }
            Said::Always => self.always(door, show, approval).await,
            Said::Nothing => {
                show.note(&self.told(approval));
                Ok(())
            }
        };
        match answered {
            // Somebody else was first, or it ended meanwhile.
            Err(error) if error.code() == Code::ApprovalNotPending => {
                show.note(&format!("Too late: {}.", error.message()));
                Ok(())
            }
            other => other,
        }
    }

    /// Allows it for good and shows the rule. Where no rule can be made it is allowed once.
    async fn always(&self, door: &Door, show: &mut Show, approval: &ApprovalView) -> Result<()> {
        let approval_id = approval.approval_id.clone();
        let always = AlwaysAllowApproval { approval_id: approval_id.clone(), input: None };
        match door.call(always).await {
            Ok(made) => {
                show.note(&format!("New rule of the project: {}.", words::rule(&made.rule)));
                Ok(())
            }
            Err(error) if is_no_rule(&error) => {
                show.note(&format!("Allowed this once: {}.", error.message()));
                door.call(AllowApproval { approval_id }).await.map(drop)
            }
            Err(error) => Err(error),
        }
    }

    /// What waits, until when, and how a person answers it.
    fn told(&self, approval: &ApprovalView) -> String {
        let until = match approval.due_at {
            Some(due) => format!("until {due}, then it is denied and its task waits for you"),
            None => "as long as its turn".to_owned(),
        };
        let (agent, tool) = (words::plain(&approval.agent_name), words::plain(&approval.tool));
        let what = if approval.questions.is_empty() {
            format!("wants to use {tool}: {}", words::plain(&approval.summary))
        } else {
            let questions = approval.questions.iter().map(|one| words::plain(&one.text));
            format!("asks: {}", questions.collect::<Vec<_>>().join(" "))
        };
        let ways = self.hints.answers(approval).into_iter().map(|way| format!("\n  {way}"));
        format!(
            "{agent} {what}. It waits {until}. Answer it from another terminal:{}",
            ways.collect::<String>()
        )
    }
}

/// Whether it does not wait for an answer from this event on: it was answered, its time is over, or its turn.
pub(crate) fn settles(event: &Event, approval: &ApprovalView) -> bool {
    let is_over = matches!(
        event.kind,
        EventKind::ApprovalDecided | EventKind::ApprovalCancelled | EventKind::ApprovalExpired
    );
    let id = || event.data.get("approval_id").and_then(Value::as_str);
    is_over && id() == Some(approval.approval_id.as_str())
}

/// The requests of this objective that wait, the one that has waited longest first.
async fn waiting(door: &Door, objective: &ObjectiveView) -> Result<VecDeque<ApprovalView>> {
    let waiting = ListApprovals {
        state: Some(ApprovalStatus::Pending),
        project_id: Some(objective.project_id.clone()),
        limit: 500,
        ..ListApprovals::default()
    };
    let of_run = |approval: &ApprovalView| {
        objective.tasks.iter().any(|task| Some(&task.task_id) == approval.task_id.as_ref())
    };
    let waiting = door.call(waiting).await?.approvals;
    Ok(waiting.into_iter().rev().filter(of_run).collect())
}

fn is_no_rule(error: &Error) -> bool {
    matches!(error.code(), Code::InvalidArguments | Code::RuleLimitReached)
}

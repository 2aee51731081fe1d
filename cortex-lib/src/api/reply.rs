//! Answers that several commands give.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cx::Granted;
use super::view::{
    AgentView, ApprovalView, ConnectionView, Detail, ObjectiveView, ProjectView, ProposalView,
    RuleView, TaskView,
};

use crate::domain::approval::Unmatched;
use crate::domain::schedule;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, ApprovalId, ObjectiveId, ProjectId, TaskId};
use crate::progress::Work;
use crate::store::{Agent, Project, ReadTx, Task};

/// One agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentReply {
    /// The agent.
    pub agent: AgentView,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskReply {
    /// The task.
    pub task: TaskView,
}

/// One objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveReply {
    /// The objective.
    pub objective: ObjectiveView,
}

/// One project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectReply {
    /// The project.
    pub project: ProjectView,
}

/// One proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposalReply {
    /// The proposal.
    pub proposal: ProposalView,
}

/// One tool request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalReply {
    /// The request.
    pub approval: ApprovalView,
}

/// The connection of a remote client as it is after the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectionReply {
    /// The connection.
    pub connection: ConnectionView,
}

/// The effective list of a project: every rule that counts for it, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleList {
    /// The rules; the first that matches decides.
    pub rules: Vec<RuleView>,
    /// What happens to a request that none of them matches.
    pub default: Unmatched,
}

impl Granted<'_> {
    /// A tool request as it is now.
    pub(super) fn approval_reply(self, id: &ApprovalId) -> Result<ApprovalReply> {
        self.core()
            .store()
            .read(|tx| Ok(ApprovalReply { approval: ApprovalView::of(tx.approval(id)?, tx)? }))
    }

    /// The rules that count for a project, as they are now.
    pub(super) fn rules_reply(self, project: &ProjectId) -> Result<RuleList> {
        let (settings, data_dir) = (self.core().settings(), self.core().data_dir_text());
        self.core().store().read(|tx| {
            tx.project(project)?;
            let list = tx.rule_list(project, &settings, &data_dir)?;
            let rules = list.rules().iter().cloned().map(RuleView::of).collect();
            Ok(RuleList { rules, default: list.unmatched() })
        })
    }

    /// A project that the caller may see. Another one is not there for it.
    pub(super) fn project(self, tx: &ReadTx<'_>, id: &ProjectId) -> Result<Project> {
        let project = tx.project(id)?;
        if self.sees(&project.id) {
            return Ok(project);
        }
        Err(Error::new(Code::ProjectNotFound, format!("there is no project {id}"))
            .with("project_id", id.as_str()))
    }

    /// An agent that the caller may see. Another project's is not there for it.
    pub(super) fn agent(self, tx: &ReadTx<'_>, id: &AgentId) -> Result<Agent> {
        let agent = tx.agent(id)?;
        if self.sees(&agent.project_id) {
            return Ok(agent);
        }
        Err(Error::new(Code::AgentNotFound, format!("there is no agent {id}"))
            .with("agent_id", id.as_str()))
    }

    /// A task that the caller may see.
    pub(super) fn task(self, tx: &ReadTx<'_>, id: &TaskId) -> Result<Task> {
        let task = tx.task(id)?;
        if self.sees(&task.project_id) {
            return Ok(task);
        }
        Err(Error::new(Code::TaskNotFound, format!("there is no task {id}"))
            .with("task_id", id.as_str()))
    }

    /// An agent as it is now.
    pub(super) fn agent_reply(self, id: &AgentId) -> Result<AgentReply> {
        self.core()
            .store()
            .read(|tx| Ok(AgentReply { agent: AgentView::of(self.agent(tx, id)?, tx)? }))
    }

    /// A task as it is now.
    pub(super) fn task_reply(self, id: &TaskId) -> Result<TaskReply> {
        let core = self.core();
        let asked = format!("{:?} {id} {:?}", self.project_scope(), core.state());
        let reply = core.store().read_once(asked, |tx| {
            let task = self.task(tx, id)?;
            let (waiting, due) = if task.ended_at.is_some() {
                (None, None)
            } else {
                let schedule =
                    schedule::plan(&tx.board(&core.board_facts())?, core.store().steady());
                let due = schedule.next_due;
                (schedule.into_waits().remove(id), due)
            };
            let task = TaskView::of(task, waiting, &core.settings(), Detail::Full, tx)?;
            Ok((TaskReply { task }, due))
        })?;
        Ok((*reply).clone())
    }

    /// An objective as it is now.
    pub(super) fn objective_reply(self, id: &ObjectiveId) -> Result<ObjectiveReply> {
        let (facts, settings, steady) =
            (self.core().board_facts(), self.core().settings(), self.core().store().steady());
        self.core().store().read(|tx| {
            let work = Work { objective: tx.objective(id)?, tasks: tx.tasks_of(id)? };
            let waits = schedule::plan(&tx.board(&facts)?, steady).into_waits();
            let objective = ObjectiveView::of(work, &waits, &settings, Detail::Listed, tx)?;
            Ok(ObjectiveReply { objective })
        })
    }
}

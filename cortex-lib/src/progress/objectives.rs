//! Objectives: from a checked plan to rows.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::agent::{Interaction, Role};
use crate::domain::capability::Capability;
use crate::domain::objective::FlowState;
use crate::domain::plan::{self, TaskSpec};
use crate::domain::task::{TaskInput, TaskState};
use crate::error::Result;
use crate::ids::{AgentId, ObjectiveId, ProjectId, ProposalId, RuntimeId, TaskId};
use crate::store::{Agent, Objective, Task, WriteTx};

/// A plan that is to become work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewObjective {
    /// The project it is for.
    pub project_id: ProjectId,
    /// Its title.
    pub title: String,
    /// Its tasks.
    pub tasks: Vec<TaskSpec>,
    /// The proposal that it is made from.
    pub proposal_id: Option<ProposalId>,
    /// Who creates it.
    pub by: String,
}

impl WriteTx<'_> {
    /// Creates an objective with its tasks, all or nothing. Those without dependencies are READY at once. `isolation`:
    /// what is wrong with isolated tasks in this project, as far as it was looked at (H-42).
    ///
    /// # Errors
    ///
    /// `project.not_found`, and those of [`plan::check`].
    pub fn create_objective(
        &mut self,
        new: NewObjective,
        capabilities: &BTreeMap<RuntimeId, BTreeSet<Capability>>,
        isolation: Option<&str>,
    ) -> Result<Objective> {
        self.check_tasks(&new.project_id, &new.tasks, capabilities, isolation)?;
        let now = self.now();
        let objective = Objective {
            id: ObjectiveId::new(self.env().mint()),
            project_id: new.project_id,
            title: new.title,
            proposal_id: new.proposal_id,
            flow: FlowState::Running,
            generation: 0,
            changed_at: now,
            changed_by: new.by.clone(),
            created_by: new.by,
            created_at: now,
            ended_at: None,
        };
        self.insert_objective(&objective)?;
        let ids: BTreeMap<String, TaskId> = new
            .tasks
            .iter()
            .map(|spec| (spec.key.clone(), TaskId::new(self.env().mint())))
            .collect();
        for (position, spec) in (0..).zip(new.tasks) {
            let Some(id) = ids.get(&spec.key).cloned() else { continue };
            let task = Task {
                id,
                objective_id: objective.id.clone(),
                project_id: objective.project_id.clone(),
                position,
                depends_on: spec
                    .depends_on
                    .iter()
                    .filter_map(|key| ids.get(key).cloned())
                    .collect(),
                pinned: spec.assigned_agent_id.clone(),
                spec,
                state: TaskState::new(),
                hold: None,
                result: None,
                failure: None,
                decisions: Vec::new(),
                reassignments: Vec::new(),
                integration: None,
                created_at: now,
                ready_at: None,
                started_at: None,
                ended_at: None,
            };
            self.insert_task(&task)?;
            if task.depends_on.is_empty() {
                self.step_task(&task.id, TaskInput::DependenciesMet, |_| ())?;
            }
        }
        Ok(objective)
    }

    /// Checks tasks by every rule of an objective in this project. Nothing is written.
    ///
    /// # Errors
    ///
    /// `project.not_found`, and those of [`plan::check`].
    pub(super) fn check_tasks(
        &self,
        project: &ProjectId,
        tasks: &[TaskSpec],
        capabilities: &BTreeMap<RuntimeId, BTreeSet<Capability>>,
        isolation: Option<&str>,
    ) -> Result<()> {
        self.project(project)?;
        plan::check(
            tasks,
            |task, agent| self.pin_problem(project, task, agent, capabilities),
            isolation,
        )
    }

    /// What is wrong with pinning a task to an agent (H-33). That it is not READY now is fine: the task waits.
    fn pin_problem(
        &self,
        project: &ProjectId,
        task: &TaskSpec,
        agent_id: &AgentId,
        capabilities: &BTreeMap<RuntimeId, BTreeSet<Capability>>,
    ) -> Option<String> {
        let Some(agent) = self.agent(agent_id).ok().filter(|agent| agent.project_id == *project)
        else {
            return Some(format!("there is no agent {agent_id} in the project"));
        };
        not_a_worker_for(&agent, task, capabilities)
    }
}

/// Why an agent can never run a task of its project, as both are now (H-33).
pub(super) fn not_a_worker_for(
    agent: &Agent,
    task: &TaskSpec,
    capabilities: &BTreeMap<RuntimeId, BTreeSet<Capability>>,
) -> Option<String> {
    if agent.role == Role::Orchestrator {
        return Some(format!("agent {} is an orchestrator and never runs tasks", agent.name));
    }
    if agent.interaction == Interaction::Terminal {
        return Some(format!("agent {} is in terminal mode and has no turns", agent.name));
    }
    let has = capabilities.get(&agent.runtime_id).cloned().unwrap_or_default();
    let missing: Vec<_> =
        task.capabilities().difference(&has).map(|capability| capability.as_str()).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "agent {} runs on {}, which lacks {}",
            agent.name,
            agent.runtime_id,
            missing.join(", ")
        )
    })
}

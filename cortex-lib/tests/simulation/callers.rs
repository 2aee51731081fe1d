//! People and programs that call at the same time, and remember what they were told.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use cortex_lib::api::operator::{
    AddProject, PauseAgent, RemoveAgent, RestartAgent, ResumeAgent, UpdateProject,
};
use cortex_lib::api::tool::{
    ApproveTask, CancelTask, CreateAgent, CreateObjective, GetTaskStatus, InterruptAgent,
    ListAgents, ListProjects, ListTasks, PollAgentEvents, RetryTask, SendMessage, StartAgent,
    StopAgent,
};
use cortex_lib::api::{Catalogue, Command, CommandDef, Cx};
use cortex_lib::domain::agent::Role;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::verification::{Verification, VerificationCommand};
use cortex_lib::error::Code;
use cortex_lib::ids::{AgentId, ObjectiveId, ProjectId, RuntimeId, TaskId};
use cortex_lib::store::DecisionKind;

use crate::dice::Dice;
use crate::scripts::RUNTIMES;

/// What callers were told is so. It must never be otherwise.
#[derive(Debug, Default)]
pub struct Told {
    pub objectives: BTreeSet<ObjectiveId>,
    pub tasks: BTreeSet<TaskId>,
    pub agents: BTreeSet<AgentId>,
    pub removed: BTreeSet<AgentId>,
    pub cancelled: BTreeSet<TaskId>,
    pub decided: Vec<(TaskId, DecisionKind)>,
    /// What was answered, in order.
    pub log: Vec<String>,
    /// Answers that no caller may get.
    pub broken: Vec<String>,
}

/// One caller.
pub struct CallerScript {
    pub cx: Cx,
    pub dice: Dice,
    pub told: Rc<RefCell<Told>>,
    pub name: u64,
}

/// The folder of the only project. It is there, and the same in every run.
fn root() -> PathBuf {
    dunce::canonicalize(env!("CARGO_MANIFEST_DIR")).unwrap()
}

fn checks() -> Verification {
    let command = VerificationCommand { argv: vec!["check".into()], name: None };
    Verification { commands: vec![command], timeout_secs: 600 }
}

impl CallerScript {
    /// Calls, and checks that a failure is one that the command declares.
    async fn call<C: Command>(&self, command: C) -> Option<C::Output> {
        let answer = self.cx.call(command).await;
        let mut told = self.told.borrow_mut();
        let code = answer.as_ref().err().map(cortex_lib::Error::code);
        let shown = code.map_or("ok", Code::as_str);
        told.log.push(format!("caller {}: {} {shown}", self.name, C::NAME));
        let def = Catalogue::CORTEX.iter().find(|def| def.name == C::NAME).unwrap();
        if let Some(code) = code
            && (code == Code::Defect
                || !(def.errors.contains(&code) || CommandDef::COMMON_ERRORS.contains(&code)))
        {
            told.broken.push(format!("{} failed with {:?}", C::NAME, answer.as_ref().err()));
        }
        answer.ok()
    }

    /// Makes sure that there is a project with some agents.
    pub async fn set_up(&self) {
        let Some(list) = self.call(ListProjects {}).await else { return };
        let known = list.projects.into_iter().next().map(|project| project.project_id);
        let verification = (!self.dice.once_in(3)).then(checks);
        let add = AddProject { name: "p".into(), root: root(), verification };
        let project = match known {
            Some(project) => project,
            None => match self.call(add).await {
                Some(added) => added.project.project_id,
                None => return,
            },
        };
        for _ in 0..4 {
            let agents = self.call(ListAgents { project_id: None }).await;
            if agents.is_none_or(|list| list.agents.len() >= 3) {
                break;
            }
            self.create_agent(&project).await;
        }
    }

    async fn create_agent(&self, project: &ProjectId) {
        let runtime = self.dice.pick(&RUNTIMES).unwrap();
        let create = CreateAgent {
            project_id: project.clone(),
            name: format!("agent-{}", self.dice.roll(9)),
            runtime_id: RuntimeId::new(*runtime),
            model: None,
            role: if self.dice.once_in(9) { Role::Orchestrator } else { Role::Worker },
            instructions: None,
            skills: true,
        };
        if let Some(made) = self.call(create).await {
            self.told.borrow_mut().agents.insert(made.agent.agent_id);
        }
    }

    /// Starts every agent and lets go of what holds them.
    pub async fn start_all(&self) {
        let Some(list) = self.call(ListAgents { project_id: None }).await else { return };
        for agent in list.agents {
            self.call(ResumeAgent { agent_id: agent.agent_id.clone() }).await;
            self.call(StartAgent { agent_id: agent.agent_id }).await;
        }
    }

    /// Does `count` things, one after the other.
    pub async fn run(self, count: u32) {
        for _ in 0..count {
            tokio::time::sleep(self.dice.seconds(20)).await;
            self.act().await;
        }
    }

    async fn act(&self) {
        let Some(list) = self.call(ListProjects {}).await else { return };
        let Some(project) = list.projects.into_iter().next().map(|project| project.project_id)
        else {
            return self.set_up().await;
        };
        match self.dice.roll(16) {
            0..4 => self.create_objective(project).await,
            4..6 => self.decide().await,
            6 => self.cancel().await,
            7 => self.create_agent(&project).await,
            8 => drop(self.call(self.poll()).await),
            9 if self.dice.once_in(4) => {
                let verification = Some((!self.dice.once_in(3)).then(checks));
                self.call(UpdateProject { project_id: project, name: None, verification }).await;
            }
            _ => self.use_agent().await,
        }
    }

    fn poll(&self) -> PollAgentEvents {
        let wait_ms = u32::try_from(self.dice.roll(20_000)).unwrap();
        PollAgentEvents { after: None, limit: 50, agent_id: None, wait_ms }
    }

    async fn create_objective(&self, project: ProjectId) {
        let agents = self.call(ListAgents { project_id: None }).await;
        let agents = agents.map(|list| list.agents).unwrap_or_default();
        let count = 1 + self.dice.roll(3);
        let tasks = (0..count)
            .map(|n| {
                let depends_on = (0..n).filter(|_| self.dice.once_in(3)).map(|on| format!("t{on}"));
                let pin = self.dice.pick(&agents).filter(|_| self.dice.once_in(6));
                TaskSpec {
                    key: format!("t{n}"),
                    description: format!("Do t{n}."),
                    depends_on: depends_on.collect(),
                    max_retries: Some(u8::try_from(self.dice.roll(3)).unwrap()),
                    timeout_secs: self.dice.once_in(4).then_some(30),
                    paths: if self.dice.once_in(4) { vec!["src/**".into()] } else { Vec::new() },
                    assigned_agent_id: pin.map(|agent| agent.agent_id.clone()),
                    ..TaskSpec::default()
                }
            })
            .collect();
        let create = CreateObjective { project_id: project, title: "o".into(), tasks };
        if let Some(made) = self.call(create).await {
            let mut told = self.told.borrow_mut();
            told.objectives.insert(made.objective.objective_id);
            told.tasks.extend(made.objective.tasks.into_iter().map(|task| task.task_id));
        }
    }

    async fn pick_task(&self, wanted: impl Fn(TaskStatus) -> bool) -> Option<TaskId> {
        let objectives = self.call(ListTasks {}).await?.objectives;
        let tasks = objectives.into_iter().flat_map(|objective| objective.tasks);
        let tasks: Vec<_> = tasks.filter(|task| wanted(task.status)).collect();
        self.dice.pick(&tasks).map(|task| task.task_id.clone())
    }

    async fn cancel(&self) {
        let Some(task_id) = self.pick_task(|_| true).await else { return };
        if self.call(CancelTask { task_id: task_id.clone(), reason: None }).await.is_some() {
            self.told.borrow_mut().cancelled.insert(task_id);
        }
    }

    async fn decide(&self) {
        let Some(task_id) = self.pick_task(|status| status == TaskStatus::Blocked).await else {
            return;
        };
        let (id, execution_id) = (task_id.clone(), None);
        let kind =
            if self.dice.once_in(2) { DecisionKind::Approved } else { DecisionKind::Retried };
        let done = match kind {
            DecisionKind::Approved => {
                self.call(ApproveTask { task_id, execution_id, reason: None }).await
            }
            _ => self.call(RetryTask { task_id, execution_id, reason: None }).await,
        };
        if done.is_some() {
            self.told.borrow_mut().decided.push((id.clone(), kind));
        }
        self.call(GetTaskStatus { task_id: id }).await;
    }

    async fn use_agent(&self) {
        let Some(list) = self.call(ListAgents { project_id: None }).await else { return };
        let Some(agent_id) = self.dice.pick(&list.agents).map(|agent| agent.agent_id.clone())
        else {
            return;
        };
        match self.dice.roll(12) {
            0..4 => drop(self.call(StartAgent { agent_id }).await),
            4 => drop(self.call(StopAgent { agent_id }).await),
            5 => drop(self.call(RestartAgent { agent_id }).await),
            6 => drop(self.call(PauseAgent { agent_id }).await),
            7 => drop(self.call(ResumeAgent { agent_id }).await),
            8 => drop(self.call(InterruptAgent { agent_id }).await),
            9 if self.dice.once_in(3) => {
                let removed = self.call(RemoveAgent { agent_id: agent_id.clone() }).await;
                if removed.is_some() {
                    self.told.borrow_mut().removed.insert(agent_id);
                }
            }
            _ => {
                let message = "hello".to_owned();
                self.call(SendMessage { agent_id, message }).await;
            }
        }
    }
}

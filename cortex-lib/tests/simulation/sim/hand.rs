//! One caller: it calls, checks that the answer is one it may get, and remembers what it was told.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

use cortex_lib::Cortex;
use cortex_lib::api::tool::{ListAgents, ListProjects, ListTasks};
use cortex_lib::api::view::{AgentView, TaskView};
use cortex_lib::api::{Caller, Catalogue, Command, CommandDef, Cx, Effect};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::approval::ApprovalStatus;
use cortex_lib::domain::proposal::ProposalStatus;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::Code;
use cortex_lib::ids::{AgentId, ApprovalId, MessageId, ObjectiveId, ProjectId, ProposalId, TaskId};
use cortex_lib::port::ScriptedWorld;
use cortex_lib::store::{DecisionKind, Store};
use futures_util::future::join;

use super::dice::Dice;
use super::promises::{Broken, Promise};

/// An id that nobody was ever given.
pub const MADE_UP: &str = "00000000-0000-7000-8000-00000000dead";

/// What callers were told is so. It must never be otherwise.
#[derive(Debug, Default)]
pub struct Told {
    pub projects: BTreeSet<ProjectId>,
    pub removed_projects: BTreeSet<ProjectId>,
    pub objectives: BTreeSet<ObjectiveId>,
    pub tasks: BTreeSet<TaskId>,
    pub agents: BTreeSet<AgentId>,
    pub removed: BTreeSet<AgentId>,
    pub cancelled: BTreeSet<TaskId>,
    pub decided: Vec<(TaskId, DecisionKind)>,
    pub proposals: BTreeSet<ProposalId>,
    pub settled: Vec<(ProposalId, ProposalStatus)>,
    pub posted: BTreeSet<MessageId>,
    pub acked: BTreeSet<MessageId>,
    pub integrated: BTreeSet<TaskId>,
    /// Messages to agents so far, delivered or not: each has words of its own.
    pub sent: u64,
    /// Those that were delivered.
    pub delivered: BTreeSet<String>,
    pub answered: BTreeMap<ApprovalId, ApprovalStatus>,
    /// Worktrees that lost what proves that they are Cortex's.
    pub disowned: BTreeSet<PathBuf>,
    /// Worktrees that a person took away.
    pub taken: BTreeSet<PathBuf>,
    /// The number of the newest event when the last change was answered.
    pub seq: u64,
    /// Every command with every answer it had.
    pub met: BTreeMap<(&'static str, &'static str), u64>,
    /// What was answered, in order.
    pub log: Vec<String>,
    /// Answers that no caller may get.
    pub broken: Vec<Broken>,
}

/// One caller, while it does one thing.
pub struct Hand {
    pub cortex: Cortex,
    pub store: Store,
    pub cx: Cx,
    pub dice: Dice,
    pub told: Rc<RefCell<Told>>,
    pub name: u8,
    pub world: ScriptedWorld,
}

impl Hand {
    /// The person.
    pub fn new(
        (cortex, store): (&Cortex, &Store),
        world: &ScriptedWorld,
        told: &Rc<RefCell<Told>>,
        name: u8,
        dice: Dice,
    ) -> Self {
        Self {
            cortex: cortex.clone(),
            store: store.clone(),
            cx: cortex.as_user(),
            dice,
            told: Rc::clone(told),
            name,
            world: world.clone(),
        }
    }

    /// The same hand for somebody else.
    pub fn acting_for(&self, caller: Caller) -> Self {
        Self {
            cortex: self.cortex.clone(),
            store: self.store.clone(),
            cx: self.cortex.as_caller(caller),
            dice: self.dice.fork(),
            told: Rc::clone(&self.told),
            name: self.name,
            world: self.world.clone(),
        }
    }

    /// Calls, and checks the answer. What may be said twice is said twice at once now and then.
    pub async fn call<C: Command + Clone>(&self, command: C) -> Option<C::Output> {
        let twice = C::EFFECT == Effect::WritesOnce && self.dice.once_in(8);
        let (answer, again) = if twice {
            let (one, two) =
                join(self.cx.call(command.clone()), self.cx.call(command.clone())).await;
            (one, Some(two))
        } else {
            (self.cx.call(command.clone()).await, None)
        };
        self.check(&command, &answer);
        if let Some(again) = again {
            self.check(&command, &again);
            return answer.or(again).ok();
        }
        answer.ok()
    }

    /// A failure is one that the command declares; what nobody was ever told of is not there.
    fn check<C: Command>(&self, command: &C, answer: &cortex_lib::Result<C::Output>) {
        let newest = self.cortex.newest_event().ok();
        let mut told = self.told.borrow_mut();
        let code = answer.as_ref().err().map(cortex_lib::Error::code);
        let shown = code.map_or("ok", Code::as_str);
        told.log.push(format!("caller {}: {} {shown}", self.name, C::NAME));
        *told.met.entry((C::NAME, shown)).or_default() += 1;
        let def = Catalogue::CORTEX.iter().find(|def| def.name == C::NAME).unwrap();
        let declared =
            |code| def.errors.contains(&code) || CommandDef::COMMON_ERRORS.contains(&code);
        if let Some(error) = answer.as_ref().err()
            && (error.code() == Code::Defect || !declared(error.code()))
        {
            let what = format!("{} failed with {error:?}", C::NAME);
            told.broken.push(Broken::new(Promise::AnswersAreDeclared, what));
        }
        if answer.is_ok() {
            told.seq = told.seq.max(newest.unwrap_or_default());
            if serde_json::to_string(command).unwrap().contains(MADE_UP) {
                let what = format!("{} found what is not there", C::NAME);
                told.broken.push(Broken::new(Promise::AnswersAreDeclared, what));
            }
        }
    }

    /// Something was allowed that is not this caller's.
    pub fn may_not(&self, what: &str) {
        self.told
            .borrow_mut()
            .broken
            .push(Broken::new(Promise::AnswersAreDeclared, what.to_owned()));
    }

    /// A project, mostly one that is there.
    pub async fn project(&self) -> Option<ProjectId> {
        if self.dice.once_in(40) {
            return Some(ProjectId::new(MADE_UP));
        }
        let projects = self.call(ListProjects {}).await?.projects;
        let wanted = |name: &str| name == "p" || self.dice.once_in(20);
        let project = projects.iter().find(|project| wanted(&project.name));
        project.or(projects.first()).map(|project| project.project_id.clone())
    }

    /// The agents.
    pub async fn agents(&self) -> Vec<AgentView> {
        let list = self.call(ListAgents { project_id: None }).await;
        list.map(|list| list.agents).unwrap_or_default()
    }

    /// An agent in one of these states, if there is one: now and then any other, one that was removed, or one
    /// that never was.
    pub async fn agent(&self, wanted: &[AgentStatus]) -> Option<AgentId> {
        match self.dice.roll(20) {
            0 => Some(AgentId::new(MADE_UP)),
            1 => {
                let known: Vec<_> = self.told.borrow().agents.iter().cloned().collect();
                self.dice.pick(&known).cloned()
            }
            of => {
                let agents = self.agents().await;
                let fits = agents.iter().filter(|agent| wanted.contains(&agent.state));
                let fits: Vec<_> = fits.collect();
                let fit = self.dice.pick(&fits).copied().filter(|_| of > 5);
                fit.or_else(|| self.dice.pick(&agents)).map(|agent| agent.agent_id.clone())
            }
        }
    }

    /// A task like that, if there is one; now and then any other, or one that never was.
    pub async fn task(&self, wanted: impl Fn(TaskStatus) -> bool) -> Option<TaskView> {
        let objectives = self.call(ListTasks {}).await?.objectives;
        let tasks = objectives.into_iter().flat_map(|objective| objective.tasks);
        let any = self.dice.once_in(10);
        let tasks: Vec<_> = tasks.filter(|task| any || wanted(task.status)).collect();
        let mut task = self.dice.pick(&tasks).cloned()?;
        if self.dice.once_in(20) {
            task.task_id = TaskId::new(MADE_UP);
        }
        Some(task)
    }
}

//! The rows that decide what starts, as the scheduler wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::domain::agent::AgentStatus;
use crate::domain::capability::Capability;
use crate::domain::objective::FlowState;
use crate::domain::schedule::{AgentCard, Board, TaskCard};
use crate::domain::task::{Phase, TaskStatus};
use crate::error::Result;
use crate::ids::{RuntimeId, SessionId, TaskId};
use crate::store::{Agent, Attempt, Objective, ReadTx, Task};

/// What the store does not know.
#[derive(Clone, Debug, Default)]
pub struct BoardFacts {
    /// What each runtime can do.
    pub capabilities: BTreeMap<RuntimeId, BTreeSet<Capability>>,
    /// Sessions that may live.
    pub sessions_max: u32,
    /// Whether the core is on its way down.
    pub stopping: bool,
    /// Sessions that died and are being cleaned up: their agents take nothing new.
    pub dying: BTreeSet<SessionId>,
    /// Where worktrees are made.
    pub worktrees: PathBuf,
}

/// An objective with its tasks.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) objective: Objective,
    pub(crate) tasks: Vec<Task>,
}

impl ReadTx<'_> {
    /// Everything that decides what starts now.
    pub fn board(&self, facts: &BoardFacts) -> Result<Board> {
        self.board_with(&self.live_attempts()?, facts)
    }

    /// The objectives at work with their tasks, and the board that they are.
    pub(crate) fn work(&self, facts: &BoardFacts) -> Result<(Vec<Work>, Board)> {
        let ending = ending(&self.live_attempts()?);
        let work = self.work_on(&ending)?;
        let board = self.board_of(&work, &ending, facts)?;
        Ok((work, board))
    }

    /// The same, by someone who knows the live attempts.
    pub(crate) fn board_with(&self, attempts: &[Attempt], facts: &BoardFacts) -> Result<Board> {
        let ending = ending(attempts);
        self.board_of(&self.work_on(&ending)?, &ending, facts)
    }

    fn board_of(
        &self,
        work: &[Work],
        ending: &BTreeSet<TaskId>,
        facts: &BoardFacts,
    ) -> Result<Board> {
        let mut tasks = Vec::new();
        for Work { objective, tasks: all } in work {
            let open = all
                .iter()
                .filter(|task| !task.state.phase.status().is_ended() || ending.contains(&task.id));
            for task in open {
                let order = u64::try_from(tasks.len()).unwrap_or(u64::MAX);
                tasks.push(task_card(task, all, objective, order, ending.contains(&task.id)));
            }
        }
        let mut board = Board {
            tasks,
            agents: Vec::new(),
            live_sessions: 0,
            sessions_max: facts.sessions_max,
            stopping: facts.stopping,
        };
        // Only a task that may start asks for an agent and a session.
        if board.tasks.iter().any(|task| task.status == TaskStatus::Ready) {
            let agents = self.agents(None)?.into_iter();
            board.agents = agents.map(|agent| agent_card(agent, facts)).collect();
            board.live_sessions = self.live_session_count()?;
        }
        Ok(board)
    }

    /// Objectives that have not ended, and those that have while a turn of theirs still lets go: it holds its
    /// files until then.
    fn work_on(&self, ending: &BTreeSet<TaskId>) -> Result<Vec<Work>> {
        let mut objectives = self.open_objectives()?;
        for task in ending {
            let id = self.task(task)?.objective_id;
            if !objectives.iter().any(|objective| objective.id == id) {
                objectives.push(self.objective(&id)?);
            }
        }
        let with_tasks =
            |objective: Objective| Ok(Work { tasks: self.tasks_of(&objective.id)?, objective });
        objectives.into_iter().map(with_tasks).collect()
    }
}

/// The tasks that have ended while their turn still lets go.
fn ending(attempts: &[Attempt]) -> BTreeSet<TaskId> {
    let letting_go = attempts.iter().filter(|attempt| attempt.state.is_letting_go());
    letting_go.map(|attempt| attempt.task_id.clone()).collect()
}

fn task_card(
    task: &Task,
    all: &[Task],
    objective: &Objective,
    order: u64,
    ending: bool,
) -> TaskCard {
    let completed = |id: &TaskId| {
        all.iter()
            .any(|other| other.id == *id && other.state.phase.status() == TaskStatus::Completed)
    };
    let blocked = match task.state.phase {
        Phase::Blocked(cause) => Some(cause),
        Phase::Created
        | Phase::Ready
        | Phase::Running(_)
        | Phase::Verifying(_)
        | Phase::Completed(_)
        | Phase::Failed(_)
        | Phase::Cancelled(_) => None,
    };
    TaskCard {
        id: task.id.clone(),
        project_id: task.project_id.clone(),
        status: task.state.phase.status(),
        blocked,
        priority: task.spec.priority,
        ready_at: task.ready_at,
        order,
        unmet: task.depends_on.iter().filter(|id| !completed(id)).cloned().collect(),
        requirements: task.spec.capabilities(),
        isolated: task.spec.isolated(),
        pinned: task.pinned.clone(),
        paths: task.spec.paths.clone(),
        hold: task.hold.as_ref().and_then(|hold| Some((hold.until.at()?, hold.hold))),
        hold_cause: task.hold.as_ref().map(|hold| hold.cause.clone()),
        hold_runtime: task.hold.as_ref().map(|hold| hold.runtime_id.clone()),
        paused: match objective.flow {
            FlowState::Running => None,
            FlowState::Paused(policy) => Some(policy),
        },
        ending,
    }
}

fn agent_card(agent: Agent, facts: &BoardFacts) -> AgentCard {
    let dying = agent.state.session().is_some_and(|session| facts.dying.contains(session));
    AgentCard {
        in_turn: agent.state.direct_turn().is_some(),
        status: if dying { AgentStatus::Crashed } else { agent.state.status() },
        capabilities: facts.capabilities.get(&agent.runtime_id).cloned().unwrap_or_default(),
        id: agent.id,
        project_id: agent.project_id,
        runtime_id: agent.runtime_id,
        role: agent.role,
        interaction: agent.interaction,
        idle_since: agent.idle_since,
    }
}

//! Which task starts on which agent, and why every other task waits. The only place that knows.

use std::collections::BTreeMap;

pub use super::board::{AgentCard, Board, Priority, TaskCard};

use super::agent::{AgentStatus, Interaction, Role};
use super::claim::globs_may_overlap;
use super::hold::Hold;
use super::task::TaskStatus;
use super::waiting::{
    NotEligible, NotEligibleReason, WaitReason, Waiting, WaitingForAgent, WaitingForAgents,
    WaitingForPerson, WaitingForQuota, WaitingForResume, WaitingForSession, WaitingForTasks,
    WaitingForTime,
};
use crate::ids::{AgentId, RuntimeId, TaskId};
use crate::time::Timestamp;

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Tasks to start, each on its agent.
    pub starts: Vec<(TaskId, AgentId)>,
    /// Why every other task waits.
    pub waits: BTreeMap<TaskId, Waiting>,
    /// When something changes by time alone.
    pub next_due: Option<Timestamp>,
}

impl Schedule {
    /// Why each task that has not started waits. One that starts right now says so.
    pub fn into_waits(self) -> BTreeMap<TaskId, Waiting> {
        let starting = |(task, _)| (task, Waiting::because(WaitReason::Starting));
        self.waits.into_iter().chain(self.starts.into_iter().map(starting)).collect()
    }
}

/// Decides what starts now. A task that starts takes its agent, its paths and its session from the board.
pub fn plan(board: &Board, now: Timestamp) -> Schedule {
    let mut schedule = Schedule::default();
    let mut free: BTreeMap<&AgentId, &AgentCard> =
        board.agents.iter().map(|agent| (&agent.id, agent)).collect();
    let mut claims: Vec<&TaskCard> = board.tasks.iter().filter(|task| holds_paths(task)).collect();
    let mut sessions = board.live_sessions;
    let quotas = board.quotas(now);

    let mut ready: Vec<&TaskCard> = Vec::new();
    for task in &board.tasks {
        match waits_for_others(task, board, now) {
            Some(waiting) => {
                schedule.waits.insert(task.id.clone(), waiting);
            }
            None if task.status == TaskStatus::Ready => ready.push(task),
            None => {}
        }
        if let Some((until, _)) =
            task.hold.filter(|(until, _)| task.status == TaskStatus::Ready && *until > now)
        {
            schedule.next_due = Some(schedule.next_due.map_or(until, |due| due.min(until)));
        }
    }
    ready.sort_by_key(|task| (std::cmp::Reverse(task.priority), task.ready_at, task.order));

    for task in ready {
        let room = Room { free: &free, claims: &claims, quotas: &quotas, sessions };
        match place(task, board, &room) {
            Ok(agent) => {
                free.remove(&agent.id);
                claims.push(task);
                sessions = sessions.saturating_add(u32::from(task.isolated));
                schedule.starts.push((task.id.clone(), agent.id.clone()));
            }
            Err(waiting) => {
                schedule.waits.insert(task.id.clone(), *waiting);
            }
        }
    }
    schedule
}

/// Why a task cannot start whatever agents there are.
fn waits_for_others(task: &TaskCard, board: &Board, now: Timestamp) -> Option<Waiting> {
    match task.status {
        TaskStatus::Created => Some(Waiting {
            dependencies: Some(WaitingForTasks { task_ids: task.unmet.clone() }),
            ..Waiting::because(WaitReason::Dependencies)
        }),
        TaskStatus::Blocked => Some(Waiting {
            approval: task.blocked.map(|cause| WaitingForPerson { cause }),
            ..Waiting::because(WaitReason::Approval)
        }),
        TaskStatus::Ready if board.stopping => Some(Waiting::because(WaitReason::CoreStopping)),
        TaskStatus::Ready if task.ending => {
            Some(Waiting::because(WaitReason::PreviousAttemptEnding))
        }
        TaskStatus::Ready => {
            if let Some(policy) = task.paused {
                return Some(Waiting {
                    objective_paused: Some(WaitingForResume { policy }),
                    ..Waiting::because(WaitReason::ObjectivePaused)
                });
            }
            let (until, hold) = task.hold.filter(|(until, _)| *until > now)?;
            if hold == Hold::RateLimited && board.left_its_quota(task) {
                return None;
            }
            Some(match hold {
                Hold::Backoff => Waiting {
                    backoff: Some(WaitingForTime {
                        until,
                        cause: task.hold_cause.clone().unwrap_or_default(),
                    }),
                    ..Waiting::because(WaitReason::Backoff)
                },
                Hold::RateLimited => Waiting {
                    rate_limited: Some(WaitingForQuota {
                        until,
                        runtime_id: task.hold_runtime.clone(),
                    }),
                    ..Waiting::because(WaitReason::RateLimited)
                },
            })
        }
        TaskStatus::Running
        | TaskStatus::Verifying
        | TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Cancelled => None,
    }
}

/// What the tasks before this one have left.
struct Room<'r, 'b> {
    free: &'r BTreeMap<&'b AgentId, &'b AgentCard>,
    claims: &'r [&'b TaskCard],
    /// Until when the quota of a runtime is used up.
    quotas: &'r BTreeMap<&'b RuntimeId, Timestamp>,
    sessions: u32,
}

impl Room<'_, '_> {
    /// Why an agent cannot run a task now, given what starts before it; none: it can.
    fn why_not(&self, agent: &AgentCard, task: &TaskCard) -> Option<NotEligible> {
        not_eligible(agent, task).or_else(|| {
            (!self.free.contains_key(&agent.id)).then(|| NotEligible {
                agent_id: agent.id.clone(),
                reason: NotEligibleReason::Busy,
                missing: Vec::new(),
            })
        })
    }

    /// Until when the quota of the runtime keeps an agent from a task that it could run otherwise.
    fn quota(&self, agent: &AgentCard, task: &TaskCard) -> Option<WaitingForQuota> {
        let until = *self.quotas.get(&agent.runtime_id)?;
        could_run(agent, task)
            .then(|| WaitingForQuota { until, runtime_id: Some(agent.runtime_id.clone()) })
    }
}

/// Finds the agent for a task: the pinned one, else the one that is idle longest.
fn place<'b>(
    task: &TaskCard,
    board: &'b Board,
    room: &Room<'_, 'b>,
) -> Result<&'b AgentCard, Box<Waiting>> {
    let users: Vec<TaskId> = room
        .claims
        .iter()
        .filter(|other| overlap(task, other))
        .map(|other| other.id.clone())
        .collect();
    if !users.is_empty() {
        return Err(Box::new(Waiting {
            paths_in_use: Some(WaitingForTasks { task_ids: users }),
            ..Waiting::because(WaitReason::PathsInUse)
        }));
    }
    if task.isolated && room.sessions >= board.sessions_max {
        return Err(Box::new(Waiting {
            process_limit: Some(WaitingForSession { max: board.sessions_max }),
            ..Waiting::because(WaitReason::ProcessLimit)
        }));
    }
    match &task.pinned {
        Some(pinned) => {
            let agent = board.agents.iter().find(|agent| agent.id == *pinned);
            the_pinned(pinned, agent, task, room)
        }
        None => any_of_project(task, board, room),
    }
}

fn the_pinned<'b>(
    pinned: &AgentId,
    agent: Option<&'b AgentCard>,
    task: &TaskCard,
    room: &Room<'_, 'b>,
) -> Result<&'b AgentCard, Box<Waiting>> {
    if let Some(quota) = agent.and_then(|agent| room.quota(agent, task)) {
        return Err(quota_over(quota));
    }
    let no = match agent.map(|agent| (agent, room.why_not(agent, task))) {
        Some((agent, None)) => return Ok(agent),
        Some((agent, Some(no))) => WaitingForAgent {
            agent_id: no.agent_id,
            state: Some(agent.status),
            reason: no.reason,
            missing: no.missing,
        },
        None => WaitingForAgent {
            agent_id: pinned.clone(),
            state: None,
            reason: NotEligibleReason::NotReady,
            missing: Vec::new(),
        },
    };
    Err(Box::new(Waiting {
        assigned_agent_unavailable: Some(no),
        ..Waiting::because(WaitReason::AssignedAgentUnavailable)
    }))
}

fn any_of_project<'b>(
    task: &TaskCard,
    board: &'b Board,
    room: &Room<'_, 'b>,
) -> Result<&'b AgentCard, Box<Waiting>> {
    let of_project = || board.agents.iter().filter(|agent| agent.project_id == task.project_id);
    let free = of_project()
        .filter(|agent| room.why_not(agent, task).is_none() && room.quota(agent, task).is_none());
    free.min_by_key(|agent| (agent.idle_since, &agent.id)).ok_or_else(|| {
        // One that is busy may be free before a quota is back, so it counts only when all of them wait for one.
        let able = of_project().filter(|agent| could_run(agent, task));
        let quotas: Option<Vec<_>> = able.map(|agent| room.quota(agent, task)).collect();
        match quotas.unwrap_or_default().into_iter().min_by_key(|quota| quota.until) {
            Some(quota) => quota_over(quota),
            None => Box::new(Waiting {
                no_eligible_agent: Some(WaitingForAgents {
                    agents: of_project().filter_map(|agent| room.why_not(agent, task)).collect(),
                }),
                ..Waiting::because(WaitReason::NoEligibleAgent)
            }),
        }
    })
}

/// Whether an agent may run a task, at the latest when it has done what it does now.
fn could_run(agent: &AgentCard, task: &TaskCard) -> bool {
    not_eligible(agent, task).is_none_or(|no| no.reason == NotEligibleReason::Busy)
}

fn quota_over(quota: WaitingForQuota) -> Box<Waiting> {
    Box::new(Waiting { rate_limited: Some(quota), ..Waiting::because(WaitReason::RateLimited) })
}

/// Why an agent cannot run a task now; none: it can.
pub fn not_eligible(agent: &AgentCard, task: &TaskCard) -> Option<NotEligible> {
    let missing: Vec<_> = task.requirements.difference(&agent.capabilities).copied().collect();
    let reason = if agent.role == Role::Orchestrator {
        NotEligibleReason::Orchestrator
    } else if agent.interaction == Interaction::Terminal {
        NotEligibleReason::TerminalMode
    } else if !missing.is_empty() {
        NotEligibleReason::MissingCapability
    } else if agent.status == AgentStatus::Busy || agent.in_turn {
        NotEligibleReason::Busy
    } else if agent.status != AgentStatus::Ready {
        NotEligibleReason::NotReady
    } else {
        return None;
    };
    let missing = if reason == NotEligibleReason::MissingCapability { missing } else { Vec::new() };
    Some(NotEligible { agent_id: agent.id.clone(), reason, missing })
}

/// A task holds its claim while it runs, is verified, or its attempt still lets go.
fn holds_paths(task: &TaskCard) -> bool {
    matches!(task.status, TaskStatus::Running | TaskStatus::Verifying) || task.ending
}

/// Whether two claims may touch the same file. Only declared claims in the project's own folder count (H-35).
fn overlap(a: &TaskCard, b: &TaskCard) -> bool {
    a.id != b.id
        && a.project_id == b.project_id
        && !(a.isolated || b.isolated)
        && a.paths.iter().any(|one| b.paths.iter().any(|other| globs_may_overlap(one, other)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::capability::Capability;
    use crate::domain::objective::PausePolicy;
    use crate::domain::task::BlockCause;
    use crate::ids::ProjectId;

    use NotEligibleReason as R;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn task(id: &str) -> TaskCard {
        TaskCard {
            id: TaskId::new(id),
            project_id: ProjectId::new("p"),
            status: TaskStatus::Ready,
            blocked: None,
            priority: Priority::Normal,
            ready_at: Some(NOW),
            order: 0,
            unmet: Vec::new(),
            requirements: BTreeSet::new(),
            isolated: false,
            pinned: None,
            paths: Vec::new(),
            hold: None,
            hold_cause: None,
            hold_runtime: None,
            paused: None,
            ending: false,
        }
    }

    fn agent(id: &str) -> AgentCard {
        AgentCard {
            id: AgentId::new(id),
            project_id: ProjectId::new("p"),
            runtime_id: RuntimeId::new("r"),
            status: AgentStatus::Ready,
            in_turn: false,
            role: Role::Worker,
            interaction: Interaction::Structured,
            capabilities: BTreeSet::from([Capability::StructuredSession]),
            idle_since: NOW,
        }
    }

    fn board(tasks: Vec<TaskCard>, agents: Vec<AgentCard>) -> Board {
        Board { tasks, agents, live_sessions: 1, sessions_max: 16, stopping: false }
    }

    fn starts(board: &Board) -> Vec<(String, String)> {
        plan(board, NOW)
            .starts
            .into_iter()
            .map(|(task, agent)| (task.to_string(), agent.to_string()))
            .collect()
    }

    fn reason(board: &Board, id: &str) -> WaitReason {
        plan(board, NOW).waits[&TaskId::new(id)].reason
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(task, agent)| ((*task).to_owned(), (*agent).to_owned())).collect()
    }

    #[test]
    fn urgent_goes_first_then_the_longest_ready_then_the_oldest() {
        let tasks = vec![
            TaskCard { order: 3, ..task("later") },
            TaskCard { order: 2, ready_at: Some(Timestamp::from_millis(1)), ..task("early") },
            TaskCard { order: 1, ..task("older") },
            TaskCard { order: 4, priority: Priority::Urgent, ..task("urgent") },
        ];
        let agents = ["1", "2", "3", "4"].map(agent).to_vec();
        assert_eq!(
            starts(&board(tasks, agents)),
            pairs(&[("urgent", "1"), ("early", "2"), ("older", "3"), ("later", "4")])
        );
    }

    #[test]
    fn the_agent_that_is_idle_longest_gets_the_task() {
        let rested = AgentCard { idle_since: Timestamp::from_millis(1), ..agent("z") };
        assert_eq!(starts(&board(vec![task("t")], vec![agent("a"), rested])), pairs(&[("t", "z")]));
    }

    #[test]
    fn a_pinned_task_never_moves_by_itself() {
        let pinned = TaskCard { pinned: Some(AgentId::new("a")), ..task("t") };
        let stopped = AgentCard { status: AgentStatus::Stopped, ..agent("a") };
        let b = board(vec![pinned], vec![stopped, agent("b")]);
        assert_eq!(starts(&b), []);
        let waiting = plan(&b, NOW).waits[&TaskId::new("t")].clone();
        assert_eq!(
            waiting.assigned_agent_unavailable.unwrap().state,
            Some(AgentStatus::Stopped),
            "H-34"
        );
    }

    #[test]
    fn every_agent_says_why_it_cannot() {
        let needy = TaskCard { requirements: BTreeSet::from([Capability::Resume]), ..task("t") };
        let agents = vec![
            AgentCard { role: Role::Orchestrator, ..agent("1") },
            AgentCard { interaction: Interaction::Terminal, ..agent("2") },
            agent("3"),
            AgentCard { status: AgentStatus::Busy, ..agent("4") },
            AgentCard { project_id: ProjectId::new("other"), ..agent("5") },
        ];
        let waiting = plan(&board(vec![needy], agents), NOW).waits[&TaskId::new("t")].clone();
        let no: Vec<_> =
            waiting.no_eligible_agent.unwrap().agents.into_iter().map(|no| no.reason).collect();
        let missing = R::MissingCapability;
        assert_eq!(no, [R::Orchestrator, R::TerminalMode, missing, missing]);
        let busy =
            plan(&board(vec![task("t")], vec![AgentCard { in_turn: true, ..agent("1") }]), NOW);
        assert_eq!(
            busy.waits[&TaskId::new("t")].no_eligible_agent.as_ref().unwrap().agents[0].reason,
            R::Busy
        );
    }

    #[test]
    fn one_agent_takes_one_task() {
        let b = board(vec![task("1"), TaskCard { order: 1, ..task("2") }], vec![agent("a")]);
        assert_eq!(starts(&b), pairs(&[("1", "a")]));
        assert_eq!(reason(&b, "2"), WaitReason::NoEligibleAgent);
    }

    #[test]
    fn only_declared_overlapping_paths_exclude_each_other() {
        let claim = |id: &str, order, paths: &[&str]| TaskCard {
            order,
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            ..task(id)
        };
        let tasks = vec![
            claim("1", 1, &["src/**"]),
            claim("2", 2, &["src/a.rs"]),
            claim("3", 3, &["docs/*"]),
            claim("4", 4, &[]),
        ];
        let b = board(tasks, ["a", "b", "c", "d"].map(agent).to_vec());
        assert_eq!(starts(&b), pairs(&[("1", "a"), ("3", "b"), ("4", "c")]));
        assert_eq!(
            plan(&b, NOW).waits[&TaskId::new("2")].paths_in_use,
            Some(WaitingForTasks { task_ids: vec![TaskId::new("1")] })
        );
    }

    #[test]
    fn a_held_task_says_until_when_and_wakes_the_engine_then() {
        let until = Timestamp::from_millis(6_000);
        let held = TaskCard {
            hold: Some((until, Hold::Backoff)),
            hold_cause: Some("transient".into()),
            ..task("t")
        };
        let seen = plan(&board(vec![held.clone()], vec![agent("a")]), NOW);
        assert_eq!((seen.starts.len(), seen.next_due), (0, Some(until)));
        assert_eq!(seen.waits[&held.id].reason, WaitReason::Backoff);
        assert_eq!(plan(&board(vec![held], vec![agent("a")]), until).starts.len(), 1);
    }

    #[test]
    fn whatever_holds_a_task_back_has_a_name() {
        let agents = || vec![agent("a")];
        let cases = [
            (TaskCard { status: TaskStatus::Created, ..task("t") }, WaitReason::Dependencies),
            (
                TaskCard {
                    status: TaskStatus::Blocked,
                    blocked: Some(BlockCause::OutcomeUnknown),
                    ..task("t")
                },
                WaitReason::Approval,
            ),
            (
                TaskCard { paused: Some(PausePolicy::Drain), ..task("t") },
                WaitReason::ObjectivePaused,
            ),
            (TaskCard { ending: true, ..task("t") }, WaitReason::PreviousAttemptEnding),
        ];
        for (card, wanted) in cases {
            assert_eq!(reason(&board(vec![card], agents()), "t"), wanted);
        }
        let stopping = Board { stopping: true, ..board(vec![task("t")], agents()) };
        assert_eq!(reason(&stopping, "t"), WaitReason::CoreStopping);
        let full = Board {
            sessions_max: 1,
            ..board(vec![TaskCard { isolated: true, ..task("t") }], agents())
        };
        assert_eq!(reason(&full, "t"), WaitReason::ProcessLimit);
    }
}

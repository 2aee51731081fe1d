//! How states and reasons are said to a person.

use std::collections::BTreeMap;
use std::time::Duration;

use cortex_lib::api::view::{ObjectiveView, TaskView};
use cortex_lib::domain::approval::{Decide, Rule};
use cortex_lib::domain::task::Evidence;
use cortex_lib::domain::waiting::{NotEligibleReason, WaitReason, Waiting, WaitingForTasks};
use cortex_lib::ids::{AgentId, TaskId};
use cortex_lib::time::Timestamp;

/// What tasks and agents are called.
#[derive(Debug, Default)]
pub(crate) struct Names {
    agents: BTreeMap<AgentId, String>,
    tasks: BTreeMap<TaskId, String>,
}

impl Names {
    /// Those of an objective and these agents.
    pub(crate) fn of(view: &ObjectiveView, agents: BTreeMap<AgentId, String>) -> Self {
        let tasks =
            view.tasks.iter().map(|task| (task.task_id.clone(), task.key.clone())).collect();
        Self { agents, tasks }
    }

    /// An agent's name; its id when it is not known.
    pub(crate) fn agent<'a>(&'a self, id: &'a AgentId) -> &'a str {
        self.agents.get(id).map_or(id.as_str(), String::as_str)
    }

    /// A task's key. Tasks of other objectives have no name here.
    fn tasks(&self, waiting: Option<&WaitingForTasks>) -> String {
        let ids = waiting.map(|waiting| waiting.task_ids.as_slice()).unwrap_or_default();
        let names: Vec<_> = ids
            .iter()
            .map(|id| self.tasks.get(id).map_or("another objective", String::as_str))
            .collect();
        names.join(", ")
    }

    /// Why a task waits.
    pub(crate) fn waiting(&self, waiting: &Waiting, now: Timestamp) -> String {
        let left = |until: Timestamp| {
            let millis = until.since(now).as_millis();
            format!("{} s", millis.div_ceil(1000))
        };
        match waiting.reason {
            WaitReason::Dependencies => {
                format!("waits for {}", self.tasks(waiting.dependencies.as_ref()))
            }
            WaitReason::ObjectivePaused => "waits: the objective is paused".to_owned(),
            WaitReason::NoEligibleAgent => {
                let agents = waiting.no_eligible_agent.iter().flat_map(|agents| &agents.agents);
                let each: Vec<_> = agents
                    .map(|agent| {
                        format!("{} {}", self.agent(&agent.agent_id), not_eligible(agent.reason))
                    })
                    .collect();
                if each.is_empty() {
                    "waits: the project has no agent".to_owned()
                } else {
                    format!("waits for an agent: {}", each.join(", "))
                }
            }
            WaitReason::AssignedAgentUnavailable => match &waiting.assigned_agent_unavailable {
                Some(agent) => {
                    format!(
                        "waits for {}, which {}",
                        self.agent(&agent.agent_id),
                        not_eligible(agent.reason)
                    )
                }
                None => "waits for its agent".to_owned(),
            },
            WaitReason::Backoff => match &waiting.backoff {
                Some(hold) => format!("tries again in {} after {}", left(hold.until), hold.cause),
                None => "tries again soon".to_owned(),
            },
            WaitReason::RateLimited => match &waiting.rate_limited {
                Some(quota) => format!("waits {} for the quota of its runtime", left(quota.until)),
                None => "waits for the quota of its runtime".to_owned(),
            },
            WaitReason::PathsInUse => {
                format!("waits for files in use by {}", self.tasks(waiting.paths_in_use.as_ref()))
            }
            WaitReason::ProcessLimit => match waiting.process_limit {
                Some(limit) => format!("waits: {} sessions live, and no more may", limit.max),
                None => "waits: no more sessions may live".to_owned(),
            },
            WaitReason::PreviousAttemptEnding => {
                "waits until its last attempt has let go".to_owned()
            }
            WaitReason::Approval => match waiting.approval {
                Some(person) => format!("waits for a person: {}", person.cause.as_str()),
                None => "waits for a person".to_owned(),
            },
            WaitReason::CoreStopping => "waits: the core is stopping".to_owned(),
            WaitReason::Starting => "is about to start".to_owned(),
        }
    }
}

/// Whether a reason lasts long enough, and is not said elsewhere, to be told in a line of its own.
pub(crate) fn is_worth_a_line(reason: WaitReason) -> bool {
    match reason {
        WaitReason::Starting | WaitReason::CoreStopping | WaitReason::Approval => false,
        WaitReason::Dependencies
        | WaitReason::ObjectivePaused
        | WaitReason::NoEligibleAgent
        | WaitReason::AssignedAgentUnavailable
        | WaitReason::Backoff
        | WaitReason::RateLimited
        | WaitReason::PathsInUse
        | WaitReason::ProcessLimit
        | WaitReason::PreviousAttemptEnding => true,
    }
}

fn not_eligible(reason: NotEligibleReason) -> &'static str {
    match reason {
        NotEligibleReason::NotReady => "is not ready",
        NotEligibleReason::Busy => "is busy",
        NotEligibleReason::Orchestrator => "never runs tasks",
        NotEligibleReason::TerminalMode => "has no turns",
        NotEligibleReason::MissingCapability => "lacks a capability",
    }
}

/// What speaks for a result.
pub(crate) fn evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Verified => "verified",
        Evidence::Approved => "approved by you",
        Evidence::None => "not verified",
    }
}

/// Why a task is blocked, failed or was cancelled.
pub(crate) fn failure(task: &TaskView) -> String {
    task.failure.as_ref().map_or_else(
        || "no reason is known".to_owned(),
        |failure| format!("{} ({})", plain(&failure.message), failure.cause),
    )
}

/// A rule for tool requests in one line.
pub(crate) fn rule(rule: &Rule) -> String {
    let decides = match rule.decide {
        Decide::Allow => "allow",
        Decide::Deny => "deny",
        Decide::Ask => "ask",
    };
    let input = rule.input.as_ref().map(|input| format!(" with {input:?}")).unwrap_or_default();
    let agent = rule.agent.as_ref().map(|agent| format!(" of {agent}")).unwrap_or_default();
    plain(&format!("{}: {decides} {}{input}{agent}", rule.id, rule.tool))
}

/// A length of time: tenths of a second below a minute.
pub(crate) fn seconds(time: Duration) -> String {
    let secs = time.as_secs();
    if secs < 60 {
        format!("{secs}.{} s", time.subsec_millis() / 100)
    } else if secs < 3600 {
        format!("{}:{:02} min", secs / 60, secs % 60)
    } else {
        format!("{}:{:02}:{:02} h", secs / 3600, secs / 60 % 60, secs % 60)
    }
}

/// Text on one line, without what a terminal would obey: what an agent prints must not move the cursor.
pub(crate) fn plain(text: &str) -> String {
    let text = console::strip_ansi_codes(text);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// Text on its own lines, without what a terminal would obey.
pub(crate) fn lines(text: &str) -> String {
    let text = console::strip_ansi_codes(text);
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let seen = [0, 1_250, 61_000, 3_725_000].map(|ms| seconds(Duration::from_millis(ms)));
        assert_eq!(seen, ["0.0 s", "1.2 s", "1:01 min", "1:02:05 h"]);
    }

    #[test]
    fn text_of_an_agent_cannot_move_the_cursor() {
        assert_eq!(plain("\u{1b}[2Ja\u{1b}[31mb\r\nc\u{7}"), "ab  c");
    }

    #[test]
    fn an_unknown_agent_is_told_by_its_id() {
        assert_eq!(Names::default().agent(&AgentId::new("x")), "x");
    }
}

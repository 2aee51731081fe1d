//! Who may call what, said a second time: the table that the catalogue is held against, in Rust and over HTTP.

use cortex_lib::api::{TOOLS, ToolDef};
use serde_json::{Value, json};

/// The runtime of the agents.
const SCRIPTED: &str = "scripted";

/// What becomes of a session's call that names something of another project.
#[derive(Clone, Copy, Debug)]
pub enum Foreign {
    /// The call names nothing: it tells of the caller's own project only.
    Unnamed,
    /// What it names is not there.
    Hidden(&'static str),
    /// What it names was made nowhere, so it is not there in the own project either.
    Unmade(&'static str),
}
use Foreign::{Hidden, Unmade, Unnamed};

pub type Line = (&'static str, char, &'static str, Foreign, fn(&Names) -> Value);

/// The table of the tools. R reads, W changes, I changes once. U user, O orchestrator, A agent, H hook.
pub const TABLE: [Line; 34] = [
    ("list_projects", 'R', "UOAH", Unnamed, |_| json!({})),
    ("list_runtimes", 'R', "UOAH", Unnamed, |_| json!({})),
    (
        "list_agents",
        'R',
        "UOAH",
        Hidden("project.not_found"),
        |n| json!({ "project_id": n.project }),
    ),
    (
        "get_agent_status",
        'R',
        "UOAH",
        Hidden("agent.not_found"),
        |n| json!({ "agent_id": n.agent }),
    ),
    (
        "create_agent",
        'W',
        "UOA",
        Hidden("project.not_found"),
        |n| json!({ "project_id": n.project, "name": n.fresh, "runtime_id": SCRIPTED }),
    ),
    (
        "update_agent",
        'W',
        "UO",
        Hidden("agent.not_found"),
        |n| json!({ "agent_id": n.agent, "name": n.fresh }),
    ),
    ("start_agent", 'I', "UO", Hidden("agent.not_found"), |n| json!({ "agent_id": n.agent })),
    (
        "send_message",
        'W',
        "U",
        Hidden("agent.not_found"),
        |n| json!({ "agent_id": n.agent, "message": "go" }),
    ),
    ("interrupt_agent", 'I', "U", Hidden("agent.not_found"), |n| json!({ "agent_id": n.agent })),
    ("stop_agent", 'I', "U", Hidden("agent.not_found"), |n| json!({ "agent_id": n.agent })),
    (
        "poll_agent_events",
        'R',
        "UOAH",
        Hidden("agent.not_found"),
        |n| json!({ "agent_id": n.agent }),
    ),
    (
        "create_objective",
        'W',
        "U",
        Hidden("project.not_found"),
        |n| json!({ "project_id": n.project, "title": "t", "tasks": [{ "key": "a", "title": "A", "description": "x" }] }),
    ),
    (
        "plan_objective",
        'W',
        "U",
        Hidden("project.not_found"),
        |n| json!({ "project_id": n.project, "goal": "x" }),
    ),
    (
        "propose_objective",
        'W',
        "U",
        Hidden("project.not_found"),
        |n| json!({ "project_id": n.project, "goal": "x" }),
    ),
    (
        "list_proposals",
        'R',
        "UOAH",
        Hidden("project.not_found"),
        |n| json!({ "project_id": n.project }),
    ),
    (
        "edit_proposal",
        'W',
        "U",
        Unmade("proposal.not_found"),
        |_| json!({ "proposal_id": "none", "plan": { "title": "t", "tasks": [{ "key": "a", "title": "A", "description": "x" }] } }),
    ),
    (
        "approve_proposal",
        'W',
        "U",
        Unmade("proposal.not_found"),
        |_| json!({ "proposal_id": "none" }),
    ),
    (
        "reject_proposal",
        'W',
        "U",
        Unmade("proposal.not_found"),
        |_| json!({ "proposal_id": "none" }),
    ),
    ("list_tasks", 'R', "UOAH", Unnamed, |_| json!({})),
    ("get_task_status", 'R', "UOAH", Hidden("task.not_found"), |n| json!({ "task_id": n.task })),
    ("cancel_task", 'I', "U", Hidden("task.not_found"), |n| json!({ "task_id": n.task })),
    (
        "cancel_objective",
        'I',
        "U",
        Hidden("objective.not_found"),
        |n| json!({ "objective_id": n.objective }),
    ),
    (
        "pause_objective",
        'I',
        "U",
        Hidden("objective.not_found"),
        |n| json!({ "objective_id": n.objective }),
    ),
    (
        "resume_objective",
        'I',
        "U",
        Hidden("objective.not_found"),
        |n| json!({ "objective_id": n.objective }),
    ),
    ("reassign_task", 'I', "U", Hidden("task.not_found"), |n| json!({ "task_id": n.task })),
    ("approve_task", 'I', "U", Hidden("task.not_found"), |n| json!({ "task_id": n.task })),
    ("retry_task", 'I', "U", Hidden("task.not_found"), |n| json!({ "task_id": n.task })),
    ("integrate_task", 'W', "U", Hidden("task.not_found"), |n| json!({ "task_id": n.task })),
    ("list_skills", 'R', "UOAH", Hidden("agent.not_found"), |n| json!({ "agent_id": n.agent })),
    (
        "post_message",
        'W',
        "UOA",
        Hidden("project.not_found"),
        |n| json!({ "project_id": n.project, "to_agent_id": n.agent, "body": "x" }),
    ),
    ("read_messages", 'R', "UOA", Unnamed, |_| json!({})),
    ("ack_message", 'I', "UOA", Unmade("message.not_found"), |_| json!({ "message_id": "none" })),
    ("get_skill", 'R', "UOA", Unmade("skill.not_found"), |_| json!({ "skill_id": "none" })),
    (
        "get_skill_resource",
        'R',
        "UOA",
        Unmade("skill.not_found"),
        |_| json!({ "skill_id": "none", "path": "x" }),
    ),
];

/// Tools of the table that this version does not have yet. A tool that comes leaves this list.
pub const ABSENT: &[&str] = &["list_skills", "get_skill", "get_skill_resource"];

/// The things of one project.
pub struct Names {
    pub project: String,
    pub agent: String,
    /// Another agent, whose session calls.
    pub peer: String,
    pub objective: String,
    pub task: String,
    /// A name that nobody has.
    pub fresh: String,
}

impl Names {
    pub fn all(&self) -> [&str; 5] {
        [&self.project, &self.agent, &self.peer, &self.objective, &self.task]
    }
}

pub fn present() -> impl Iterator<Item = (&'static ToolDef, Line)> {
    TABLE
        .into_iter()
        .filter_map(|line| Some((TOOLS.iter().find(|tool| tool.name == line.0)?, line)))
}

/// What a caller meets who may call and names what is there: an answer, or a reason that is not about the caller.
pub fn assert_admitted(code: &str, cell: &str) {
    let refused = ["permission.denied", "validation.invalid_arguments"].contains(&code);
    assert!(!refused && !code.ends_with("not_found"), "{cell}: {code}");
}

//! `docs/lifecycles.md`, drawn by walking the machines: it cannot say what the code does not do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::machine::{Machine, walk};
use super::{
    agent, approval, attempt, connection, message, objective, proposal, steer, task, turn,
    workspace,
};

/// A lifecycle as the page tells it.
struct Page {
    title: &'static str,
    /// What it is the life of, and what a reader should know first.
    about: &'static str,
    /// The source of the state's documentation: the enum of that name in the module's text.
    states: (&'static str, &'static str),
    /// The source of the inputs' documentation.
    inputs: (&'static str, &'static str),
    drawn: Drawn,
}

/// What a walk saw, with states and inputs by their names alone.
struct Drawn {
    first: String,
    last: BTreeSet<String>,
    edges: BTreeMap<(String, String), BTreeSet<String>>,
    duties: BTreeMap<String, String>,
    counts: (usize, usize),
}

impl Drawn {
    fn of<M: Machine>(
        first: &M,
        inputs: &[M::Input],
        can_end: bool,
        name: impl Fn(&M) -> String,
    ) -> Self {
        let mut edges: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let seen = walk(first.clone(), inputs, can_end, |from, input, to| {
            let (from, to) = (name(from), name(to));
            if from != to {
                edges.entry((from, to)).or_default().insert(variant(input));
            }
        });
        let owed = |state: &M| state.owes().map(|duty| (name(state), variant(&duty)));
        Self {
            first: name(first),
            last: seen.states.iter().filter(|state| state.is_final()).map(&name).collect(),
            duties: seen.states.iter().filter_map(owed).collect(),
            counts: (seen.states.len(), seen.edges),
            edges,
        }
    }

    fn diagram(&self) -> String {
        let mut text = format!("```mermaid\nstateDiagram-v2\n    [*] --> {}\n", self.first);
        for ((from, to), inputs) in &self.edges {
            let inputs: Vec<_> = inputs.iter().map(String::as_str).collect();
            let _infallible = writeln!(text, "    {from} --> {to}: {}", inputs.join(", "));
        }
        for last in &self.last {
            let _infallible = writeln!(text, "    {last} --> [*]");
        }
        text + "```\n"
    }
}

/// The name of an enum's variant, without what it carries.
fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

/// The variants of an enum with the first sentences of their documentation, read from the source: told once.
fn documented(name: &str, source: &str) -> Vec<(String, String)> {
    let begin = format!("pub enum {name} {{");
    let body = source.lines().skip_while(|line| *line != begin).skip(1);
    let body = body.take_while(|line| *line != "}");
    let (mut all, mut doc) = (Vec::new(), Vec::new());
    for line in body.filter_map(|line| line.strip_prefix("    ")) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push(text);
        } else if line.starts_with(char::is_uppercase) {
            let name = line.trim_end_matches(',').split([' ', '(', '{']).next().unwrap_or_default();
            all.push((name.to_owned(), doc.join(" ")));
            doc.clear();
        }
    }
    assert!(!all.is_empty(), "{name} has variants");
    all
}

impl Page {
    /// What is owed to a state, whatever it carries.
    fn owed(&self, state: &str) -> String {
        let is_it = |name: &str| name.split('_').next() == Some(state);
        let duties = self.drawn.duties.iter().filter(|(name, _)| is_it(name));
        let owed: BTreeSet<_> = duties.map(|(_, duty)| format!("`{duty}`")).collect();
        owed.into_iter().collect::<Vec<_>>().join(", ")
    }

    fn text(&self) -> String {
        let mut text = format!("## {}\n\n{}\n\n{}", self.title, self.about, self.drawn.diagram());
        text += if self.drawn.duties.is_empty() {
            "\n| state | what it is |\n| --- | --- |\n"
        } else {
            "\n| state | what it is | what the world owes it |\n| --- | --- | --- |\n"
        };
        for (state, doc) in documented(self.states.0, self.states.1) {
            let _infallible = write!(text, "| `{state}` | {doc} |");
            if !self.drawn.duties.is_empty() {
                let _infallible = write!(text, " {} |", self.owed(&state));
            }
            text.push('\n');
        }
        text += "\n| input | what happens |\n| --- | --- |\n";
        for (input, doc) in documented(self.inputs.0, self.inputs.1) {
            let _infallible = writeln!(text, "| `{input}` | {doc} |");
        }
        let (states, edges) = self.drawn.counts;
        let _infallible = writeln!(
            text,
            "\nWith all that a state carries (sessions, attempts, counters) the walk visits {states} states over {edges} edges."
        );
        text
    }
}

fn pages() -> [Page; 11] {
    [
        flow(),
        task(),
        attempt(),
        worktree(),
        agent(),
        turn(),
        steer(),
        approval(),
        proposal(),
        message(),
        connection(),
    ]
}

fn flow() -> Page {
    let source = include_str!("objective.rs");
    let name = |flow: &objective::FlowState| match flow {
        objective::FlowState::Paused(policy) => format!("{}_{policy:?}", variant(flow)),
        objective::FlowState::Running => variant(flow),
    };
    let inputs = objective::tests::inputs();
    Page {
        title: "Flow of an objective",
        about: "Whether tasks of an objective may start. The status of an objective is not stored: it is derived from its \
                tasks and this flow.",
        states: ("FlowState", source),
        inputs: ("FlowInput", source),
        drawn: Drawn::of(&objective::FlowState::Running, &inputs, false, name),
    }
}

fn task() -> Page {
    let source = include_str!("task.rs");
    let name = |state: &task::TaskState| variant(&state.phase);
    Page {
        title: "Task",
        about: "Waits, is tried, and completes only on evidence. On the wire the states are in capitals (`BLOCKED`). What its \
                work owes stands with its attempt.",
        states: ("Phase", source),
        inputs: ("TaskInput", source),
        drawn: Drawn::of(&task::TaskState::new(), &task::tests::inputs(), true, name),
    }
}

fn attempt() -> Page {
    let source = include_str!("attempt.rs");
    let name = |state: &attempt::AttemptState| {
        if let attempt::AttemptState::Over(outcome) = state {
            format!("{}_{}", variant(state), variant(outcome))
        } else {
            variant(state)
        }
    };
    let inputs = attempt::tests::inputs();
    Page {
        title: "Attempt",
        about: "One try of a task: one turn of an agent and its verification. It is stored before its turn is sent. Ending is \
                a state and not an action, so that after a crash the row still says who has to finish.",
        states: ("AttemptState", source),
        inputs: ("AttemptInput", source),
        drawn: Drawn::of(&attempt::AttemptState::Preparing, &inputs, true, name),
    }
}

fn worktree() -> Page {
    let source = include_str!("workspace.rs");
    let inputs = workspace::tests::inputs();
    Page {
        title: "Worktree of an attempt",
        about: "Made for one attempt, committed before it goes, integrated by a person. Nothing is removed that was not \
                committed or proved to be empty.",
        states: ("WorkspaceState", source),
        inputs: ("WorkspaceInput", source),
        drawn: Drawn::of(&workspace::WorkspaceState::Planned, &inputs, true, variant),
    }
}

fn agent() -> Page {
    let source = include_str!("agent.rs");
    Page {
        title: "Agent",
        about: "From its creation through its sessions to its removal. On the wire the states are in capitals (`READY`). An \
                agent has no last state: removing it takes its row out of every list.",
        states: ("AgentState", source),
        inputs: ("AgentInput", source),
        drawn: Drawn::of(&agent::AgentState::Created, &agent::tests::inputs(), false, variant),
    }
}

fn turn() -> Page {
    let source = include_str!("turn.rs");
    Page {
        title: "Direct turn",
        about: "A message of a person to an agent. It is no attempt: nothing is verified and nothing is tried again.",
        states: ("TurnState", source),
        inputs: ("TurnInput", source),
        drawn: Drawn::of(&turn::TurnState::Sending, &turn::tests::inputs(), true, variant),
    }
}

fn approval() -> Page {
    let source = include_str!("approval/mod.rs");
    let name = |state: &approval::ApprovalState| match state {
        approval::ApprovalState::Allowed(delivery) | approval::ApprovalState::Denied(delivery) => {
            format!("{}_{delivery:?}", variant(state))
        }
        approval::ApprovalState::Pending
        | approval::ApprovalState::Cancelled
        | approval::ApprovalState::Expired => variant(state),
    };
    let inputs = approval::tests::inputs();
    Page {
        title: "Approval",
        about: "A tool that an agent wants to use, or a question that it asks its user. It is decided once, by role, by a \
                rule, by a person or by time; the answer is owed to the session until it was told or is gone.",
        states: ("ApprovalState", source),
        inputs: ("ApprovalInput", source),
        drawn: Drawn::of(&approval::ApprovalState::Pending, &inputs, true, name),
    }
}

fn steer() -> Page {
    let source = include_str!("steer.rs");
    Page {
        title: "Message for a turn that runs",
        about: "More for a direct turn to go on, on a runtime that takes input meanwhile. It is delivered once: into that \
                turn, or as a turn of its own when it came too late.",
        states: ("SteerState", source),
        inputs: ("SteerInput", source),
        drawn: Drawn::of(&steer::SteerState::Sending, &steer::tests::inputs(), true, variant),
    }
}

fn proposal() -> Page {
    let source = include_str!("proposal.rs");
    let inputs = proposal::tests::inputs();
    Page {
        title: "Proposal",
        about: "One revision of a proposed plan. It is decided once; an edit is a new revision.",
        states: ("ProposalState", source),
        inputs: ("ProposalInput", source),
        drawn: Drawn::of(&proposal::ProposalState::Pending, &inputs, true, variant),
    }
}

fn message() -> Page {
    let source = include_str!("message.rs");
    let inputs = message::tests::inputs();
    Page {
        title: "Message",
        about: "A message of the bus, from its sender to its reader. Its time decides at the instant it is over, whenever \
                the row is told.",
        states: ("MessageState", source),
        inputs: ("MessageInput", source),
        drawn: Drawn::of(&message::MessageState::Waiting, &inputs, true, variant),
    }
}

fn connection() -> Page {
    let source = include_str!("connection.rs");
    let inputs = connection::tests::inputs();
    Page {
        title: "Connection",
        about: "The access of a remote client by `mcp.public_url`. Only what the person allowed at the machine connects.",
        states: ("ConnectionState", source),
        inputs: ("ConnectionInput", source),
        drawn: Drawn::of(&connection::ConnectionState::Pending, &inputs, true, variant),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it writes what it generates")]
fn the_page_of_the_lifecycles_is_current() {
    let mut text = "# Lifecycles\n\n\
        Generated from the code by walking each lifecycle; a test keeps it current.\n\n\
        A lifecycle is a total function from a state and an input to the next state, to \"nothing changes\", or to a refusal. The diagrams show what leads \
        to another state. What the world owes a state is read from the stored row, also after a crash: \
        see [architecture.md](architecture.md).\n"
        .to_owned();
    for page in pages() {
        text += "\n";
        text += &page.text();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/lifecycles.md");
    if std::env::var_os("UPDATE").is_some() {
        fs_err::write(path, &text).expect("the page can be written");
    }
    let stored = fs_err::read_to_string(path).unwrap_or_default();
    assert!(
        stored.replace("\r\n", "\n") == text,
        "docs/lifecycles.md is stale: run `UPDATE=1 cargo test -p cortex-lib --lib lifecycles`"
    );
}

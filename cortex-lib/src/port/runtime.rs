//! A runtime: a kind of agent that can be run, such as one coding CLI.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::session::{Session, SessionEvent, SessionFacts};
use super::terminal::Terminal;
use crate::domain::agent::{Interaction, Role};
use crate::domain::capability::Capability;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, RuntimeId, SessionId};
use crate::secret::Secret;

/// A kind of agent that can be run. One instance serves all agents of that kind.
///
/// A driver implements this and [`Session`]. It is registered with
/// `Builder::runtime`.
#[async_trait]
pub trait Runtime: Debug + Send + Sync + 'static {
    /// What it is and what it can do. The same at every call.
    fn info(&self) -> &RuntimeInfo;

    /// Looks whether it can start now. May take seconds; the core calls it behind everything else.
    async fn check(&self) -> HealthReport;

    /// Opens a session and returns once it takes a turn.
    ///
    /// When it fails or is dropped before it returns, nothing that it started may live on.
    ///
    /// # Errors
    ///
    /// `runtime.not_installed`, `runtime.not_logged_in`, `runtime.start_failed`,
    /// `runtime.capability_missing`, `runtime.protocol_error`. The core adds the time-out.
    async fn open(&self, spec: SessionSpec) -> Result<Opened>;
}

/// What a runtime is and what it can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// Readable and stable: `claude-code`, `command:<name>`.
    pub id: RuntimeId,
    /// The name people know it by.
    pub name: String,
    /// What it really can do. A capability that is not in here is refused before the driver is asked.
    pub capabilities: BTreeSet<Capability>,
    /// How its sessions use processes.
    pub process_strategy: ProcessStrategy,
    /// The model it takes when an agent names none.
    pub default_model: Option<String>,
    /// The models it offers, when it is known.
    pub models: Option<Vec<String>>,
}

/// How sessions of a runtime use processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ProcessStrategy {
    /// One process lives as long as its session.
    ProcessPerSession,
    /// Each turn starts a process of its own.
    ProcessPerTurn,
    /// One process serves many sessions.
    SharedServer,
}

/// Whether a runtime can start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Health {
    /// Nobody looked yet, or too long ago.
    Unknown,
    /// Somebody looks right now.
    Checking,
    /// It can start.
    Healthy,
    /// It cannot; the remediation says what to do.
    Unhealthy,
}

/// What a check of a runtime found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// `Healthy` or `Unhealthy`.
    pub health: Health,
    /// The version of its program.
    pub version: Option<String>,
    /// Where its program is.
    pub executable: Option<PathBuf>,
    /// Whether it is logged in, as far as that can be told without spending anything.
    pub logged_in: Option<bool>,
    /// What was found, in one sentence.
    pub message: Option<String>,
    /// What to do when it is not healthy.
    pub remediation: Option<String>,
}

/// Everything a driver needs to open a session.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    /// The session. Also the marker by which its processes are known: `CORTEX_OWNER`.
    pub session_id: SessionId,
    /// Whose session it is. `None`: the planner's, which belongs to no agent.
    pub agent_id: Option<AgentId>,
    /// What the agent may be.
    pub role: Role,
    /// Turns that the core sends, or a terminal that a person works at.
    pub interaction: Interaction,
    /// The folder it works in. Absolute; it existed a moment ago.
    pub cwd: PathBuf,
    /// A folder of its own for files that the driver needs; it exists, is empty, is only for this user,
    /// and is removed after the session.
    pub scratch: PathBuf,
    /// The model, when the agent names one.
    pub model: Option<String>,
    /// What is appended to the runtime's system prompt.
    pub instructions: Option<String>,
    /// The native session to go on with, when the runtime can resume.
    pub resume: Option<String>,
    /// Only reading is allowed: the planner's turn. The agent is offered nothing else, whatever it is told: no
    /// tool that writes, runs something or reaches the network, no agents below it. Its conversation is not kept.
    /// Only asked of a runtime with [`Capability::ReadOnlyTurn`].
    pub read_only: bool,
    /// Whether what the folder brings for the runtime counts: its settings, hooks and MCP servers. A person said so
    /// for the project. Otherwise nothing of it may run or be obeyed.
    pub trusted: bool,
    /// The endpoint of this core and the session's own credential.
    pub mcp: Option<McpAccess>,
}

impl SessionSpec {
    /// A structured session of a worker, with nothing that may be left out: nobody's agent, nothing trusted, no endpoint.
    pub fn new(session_id: SessionId, cwd: PathBuf, scratch: PathBuf) -> Self {
        Self {
            session_id,
            agent_id: None,
            role: Role::Worker,
            interaction: Interaction::Structured,
            cwd,
            scratch,
            model: None,
            instructions: None,
            resume: None,
            read_only: false,
            trusted: false,
            mcp: None,
        }
    }

    /// The first capability that this session takes and that is not among those of the runtime. The core does not ask
    /// for such a session; a driver that gets it all the same refuses it with `runtime.capability_missing`.
    pub fn missing_capability(&self, info: &RuntimeInfo) -> Option<Capability> {
        let takes = [
            (self.interaction == Interaction::Structured, Capability::StructuredSession),
            (self.interaction == Interaction::Terminal, Capability::TerminalSession),
            (self.role == Role::Orchestrator, Capability::OrchestratorRole),
            (self.read_only, Capability::ReadOnlyTurn),
            (self.resume.is_some(), Capability::Resume),
            (self.model.is_some(), Capability::ModelSelection),
        ];
        let missing = |(taken, capability): &(bool, Capability)| {
            *taken && !info.capabilities.contains(capability)
        };
        takes.into_iter().find(missing).map(|(_, capability)| capability)
    }

    /// Refuses a session that takes more than the runtime can do.
    ///
    /// # Errors
    ///
    /// `runtime.capability_missing`.
    pub fn require_offered(&self, info: &RuntimeInfo) -> Result<()> {
        match self.missing_capability(info) {
            Some(capability) => Err(Error::new(
                Code::RuntimeCapabilityMissing,
                format!("{} does not offer {capability}", info.id),
            )),
            None => Ok(()),
        }
    }
}

/// How a session reaches the tools of its core.
#[derive(Clone, Debug)]
pub struct McpAccess {
    /// `http://127.0.0.1:<port>/mcp`.
    pub url: String,
    /// The session's credential. It reaches the CLI in the variable `CORTEX_MCP_TOKEN` and nowhere else. A CLI whose process
    /// serves several sessions has it over its input instead: an environment would show it to all of them.
    pub token: Secret,
    /// The credential of the hooks that the CLI runs in this session: it only reads. It is in the variable
    /// `CORTEX_HOOK_TOKEN` of a CLI whose process is this session's alone; hooks inherit it, shells of tools do not.
    pub hook_token: Secret,
}

/// A session that takes turns.
#[derive(Debug)]
pub struct Opened {
    /// The session.
    pub session: Arc<dyn Session>,
    /// What happens in it, in order. [`SessionEvent::Ended`] is the last one.
    pub events: mpsc::Receiver<SessionEvent>,
    /// What is known about it.
    pub facts: SessionFacts,
    /// Its terminal; for a session in terminal mode, and only then.
    pub terminal: Option<Arc<dyn Terminal>>,
}

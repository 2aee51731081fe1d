//! Who calls, and who may.

use std::fmt;

use crate::ids::{AgentId, ProjectId, SessionId};

/// Who calls. It is found out by whoever takes the call in, and never defaulted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The person who runs Cortex: window, command line, Rust, user token.
    User,
    /// A live session of an agent.
    Session(SessionCaller),
}

/// A session that calls. It sees and touches only its own project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCaller {
    /// What the session may.
    pub kind: SessionKind,
    /// The agent whose session it is.
    pub agent_id: AgentId,
    /// The agent's project.
    pub project_id: ProjectId,
    /// The session itself.
    pub session_id: SessionId,
}

/// What a session is to Cortex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionKind {
    /// Directs the agents of its project.
    Orchestrator,
    /// Works.
    Agent,
    /// A hook of a session. It only reads.
    Hook,
}

impl Caller {
    /// The session, when a session calls.
    pub fn session(&self) -> Option<&SessionCaller> {
        match self {
            Self::User => None,
            Self::Session(session) => Some(session),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, id) = match self {
            Self::User => return f.write_str("the user"),
            Self::Session(session) => match session.kind {
                SessionKind::Orchestrator => ("orchestrator", &session.agent_id),
                SessionKind::Agent => ("agent", &session.agent_id),
                SessionKind::Hook => ("hook of agent", &session.agent_id),
            },
        };
        write!(f, "{kind} {id}")
    }
}

/// Who may give a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one column of the permission table each")]
pub struct Access {
    /// The person who runs Cortex.
    pub user: bool,
    /// Orchestrator sessions.
    pub orchestrator: bool,
    /// Sessions of worker agents.
    pub agent: bool,
    /// Hooks of sessions.
    pub hook: bool,
}

impl Access {
    /// Everybody with a credential.
    pub const EVERYONE: Self = Self { user: true, orchestrator: true, agent: true, hook: true };
    /// The user and sessions, not their hooks.
    pub const SESSIONS_TOO: Self = Self { hook: false, ..Self::EVERYONE };
    /// The user and orchestrator sessions.
    pub const USER_OR_ORCHESTRATOR: Self = Self { agent: false, ..Self::SESSIONS_TOO };
    /// The user only.
    pub const USER: Self = Self { orchestrator: false, ..Self::USER_OR_ORCHESTRATOR };

    /// Whether `caller` is one of them.
    pub const fn admits(self, caller: &Caller) -> bool {
        match caller {
            Caller::User => self.user,
            Caller::Session(SessionCaller { kind: SessionKind::Orchestrator, .. }) => {
                self.orchestrator
            }
            Caller::Session(SessionCaller { kind: SessionKind::Agent, .. }) => self.agent,
            Caller::Session(SessionCaller { kind: SessionKind::Hook, .. }) => self.hook,
        }
    }
}

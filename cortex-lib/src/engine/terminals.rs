//! The terminals of the sessions that live, for whoever attaches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::core::Core;
use crate::domain::agent::Interaction;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, SessionId};
use crate::port::Terminal;

/// The terminals that live.
#[derive(Debug, Default)]
pub(super) struct Terminals {
    /// A lock, because callers look things up that the engine puts in; it is held for a copy.
    live: Mutex<BTreeMap<AgentId, Live>>,
}

#[derive(Debug)]
struct Live {
    session: SessionId,
    terminal: Arc<dyn Terminal>,
}

impl Terminals {
    /// The session of an agent has this terminal.
    pub(super) fn add(&self, agent: AgentId, session: SessionId, terminal: Arc<dyn Terminal>) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.insert(agent, Live { session, terminal });
    }

    /// The session is over.
    pub(super) fn remove(&self, session: &SessionId) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|_, live| live.session != *session);
    }

    fn of(&self, agent: &AgentId) -> Option<Arc<dyn Terminal>> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.get(agent).map(|live| Arc::clone(&live.terminal))
    }
}

impl Core {
    /// The terminal of an agent in terminal mode, while its session lives.
    ///
    /// # Errors
    ///
    /// `agent.not_found`; `agent.not_in_terminal_mode`; `agent.state_conflict` when it has no session.
    pub fn terminal(&self, id: &AgentId) -> Result<Arc<dyn Terminal>> {
        let agent = self.store().read(|tx| tx.agent(id))?;
        if agent.interaction != Interaction::Terminal {
            let message = format!("agent {} is structured and has no terminal", agent.name);
            return Err(
                Error::new(Code::AgentNotInTerminalMode, message).with("agent_id", id.as_str())
            );
        }
        self.terminals().of(id).ok_or_else(|| {
            let state = agent.state.status().as_str();
            let message =
                format!("agent {} is {state} and has no session to attach to", agent.name);
            Error::new(Code::AgentStateConflict, message)
                .remedy("Start the agent, and attach when it is ready.")
                .with("agent_id", id.as_str())
        })
    }
}

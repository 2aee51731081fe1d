//! Opening a store after a life that ended: what was live is not any more, and then everything goes on as usual.

use super::{AttemptReport, SessionEnd};
use crate::domain::agent::AgentInput;
use crate::domain::attempt::AttemptInput;
use crate::error::Result;
use crate::ids::{AttemptId, SessionId};
use crate::settings::Settings;
use crate::store::{Why, WriteTx};

/// What an earlier life left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Sessions that were live: their processes are to be ended.
    pub sessions: Vec<SessionId>,
    /// Attempts whose verification ran: so are theirs.
    pub verifications: Vec<AttemptId>,
}

impl WriteTx<'_> {
    /// Settles what an earlier life left: sessions are over, their turns lost, verifications begin anew.
    pub fn recover(&mut self, settings: &Settings) -> Result<Recovered> {
        let sessions: Vec<_> =
            self.live_sessions()?.into_iter().map(|session| session.id).collect();
        for id in &sessions {
            self.session_over(id, &SessionEnd::CoreGone, settings)?;
        }
        let mut verifications = Vec::new();
        for attempt in self.live_attempts()? {
            verifications.push(attempt.id.clone());
            self.attempt_input(
                &attempt.id,
                AttemptInput::CoreLost,
                &AttemptReport::default(),
                settings,
            )?;
        }
        for agent in self.agents(None)? {
            self.step_agent(
                &agent.id,
                AgentInput::CoreRestarted,
                &Why::Because("the core restarted"),
            )?;
        }
        Ok(Recovered { sessions, verifications })
    }
}

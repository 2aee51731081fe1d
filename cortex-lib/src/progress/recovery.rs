//! Opening a store after a life that ended: what was live is not any more, and then everything goes on as usual.

use super::{AttemptReport, SessionEnd};
use crate::domain::agent::AgentInput;
use crate::domain::attempt::AttemptInput;
use crate::error::Result;
use crate::ids::{AttemptId, SessionId};
use crate::settings::Settings;
use crate::store::{ReadTx, Why, WriteTx};

/// What an earlier life left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftBehind {
    /// Sessions that were live, the planner's too: their processes are to be ended.
    pub(crate) sessions: Vec<SessionId>,
    /// Attempts whose verification ran: so are theirs.
    pub(crate) verifications: Vec<AttemptId>,
}

impl ReadTx<'_> {
    /// What an earlier life left: to be ended before [`recover`](WriteTx::recover) says that it is over, because
    /// nobody would look for it any more after that.
    pub(crate) fn left_behind(&self) -> Result<LeftBehind> {
        let planners = self.planner_sessions()?.into_iter().map(|session| session.id);
        let sessions = self.live_sessions()?.into_iter().map(|session| session.id);
        let sessions = sessions.chain(planners).collect();
        let attempts = self.live_attempts()?.into_iter();
        let verified = attempts.filter(|attempt| !attempt.state.holds_agent());
        Ok(LeftBehind { sessions, verifications: verified.map(|attempt| attempt.id).collect() })
    }
}

impl WriteTx<'_> {
    /// Settles what an earlier life left: sessions are over, their turns lost, verifications begin anew.
    pub fn recover(&mut self, settings: &Settings) -> Result<()> {
        for session in self.live_sessions()? {
            self.session_over(&session.id, &SessionEnd::CoreGone, settings)?;
        }
        // Who waited for their plans is gone.
        for session in self.planner_sessions()? {
            self.remove_planner_session(&session.id)?;
        }
        for attempt in self.live_attempts()? {
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
        Ok(())
    }
}

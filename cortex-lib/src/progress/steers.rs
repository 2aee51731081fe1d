//! Messages of a person to an agent: each begins a turn, or goes into the one that runs.

use serde_json::json;

use crate::domain::Machine as _;
use crate::domain::agent::AgentStatus;
use crate::domain::event::EventKind;
use crate::domain::steer::{SteerInput, SteerState};
use crate::domain::text::reason;
use crate::domain::turn::TurnState;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, SessionId, TurnId};
use crate::store::{DirectTurn, NewEvent, ReadTx, Steer, WriteTx};

impl ReadTx<'_> {
    /// How a message to an agent came out. None: it is on its way.
    pub fn delivery(&self, id: &TurnId) -> Result<Option<Result<()>>> {
        let lost = |wire: Option<serde_json::Value>| {
            let nothing = || Error::new(Code::Defect, "a message failed without a reason");
            Err(wire.as_ref().map_or_else(nothing, Error::from_wire))
        };
        if let Some(steer) = self.steer(id)? {
            match steer.state {
                SteerState::Sending | SteerState::Late => return Ok(None),
                SteerState::Taken => return Ok(Some(Ok(()))),
                SteerState::Failed => return Ok(Some(lost(steer.failure))),
                SteerState::Begun => {}
            }
        }
        Ok(match self.direct_turn(id)? {
            Some(turn) if turn.state == TurnState::Sending => None,
            Some(DirectTurn { failure: Some(wire), .. }) => Some(Err(Error::from_wire(&wire))),
            Some(_) | None => Some(Ok(())),
        })
    }
}

impl WriteTx<'_> {
    /// Keeps a message to an agent. It is owed to the turn that runs, when its runtime `takes_input` meanwhile; else
    /// it begins a turn. [`delivery`](ReadTx::delivery) tells what becomes of it.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `agent.state_conflict`, `runtime.turn_in_progress`.
    pub fn send_to_agent(
        &mut self,
        agent_id: &AgentId,
        text: String,
        takes_input: bool,
    ) -> Result<TurnId> {
        match self.turn_to_steer(agent_id)? {
            Some(turn) if takes_input => {
                let id = TurnId::new(self.env().mint());
                self.insert_steer(&Steer {
                    id: id.clone(),
                    turn_id: turn.id,
                    agent_id: agent_id.clone(),
                    session_id: turn.session_id,
                    text,
                    state: SteerState::Sending,
                    failure: None,
                })?;
                Ok(id)
            }
            Some(_) | None => Ok(self.begin_direct_turn(agent_id, text)?.id),
        }
    }

    /// The turn of a READY agent that can be given more. One that was told to end is not.
    fn turn_to_steer(&self, agent_id: &AgentId) -> Result<Option<DirectTurn>> {
        let agent = self.agent(agent_id)?;
        let turn = match agent.state.direct_turn() {
            Some(turn) if agent.state.status() == AgentStatus::Ready => self.direct_turn(turn)?,
            Some(_) | None => None,
        };
        Ok(turn.filter(|turn| matches!(turn.state, TurnState::Sending | TurnState::Running)))
    }

    /// Notes that the turn heard a message.
    pub fn steer_taken(&mut self, id: &TurnId) -> Result<()> {
        let Some(steer) = self.step_steer(id, SteerInput::Taken, None)? else { return Ok(()) };
        let project_id = Some(self.agent(&steer.agent_id)?.project_id);
        let data = json!({ "turn_id": steer.turn_id, "message": reason(&steer.text) });
        let (kind, agent_id) = (EventKind::SessionTurnSteered, Some(steer.agent_id));
        self.emit(NewEvent { kind, project_id, agent_id, data })
    }

    /// Notes that the turn was over for its runtime. Once it is over here too, the message begins one.
    pub fn steer_missed(&mut self, id: &TurnId) -> Result<()> {
        let Some(steer) = self.step_steer(id, SteerInput::TurnOver, None)? else { return Ok(()) };
        let turn = self.direct_turn(&steer.turn_id)?;
        if turn.is_none_or(|turn| turn.state.is_final()) {
            self.follow_up(&steer)?;
        }
        Ok(())
    }

    /// Notes that a message could not be delivered.
    pub fn steer_failed(&mut self, id: &TurnId, error: &Error) -> Result<()> {
        self.step_steer(id, SteerInput::Failed, Some(&error.to_wire())).map(drop)
    }

    /// What came too late for a turn goes on, now that the turn is over.
    pub(super) fn follow_up_after(&mut self, turn: &TurnId) -> Result<()> {
        for steer in self.open_steers()? {
            if steer.turn_id == *turn && steer.state == SteerState::Late {
                self.follow_up(&steer)?;
            }
        }
        Ok(())
    }

    /// A message that came too late begins a turn, or is for the one that runs by now.
    fn follow_up(&mut self, steer: &Steer) -> Result<()> {
        if let Some(turn) = self.turn_to_steer(&steer.agent_id)? {
            self.redirect_steer(&steer.id, &turn.id)?;
            return self.step_steer(&steer.id, SteerInput::Again, None).map(drop);
        }
        match self.begin_turn(steer.id.clone(), &steer.agent_id, steer.text.clone()) {
            Ok(_) => self.step_steer(&steer.id, SteerInput::Begun, None).map(drop),
            Err(error)
                if matches!(
                    error.code(),
                    Code::AgentStateConflict | Code::RuntimeTurnInProgress
                ) =>
            {
                self.steer_failed(&steer.id, &error)
            }
            Err(error) => Err(error),
        }
    }

    /// What was on its way into a session that is over is not delivered.
    pub(super) fn cut_steers(&mut self, session: &SessionId) -> Result<()> {
        for steer in self.open_steers()? {
            if steer.session_id == *session {
                let error = Error::new(Code::RuntimeSessionEnded, "the session ended meanwhile")
                    .with("agent_id", steer.agent_id.as_str());
                self.steer_failed(&steer.id, &error)?;
            }
        }
        Ok(())
    }
}

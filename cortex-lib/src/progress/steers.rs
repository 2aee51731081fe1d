//! Messages of a person to an agent: each begins a turn, or goes into the one that runs.

use std::collections::BTreeSet;

use serde_json::json;

use crate::domain::Machine as _;
use crate::domain::agent::AgentStatus;
use crate::domain::event::EventKind;
use crate::domain::steer::{SteerInput, SteerState};
use crate::domain::text::reason;
use crate::domain::turn::TurnState;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, SessionId, TurnId};
use crate::limits::STEERS_OPEN_MAX;
use crate::store::{DirectTurn, NewEvent, ReadTx, Sent, Steer, WriteTx};

impl ReadTx<'_> {
    /// How a message to an agent came out. None: it is on its way.
    pub fn delivery(&self, id: &TurnId) -> Result<Option<Result<()>>> {
        let lost = |wire: Option<serde_json::Value>| {
            let nothing = || Error::new(Code::Defect, "a message failed without a reason");
            Err(wire.as_ref().map_or_else(nothing, Error::from_wire))
        };
        if let Some(Steer { sent, .. }) = self.steer(id)? {
            match sent.state {
                SteerState::Sending | SteerState::Late => return Ok(None),
                SteerState::Taken => return Ok(Some(Ok(()))),
                SteerState::Failed => return Ok(Some(lost(sent.failure))),
                SteerState::Begun => {}
            }
        }
        Ok(match self.direct_turn(id)? {
            // Told to end before that is known, it may never have been sent. Its end tells.
            Some(DirectTurn {
                state:
                    TurnState::Sending
                    | TurnState::Interrupting
                    | TurnState::Stalled
                    | TurnState::Unanswered,
                ..
            }) => None,
            Some(DirectTurn { failure: Some(wire), .. }) => Some(Err(Error::from_wire(&wire))),
            Some(_) | None => Some(Ok(())),
        })
    }

    /// The messages that are owed to turns that run: one at a time for each, in the order in which they came. What
    /// waits behind one of them, or for its turn, has reached nobody yet.
    pub(crate) fn steers_on_their_way(&self) -> Result<Vec<Steer>> {
        let (mut first, mut turns) = (Vec::new(), BTreeSet::new());
        for steer in self.open_steers()? {
            if !turns.insert(steer.turn_id.clone()) || steer.sent.state.owes().is_none() {
                continue;
            }
            // Before the runtime has accepted the turn there is nothing that could hear it.
            let turn = self.direct_turn(&steer.turn_id)?;
            if turn.is_none_or(|turn| turn.state != TurnState::Sending) {
                first.push(steer);
            }
        }
        Ok(first)
    }

    fn is_on_its_way(&self, id: &TurnId) -> Result<bool> {
        Ok(self.steers_on_their_way()?.iter().any(|steer| steer.sent.id == *id))
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
                let open = self.open_steers()?.into_iter();
                if open.filter(|steer| steer.turn_id == turn.id).count() >= STEERS_OPEN_MAX {
                    let message = format!(
                        "{STEERS_OPEN_MAX} messages are on their way to the turn that runs, as many as may"
                    );
                    return Err(Error::new(Code::RuntimeTurnInProgress, message)
                        .with("agent_id", agent_id.as_str()));
                }
                let id = TurnId::new(self.env().mint());
                let sent = Sent {
                    id: id.clone(),
                    agent_id: agent_id.clone(),
                    session_id: turn.session_id,
                    text,
                    state: SteerState::Sending,
                    failure: None,
                };
                self.insert_steer(&Steer { turn_id: turn.id, sent })?;
                Ok(id)
            }
            Some(_) | None => Ok(self.begin_direct_turn(agent_id, text)?.id),
        }
    }

    /// Its sender waits no longer for a message: one that has reached nobody yet is taken back, so that nobody hears
    /// later what was said to have failed. Returns how it came out, as far as that can be told.
    pub(crate) fn take_back(&mut self, id: &TurnId) -> Result<Result<()>> {
        if let Some(delivery) = self.delivery(id)? {
            return Ok(delivery);
        }
        let waits = self.steer(id)?.is_some_and(|steer| !steer.sent.state.is_final());
        if !waits || self.is_on_its_way(id)? {
            return Ok(Err(not_known(Code::RuntimeProtocol, "it did not say so in time")));
        }
        let message = "the turn that runs took nothing more in time; the message was taken back";
        let error = Error::new(Code::RuntimeTurnInProgress, message);
        self.steer_failed(id, &error)?;
        Ok(Err(error))
    }

    /// The turn of a READY agent that can be given more. One that was told to end is not.
    fn turn_to_steer(&self, agent_id: &AgentId) -> Result<Option<DirectTurn>> {
        let agent = self.agent(agent_id)?;
        let turn = match agent.state.direct_turn() {
            Some(turn) if agent.state.status() == AgentStatus::Ready => self.direct_turn(turn)?,
            Some(_) | None => None,
        };
        Ok(turn.filter(|turn| turn.state.may_act()))
    }

    /// Notes that the turn heard a message.
    pub fn steer_taken(&mut self, id: &TurnId) -> Result<()> {
        let Some(steer) = self.step_steer(id, SteerInput::Taken, None)? else { return Ok(()) };
        let project_id = Some(self.agent(&steer.sent.agent_id)?.project_id);
        let data = json!({ "turn_id": steer.turn_id, "message": reason(&steer.sent.text) });
        let (kind, agent_id) = (EventKind::SessionTurnSteered, Some(steer.sent.agent_id));
        self.emit(NewEvent { kind, project_id, agent_id, data })
    }

    /// Notes that the turn was over for its runtime. Once it is over here too, the message begins one.
    pub fn steer_missed(&mut self, id: &TurnId) -> Result<()> {
        let Some(steer) = self.step_steer(id, SteerInput::TurnOver, None)? else { return Ok(()) };
        let turn = self.direct_turn(&steer.turn_id)?;
        if turn.is_none_or(|turn| turn.state.is_final()) {
            self.follow_up(&steer.sent)?;
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
            if steer.turn_id == *turn && steer.sent.state == SteerState::Late {
                self.follow_up(&steer.sent)?;
            }
        }
        Ok(())
    }

    /// A message that came too late begins a turn, or is for the one that runs by now.
    fn follow_up(&mut self, sent: &Sent<SteerState>) -> Result<()> {
        if let Some(turn) = self.turn_to_steer(&sent.agent_id)? {
            self.redirect_steer(&sent.id, &turn.id)?;
            return self.step_steer(&sent.id, SteerInput::Again, None).map(drop);
        }
        match self.begin_turn(sent.id.clone(), &sent.agent_id, sent.text.clone()) {
            Ok(_) => self.step_steer(&sent.id, SteerInput::Begun, None).map(drop),
            Err(error)
                if matches!(
                    error.code(),
                    Code::AgentStateConflict | Code::RuntimeTurnInProgress
                ) =>
            {
                self.steer_failed(&sent.id, &error)
            }
            Err(error) => Err(error),
        }
    }

    /// What was on its way into a session that is over is not delivered.
    pub(super) fn cut_steers(&mut self, session: &SessionId) -> Result<()> {
        let open = self.open_steers()?.into_iter();
        let steers = open.filter(|steer| steer.sent.session_id == *session).collect();
        self.cut(steers, "the session ended")
    }

    /// The core stops: nothing more goes into a turn, and nothing that came too late for one begins another.
    pub(super) fn cut_steers_for_shutdown(&mut self) -> Result<()> {
        let open = self.open_steers()?;
        self.cut(open, "the core stopped")
    }

    fn cut(&mut self, steers: Vec<Steer>, why: &str) -> Result<()> {
        let code = Code::RuntimeSessionEnded;
        for Steer { sent, .. } in steers {
            let error = if self.is_on_its_way(&sent.id)? {
                not_known(code, why)
            } else {
                Error::new(code, format!("{why} before the message was delivered"))
            };
            self.steer_failed(&sent.id, &error.with("agent_id", sent.agent_id.as_str()))?;
        }
        Ok(())
    }
}

/// The failure of a message of which nobody can tell whether the turn heard it.
pub(crate) fn not_known(code: Code, why: &str) -> Error {
    let message = format!("it is not known whether the runtime took the message: {why}");
    Error::new(code, message).remedy("Look at what the agent does before you send it again.")
}

//! Turns that a person sends directly to an agent.

use serde_json::json;

use super::agents::TurnFailed;
use super::steers::not_known;
use crate::domain::Machine as _;
use crate::domain::agent::{AgentInput, AgentStatus};
use crate::domain::approval::ApprovalInput;
use crate::domain::attempt::Cause;
use crate::domain::event::EventKind;
use crate::domain::text::{head_and_tail, reason};
use crate::domain::turn::{TurnInput, TurnState};
use crate::domain::usage::Usage;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, AttemptId, TurnId};
use crate::limits::{RELEASE_GRACE, RESULT_BYTES_MAX};
use crate::settings::Settings;
use crate::store::{Agent, DirectTurn, NewEvent, Timer, Why, WriteTx};

impl WriteTx<'_> {
    /// Keeps a turn for an agent: from here on it is owed to the session.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `agent.state_conflict`, `runtime.turn_in_progress`.
    pub fn begin_direct_turn(&mut self, agent_id: &AgentId, text: String) -> Result<DirectTurn> {
        let id = TurnId::new(self.env().mint());
        self.begin_turn(id, agent_id, text)
    }

    /// The same under an id that was given out before.
    pub(super) fn begin_turn(
        &mut self,
        id: TurnId,
        agent_id: &AgentId,
        text: String,
    ) -> Result<DirectTurn> {
        let before = self.agent(agent_id)?;
        if before.state.status() == AgentStatus::Ready && before.state.direct_turn().is_some() {
            let message = format!("agent {} runs a turn and takes no input meanwhile", before.name);
            return Err(Error::new(Code::RuntimeTurnInProgress, message)
                .with("agent_id", agent_id.as_str()));
        }
        let agent =
            self.step_agent(agent_id, AgentInput::BeginTurn(id.clone()), &Why::Because("message"))?;
        let session_id = agent
            .state
            .session()
            .cloned()
            .ok_or_else(|| Error::new(Code::Defect, "a READY agent has no session"))?;
        let turn = DirectTurn {
            id,
            agent_id: agent_id.clone(),
            session_id,
            text,
            state: TurnState::Sending,
            failure: None,
        };
        self.insert_direct_turn(&turn)?;
        Ok(turn)
    }

    /// Notes that the runtime accepted a direct turn.
    pub fn direct_turn_accepted(&mut self, id: &TurnId) -> Result<()> {
        self.step_direct_turn(id, TurnInput::Accepted, None).map(drop)
    }

    /// Interrupts the direct turn of an agent, if one runs.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `agent.state_conflict` when it is not READY.
    pub fn interrupt_agent(&mut self, agent_id: &AgentId) -> Result<Agent> {
        let agent = self.agent(agent_id)?;
        let status = agent.state.status();
        if status != AgentStatus::Ready {
            let message = format!(
                "agent {} is {}: only a READY agent's turn can be interrupted",
                agent.name,
                status.as_str()
            );
            let remedy = if status == AgentStatus::Busy {
                "Cancel the task that it runs."
            } else {
                "Look at its state."
            };
            return Err(Error::new(Code::AgentStateConflict, message)
                .remedy(remedy)
                .with("agent_id", agent_id.as_str()));
        }
        let Some(turn) = agent.state.direct_turn() else { return Ok(agent) };
        // Who asks again does not give the turn more time.
        let asked = self
            .direct_turn(turn)?
            .is_some_and(|turn| !turn.state.may_act() && !turn.state.is_final());
        if !asked {
            self.tell_turn_to_end(turn, TurnInput::Interrupt)?;
        }
        Ok(agent)
    }

    /// Tells a direct turn that said nothing for too long to end. Its agent has the usual time to let go of it.
    pub(crate) fn stall_direct_turn(&mut self, id: &TurnId) -> Result<()> {
        self.tell_turn_to_end(id, TurnInput::Stall)
    }

    /// Tells a direct turn to end: it may do nothing more, and its agent has some time to let go of it.
    pub(super) fn tell_turn_to_end(&mut self, id: &TurnId, input: TurnInput) -> Result<()> {
        if self.step_direct_turn(id, input, None)?.is_some() {
            self.end_approvals_of_turn(id, ApprovalInput::Withdraw)?;
            let due = self.steady().after(RELEASE_GRACE);
            self.set_timer(&Timer::TurnGrace(id.clone()), due)?;
        }
        Ok(())
    }

    /// The patience with a direct turn that was told to end is over. What a person interrupted ends with its
    /// agent; after a stall, or when nobody answered it, the agent comes back.
    pub(crate) fn give_up_direct_turn(&mut self, id: &TurnId, settings: &Settings) -> Result<()> {
        match self.direct_turn(id)? {
            Some(turn) if matches!(turn.state, TurnState::Stalled | TurnState::Unanswered) => {
                self.recycle_agent(&turn.agent_id, settings)
            }
            Some(turn) if !turn.state.is_final() => {
                self.stop_agent(&turn.agent_id, settings).map(drop)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Tells every direct turn that the core stops in order, and that nothing more goes into it.
    pub(crate) fn end_direct_turns_for_shutdown(&mut self) -> Result<()> {
        // In the same transaction: what came too late for a turn would begin another one when that ends.
        self.cut_steers_for_shutdown()?;
        for turn in self.live_direct_turns()? {
            self.step_direct_turn(&turn.id, TurnInput::Interrupt, None)?;
            self.end_approvals_of_turn(&turn.id, ApprovalInput::CoreGone)?;
        }
        Ok(())
    }

    /// Notes that a direct turn could not be sent.
    pub fn direct_turn_refused(
        &mut self,
        id: &TurnId,
        error: &Error,
        cause: &'static str,
    ) -> Result<()> {
        if let Some(turn) = self.step_direct_turn(id, TurnInput::Ended, Some(&error.to_wire()))? {
            self.end_approvals_of_turn(id, ApprovalInput::Withdraw)?;
            let failed = TurnFailed { cause, message: error.message().to_owned() };
            let agent_id = &turn.agent_id;
            self.tell_turn_over(&TurnOver {
                agent_id,
                turn_id: id,
                execution_id: None,
                end: Err(&failed),
            })?;
            self.step_agent(
                &turn.agent_id,
                AgentInput::EndTurn(id.clone()),
                &Why::Because("turn over"),
            )?;
            self.follow_up_after(id)?;
        }
        Ok(())
    }

    /// Ends a direct turn whose session ends. One that was not accepted yet counts as not delivered.
    pub(super) fn cut_direct_turn(&mut self, turn: &DirectTurn, why: &TurnFailed) -> Result<()> {
        match turn.state {
            TurnState::Sending => {
                let error = Error::new(Code::RuntimeSessionEnded, why.message.clone())
                    .with("agent_id", turn.agent_id.as_str());
                self.direct_turn_refused(&turn.id, &error, why.cause)
            }
            TurnState::Interrupting | TurnState::Stalled | TurnState::Unanswered => {
                let error = not_known(Code::RuntimeSessionEnded, &why.message)
                    .with("agent_id", turn.agent_id.as_str());
                self.end_turn(&turn.id, Err(why), Some(&error.to_wire()))
            }
            TurnState::Running | TurnState::Over => self.end_direct_turn(&turn.id, Err(why)),
        }
    }

    /// Notes the end of a direct turn: its result and what it used, or why it has none.
    pub fn end_direct_turn(
        &mut self,
        id: &TurnId,
        end: std::result::Result<(&str, Usage), &TurnFailed>,
    ) -> Result<()> {
        self.end_turn(id, end, None)
    }

    /// `undelivered`: what its sender hears, who still waits.
    fn end_turn(
        &mut self,
        id: &TurnId,
        end: std::result::Result<(&str, Usage), &TurnFailed>,
        undelivered: Option<&serde_json::Value>,
    ) -> Result<()> {
        let told = self.direct_turn(id)?.map(|turn| turn.state);
        let ended = self.step_direct_turn(id, TurnInput::Ended, undelivered)?;
        let Some(turn) = ended else { return Ok(()) };
        self.end_approvals_of_turn(id, ApprovalInput::Withdraw)?;
        if let Ok((_, usage)) = end {
            self.add_agent_usage(&turn.agent_id, usage)?;
        }
        // Whatever is said now, this is why it was told to end.
        let silent =
            TurnFailed { cause: "stalled", message: "it said nothing for too long".to_owned() };
        let unanswered = TurnFailed {
            cause: Cause::ApprovalTimedOut.as_str(),
            message: "nobody answered its tool request in time".to_owned(),
        };
        let end = match told {
            Some(TurnState::Stalled) => end.map_err(|_| &silent),
            Some(TurnState::Unanswered) => Err(&unanswered),
            Some(
                TurnState::Sending | TurnState::Running | TurnState::Interrupting | TurnState::Over,
            )
            | None => end,
        };
        let agent_id = &turn.agent_id;
        self.tell_turn_over(&TurnOver { agent_id, turn_id: id, execution_id: None, end })?;
        let over = AgentInput::EndTurn(id.clone());
        self.step_agent(&turn.agent_id, over, &Why::Because("turn over"))?;
        self.follow_up_after(id)
    }

    /// Tells how a turn ended, to whoever polls the agent's events.
    pub(super) fn tell_turn_over(&mut self, turn: &TurnOver<'_>) -> Result<()> {
        let (kind, mut data) = match turn.end {
            Ok((text, usage)) => {
                let kept = head_and_tail(text, RESULT_BYTES_MAX);
                let data =
                    json!({ "result": kept.text, "truncated": kept.truncated, "usage": usage });
                (EventKind::SessionTurnCompleted, data)
            }
            Err(failed) => {
                let data = json!({ "cause": failed.cause, "message": reason(&failed.message) });
                (EventKind::SessionTurnFailed, data)
            }
        };
        if let Some(fields) = data.as_object_mut() {
            fields.insert("turn_id".to_owned(), json!(turn.turn_id));
            if let Some(id) = turn.execution_id {
                fields.insert("execution_id".to_owned(), json!(id));
            }
        }
        let project_id = Some(self.agent(turn.agent_id)?.project_id);
        self.emit(NewEvent { kind, project_id, agent_id: Some(turn.agent_id.clone()), data })
    }
}

/// The end of a turn, as its event tells it.
#[derive(Debug)]
pub(super) struct TurnOver<'a> {
    pub(super) agent_id: &'a AgentId,
    pub(super) turn_id: &'a TurnId,
    /// The attempt it was, unless a person sent it directly.
    pub(super) execution_id: Option<&'a AttemptId>,
    /// What it returned and used, or why it has no result.
    pub(super) end: std::result::Result<(&'a str, Usage), &'a TurnFailed>,
}

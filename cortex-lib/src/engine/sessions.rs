//! What happens in sessions, turned into inputs.

use std::sync::Arc;

use serde_json::json;

use super::incoming;
use super::run::{Engine, stale_is_fine};
use crate::domain::approval::{self, Decide};
use crate::domain::attempt::{AttemptInput, Cause, Next};
use crate::domain::event::EventKind;
use crate::domain::text::reason;
use crate::domain::turn::TurnState;
use crate::error::{Code, Error, Result};
use crate::ids::{SessionId, TurnId};
use crate::port::{Session, SessionEvent, ToolAnswer, ToolRequest, TurnEnd, TurnOutcome};
use crate::progress::{AttemptReport, SessionEnd, TurnFailed};
use crate::store::{NewEvent, ReadTx};

impl Engine {
    /// Something happened in a session.
    pub(super) async fn in_session(&mut self, id: &SessionId, event: SessionEvent) {
        let written = match event {
            // Shown by the pump.
            SessionEvent::Output { .. } | SessionEvent::Active => Ok(()),
            // Rules answer at once, so no request ever waits here.
            SessionEvent::ToolRequestWithdrawn { .. } => Ok(()),
            SessionEvent::ToolRequest(request) => self.answer_tool_request(id, request).await,
            SessionEvent::NativeSession { native_session_id } => {
                let session = id.clone();
                self.record(move |tx| tx.set_native_session(&session, Some(&native_session_id)))
                    .await
            }
            SessionEvent::TurnEnded(end) => self.turn_ended(id, end).await,
            SessionEvent::Ended { message } => {
                if !self.was_left(id).await {
                    self.session_ended(id, message);
                }
                Ok(())
            }
        };
        if let Err(error) = written {
            tracing::error!(session = %id, code = %error.code(), "what happened in a session was not kept: {}", error.message());
        }
    }

    /// Whether a person has left the program that they worked at: then its agent is stopped, and has not crashed.
    async fn was_left(&mut self, id: &SessionId) -> bool {
        let terminal = self.live.get(id).and_then(|live| live.terminal.as_ref());
        if !terminal.is_some_and(|terminal| terminal.was_left()) {
            return false;
        }
        let (session, settings) = (id.clone(), self.core().settings());
        let stopped = self.record(move |tx| {
            let agent = tx.session(&session)?.map(|session| session.agent_id);
            agent.map_or(Ok(()), |agent| tx.stop_agent(&agent, &settings).map(drop))
        });
        // One that cannot be stopped now is on its way already.
        stopped.await.is_ok()
    }

    /// It died by itself. Closing it makes sure that nothing of it lives on, and then it is written down.
    fn session_ended(&mut self, id: &SessionId, message: String) {
        if let Some(live) = self.live.get_mut(id) {
            live.end.get_or_insert_with(|| {
                SessionEnd::Died(
                    Error::new(Code::RuntimeSessionEnded, message).with("session_id", id.as_str()),
                )
            });
        }
    }

    /// The end of a turn counts only for the attempt or direct turn that it was sent for, in its own session.
    async fn turn_ended(&mut self, id: &SessionId, end: TurnEnd) -> Result<()> {
        let attempt = self.core().store().read(|tx| {
            let live = tx.live_attempts()?;
            Ok(live
                .into_iter()
                .find(|attempt| attempt.session_id == *id && attempt.turn_id == end.turn_id))
        })?;
        let settings = self.core().settings();
        let Some(attempt) = attempt else {
            let session = id.clone();
            return self
                .record(move |tx| {
                    let turn = tx.direct_turn(&end.turn_id)?;
                    if turn.is_none_or(|turn| turn.session_id != session) {
                        return Ok(());
                    }
                    let outcome = match &end.outcome {
                        TurnOutcome::Succeeded { text } => Ok((text.as_str(), end.usage)),
                        TurnOutcome::Interrupted => Err(TurnFailed {
                            cause: "interrupted",
                            message: "it was interrupted".to_owned(),
                        }),
                        TurnOutcome::Failed(failure) => Err(TurnFailed {
                            cause: failure.cause.as_str(),
                            message: failure.message.clone(),
                        }),
                    };
                    tx.end_direct_turn(&end.turn_id, outcome.as_ref().map(|done| *done))
                })
                .await;
        };
        self.record(move |tx| {
            let mut report = AttemptReport { usage: end.usage, ..AttemptReport::default() };
            let input = match &end.outcome {
                TurnOutcome::Succeeded { text } => {
                    report.text = Some(text.clone());
                    let project = tx.project(&tx.task(&attempt.task_id)?.project_id)?;
                    AttemptInput::TurnSucceeded(if attempt.is_isolated() || project.is_git {
                        Next::Gather
                    } else if project.verification.is_some() {
                        Next::Verify
                    } else {
                        Next::Nothing
                    })
                }
                TurnOutcome::Interrupted => {
                    report.message = Some("it was interrupted".to_owned());
                    AttemptInput::TurnFailed(Cause::Error)
                }
                TurnOutcome::Failed(failure) => {
                    report.message = Some(failure.message.clone());
                    report.resets_at = failure.resets_at;
                    AttemptInput::TurnFailed(failure.cause)
                }
            };
            stale_is_fine(tx.attempt_input(&attempt.id, input, &report, &settings))
        })
        .await
    }

    /// Answers by the rules of the settings. The decision is on disk before the runtime hears it.
    async fn answer_tool_request(&mut self, id: &SessionId, request: ToolRequest) -> Result<()> {
        let Some(live) = self.live.get(id) else { return Ok(()) };
        let session = Arc::clone(&live.session);
        if !self.core().store().read(|tx| is_of_a_running_turn(tx, id, request.turn_id.as_ref()))? {
            // Nothing is kept of it: for the record the turn is over, or was told to end.
            let reason = "attempt.stale: the turn that asks is over or was told to end".to_owned();
            self.answer(session, request.request_id, ToolAnswer::Deny { reason });
            return Ok(());
        }
        let agent = self.core().store().read(|tx| {
            let row = tx
                .session(id)?
                .ok_or_else(|| Error::new(Code::Defect, format!("session {id} has no row")))?;
            tx.agent(&row.agent_id)
        })?;
        let decision = approval::decide(
            &self.core().settings().approvals.rules,
            &agent.name,
            &request.tool,
            &request.input,
        );
        let data = json!({
            "tool": reason(&request.tool), "summary": reason(&request.summary), "decision": decision.decide,
            "decided_by": decision.rule.as_ref().map_or_else(|| "default".to_owned(), |rule| format!("rule:{rule}")),
            "reason": decision.reason, "turn_id": request.turn_id,
        });
        let (project_id, agent_id) = (agent.project_id, agent.id);
        self.record(move |tx| {
            tx.emit(NewEvent {
                kind: EventKind::ApprovalDecided,
                project_id: Some(project_id.clone()),
                agent_id: Some(agent_id.clone()),
                data: data.clone(),
            })
        })
        .await?;
        let answer = match decision.decide {
            Decide::Allow => ToolAnswer::Allow,
            Decide::Deny => ToolAnswer::Deny { reason: decision.reason },
        };
        self.answer(session, request.request_id, answer);
        Ok(())
    }

    /// Gives an answer to a session, which may take its time.
    fn answer(&self, session: Arc<dyn Session>, request_id: String, answer: ToolAnswer) {
        self.core().supervisor().spawn(async move {
            if let Err(error) = session.answer(&request_id, answer).await.map_err(incoming::error) {
                tracing::debug!(request = request_id, code = %error.code(), "not answered: {}", error.message());
            }
        });
    }
}

/// Whether a turn of a session may still act. A request that names no turn is of the one that runs.
fn is_of_a_running_turn(tx: &ReadTx<'_>, id: &SessionId, turn: Option<&TurnId>) -> Result<bool> {
    let asks = |session: &SessionId, candidate: &TurnId| {
        session == id && turn.is_none_or(|turn| turn == candidate)
    };
    let attempts = tx.live_attempts()?;
    let attempt = attempts.iter().filter(|attempt| asks(&attempt.session_id, &attempt.turn_id));
    let mut works =
        attempt.map(|attempt| attempt.state.holds_agent() && !attempt.state.is_letting_go());
    let turns = tx.live_direct_turns()?;
    let mut direct = turns.iter().filter(|turn| asks(&turn.session_id, &turn.id));
    Ok(works.any(|works| works)
        || direct.any(|turn| matches!(turn.state, TurnState::Sending | TurnState::Running)))
}

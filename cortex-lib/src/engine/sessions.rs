//! What happens in sessions, turned into inputs.

use super::run::{Engine, stale_is_fine};
use crate::domain::attempt::{AttemptInput, Cause, Next};
use crate::error::{Code, Error, Result};
use crate::ids::SessionId;
use crate::port::{SessionEvent, TurnEnd, TurnOutcome};
use crate::progress::{AttemptReport, SessionEnd, TurnFailed};
use crate::settings::Settings;
use crate::store::{Attempt, WriteTx};

impl Engine {
    /// Something happened in a session.
    pub(super) async fn in_session(&mut self, id: &SessionId, event: SessionEvent) {
        let written = match event {
            // Shown by the pump.
            SessionEvent::Output { .. } | SessionEvent::Active => Ok(()),
            SessionEvent::ToolRequestWithdrawn { request_id } => {
                let session = id.clone();
                self.record(move |tx| tx.withdraw_approval(&session, &request_id)).await
            }
            SessionEvent::ToolRequest(request) => self.tool_requested(id, request).await,
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
    async fn turn_ended(&self, id: &SessionId, end: TurnEnd) -> Result<()> {
        let (session, settings) = (id.clone(), self.core().settings());
        self.record(move |tx| {
            let mut live = tx.live_attempts()?.into_iter();
            let attempt = live
                .find(|attempt| attempt.session_id == session && attempt.turn_id == end.turn_id);
            match attempt {
                Some(attempt) => end_attempts_turn(tx, &attempt, &end, &settings),
                None => end_direct_turn(tx, &session, &end),
            }
        })
        .await
    }
}

fn end_attempts_turn(
    tx: &mut WriteTx<'_>,
    attempt: &Attempt,
    end: &TurnEnd,
    settings: &Settings,
) -> Result<()> {
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
    stale_is_fine(tx.attempt_input(&attempt.id, input, &report, settings))
}

fn end_direct_turn(tx: &mut WriteTx<'_>, session: &SessionId, end: &TurnEnd) -> Result<()> {
    if tx.direct_turn(&end.turn_id)?.is_none_or(|turn| turn.session_id != *session) {
        return Ok(());
    }
    let outcome = match &end.outcome {
        TurnOutcome::Succeeded { text } => Ok((text.as_str(), end.usage)),
        TurnOutcome::Interrupted => {
            Err(TurnFailed { cause: "interrupted", message: "it was interrupted".to_owned() })
        }
        TurnOutcome::Failed(failure) => {
            Err(TurnFailed { cause: failure.cause.as_str(), message: failure.message.clone() })
        }
    };
    tx.end_direct_turn(&end.turn_id, outcome.as_ref().map(|done| *done))
}

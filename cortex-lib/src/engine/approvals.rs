//! Tool requests of sessions: kept, decided by rules where rules decide, and answered once that is on disk.

use std::sync::Arc;

use serde_json::json;

use super::incoming;
use super::jobs::{Outcome, gone};
use super::run::Engine;
use super::wake::Done;
use crate::domain::approval::ApprovalStatus;
use crate::error::Result;
use crate::ids::{ApprovalId, SessionId};
use crate::limits::{QUESTIONS_BYTES_MAX, REQUEST_ID_BYTES_MAX};
use crate::port::{Session, ToolAnswer, ToolRequest};
use crate::store::Approval;

impl Engine {
    /// A session wants to use a tool. What is decided is on disk before the runtime hears it: the answer is owed by
    /// the row.
    pub(super) async fn tool_requested(
        &mut self,
        id: &SessionId,
        mut request: ToolRequest,
    ) -> Result<()> {
        let Some(live) = self.live.get(id) else { return Ok(()) };
        let session = Arc::clone(&live.session);
        if let Some(reason) = too_long(&request) {
            self.tell_at_once(session, request.request_id, ToolAnswer::Deny { reason });
            return Ok(());
        }
        // A project may name a server so that the names of its tools begin as those of Cortex do.
        request.of_cortex.take_if(|name| !self.core().has_tool(name));
        let (settings, data_dir) = (self.core().settings(), self.core().data_dir_text());
        let (request, session_id) = (Arc::new(request), id.clone());
        let asked = Arc::clone(&request);
        let kept =
            self.record(move |tx| tx.request_approval(&session_id, &asked, &settings, &data_dir));
        if kept.await?.is_none() {
            // Nothing is kept of it: for the record the turn is over, or was told to end.
            let reason = "attempt.stale: the turn that asks is over or was told to end".to_owned();
            self.tell_at_once(session, request.request_id.clone(), ToolAnswer::Deny { reason });
        }
        Ok(())
    }

    /// Gives the answer that a row owes. A session that does not take it in is silent, and stalls.
    pub(super) fn answer(&self, id: &ApprovalId) -> Result<Outcome> {
        let approval = self.core().store().read(|tx| tx.approval(id))?;
        let live = self.live.get(&approval.session_id).ok_or_else(gone)?;
        let (session, pulse) = (Arc::clone(&live.session), Arc::clone(&live.pulse));
        let env = Arc::clone(self.core().env());
        let decided = pulse.decided(env.monotonic());
        Ok(Box::pin(async move {
            let answer = answer_of(&approval);
            let answered = session.answer(&approval.request_id, answer).await;
            if answered.is_ok() && approval.state.status() == ApprovalStatus::Allowed {
                pulse.allowed(env.monotonic(), decided);
            }
            Done::Answered(answered)
        }))
    }

    /// A session was told, or does not take the answer.
    pub(super) async fn answered(&mut self, id: &ApprovalId, answered: Result<()>) -> Result<()> {
        if let Err(error) = &answered {
            tracing::debug!(approval = %id, code = %error.code(), "not answered: {}", error.message());
        }
        let (id, taken) = (id.clone(), answered.is_ok());
        self.record(move |tx| tx.approval_told(&id, taken)).await
    }

    /// Gives an answer that no row owes to a session, which may take its time.
    fn tell_at_once(&self, session: Arc<dyn Session>, request_id: String, answer: ToolAnswer) {
        self.core().supervisor().spawn(async move {
            if let Err(error) = session.answer(&request_id, answer).await.map_err(incoming::error) {
                tracing::debug!(request = request_id, code = %error.code(), "not answered: {}", error.message());
            }
        });
    }
}

/// Why a request is not kept, if it is too long for that.
fn too_long(request: &ToolRequest) -> Option<String> {
    if request.request_id.len() > REQUEST_ID_BYTES_MAX {
        return Some(format!("denied: its id has more than {REQUEST_ID_BYTES_MAX} bytes"));
    }
    let questions = json!(request.questions).to_string().len();
    (questions > QUESTIONS_BYTES_MAX).then(|| {
        format!("denied: its questions have more than {QUESTIONS_BYTES_MAX} bytes; ask fewer or shorter ones")
    })
}

/// What the session is told.
fn answer_of(approval: &Approval) -> ToolAnswer {
    match (approval.state.status(), &approval.answers) {
        (ApprovalStatus::Allowed, Some(answers)) => ToolAnswer::Answers(answers.clone()),
        (ApprovalStatus::Allowed, None) => ToolAnswer::Allow,
        // Only these two are owed an answer; what is neither allowed nor denied must not run.
        (
            ApprovalStatus::Denied
            | ApprovalStatus::Pending
            | ApprovalStatus::Cancelled
            | ApprovalStatus::Expired,
            _,
        ) => {
            let why = approval.reason.clone();
            ToolAnswer::Deny { reason: why.unwrap_or_else(|| "denied by the user".to_owned()) }
        }
    }
}

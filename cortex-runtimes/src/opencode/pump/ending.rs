//! How turns and sessions end: what they left behind goes first.

use std::time::Duration;

use cortex_lib::port::SessionEvent;
use cortex_lib::process;
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::Pump;
use crate::opencode::http::Fault;

/// How long the processes of a session may take to end after a kill.
const CLEAR_WAIT: Duration = Duration::from_secs(5);
/// How long an answer may take while a session ends.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// How long the last answers may take when the grace is over. They took 0.1 s, and a turn that nobody told to end goes on.
const LEAST_WAIT: Duration = Duration::from_secs(1);

impl Pump {
    /// Reports the end of a turn once nothing of it lives.
    pub(super) async fn settle(&mut self) {
        if self.aborting {
            // Whoever hears of the end sends the next turn, which the server would end as well.
            return;
        }
        let Some((end, leaves_nothing)) = self.finished.take() else { return };
        if leaves_nothing && self.conversation.ran_tools() {
            self.clear().await;
            self.conversation.forget_children();
        }
        self.lease.routes.close_below(&self.fixed.native);
        self.emit(SessionEvent::TurnEnded(end));
    }

    /// Ends what tools of the session left behind.
    pub(super) async fn clear(&mut self) {
        // What a sub-agent started carries the name of its own session, if it was not known whose that is.
        let names = self.conversation.sessions().map(str::to_owned);
        let names: Vec<String> =
            std::iter::once(self.fixed.session_id.to_string()).chain(names).collect();
        if timeout(CLEAR_WAIT, process::sweep(names)).await.is_err() {
            tracing::warn!(session = %self.fixed.session_id, "processes of an ended turn live on");
        }
    }

    /// Ends everything, passes on the last words, and says why.
    pub(super) async fn finish(mut self) {
        let why = self.lease.end();
        self.asking.clear();
        let answers = why.is_none();
        let least = Instant::now() + LEAST_WAIT;
        let by = self.closing.map_or(least, |closing| closing.end.max(least));
        if answers {
            self.leave(by).await;
        }
        self.lease.leave(&self.fixed.native);
        self.clear().await;
        let message = match why {
            Some(why) if self.closing.is_none() => why,
            _ => "the session was closed".to_owned(),
        };
        if answers {
            self.lease.leave_folder(&self.fixed.cwd, by).await;
        }
        self.lease.release(by).await;
        if let Some((end, _)) = self.finished.take() {
            self.outbox.push_back(SessionEvent::TurnEnded(end));
        }
        let ended = SessionEvent::Ended { message: message.clone() };
        self.outbox.push_back(ended);
        self.ending.send_replace(Some(message));
        // Only now: a turn whose sending failed has its reason in `ending`.
        self.sending = None;
        for event in self.outbox.drain(..) {
            if self.events.send(event).await.is_err() {
                break;
            }
        }
    }

    /// Takes from the server what belongs to the session, until `by`.
    pub(super) async fn leave(&mut self, by: Instant) {
        let api = &self.lease.api;
        let wait = || LAST_WAIT.min(by.saturating_duration_since(Instant::now()));
        if self.conversation.turn().is_some() {
            let abort = api.post(&self.of_session("/abort"), &json!({}), wait()).await;
            note(abort, "a turn was not ended");
        }
        if let Some(mcp) = &self.fixed.mcp {
            self.lease.disconnect(mcp, &self.fixed.cwd, wait()).await;
        }
        if self.fixed.fleeting {
            let deleted = api.ask(Method::DELETE, &self.of_session(""), None, wait()).await;
            note(deleted, "the conversation was not removed");
        }
    }
}

fn note(answer: Result<Value, Fault>, what: &str) {
    if let Err(fault) = answer {
        tracing::debug!(%fault, what);
    }
}

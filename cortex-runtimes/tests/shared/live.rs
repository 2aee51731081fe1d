//! A session that lives, and what it says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::ids::{AttemptId, SessionId, TurnId};
use cortex_lib::port::{
    Opened, OutputKind, Session, SessionEvent, SessionFacts, ToolRequest, Turn, TurnEnd,
    TurnOutcome,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use crate::processes::{PATIENCE, alive};

/// An open session and what it has said so far.
pub(crate) struct Live {
    /// What its processes carry.
    pub(crate) marker: String,
    /// Nothing else carries it.
    pub(crate) is_alone: bool,
    pub(crate) session: Arc<dyn Session>,
    pub(crate) facts: SessionFacts,
    pub(crate) withdrawn: usize,
    pub(crate) events: mpsc::Receiver<SessionEvent>,
    pub(crate) output: Vec<(OutputKind, String)>,
    requests: VecDeque<ToolRequest>,
    ends: VecDeque<TurnEnd>,
    words: Option<String>,
    turns: usize,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live")
            .field("facts", &self.facts)
            .field("output", &self.output)
            .field("requests", &self.requests)
            .field("ends", &self.ends)
            .field("words", &self.words)
            .finish_non_exhaustive()
    }
}

impl Live {
    pub(crate) fn new(marker: &SessionId, opened: Opened) -> Self {
        Self {
            marker: marker.to_string(),
            is_alone: false,
            session: opened.session,
            events: opened.events,
            facts: opened.facts,
            withdrawn: 0,
            output: Vec::new(),
            requests: VecDeque::new(),
            ends: VecDeque::new(),
            words: None,
            turns: 0,
        }
    }

    /// A turn that was not sent yet.
    pub(crate) fn next_turn(&mut self, text: &str, runs_attempt: bool) -> Turn {
        self.turns += 1;
        Turn {
            id: TurnId::new(format!("turn-{}", self.turns)),
            attempt_id: runs_attempt.then(|| AttemptId::new(format!("attempt-{}", self.turns))),
            instruction: text.to_owned(),
        }
    }

    /// Sends an attempt's turn and waits until it is accepted.
    pub(crate) async fn send(&mut self, text: &str) -> TurnId {
        let turn = self.next_turn(text, true);
        let id = turn.id.clone();
        timeout(PATIENCE, self.session.send(turn)).await.unwrap().unwrap();
        id
    }

    /// Runs an attempt's turn. Returns its end and what was seen of it.
    pub(crate) async fn turn(&mut self, text: &str) -> (TurnEnd, Vec<(OutputKind, String)>) {
        self.output.clear();
        let turn = self.send(text).await;
        let end = self.ended(&turn).await;
        (end, std::mem::take(&mut self.output))
    }

    /// The end of the turn, which must be the next that ends.
    pub(crate) async fn ended(&mut self, turn: &TurnId) -> TurnEnd {
        let end = self.wait("the end of the turn", |live| live.ends.pop_front()).await;
        assert_eq!(end.turn_id, *turn);
        end
    }

    pub(crate) async fn request(&mut self) -> ToolRequest {
        self.wait("a tool request", |live| live.requests.pop_front()).await
    }

    /// Why the session has ended, once nothing follows.
    pub(crate) async fn last_words(&mut self) -> String {
        let words = self.wait("the end of the session", |live| live.words.take()).await;
        assert_eq!(self.events.recv().await, None);
        words
    }

    /// Ends it. What is alone leaves nothing.
    pub(crate) async fn close(self) {
        timeout(PATIENCE, self.session.close(Duration::from_secs(10))).await.unwrap();
        if self.is_alone {
            assert_eq!(alive(&self.marker), Vec::<String>::new());
        }
    }

    pub(crate) async fn wait<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        // Of all that comes together: signs of life do not make it longer.
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            let event = timeout_at(until, self.events.recv()).await;
            match event.unwrap_or_else(|_| panic!("{what} does not come: {self:?}")) {
                Some(event) => self.sort(event),
                None => panic!("{what} never came: {self:?}"),
            }
        }
    }

    fn sort(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Output { kind, text, .. } => self.output.push((kind, text)),
            SessionEvent::ToolRequest(request) => self.requests.push_back(request),
            SessionEvent::ToolRequestWithdrawn { .. } => self.withdrawn += 1,
            SessionEvent::TurnEnded(end) => self.ends.push_back(end),
            SessionEvent::Ended { message } => self.words = Some(message),
            SessionEvent::Active | SessionEvent::NativeSession { .. } => {}
        }
    }
}

pub(crate) fn succeeded(text: &str) -> TurnOutcome {
    TurnOutcome::Succeeded { text: text.to_owned() }
}

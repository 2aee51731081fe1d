//! An open session, and what it has said so far.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::error::Result as CortexResult;
use cortex_lib::ids::{AttemptId, SessionId, TurnId};
use cortex_lib::port::{
    Opened, OutputKind, Session, SessionEvent, SessionFacts, Terminal, ToolAnswer, ToolRequest,
    Turn, TurnEnd, TurnOutcome,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::case::{Stop, ensure};
use super::place::LOOK_EVERY;
use super::scenario::Prompt;

/// How long a session may take to end politely.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// An open session.
pub(super) struct Live {
    pub(super) id: SessionId,
    pub(super) session: Arc<dyn Session>,
    pub(super) facts: SessionFacts,
    pub(super) terminal: Option<Arc<dyn Terminal>>,
    /// What was shown, in order.
    pub(super) output: Vec<Shown>,
    /// The requests that no longer wait.
    pub(super) withdrawn: Vec<String>,
    /// Whether tool requests wait for the case; else they are allowed as they come.
    pub(super) holds: bool,
    events: mpsc::Receiver<SessionEvent>,
    requests: VecDeque<ToolRequest>,
    ends: VecDeque<TurnEnd>,
    words: Option<String>,
    turns: usize,
    patience: Duration,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) turn: Option<TurnId>,
    pub(super) kind: OutputKind,
    pub(super) text: String,
}

impl Live {
    pub(super) fn new(id: SessionId, opened: Opened, patience: Duration) -> Self {
        let Opened { session, events, facts, terminal } = opened;
        Self {
            id,
            session,
            facts,
            terminal,
            output: Vec::new(),
            withdrawn: Vec::new(),
            holds: false,
            events,
            requests: VecDeque::new(),
            ends: VecDeque::new(),
            words: None,
            turns: 0,
            patience,
        }
    }

    /// A turn that runs an attempt.
    pub(super) fn turn(&mut self, prompt: &Prompt) -> Turn {
        self.turns = self.turns.saturating_add(1);
        let (session, number) = (&self.id, self.turns);
        Turn {
            id: TurnId::new(format!("turn-{session}-{number}")),
            attempt_id: Some(AttemptId::new(format!("attempt-{session}-{number}"))),
            instruction: prompt.0.clone(),
        }
    }

    /// Sends a turn and waits until it is accepted.
    pub(super) async fn send(&mut self, prompt: &Prompt) -> Result<TurnId, Stop> {
        let turn = self.turn(prompt);
        self.send_turn(turn).await
    }

    pub(super) async fn send_turn(&mut self, turn: Turn) -> Result<TurnId, Stop> {
        let id = turn.id.clone();
        self.in_time("a turn is not accepted", self.session.send(turn)).await??;
        Ok(id)
    }

    /// Runs a turn to its end.
    pub(super) async fn run(&mut self, prompt: &Prompt) -> Result<TurnEnd, Stop> {
        self.output.clear();
        let turn = self.send(prompt).await?;
        self.ended(&turn).await
    }

    /// Runs a turn that has this result.
    pub(super) async fn says(&mut self, prompt: &Prompt, expected: &str) -> Result<TurnEnd, Stop> {
        let end = self.run(prompt).await?;
        succeeded(&end, expected)?;
        Ok(end)
    }

    /// The end of the turn, which must be the next that ends.
    pub(super) async fn ended(&mut self, turn: &TurnId) -> Result<TurnEnd, Stop> {
        let end = self.wait("the end of the turn", |live| live.ends.pop_front()).await?;
        ensure!(end.turn_id == *turn, "turn {} ended instead of {turn}", end.turn_id);
        Ok(end)
    }

    /// Asks the turn to end, and waits until it did.
    pub(super) async fn interrupt(&mut self, turn: &TurnId) -> Result<(), Stop> {
        self.in_time("an interrupt hangs", self.session.interrupt(turn)).await??;
        let end = self.ended(turn).await?;
        ensure!(end.outcome == TurnOutcome::Interrupted, "it ended otherwise: {:?}", end.outcome);
        Ok(())
    }

    /// A tool request that waits.
    pub(super) async fn request(&mut self) -> Result<ToolRequest, Stop> {
        self.wait("a tool request", |live| live.requests.pop_front()).await
    }

    pub(super) async fn answer(
        &self,
        request: &ToolRequest,
        answer: ToolAnswer,
    ) -> Result<(), Stop> {
        Ok(self
            .in_time("an answer hangs", self.session.answer(&request.request_id, answer))
            .await??)
    }

    /// Waits until this line was shown.
    pub(super) async fn shows(&mut self, text: &str) -> Result<(), Stop> {
        let seen =
            |live: &mut Self| live.output.iter().any(|shown| shown.text == text).then_some(());
        self.wait(&format!("the output {text:?}"), seen).await
    }

    /// Why the session has ended by itself. Nothing follows.
    pub(super) async fn last_words(&mut self) -> Result<String, Stop> {
        let words = self.wait("the end of the session", |live| live.words.take()).await?;
        ensure!(!words.trim().is_empty(), "the session does not say why it ended");
        self.is_over().await?;
        Ok(words)
    }

    /// Fails unless the events of a session that is over end.
    async fn is_over(&mut self) -> Result<(), Stop> {
        let otherwise = "the session is over, and its events do not end";
        let more = timeout(self.patience, self.events.recv()).await;
        match more.map_err(|_| Stop::Failed(otherwise.to_owned()))? {
            Some(more) => Err(Stop::Failed(format!("behind the end of the session came {more:?}"))),
            None => Ok(()),
        }
    }

    /// Whether its queue takes no more events before one is taken out of it.
    pub(super) fn is_full(&self) -> bool {
        self.events.capacity() == 0
    }

    /// Fails unless the session, which is closed, has told of this turn at most once and not as a success.
    pub(super) fn turn_was_cut(&mut self, turn: &TurnId) -> Result<(), Stop> {
        let ends: Vec<_> = self.ends.drain(..).collect();
        let told = ends
            .iter()
            .all(|end| end.turn_id == *turn && matches!(end.outcome, TurnOutcome::Interrupted));
        ensure!(told && ends.len() <= 1, "the turn that was cut ended so: {ends:?}");
        Ok(())
    }

    /// Closes the session and takes in what it still says.
    pub(super) async fn close(&mut self) -> Result<(), Stop> {
        self.in_time("a close hangs", self.session.close(GRACE)).await?;
        while let Ok(event) = self.events.try_recv() {
            ensure!(self.words.is_none(), "behind the end of the session came {event:?}");
            self.sort(event);
        }
        Ok(())
    }

    /// The ends of turns that no case has asked for.
    pub(super) fn other_ends(&self) -> usize {
        self.ends.len()
    }

    /// Waits until something was seen.
    pub(super) async fn wait<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, Stop> {
        // For all of it: an agent that only says that it is busy keeps nobody waiting for ever.
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(found) = look(self) {
                return Ok(found);
            }
            let event = timeout_at(deadline, self.events.recv()).await;
            let shown = |live: &Self| {
                let texts = live
                    .output
                    .iter()
                    .rev()
                    .take(3)
                    .map(|one| one.text.chars().take(200).collect());
                texts.collect::<Vec<String>>().join("; ")
            };
            let event = event.map_err(|_| {
                Stop::Failed(format!("{what} does not come in time; shown last: {:?}", shown(self)))
            })?;
            let Some(event) = event else {
                let (words, ends) = (&self.words, &self.ends);
                return Err(Stop::Failed(format!(
                    "{what} never comes: the session is over ({words:?}, {ends:?})"
                )));
            };
            if let Some(request) = self.sort(event) {
                self.answer(&request, ToolAnswer::Allow).await?;
            }
        }
    }

    /// Waits until there is such a file, and answers requests meanwhile.
    pub(super) async fn until_exists(&mut self, file: &Path) -> Result<(), Stop> {
        let deadline = Instant::now() + self.patience;
        while !file.exists() {
            ensure!(Instant::now() < deadline, "the file {} does not come", file.display());
            if let Ok(Some(event)) = timeout(LOOK_EVERY, self.events.recv()).await
                && let Some(request) = self.sort(event)
            {
                self.answer(&request, ToolAnswer::Allow).await?;
            }
        }
        Ok(())
    }

    /// Puts an event away. Returns a request that is to be allowed.
    fn sort(&mut self, event: SessionEvent) -> Option<ToolRequest> {
        match event {
            SessionEvent::Output { turn_id: turn, kind, text } => {
                self.output.push(Shown { turn, kind, text });
            }
            // Who may call a tool of Cortex is the endpoint's to say.
            SessionEvent::ToolRequest(request) if !self.holds || request.of_cortex.is_some() => {
                return Some(request);
            }
            SessionEvent::ToolRequest(request) => self.requests.push_back(request),
            SessionEvent::ToolRequestWithdrawn { request_id } => self.withdrawn.push(request_id),
            SessionEvent::TurnEnded(end) => self.ends.push_back(end),
            SessionEvent::Ended { message } => self.words = Some(message),
            SessionEvent::NativeSession { native_session_id } => {
                self.facts.native_session_id = Some(native_session_id);
            }
            SessionEvent::Active => {}
        }
        None
    }

    pub(super) async fn in_time<T>(
        &self,
        otherwise: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        timeout(self.patience, work).await.map_err(|_| Stop::Failed(otherwise.to_owned()))
    }
}

/// Fails unless the turn has this result. Space around it does not count.
pub(super) fn succeeded(end: &TurnEnd, expected: &str) -> Result<(), Stop> {
    match &end.outcome {
        TurnOutcome::Succeeded { text } if text.trim() == expected.trim() => Ok(()),
        TurnOutcome::Succeeded { text } => {
            let said: String = text.chars().take(300).collect();
            Err(Stop::Failed(format!("the result is {said:?} ({} bytes)", text.len())))
        }
        other => Err(Stop::Failed(format!("the turn has no result: {other:?}"))),
    }
}

/// The error of something that must be refused.
pub(super) fn refused<T>(result: CortexResult<T>, what: &str) -> Result<cortex_lib::Error, Stop> {
    result.err().ok_or_else(|| Stop::Failed(format!("{what} was not refused")))
}

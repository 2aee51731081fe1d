//! How a session ends: closed in stages, or ended because its process has, with its last words.

use std::time::Duration;

use cortex_lib::port::SessionEvent;
use cortex_lib::process::{Exit, Lines, Signal};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::{Instant, timeout};

use super::{Pump, SHOWN_CHARS_MAX};
use crate::claude_code::closing::{Closing, Stage};
use crate::claude_code::pipes::text;
use crate::claude_code::summary::one_line;

/// How long the last lines of an ended process may take. Nothing lives that could write more.
pub(super) const DRAIN_WAIT: Duration = Duration::from_secs(2);

impl Pump {
    pub(super) fn close(&mut self, grace: Duration) {
        let started = Instant::now();
        match &mut self.closing {
            // A later call may only make it shorter.
            Some(closing) if closing.started + closing.grace > started + grace => {
                closing.grace = (started + grace).saturating_duration_since(closing.started);
            }
            Some(_) => {}
            None => {
                self.closing = Some(Closing { started, grace, stage: Stage::Interrupt });
                // A turn that still waits to be written does not begin any more.
                drop(self.sending.take_if(|sending| sending.unwritten.is_some()));
                self.conversation.interrupted();
                if self.works() {
                    self.ask_interrupt();
                } else {
                    self.enter(Stage::Eof);
                }
            }
        }
    }

    /// Whether the CLI works on something, or a turn is not quite over.
    pub(super) fn works(&self) -> bool {
        self.conversation.turn().is_some()
            || self.conversation.is_stray()
            || self.sending.is_some()
            || self.finishing.is_some()
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        if let Some(closing) = &mut self.closing {
            closing.stage = stage;
        }
        match stage {
            Stage::Eof => self.hang_up(),
            Stage::Sigint => self.owned.signal(Signal::Interrupt),
            Stage::Sigterm => self.owned.signal(Signal::Terminate),
            Stage::Interrupt => {}
        }
    }

    /// Ends everything, passes on the last words, and says why.
    pub(super) async fn finish(
        mut self,
        why: Option<&'static str>,
        stdout: Option<Lines<ChildStdout>>,
        stderr: Option<Lines<ChildStderr>>,
    ) {
        let exit = timeout(Duration::ZERO, self.owned.exited()).await.ok();
        self.hang_up();
        self.owned.end().await;
        self.drain(stdout, stderr).await;
        self.waiting.clear();
        if let Some(finishing) = &mut self.finishing {
            finishing.idle = true;
        }
        self.settle().await;
        if self.conversation.odd() > 0 {
            tracing::info!(
                session = self.conversation.native(),
                count = self.conversation.odd(),
                "Claude Code said things that this driver does not know; they were passed over"
            );
        }
        let message = self.last_words(why, exit);
        self.emit(SessionEvent::Ended { message: message.clone() });
        self.ending.send_replace(Some(message));
        // Only now: a turn whose sending failed has its reason in `ending`.
        self.sending = None;
        for event in self.outbox.drain(..) {
            if self.events.send(event).await.is_err() {
                break;
            }
        }
    }

    async fn drain(
        &mut self,
        stdout: Option<Lines<ChildStdout>>,
        stderr: Option<Lines<ChildStderr>>,
    ) {
        let all = async {
            let (mut stdout, mut stderr) = (stdout, stderr);
            while let Some(lines) = &mut stderr
                && let Some(line) = text(lines).await
            {
                self.beside(&line);
            }
            while let Some(lines) = &mut stdout
                && let Some(line) = text(lines).await
            {
                self.heard(&line).await;
            }
        };
        if timeout(DRAIN_WAIT, all).await.is_err() {
            tracing::debug!(pid = self.owned.pid(), "an ended process still holds its pipes");
        }
    }

    fn last_words(&self, why: Option<&str>, exit: Option<Exit>) -> String {
        if self.closing.is_some() {
            return "the session was closed".to_owned();
        }
        let told = self.tail.redacted();
        let told = one_line(&told, SHOWN_CHARS_MAX);
        let told = if told.is_empty() { told } else { format!(": {told}") };
        match (why, exit) {
            (Some(why), _) => format!("{why}{told}"),
            (None, Some(exit)) => format!("Claude Code ended by itself ({exit}){told}"),
            (None, None) => format!("Claude Code closed its output and was ended{told}"),
        }
    }
}

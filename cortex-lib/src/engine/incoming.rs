//! What runtimes, their programs and verification commands say, without the secrets in it.
//!
//! Everything that comes from outside comes through here before anything else is done with it, so what is stored,
//! told, shown or logged later is clean already, however it is cut. The arguments of a tool request
//! stay as they came, because rules decide by them; `request_approval` keeps them without secrets.

use super::wake::Done;
use crate::error::Error;
use crate::port::{
    HealthReport, OutputKind, SessionEvent, ToolRequest, TurnEnd, TurnOutcome, VerificationOutcome,
};
use crate::secret::{LineRedactor, redact, redact_in_place};

/// What comes out of one session.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    said: LineRedactor,
    printed: LineRedactor,
}

impl Incoming {
    /// What happened, without secrets.
    pub(super) fn event(&mut self, mut event: SessionEvent) -> SessionEvent {
        match &mut event {
            SessionEvent::Output { kind, text, .. } => {
                let lines = match kind {
                    OutputKind::Stderr => &mut self.printed,
                    OutputKind::Text | OutputKind::Thinking | OutputKind::Tool => &mut self.said,
                };
                *text = lines.next(text);
            }
            SessionEvent::ToolRequest(request) => tool_request(request),
            SessionEvent::TurnEnded(end) => match &mut end.outcome {
                TurnOutcome::Succeeded { text } => redact_in_place(text),
                TurnOutcome::Failed(failure) => redact_in_place(&mut failure.message),
                TurnOutcome::Interrupted => {}
            },
            SessionEvent::Ended { message } => redact_in_place(message),
            SessionEvent::Active
            | SessionEvent::ToolRequestWithdrawn { .. }
            | SessionEvent::NativeSession { .. } => {}
        }
        event
    }

    /// The same for a turn whose result is data that its reader takes apart and cleans: that stays as it came.
    pub(super) fn with_data(&mut self, event: SessionEvent) -> SessionEvent {
        match event {
            SessionEvent::TurnEnded(TurnEnd { outcome: TurnOutcome::Succeeded { .. }, .. }) => {
                event
            }
            event => self.event(event),
        }
    }
}

/// A tool request, without secrets but for its arguments. The ids of its questions stay: answers go by them.
fn tool_request(request: &mut ToolRequest) {
    redact_in_place(&mut request.summary);
    for question in &mut request.questions {
        redact_in_place(&mut question.text);
        for choice in &mut question.choices {
            redact_in_place(&mut choice.label);
            choice.description.iter_mut().for_each(redact_in_place);
        }
    }
}

/// What came of a job, without secrets.
pub(super) fn done(done: Done) -> Done {
    match done {
        Done::Opened(opened) => Done::Opened(opened.map_err(error)),
        Done::Sent(sent) => Done::Sent(sent.map_err(error)),
        Done::Answered(answered) => Done::Answered(answered.map_err(error)),
        Done::Interrupted(interrupted) => Done::Interrupted(interrupted.map_err(error)),
        Done::Steered(steered) => Done::Steered(steered.map_err(error)),
        Done::Prepared(prepared) => Done::Prepared(prepared.map_err(error)),
        Done::Gathered(gathered) => Done::Gathered(gathered.map_err(error)),
        Done::Workspace(kept) => Done::Workspace(kept.map_err(error)),
        Done::Squashed(squashed) => Done::Squashed(squashed.map_err(error)),
        Done::Verified(outcome) => Done::Verified(verified(outcome)),
        Done::Closed | Done::NeverSent | Done::HeldBack | Done::Cancelled => done,
    }
}

/// What a check of a runtime found, without secrets.
pub(super) fn report(mut report: HealthReport) -> HealthReport {
    let HealthReport { version, message, remediation, .. } = &mut report;
    [version, message, remediation].into_iter().flatten().for_each(redact_in_place);
    report
}

/// A failure, without secrets: it may quote what a program printed.
pub(super) fn error(error: Error) -> Error {
    error.with_texts(|text| redact(text).into_owned())
}

fn verified(mut outcome: VerificationOutcome) -> VerificationOutcome {
    let (commands, message) = match &mut outcome {
        VerificationOutcome::Passed { commands } => (commands, None),
        VerificationOutcome::Failed { commands, message }
        | VerificationOutcome::Unavailable { commands, message } => (commands, Some(message)),
    };
    for ran in commands {
        redact_in_place(&mut ran.output);
        ran.argv.iter_mut().for_each(redact_in_place);
    }
    if let Some(message) = message {
        redact_in_place(message);
    }
    outcome
}

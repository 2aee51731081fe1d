//! What the end of a turn means: the one place that knows the CLI's ways to fail.
//!
//! `subtype` says "success" for refused logins and broken networks alike, so it is not asked. What counts is `is_error`,
//! why the turn ended, the status of the model's API, and the sort of error the CLI names.

use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::usage::Usage;
use cortex_lib::port::{TurnFailure, TurnOutcome};
use cortex_lib::time::Timestamp;

use super::reset::resets_at;
use super::wire::{ApiRetry, RateLimitInfo, Tokens, TurnResult};

/// What was seen during a turn that helps to understand its end.
#[derive(Debug, Default)]
pub(super) struct Clues {
    /// Somebody asked for the end of the turn.
    pub(super) interrupted: bool,
    /// Why the driver itself ended the turn.
    pub(super) ended_by_us: Option<TurnFailure>,
    /// The sort of API error that the CLI named last.
    pub(super) error: Option<String>,
    /// When a limit ends, by an event of its own.
    pub(super) resets_at: Option<Timestamp>,
    /// A message of the model began and its end never came.
    pub(super) cut: bool,
}

impl Clues {
    /// Takes in a change of the account's limits.
    pub(super) fn rate_limit(&mut self, info: &RateLimitInfo) {
        if info.status.as_deref() == Some("rejected") {
            self.resets_at = info.resets_at.and_then(from_seconds);
        }
    }

    /// The outcome of the turn that ended with `result`.
    pub(super) fn outcome(mut self, result: TurnResult, now: Timestamp) -> TurnOutcome {
        if result.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted")) {
            return self.aborted(&result);
        }
        // A turn that must not act has no result that counts, also when it was faster than its end.
        let refused = |failure: &mut TurnFailure| failure.cause == Cause::Refused;
        if let Some(refused) = self.ended_by_us.take_if(refused) {
            return TurnOutcome::Failed(refused);
        }
        if result.is_error == Some(true) || result.subtype.as_deref().is_some_and(is_error) {
            return TurnOutcome::Failed(self.failure(&result, now));
        }
        let text = result.result.unwrap_or_default();
        let answered = result.usage.and_then(|tokens| tokens.output).unwrap_or(0) > 0;
        // A model's stream that breaks off ends as a success with what came until then, often nothing.
        if self.cut || (text.trim().is_empty() && !answered) {
            return TurnOutcome::Failed(failure(
                Cause::Transient,
                "the model's answer broke off: the turn ended without a complete result",
            ));
        }
        TurnOutcome::Succeeded { text }
    }

    /// The outcome of a turn whose end was wanted while the CLI ran nothing.
    pub(super) fn given_up(self) -> TurnOutcome {
        self.ended_by_us.map_or(TurnOutcome::Interrupted, TurnOutcome::Failed)
    }

    fn aborted(self, result: &TurnResult) -> TurnOutcome {
        if self.interrupted {
            return TurnOutcome::Interrupted;
        }
        TurnOutcome::Failed(self.ended_by_us.unwrap_or_else(|| {
            failure(Cause::Error, format!("the turn was broken off: {}", message(result)))
        }))
    }

    fn failure(&self, result: &TurnResult, now: Timestamp) -> TurnFailure {
        let message = message(result);
        let cause = self.cause(result, &message);
        let resets_at = (cause == Cause::RateLimited)
            .then(|| self.resets_at.or_else(|| resets_at(&message, now)))
            .flatten();
        TurnFailure { cause, message, resets_at }
    }

    fn cause(&self, result: &TurnResult, message: &str) -> Cause {
        if let Some(status) = result.api_error_status {
            return by_status(status);
        }
        match self.error.as_deref() {
            Some("rate_limit") => return Cause::RateLimited,
            Some("overloaded" | "server_error") => return Cause::Transient,
            Some(
                "authentication_failed"
                | "oauth_org_not_allowed"
                | "billing_error"
                | "invalid_request"
                | "model_not_found",
            ) => return Cause::Refused,
            Some("max_output_tokens") => return Cause::Error,
            _ => {}
        }
        if result.stop_reason.as_deref() == Some("refusal") {
            Cause::Refused
        } else if message.starts_with("Path \"") && message.ends_with("does not exist") {
            Cause::InvalidRoot
        } else if message.starts_with("API Error") {
            // Without a status there was no answer of the API: the network, a proxy, a broken stream.
            Cause::Transient
        } else {
            Cause::Error
        }
    }
}

/// Why a repeated request should not be repeated any further, if that is so.
///
/// The CLI asks ten times on a refused login, over more than a minute; the second refusal already shows that
/// it did not help to refresh the token. And a wait that a server asks for belongs to the core, which can show it.
pub(super) fn hopeless(retry: &ApiRetry, now: Timestamp) -> Option<TurnFailure> {
    let refused = matches!(retry.error_status, Some(401 | 403));
    if refused && retry.attempt.is_some_and(|attempt| attempt >= 2) {
        let status = retry.error_status.unwrap_or_default();
        let error = retry.error.as_deref().unwrap_or("refused");
        return Some(failure(
            Cause::Refused,
            format!("the model's API refused the login: {error} (HTTP {status})"),
        ));
    }
    let delay = retry.retry_delay_ms.filter(|delay| *delay > 0.0)?;
    let delay = Duration::try_from_secs_f64(delay / 1000.0).ok()?;
    if retry.error_status == Some(429) && delay > RETRY_WAIT_MAX {
        let message = format!("the rate limit is reached for another {} s", delay.as_secs());
        let resets_at = Some(now.after(delay));
        return Some(TurnFailure { cause: Cause::RateLimited, message, resets_at });
    }
    None
}

/// How long the CLI may wait by itself for a rate limit. A longer wait is the core's to plan and to show.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(20);

fn by_status(status: u16) -> Cause {
    match status {
        429 => Cause::RateLimited,
        408 | 409 | 500.. => Cause::Transient,
        400..=499 => Cause::Refused,
        _ => Cause::Error,
    }
}

fn is_error(subtype: &str) -> bool {
    subtype.starts_with("error")
}

/// What the CLI says about a failed turn, in one line.
fn message(result: &TurnResult) -> String {
    let errors = result.errors.as_deref().unwrap_or_default().join("; ");
    let said = result.result.as_deref().map(str::trim).filter(|said| !said.is_empty());
    let text = match (said, errors.is_empty()) {
        (Some(said), _) => said.to_owned(),
        (None, false) => errors,
        (None, true) => result.subtype.clone().unwrap_or_else(|| "no reason given".to_owned()),
    };
    super::summary::one_line(&text, MESSAGE_CHARS_MAX)
}

/// A failure is read in a list; the whole text is among the output.
const MESSAGE_CHARS_MAX: usize = 500;

/// What the turn used, and what the process has cost by now.
///
/// Figures that are all zero are those of a turn that was broken off: nobody counted.
pub(super) fn usage(tokens: Option<Tokens>, cost_usd: Option<f64>) -> Usage {
    let tokens = tokens.unwrap_or_default();
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (one, other) => one.or(other),
    };
    let input = sum(tokens.input, tokens.cache_creation);
    let counted = [input, tokens.output, tokens.cache_read];
    let counted = counted.iter().any(|figure| figure.is_some_and(|figure| figure > 0));
    let cost_usd = cost_usd.filter(|cost| *cost > 0.0);
    if !counted {
        return Usage { cost_usd, ..Usage::default() };
    }
    Usage {
        input_tokens: input,
        output_tokens: tokens.output,
        cached_tokens: tokens.cache_read,
        cost_usd,
    }
}

pub(super) fn failure(cause: Cause, message: impl Into<String>) -> TurnFailure {
    TurnFailure { cause, message: message.into(), resets_at: None }
}

#[expect(clippy::cast_possible_truncation, reason = "a float outside of i64 saturates")]
fn from_seconds(seconds: f64) -> Option<Timestamp> {
    (seconds > 0.0).then(|| Timestamp::from_millis((seconds * 1000.0) as i64))
}

//! What the end of a turn means: the one place that knows OpenCode's ways to fail.

use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::usage::Usage;
use cortex_lib::port::{TurnFailure, TurnOutcome};
use cortex_lib::time::Timestamp;
use serde_json::Value;

use super::wire::{Failure, Message, Retry, Tokens};
use crate::line::one_line;

/// How long OpenCode may wait by itself before it asks the model again. It obeys whatever a server asks for, days too;
/// a longer wait is the core's to plan and to show.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(20);
/// How often it may ask again: after 2, 4 and 8 s. That is enough for a hiccup; its own five times would hold a turn
/// for more than a minute.
const RETRIES_MAX: u32 = 3;
/// A failure is read in a list; the whole text is among the output.
const MESSAGE_CHARS_MAX: usize = 500;

/// What was seen during a turn that helps to understand its end.
#[derive(Debug, Default)]
pub(super) struct Clues {
    /// Somebody asked for the end of the turn.
    pub(super) interrupted: bool,
    /// Why the driver itself ended the turn.
    pub(super) ended_by_us: Option<TurnFailure>,
    /// What failed first. OpenCode may have gone on all the same.
    pub(super) error: Option<Failure>,
}

impl Clues {
    /// Whether the turn was asked to end.
    pub(super) fn ends(&self) -> bool {
        self.interrupted || self.ended_by_us.is_some()
    }

    /// The outcome of a turn whose last message is `last`, with its text.
    pub(super) fn outcome(
        self,
        last: Option<&Message>,
        text: String,
        now: Timestamp,
    ) -> TurnOutcome {
        let finish = last.and_then(|last| last.finish.as_deref());
        let whole = matches!(finish, Some("stop" | "length" | "content-filter"));
        let error = last.and_then(|last| last.error.clone());
        let error = error.or(self.error.filter(|_| !whole));
        let finished = error.is_none() && !matches!(finish, None | Some("tool-calls"));
        if !finished {
            if self.interrupted {
                return TurnOutcome::Interrupted;
            }
            if let Some(failure) = self.ended_by_us {
                return TurnOutcome::Failed(failure);
            }
        }
        if let Some(error) = error {
            return TurnOutcome::Failed(by_error(&error, now));
        }
        let failed = |cause, message: &str| TurnOutcome::Failed(failure(cause, message));
        match finish {
            Some("stop") if text.trim().is_empty() && is_empty(last) => {
                failed(Cause::Transient, "the model ended its answer without saying anything")
            }
            Some("stop") => TurnOutcome::Succeeded { text },
            Some("length") => {
                failed(Cause::Error, "the model's answer was cut off at its longest length")
            }
            Some("content-filter") => {
                failed(Cause::Refused, "the model's provider withheld the answer")
            }
            // A stream that ends without a reason was cut off on the way.
            Some("unknown" | "other" | "error") => {
                failed(Cause::Transient, "the model's answer broke off")
            }
            Some("tool-calls") => failed(Cause::Error, "the turn ended at a tool that was refused"),
            Some(other) => failed(Cause::Error, &format!("the model ended its answer: {other}")),
            None => failed(Cause::Error, "OpenCode ended the turn without an answer"),
        }
    }
}

fn is_empty(last: Option<&Message>) -> bool {
    last.and_then(|last| last.tokens).is_none_or(|tokens| tokens.output == 0)
}

/// Why a request should not be repeated any further, if that is so.
pub(super) fn hopeless(retry: &Retry, now: Timestamp) -> Option<TurnFailure> {
    let next = Timestamp::from_millis(retry.next);
    let wait = retry.next.saturating_sub(now.as_millis());
    let said = one_line(&retry.message, MESSAGE_CHARS_MAX);
    if retry.attempt > RETRIES_MAX {
        let cause = if is_limit(&said) { Cause::RateLimited } else { Cause::Transient };
        let message = format!("the model was asked {} times in vain: {said}", retry.attempt);
        return Some(failure(cause, message));
    }
    let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
    (wait > RETRY_WAIT_MAX).then(|| TurnFailure {
        cause: Cause::RateLimited,
        message: format!("the model's provider asks to wait {} s: {said}", wait.as_secs()),
        resets_at: Some(next),
    })
}

/// Whether a text speaks of a quota. A retry tells nothing but a text.
fn is_limit(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["429", "rate limit", "rate_limit", "too many requests", "quota", "usage limit"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// What an error of OpenCode means.
pub(super) fn by_error(error: &Failure, now: Timestamp) -> TurnFailure {
    let said = if error.data.message.is_empty() { &error.name } else { &error.data.message };
    let message = one_line(said.lines().next().unwrap_or_default(), MESSAGE_CHARS_MAX);
    let cause = match (error.name.as_str(), error.data.status) {
        (_, Some(status)) => by_status(status),
        ("ProviderAuthError" | "ContentFilterError", None) => Cause::Refused,
        ("APIError", None) if error.data.retryable == Some(false) => Cause::Error,
        // Without a status there was no answer of the API: the network, a proxy, a broken stream.
        ("APIError", None) => Cause::Transient,
        _ if message.contains("not found") => Cause::Refused,
        _ if [
            "connect",
            "Connection",
            "fetch",
            "socket",
            "timed out",
            "timeout",
            "JSON parsing failed",
        ]
        .iter()
        .any(|sign| message.contains(sign)) =>
        {
            Cause::Transient
        }
        _ => Cause::Error,
    };
    let resets_at = (cause == Cause::RateLimited).then(|| resets_at(error, now)).flatten();
    TurnFailure { cause, message, resets_at }
}

fn by_status(status: u16) -> Cause {
    match status {
        429 => Cause::RateLimited,
        408 | 409 | 500.. => Cause::Transient,
        400..=499 => Cause::Refused,
        _ => Cause::Error,
    }
}

/// When the provider asks to come again.
fn resets_at(error: &Failure, now: Timestamp) -> Option<Timestamp> {
    let headers = error.data.headers.as_ref()?;
    let seconds = headers.get("retry-after").and_then(Value::as_str)?.trim().parse().ok()?;
    Some(now.after(Duration::from_secs(seconds)))
}

/// What one step used.
pub(super) fn usage(tokens: Option<Tokens>, cost: Option<f64>) -> Usage {
    let cost_usd = cost.filter(|cost| *cost > 0.0);
    // Figures that are all zero are those of a step that was broken off: nobody counted.
    let Some(tokens) = tokens.filter(|tokens| *tokens != Tokens::default()) else {
        return Usage { cost_usd, ..Usage::default() };
    };
    Usage {
        input_tokens: Some(tokens.input.saturating_add(tokens.cache.write)),
        output_tokens: Some(tokens.output.saturating_add(tokens.reasoning)),
        cached_tokens: Some(tokens.cache.read),
        cost_usd,
    }
}

pub(super) fn failure(cause: Cause, message: impl Into<String>) -> TurnFailure {
    TurnFailure { cause, message: message.into(), resets_at: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_millis(1_000_000)
    }

    fn retry(attempt: u32, message: &str, wait_ms: i64) -> Option<TurnFailure> {
        let next = now().as_millis() + wait_ms;
        hopeless(&Retry { attempt, message: message.to_owned(), next }, now())
    }

    /// Limits: a wait of hours that the provider asks for is not spent inside the turn.
    #[test]
    fn a_long_wait_is_a_rate_limit_with_its_end() {
        assert_eq!(retry(1, "slow down", 2_300), None);
        let failure = retry(1, "slow down", 3_600_000).unwrap();
        assert_eq!(failure.cause, Cause::RateLimited);
        assert_eq!(failure.resets_at, Some(now().after(Duration::from_hours(1))));
    }

    #[test]
    fn a_trouble_that_does_not_pass_ends_the_turn_by_what_it_is() {
        assert_eq!(retry(3, "Overloaded", 10_000), None);
        assert_eq!(retry(4, "Overloaded", 16_000).unwrap().cause, Cause::Transient);
        assert_eq!(retry(4, "Rate limit reached", 16_000).unwrap().cause, Cause::RateLimited);
    }

    #[test]
    fn errors_are_told_apart() {
        let cause = |value: Value| by_error(&serde_json::from_value(value).unwrap(), now()).cause;
        let api = |status: u16| serde_json::json!({"name": "APIError", "data": {"message": "m", "statusCode": status}});
        assert_eq!(cause(api(401)), Cause::Refused);
        assert_eq!(cause(api(400)), Cause::Refused);
        assert_eq!(cause(api(429)), Cause::RateLimited);
        assert_eq!(cause(api(503)), Cause::Transient);
        let unknown = |message: &str| serde_json::json!({"name": "UnknownError", "data": {"message": message}});
        assert_eq!(cause(unknown("Model not found: a/b.")), Cause::Refused);
        assert_eq!(cause(unknown("Unable to connect. Is the computer online?")), Cause::Transient);
        assert_eq!(cause(unknown("boom")), Cause::Error);
    }

    #[test]
    fn a_refused_login_says_when_to_come_again_only_for_a_limit() {
        let error = serde_json::json!({"name": "APIError", "data": {
            "message": "m", "statusCode": 429, "responseHeaders": {"retry-after": "7"}}});
        let failure = by_error(&serde_json::from_value(error).unwrap(), now());
        assert_eq!(failure.resets_at, Some(now().after(Duration::from_secs(7))));
    }
}

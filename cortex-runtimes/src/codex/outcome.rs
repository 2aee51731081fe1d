//! What the end of a turn means: the one place that knows the CLI's ways to fail.

use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::usage::Usage;
use cortex_lib::port::{TurnFailure, TurnOutcome};
use cortex_lib::time::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::reset;
use super::summary::one_line;
use super::wire::{RateLimits, TokenUsage, Tokens, Turn, TurnError, Window};

/// What was seen during a turn that helps to understand its end.
#[derive(Debug, Default)]
pub(super) struct Clues {
    /// Somebody asked for the end of the turn.
    pub(super) interrupted: bool,
    /// Why the driver itself ended the turn.
    pub(super) ended_by_us: Option<TurnFailure>,
    /// The last thing that the agent said to its end.
    pub(super) answer: Option<String>,
    /// The last error that was told on the way.
    pub(super) error: Option<TurnError>,
}

impl Clues {
    /// The outcome of the turn that ended so. `limits`: how much of the account's quota was used when that was last told.
    pub(super) fn outcome(
        mut self,
        turn: Turn,
        used: Usage,
        limits: &RateLimits,
        now: Timestamp,
    ) -> TurnOutcome {
        // Whatever the CLI made of it: its end may have been on its way before it heard ours.
        if let Some(failure) = self.ended_by_us.take() {
            return TurnOutcome::Failed(failure);
        }
        match turn.status.as_str() {
            "completed" => self.completed(turn, used),
            "interrupted" if self.interrupted => TurnOutcome::Interrupted,
            "interrupted" => {
                let message = "Codex broke the turn off without being asked";
                TurnOutcome::Failed(failure(Cause::Error, message))
            }
            status => {
                let error = turn.error.or(self.error).unwrap_or_else(|| TurnError {
                    message: format!("the turn ended as {status}, and no reason was given"),
                    ..TurnError::default()
                });
                TurnOutcome::Failed(explain(&error, limits, now))
            }
        }
    }

    fn completed(self, turn: Turn, used: Usage) -> TurnOutcome {
        // The end of a turn names the final answer, which need not be what was said last.
        let named = turn.items.into_iter().rev().find(|item| item.kind == "agentMessage");
        let text = named.map(|item| item.text).or(self.answer).unwrap_or_default();
        if text.trim().is_empty() && used.output_tokens.unwrap_or(0) == 0 {
            return TurnOutcome::Failed(failure(
                Cause::Transient,
                "the model gave no answer: the turn ended without a result",
            ));
        }
        TurnOutcome::Succeeded { text }
    }
}

/// The failure that an error of the CLI means.
fn explain(error: &TurnError, limits: &RateLimits, now: Timestamp) -> TurnFailure {
    let message = message(error);
    let cause = cause(error);
    let told =
        || resets_at(limits).or_else(|| reset::resets_at(&message, now, &TimeZone::system()));
    let resets_at = (cause == Cause::RateLimited).then(told).flatten();
    if cause == Cause::RateLimited && resets_at.is_none() && message.contains("billing") {
        // No time brings it back.
        return failure(Cause::Refused, message);
    }
    TurnFailure { cause, message, resets_at }
}

fn cause(error: &TurnError) -> Cause {
    let (kind, status) = match &error.codex_error_info {
        Value::String(kind) => (kind.as_str(), None),
        Value::Object(fields) => match fields.iter().next() {
            Some((kind, inner)) => (kind.as_str(), inner.get("httpStatusCode")),
            None => ("", None),
        },
        _ => ("", None),
    };
    if let Some(status) = status.and_then(Value::as_u64) {
        return by_status(status);
    }
    match kind {
        "usageLimitExceeded" | "rateLimitExceeded" | "sessionBudgetExceeded" => Cause::RateLimited,
        "httpConnectionFailed"
        | "responseStreamConnectionFailed"
        | "responseStreamDisconnected"
        | "responseTooManyFailedAttempts"
        | "internalServerError"
        | "serverOverloaded"
        | "flexUnavailable"
        | "policyCapacityUnavailable" => Cause::Transient,
        "unauthorized"
        | "badRequest"
        | "modelNotFound"
        | "cyberPolicy"
        | "bioPolicy"
        | "misalignmentPolicyViolation"
        | "inferenceHookDenied" => Cause::Refused,
        "contextWindowExceeded" | "sandboxError" | "tooManyDenials" => Cause::Error,
        _ => by_words(&error.message),
    }
}

/// Errors without a name of their own: what the CLI says to people is all there is.
fn by_words(message: &str) -> Cause {
    let lower = message.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["missing environment variable", "invalid_request_error", "unexpected status 4"]) {
        Cause::Refused
    } else if has(&["stream disconnected", "error sending request", "stream closed", "timed out"]) {
        Cause::Transient
    } else {
        Cause::Error
    }
}

fn by_status(status: u64) -> Cause {
    match status {
        429 => Cause::RateLimited,
        408 | 409 | 500.. => Cause::Transient,
        400..=499 => Cause::Refused,
        _ => Cause::Error,
    }
}

/// When the quota that is used up begins anew: the last of the windows that are full.
fn resets_at(limits: &RateLimits) -> Option<Timestamp> {
    let full = |window: &Window| window.used_percent >= FULL_PERCENT;
    let windows = [limits.primary, limits.secondary].into_iter().flatten();
    let ends = windows.filter(full).filter_map(|window| window.resets_at);
    ends.max().map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000)))
}

/// A window that is used to so much is used up: the figure is rounded on its way.
const FULL_PERCENT: f64 = 99.5;

/// What the CLI says about a failed turn, in one line.
pub(super) fn message(error: &TurnError) -> String {
    let details = error.additional_details.as_deref().map(str::trim).unwrap_or_default();
    let text = match (error.message.trim(), details) {
        ("", "") => "no reason given".to_owned(),
        (said, "") => said.to_owned(),
        ("", details) => details.to_owned(),
        (said, details) => format!("{said}: {details}"),
    };
    one_line(&text, MESSAGE_CHARS_MAX)
}

/// A failure is read in a list; the whole text is among the output.
const MESSAGE_CHARS_MAX: usize = 500;

pub(super) fn failure(cause: Cause, message: impl Into<String>) -> TurnFailure {
    TurnFailure { cause, message: message.into(), resets_at: None }
}

/// What turns use. The CLI counts from the beginning of the thread and tells after each request to the model.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// What was used before the turn that runs.
    before: Option<Tokens>,
    /// What was used by now.
    total: Option<Tokens>,
}

impl Meter {
    /// Takes in what was told. For another turn than ours it is what was used long before, in a thread that
    /// goes on. When that was not told, only the last request of the first figures is new.
    pub(super) fn told(&mut self, usage: TokenUsage, is_ours: bool) {
        if is_ours {
            self.before.get_or_insert_with(|| usage.total.less(usage.last));
        } else {
            self.before = Some(usage.total);
        }
        self.total = Some(usage.total);
    }

    /// What was used since this was last asked.
    pub(super) fn turn(&mut self) -> Usage {
        let (Some(before), Some(total)) = (self.before, self.total) else {
            return Usage::default();
        };
        self.before = Some(total);
        let used = total.less(before);
        if used == Tokens::default() {
            return Usage::default();
        }
        Usage {
            input_tokens: Some(used.input.saturating_sub(used.cached)),
            output_tokens: Some(used.output),
            cached_tokens: Some(used.cached),
            cost_usd: None,
        }
    }
}

impl Tokens {
    fn less(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            cached: self.cached.saturating_sub(other.cached),
            output: self.output.saturating_sub(other.output),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    fn failed(info: Value, message: &str) -> TurnFailure {
        let error = TurnError {
            message: message.to_owned(),
            codex_error_info: info,
            ..TurnError::default()
        };
        explain(&error, &RateLimits::default(), NOW)
    }

    #[test]
    fn every_kind_of_error_has_its_cause() {
        for (info, want) in [
            (json!({"httpConnectionFailed": {"httpStatusCode": 401}}), Cause::Refused),
            (json!({"httpConnectionFailed": {"httpStatusCode": 503}}), Cause::Transient),
            (json!({"httpConnectionFailed": {"httpStatusCode": null}}), Cause::Transient),
            (json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}), Cause::RateLimited),
            (json!("usageLimitExceeded"), Cause::RateLimited),
            (json!("internalServerError"), Cause::Transient),
            (json!("contextWindowExceeded"), Cause::Error),
            (json!("aNewerKind"), Cause::Error),
            (json!({"aNewerKind": {}}), Cause::Error),
            (Value::Null, Cause::Error),
        ] {
            assert_eq!(failed(info.clone(), "x").cause, want, "{info}");
        }
        assert_eq!(
            failed(json!("other"), "stream disconnected before completion").cause,
            Cause::Transient
        );
        assert_eq!(
            failed(json!("other"), "Missing environment variable: `K`").cause,
            Cause::Refused
        );
        assert_eq!(
            failed(json!("usageLimitExceeded"), "check your plan and billing").cause,
            Cause::Refused
        );
    }

    /// Limits: the reset time is the CLI's own, of the windows that are used up.
    #[test]
    fn a_used_up_quota_comes_back_with_the_last_of_its_full_windows() {
        let window =
            |used_percent, resets_at| Some(Window { used_percent, resets_at: Some(resets_at) });
        let error =
            TurnError { codex_error_info: json!("usageLimitExceeded"), ..TurnError::default() };
        let at = |primary, secondary| {
            let limits = RateLimits { primary, secondary };
            explain(&error, &limits, NOW).resets_at.map(|at| at.to_string())
        };
        assert_eq!(
            at(window(100.0, 1_765_432_100), window(7.0, 1_999_999_999)).as_deref(),
            Some("2025-12-11T05:48:20.000Z")
        );
        assert_eq!(
            at(window(100.0, 1_765_432_100), window(100.0, 1_765_432_200)).as_deref(),
            Some("2025-12-11T05:50:00.000Z")
        );
        assert_eq!(at(window(40.0, 1_765_432_100), None), None);
    }

    /// Limits: cumulative totals are counted once.
    #[test]
    fn totals_are_counted_once() {
        let tokens = |input, output| Tokens { input, output, cached: 0 };
        let used = |usage: Usage| (usage.input_tokens, usage.output_tokens);
        let mut meter = Meter::default();
        assert!(meter.turn().is_empty());
        // A thread that goes on after 100 and 10, with two requests in its turn.
        meter.told(TokenUsage { total: tokens(103, 12), last: tokens(3, 2) }, true);
        meter.told(TokenUsage { total: tokens(110, 13), last: tokens(7, 1) }, true);
        assert_eq!(used(meter.turn()), (Some(10), Some(3)));
        assert!(meter.turn().is_empty());
        meter.told(TokenUsage { total: tokens(111, 14), last: tokens(1, 1) }, true);
        assert_eq!(used(meter.turn()), (Some(1), Some(1)));
        let mut meter = Meter::default();
        meter.told(TokenUsage { total: tokens(100, 10), last: tokens(100, 10) }, false);
        assert!(meter.turn().is_empty());
        meter.told(TokenUsage { total: tokens(103, 12), last: tokens(3, 2) }, true);
        assert_eq!(used(meter.turn()), (Some(3), Some(2)));
    }
}

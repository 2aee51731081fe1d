//! How long a failed task waits before it is tried again.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How failed attempts are repeated: after `base · 2ⁿ`, at most `max`, give or take `jitter_percent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// Retries of a task that does not say how many it wants.
    #[schemars(range(max = 10))]
    pub max_retries: u8,
    /// Wait before the first retry, in milliseconds.
    #[schemars(range(max = 3_600_000))]
    pub base_ms: u64,
    /// Longest wait, in milliseconds.
    #[schemars(range(max = 86_400_000))]
    pub max_ms: u64,
    /// Spread of the wait, in percent, so that many failures do not come back at once.
    #[schemars(range(max = 100))]
    pub jitter_percent: u8,
}

impl Default for Retry {
    fn default() -> Self {
        Self { max_retries: 2, base_ms: 5_000, max_ms: 300_000, jitter_percent: 20 }
    }
}

/// The wait before retry `n` (1 is the first): `base · 2ⁿ⁻¹`, at most `max`, moved by up to `jitter_percent`
/// either way. `roll` gives a number from 0 to its argument - 1.
pub fn backoff(policy: &Retry, n: u8, roll: impl FnOnce(u64) -> u64) -> Duration {
    let doubled = policy
        .base_ms
        .saturating_mul(1_u64.checked_shl(u32::from(n.saturating_sub(1))).unwrap_or(u64::MAX));
    let wait = doubled.min(policy.max_ms);
    let spread = wait.saturating_mul(u64::from(policy.jitter_percent)) / 100;
    Duration::from_millis(
        (wait - spread).saturating_add(roll(spread.saturating_mul(2).saturating_add(1))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_limit_and_spreads() {
        let policy = Retry::default();
        let middle = |n| backoff(&policy, n, |sides| sides / 2).as_millis();
        assert_eq!([1, 2, 3, 4].map(middle), [5_000, 10_000, 20_000, 40_000]);
        assert_eq!(middle(200), 300_000);
        assert_eq!(backoff(&policy, 1, |_| 0).as_millis(), 4_000);
        assert_eq!(backoff(&policy, 1, |sides| sides - 1).as_millis(), 6_000);
    }
}

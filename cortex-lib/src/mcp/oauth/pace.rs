//! How much strangers may have done for them: so much at once, then so much in a while.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::limits::{STRANGERS_BURST, STRANGERS_PACE};

/// A bucket of turns that fills up with time.
#[derive(Debug, Default)]
pub(super) struct Pace {
    // Taken for one subtraction. The moment at which the bucket will be full again.
    full_at: Mutex<Duration>,
}

impl Pace {
    /// Takes a turn at `now`, if one is left.
    pub(super) fn take(&self, now: Duration) -> bool {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*full_at).max(now) + STRANGERS_PACE;
        let is_left = next.saturating_sub(now) <= STRANGERS_PACE * STRANGERS_BURST;
        if is_left {
            *full_at = next;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_run_out_and_come_back() {
        let pace = Pace::default();
        let start = Duration::from_secs(100);
        assert!((0..STRANGERS_BURST).all(|_| pace.take(start)));
        assert!(!pace.take(start));
        assert!(pace.take(start + STRANGERS_PACE));
        assert!(!pace.take(start + STRANGERS_PACE));
    }
}

//! Randomness from a seed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// `SplitMix64` (Steele, Lea and Flood 2014). One stream for each purpose, so that one more roll for one does not
/// move all others. Clones share their stream.
#[derive(Clone, Debug)]
pub struct Dice(Arc<Mutex<u64>>);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `below` - 1.
    pub fn roll(&self, below: u64) -> u64 {
        self.next() % below.max(1)
    }

    /// True once in `times`.
    pub fn once_in(&self, times: u64) -> bool {
        self.roll(times) == 0
    }

    /// A stream of its own.
    pub fn fork(&self) -> Self {
        Self::new(self.next())
    }

    /// A time up to `max` seconds. Often none at all, so that things happen at once.
    pub fn seconds(&self, max: u64) -> Duration {
        match self.roll(4) {
            0 => Duration::ZERO,
            _ => Duration::from_millis(self.roll(max * 1000)),
        }
    }

    /// One of several.
    pub fn pick<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        of.get(usize::try_from(self.roll(u64::try_from(of.len()).unwrap())).unwrap())
    }
}

/// A seed for one purpose, of a seed for all.
pub fn mix(seed: u64, purpose: u64) -> u64 {
    Dice::new(seed ^ purpose.wrapping_mul(0xD6E8_FEB8_6659_FD93)).next()
}

//! What the core asks of the world that is never the same twice: time and randomness.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::secret::Secret;
use crate::time::Timestamp;

/// Time and randomness. Everything in the core that is not decided by its inputs comes from here.
pub trait Env: Debug + Send + Sync + 'static {
    /// The wall clock: for records that people read. It may jump.
    fn now(&self) -> Timestamp;

    /// Time since this environment was made. It never goes back: for everything that is due.
    fn monotonic(&self) -> Duration;

    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// The last place that was given out in the order of minting.
    fn minted(&self) -> &AtomicU64;
}

impl dyn Env {
    /// A fresh `UUIDv7`: its order is the order of minting, also within a millisecond and when the clock is set
    /// back (RFC 9562, 6.2: 12 bits behind the milliseconds count, and borrow from them when they are full).
    pub fn mint(&self) -> String {
        let millis = u64::try_from(self.now().as_millis()).unwrap_or(0);
        let next = |last: u64| Some(last.saturating_add(1).max(millis << 12));
        let last = self.minted().fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let place = last.ok().and_then(next).unwrap_or_default();
        let mut random = [0; 10];
        self.fill(&mut random);
        let [.., high, low] = place.to_be_bytes();
        [random[0], random[1]] = [high & 0x0f, low];
        uuid::Builder::from_unix_timestamp_millis(place >> 12, &random).into_uuid().to_string()
    }

    /// A random `UUIDv4`, for identifiers that others want in that form.
    pub fn mint_v4(&self) -> Uuid {
        let mut random = [0; 16];
        self.fill(&mut random);
        uuid::Builder::from_random_bytes(random).into_uuid()
    }

    /// A number from 0 to `below` - 1; 0 when `below` is 0.
    pub fn roll(&self, below: u64) -> u64 {
        let mut random = [0; 8];
        self.fill(&mut random);
        u64::from_le_bytes(random).checked_rem(below).unwrap_or(0)
    }

    /// A fresh credential: 256 random bits in hexadecimal behind `prefix`.
    pub fn mint_secret(&self, prefix: &str) -> Secret {
        let mut random = [0; 32];
        self.fill(&mut random);
        Secret::new(
            random.iter().fold(prefix.to_owned(), |text, byte| text + &format!("{byte:02x}")),
        )
    }
}

/// The clock and the randomness of this machine.
#[derive(Debug)]
pub struct SystemEnv {
    started: Instant,
    minted: AtomicU64,
}

impl SystemEnv {
    /// Starts its monotonic clock.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
    pub fn new() -> Self {
        Self { started: Instant::now(), minted: AtomicU64::new(0) }
    }
}

impl Default for SystemEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for SystemEnv {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
    #[expect(
        clippy::expect_used,
        reason = "without randomness no credential can be made: stopping is right"
    )]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the system's source of randomness answers");
    }

    fn minted(&self) -> &AtomicU64 {
        &self.minted
    }
}

/// A world that is the same every time: one seed decides ids and dice, tokio's clock (paused in a
/// simulation) decides the time.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub struct SimEnv {
    epoch: Timestamp,
    started: tokio::time::Instant,
    state: std::sync::Mutex<u64>,
    minted: AtomicU64,
}

#[cfg(feature = "testing")]
impl SimEnv {
    /// A world that begins at `epoch` with the dice of `seed`. Call it inside a tokio runtime.
    pub fn new(seed: u64, epoch: Timestamp) -> Self {
        let (started, state) = (tokio::time::Instant::now(), std::sync::Mutex::new(seed));
        Self { epoch, started, state, minted: AtomicU64::new(0) }
    }

    /// The next number of the stream (`SplitMix64`, Steele, Lea and Flood 2014).
    fn next(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(feature = "testing")]
impl Env for SimEnv {
    fn now(&self) -> Timestamp {
        self.epoch.after(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            for (byte, random) in chunk.iter_mut().zip(self.next().to_le_bytes()) {
                *byte = random;
            }
        }
    }

    fn minted(&self) -> &AtomicU64 {
        &self.minted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_the_order_of_minting_also_within_a_millisecond() {
        let env: &dyn Env = &SystemEnv::new();
        let ids: Vec<_> = (0..10_000).map(|_| env.mint()).collect();
        assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] != two[1]));
        let first = Uuid::parse_str(&ids[0]).unwrap();
        assert_eq!((first.get_version_num(), first.get_variant()), (7, uuid::Variant::RFC4122));
    }
}

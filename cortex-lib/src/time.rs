//! Points in time and lengths of time, in milliseconds.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A point in time: milliseconds since 1970-01-01T00:00:00Z. RFC 3339 in UTC on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The years -9999 to 9999, less a day at either end: what the wire form can say in every time zone.
const FIRST: i64 = -377_705_023_200_000;
const LAST: i64 = 253_402_207_199_999;

impl Timestamp {
    /// The point `millis` milliseconds after the epoch, or the first or last one that can be written down: a runtime
    /// may say anything, and what is stored must be readable again.
    pub const fn from_millis(millis: i64) -> Self {
        if millis < FIRST {
            Self(FIRST)
        } else if millis > LAST {
            Self(LAST)
        } else {
            Self(millis)
        }
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This point moved forward. Stops at the largest point instead of overflowing.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_add(by))
    }

    /// How long from `earlier` to this point; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Self::from_millis(at.as_millisecond()))
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "RFC 3339, UTC, milliseconds" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_form_is_rfc_3339_with_milliseconds() {
        let at = Timestamp::from_millis(1_790_000_000_120);
        assert_eq!(serde_json::to_string(&at).unwrap(), "\"2026-09-21T14:13:20.120Z\"");
        assert_eq!(serde_json::from_str::<Timestamp>("\"2026-09-21T14:13:20.120Z\"").unwrap(), at);
    }

    #[test]
    fn every_point_can_be_read_as_it_was_written() {
        for millis in [i64::MIN, -1, 0, 1_790_000_000_000, i64::MAX] {
            let at = Timestamp::from_millis(millis);
            let wire = serde_json::to_string(&at).unwrap();
            assert_eq!(serde_json::from_str::<Timestamp>(&wire).unwrap(), at, "{wire}");
        }
    }

    #[test]
    fn arithmetic_stops_at_the_ends() {
        let last = Timestamp::from_millis(i64::MAX);
        assert_eq!(last.after(Duration::from_secs(1)), last);
        assert_eq!(Timestamp::default().after(Duration::MAX), last);
        assert_eq!(Timestamp::default().since(last), Duration::ZERO);
    }
}

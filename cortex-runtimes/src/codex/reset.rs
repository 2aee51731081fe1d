//! When a used-up quota comes back, read from what the CLI says to people: for when its figures do not tell.
//!
//! Seen: `try again at 8:47 PM.`, and for another day `try again at Dec 5th, 2026 8:47 PM.`, in the time zone of this machine.

use std::time::Duration;

use cortex_lib::time::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{ToSpan as _, ZonedDateTime};

/// What stands before the moment.
const BEFORE: &str = "try again at ";
/// The seconds are not told: the quota is surely back a minute later.
const UNTOLD: Duration = Duration::from_mins(1);

/// The first moment after `now` that `text` names, in the time zone `zone`; `None` when it names none.
pub(super) fn resets_at(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let (_, named) = text.rsplit_once(BEFORE)?;
    let named = named.trim_end_matches(|c: char| !c.is_alphanumeric());
    let now =
        jiff::Timestamp::from_millisecond(now.as_millis()).ok()?.to_zoned_datetime(zone.clone());
    let at = on_a_day(named, zone).or_else(|| next(named, &now))?;
    Some(Timestamp::from_millis(at.timestamp().as_millisecond()).after(UNTOLD))
}

/// `Dec 5th, 2026 8:47 PM`.
fn on_a_day(named: &str, zone: &TimeZone) -> Option<ZonedDateTime> {
    let (day, rest) = named.split_once(',')?;
    let day = day.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let at = DateTime::strptime("%b %d, %Y %I:%M %p", format!("{day},{rest}")).ok()?;
    at.to_zoned_datetime(zone.clone()).ok()
}

/// `8:47 PM`, the next one.
fn next(named: &str, now: &ZonedDateTime) -> Option<ZonedDateTime> {
    let time = Time::strptime("%I:%M %p", named).ok()?;
    let today = now.with().time(time).build().ok()?;
    // The minute that runs is the one that was told.
    if now.duration_until(&today) > jiff::SignedDuration::from_mins(-1) {
        return Some(today);
    }
    now.date()
        .checked_add(1.day())
        .ok()?
        .to_datetime(time)
        .to_zoned_datetime(now.time_zone().clone())
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        // 19:00 in Berlin.
        let now = serde_json::from_value("2026-03-10T18:00:00.000Z".into()).unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        resets_at(text, now, &zone).map(|at| at.to_string())
    }

    /// Limits: a time of day in a zone, today or the next day.
    #[test]
    fn a_time_of_day_is_the_next_one_and_a_date_is_that_day() {
        for (text, want) in [
            ("hit your usage limit. Upgrade, or try again at 8:47 PM.", "2026-03-10T19:48:00.000Z"),
            ("try again at 6:30 AM", "2026-03-11T05:31:00.000Z"),
            ("try again at 7:00 PM.", "2026-03-10T18:01:00.000Z"),
            ("or try again at Dec 5th, 2026 8:47 PM.", "2026-12-05T19:48:00.000Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(want), "{text}");
        }
    }

    #[test]
    fn what_names_no_moment_is_none() {
        for text in ["", "try again later", "try again at noon", "try again at 25:00 PM"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}

//! When a used-up quota comes back, read from what the CLI says to people.
//!
//! Seen in the field: `You've hit your limit · resets 2:30am (Europe/Berlin)`, `resets Jan 5, 3pm (UTC)`, and in older
//! versions the seconds since the epoch behind a bar: `usage limit reached|1765432100`.

use cortex_lib::time::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{ToSpan as _, ZonedDateTime};

/// The first moment after `now` that `text` names as the end of a limit; `None` when it names none.
pub(super) fn resets_at(text: &str, now: Timestamp) -> Option<Timestamp> {
    epoch(text).or_else(|| clock(text, now))
}

/// `…|1765432100`.
fn epoch(text: &str) -> Option<Timestamp> {
    let digits: String =
        text.rsplit_once('|')?.1.trim().chars().take_while(char::is_ascii_digit).collect();
    // Ten digits: between 2001 and 2286. Anything else is no such number.
    let seconds = digits.parse::<i64>().ok().filter(|_| digits.len() == 10)?;
    Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
}

/// `resets [at] [Jan 5, ]2:30am (Europe/Berlin)`.
fn clock(text: &str, now: Timestamp) -> Option<Timestamp> {
    let lower = text.to_ascii_lowercase();
    let at = lower.find("resets")?;
    let said = text.get(at..)?.get("resets".len()..)?.trim_start();
    let (said, zone) = match said.split_once('(') {
        Some((said, rest)) => (said, zone(rest.split_once(')')?.0)?),
        None => (said, TimeZone::system()),
    };
    let words: Vec<String> = said
        .split([' ', ',', '\u{202f}'])
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_ascii_lowercase())
        .filter(|word| !word.is_empty() && word != "at" && word != "on")
        .take(5)
        .collect();
    let here = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?.to_zoned_datetime(zone);
    let mut words = words.iter().map(String::as_str).peekable();
    let date = match words.peek().and_then(|word| month(word)) {
        Some(month) => {
            words.next();
            Some((month, words.next()?.parse::<i8>().ok()?))
        }
        None => None,
    };
    // A year may stand between the day and the time; the next such day is meant anyway.
    if words.peek().is_some_and(|word| word.len() == 4 && word.parse::<u16>().is_ok()) {
        words.next();
    }
    let time = time(words.next()?, words.next())?;
    let zoned = match date {
        Some((month, day)) => on_date(&here, month, day, time)?,
        None => next_time(&here, time)?,
    };
    Some(Timestamp::from_millis(zoned.timestamp().as_millisecond()))
}

/// A zone by its name in the time zone database; `UTC` needs none.
fn zone(name: &str) -> Option<TimeZone> {
    match name.trim() {
        "UTC" | "GMT" => Some(TimeZone::UTC),
        name => TimeZone::get(name).ok(),
    }
}

fn month(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let at = MONTHS.iter().position(|month| word.starts_with(month))?;
    i8::try_from(at + 1).ok()
}

/// `2:30am`, `2am`, `14:30`, or `2:30` with `am` as the next word.
fn time(word: &str, next: Option<&str>) -> Option<Time> {
    let (digits, half) = match word.find(['a', 'p']) {
        Some(at) => (word.get(..at)?, word.get(at..)),
        None => (word, next.filter(|next| matches!(*next, "am" | "pm"))),
    };
    let (hour, minute) = digits.split_once(':').unwrap_or((digits, "0"));
    let (hour, minute) = (hour.parse::<i8>().ok()?, minute.parse::<i8>().ok()?);
    let hour = match half {
        Some("am") if hour == 12 => 0,
        Some("pm") if hour < 12 => hour.checked_add(12)?,
        Some("am" | "pm") => hour,
        Some(_) => return None,
        // A bare number is no time of day.
        None if !digits.contains(':') => return None,
        None => hour,
    };
    Time::new(hour, minute, 0, 0).ok()
}

/// The next time the clocks there show `time`: today, or tomorrow.
fn next_time(here: &ZonedDateTime, time: Time) -> Option<ZonedDateTime> {
    let at = |date: Date| date.to_datetime(time).to_zoned_datetime(here.time_zone().clone()).ok();
    let today = at(here.date())?;
    if today > *here { Some(today) } else { at(here.date().checked_add(1.day()).ok()?) }
}

/// That day of this year, or of the next one when it is over.
fn on_date(here: &ZonedDateTime, month: i8, day: i8, time: Time) -> Option<ZonedDateTime> {
    let at = |year: i16| {
        let date = Date::new(year, month, day).ok()?;
        date.to_datetime(time).to_zoned_datetime(here.time_zone().clone()).ok()
    };
    let year = here.date().year();
    at(year).filter(|moment| moment > here).or_else(|| at(year.checked_add(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-03-10, 23:15 in Berlin.
    const NOW: &str = "2026-03-10T22:15:00.000Z";

    fn read(text: &str) -> Option<String> {
        let now = serde_json::from_value(NOW.into()).unwrap();
        resets_at(text, now).map(|at| at.to_string())
    }

    fn at(text: &str) -> String {
        text.to_owned()
    }

    /// Limits: "limit reached, resets 2:30am (zone)".
    #[test]
    fn a_time_of_day_is_the_next_one_in_its_zone() {
        let limit = "You've hit your limit · resets 2:30am (Europe/Berlin)";
        assert_eq!(read(limit), Some(at("2026-03-11T01:30:00.000Z")));
        assert_eq!(
            read("limit reached, resets 11:30pm (Europe/Berlin)"),
            Some(at("2026-03-10T22:30:00.000Z"))
        );
        assert_eq!(read("resets 3pm (America/New_York)"), Some(at("2026-03-11T19:00:00.000Z")));
        assert_eq!(read("Resets at 12am (UTC)"), Some(at("2026-03-11T00:00:00.000Z")));
        assert_eq!(read("resets 23:00 (UTC)"), Some(at("2026-03-10T23:00:00.000Z")));
    }

    #[test]
    fn a_date_is_the_next_such_day() {
        assert_eq!(read("resets Mar 12, 9am (UTC)"), Some(at("2026-03-12T09:00:00.000Z")));
        assert_eq!(read("resets Mar 12 at 9:05 PM (UTC)"), Some(at("2026-03-12T21:05:00.000Z")));
        assert_eq!(read("resets Jan 5, 2027, 9am (UTC)"), Some(at("2027-01-05T09:00:00.000Z")));
    }

    #[test]
    fn a_moment_that_the_change_of_clocks_skips_is_the_one_after_it() {
        let now = serde_json::from_value("2026-03-28T23:30:00.000Z".into()).unwrap();
        let skipped = resets_at("resets 2:30am (Europe/Berlin)", now).map(|at| at.to_string());
        assert_eq!(skipped, Some(at("2026-03-29T01:30:00.000Z")));
    }

    #[test]
    fn seconds_behind_a_bar_count() {
        assert_eq!(
            read("Claude AI usage limit reached|1790000000"),
            Some(at("2026-09-21T14:13:20.000Z"))
        );
    }

    #[test]
    fn what_names_no_moment_is_none() {
        for text in [
            "slow down",
            "resets soon",
            "resets 2:30am (Nowhere/Land)",
            "a|b",
            "resets 5",
            "resets 25:10",
            "resets",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}

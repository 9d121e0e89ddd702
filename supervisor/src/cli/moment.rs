//! Points in time as people write them on a command line.

use crate::ledger::Millis;
use jiff::civil::{Date, DateTime};
use jiff::{Span, Timestamp, ZonedDateTime};

/// What is allowed.
const ALLOWED: &str =
    "a time such as `2026-01-31T12:00:00Z` or `2026-01-31`, or a span back from now such as `36h` or `2d`";

/// Reads a moment: RFC 3339, a date or a time of the zone of `now`, or a span back from `now`.
///
/// # Errors
/// It is none of these, or lies outside of the calendar; the text says what is allowed.
pub(super) fn moment(text: &str, now: &ZonedDateTime) -> Result<Millis, String> {
    let text = text.trim();
    let zone = now.time_zone();
    let read = if let Ok(at) = text.parse::<Timestamp>() {
        Some(at)
    } else if let Ok(date) = text.parse::<Date>()
        && !text.contains([':', 'T'])
    {
        zone.to_timestamp(date.at(0, 0, 0, 0)).ok()
    } else if let Ok(time) = text.parse::<DateTime>() {
        zone.to_timestamp(time).ok()
    } else {
        let span = text.parse::<Span>().ok();
        span.and_then(|span| now.checked_sub(span.abs()).ok()).map(|at| at.timestamp())
    };
    read.map(Timestamp::as_millisecond).ok_or_else(|| ALLOWED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    #[test]
    fn times_dates_and_spans_are_read() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now = "2026-03-10T12:00:00Z".parse::<Timestamp>().unwrap().to_zoned_datetime(zone);
        let at = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
        for (text, expected) in [
            ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z"),
            ("2026-03-01T10:00:00.5+01:00", "2026-03-01T09:00:00.5Z"),
            ("2026-03-01", "2026-02-28T22:00:00Z"),
            ("2026-03-01T10:00", "2026-03-01T08:00:00Z"),
            ("2d", "2026-03-08T12:00:00Z"),
            ("36h", "2026-03-09T00:00:00Z"),
            (" 1w ", "2026-03-03T12:00:00Z"),
            ("PT90M", "2026-03-10T10:30:00Z"),
        ] {
            assert_eq!(moment(text, &now), Ok(at(expected)), "{text}");
        }
        for bad in ["", "soon", "5", "2026-13-01", "99999y"] {
            assert!(moment(bad, &now).is_err(), "{bad}");
        }
    }
}

//! Times: UTC with milliseconds for programs, the user's own zone for people.

use crate::ledger::Millis;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// RFC 3339 in UTC with milliseconds. What lies outside of the calendar is told as its first moment.
pub fn utc(at: Millis) -> String {
    rfc3339(Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// The same, of nanoseconds.
pub fn utc_of_ns(at: i64) -> String {
    rfc3339(Timestamp::from_nanosecond(i128::from(at)).unwrap_or(Timestamp::UNIX_EPOCH))
}

fn rfc3339(at: Timestamp) -> String {
    // Cut, not rounded: a moment never lies later than it was.
    let cut = Timestamp::from_millisecond(at.as_nanosecond().div_euclid(1_000_000).try_into().unwrap_or(0));
    format!("{:.3}", cut.unwrap_or(at))
}

/// To the second, in this zone.
pub fn local(at: Millis, zone: &TimeZone) -> String {
    let at = Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
    zone.to_datetime(at).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// How long, for people.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds}.{} s", ms % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// How long ago, for people: the two largest units.
pub fn age(ms: u64) -> String {
    let hours = ms / 3_600_000;
    if hours < 24 { span(ms) } else { format!("{} d {} h", hours / 24, hours % 24) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_utc_with_milliseconds() {
        assert_eq!(utc(1_700_000_000_000), "2023-11-14T22:13:20.000Z");
        assert_eq!(utc(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(utc_of_ns(1_700_000_000_123_999_999), "2023-11-14T22:13:20.123Z");
        assert_eq!(utc(i64::MAX), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn people_get_their_own_zone_and_plain_spans() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(local(1_700_000_000_000, &zone), "2023-11-15 00:13:20");
        assert_eq!(
            [span(7), span(1_250), span(125_000), span(7_260_000)],
            ["7 ms", "1.2 s", "2 min 5 s", "2 h 1 min"]
        );
        assert_eq!([age(7_260_000), age(90_000_000)], ["2 h 1 min", "1 d 1 h"]);
    }
}

//! Archives: everything that is a list of members and has no text of its own.
//!
//! Entries are streamed, never inflated into memory and never written anywhere: names stay as the archive has them, be
//! they absolute, `..` or no text at all. How many entries and bytes are too many is the supervisor's to say, which counts
//! them as they come and ends this process.

pub(super) mod compressed;
mod recover;
pub(super) mod seven_zip;
pub(super) mod tar;
pub(super) mod zip;

/// Seconds since 1970 of a date and time in UTC; nothing where the month or the day is none.
pub(super) fn seconds(year: i64, month: u32, day: u32, hour: u32, minute: u32, second: u32) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days from the civil calendar, with years that begin in March so that the leap day is the last.
    let (month, day) = (i64::from(month), i64::from(day));
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days =
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    Some(days * 86_400 + i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second))
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn dates_become_seconds() {
        assert_eq!(seconds(1970, 1, 1, 0, 0, 0), Some(0));
        assert_eq!(seconds(2000, 2, 29, 12, 0, 1), Some(951_825_601));
        assert_eq!(seconds(2024, 12, 31, 23, 59, 59), Some(1_735_689_599));
        assert_eq!(seconds(2024, 13, 1, 0, 0, 0), None);
        assert_eq!(seconds(2024, 0, 1, 0, 0, 0), None);
    }
}

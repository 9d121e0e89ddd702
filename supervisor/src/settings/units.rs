//! Sizes and times as people write them: `512MiB`, `1.5GiB`, `2GB`; `30s`, `1h30m`, `250ms`.
//!
//! A bare number is a number of bytes where a size is wanted, and refused where a time is: seconds and milliseconds are
//! mistaken for one another too easily.

/// What is allowed where a size is wanted.
pub(crate) const SIZE_ALLOWED: &str = "a size such as `512MiB`, `1.5GiB`, `2GB` or a number of bytes";
/// What is allowed where a time is wanted.
pub(super) const TIME_ALLOWED: &str =
    "a time with its unit such as `250ms`, `30s`, `5m`, `6h`, `1h30m` or `90d`";

const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

const TIMES: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 7 * 86_400_000)];

/// Bytes, or `None` for what is no size or does not fit.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text.trim())?;
    if unit.is_empty() {
        return number.parse().ok();
    }
    scaled(number, factor(SIZES, unit)?)
}

/// Milliseconds, or `None` for what is no time or does not fit. Each part has its unit, and they fall in size.
pub(super) fn time(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    let mut above = u64::MAX;
    while !rest.is_empty() {
        let (number, behind) = split(rest)?;
        let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at_checked(end)?;
        let factor = factor(TIMES, unit).filter(|&factor| factor < above)?;
        total = total.checked_add(scaled(number, factor)?)?;
        above = factor;
        rest = next.trim_start();
    }
    (above != u64::MAX).then_some(total)
}

/// The number at the start and what is behind it.
fn split(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    (!number.is_empty()).then_some((number, rest.trim_start()))
}

fn factor(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    units.iter().find(|(name, _)| *name == unit).map(|&(_, factor)| factor)
}

/// A decimal number times a factor, in whole numbers: no size is rounded by a floating point.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut total = u128::from(whole) * u128::from(factor);
    if number.contains('.') {
        if fraction.is_empty() || fraction.len() > 9 {
            return None;
        }
        let parts: u128 = fraction.parse().ok()?;
        total += parts * u128::from(factor) / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    }
    u64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_exactly() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("512MiB", Some(512 << 20)),
            ("1.5GiB", Some(3 << 29)),
            ("2GB", Some(2_000_000_000)),
            (" 7 kB ", Some(7_000)),
            ("512mib", None),
            ("", None),
            ("MiB", None),
            ("1.", None),
            ("1.2.3GB", None),
            ("-1", None),
            ("99999999999TiB", None),
        ] {
            assert_eq!(size(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn times_need_units_that_fall() {
        for (text, ms) in [
            ("30s", Some(30_000)),
            ("250ms", Some(250)),
            ("1h30m", Some(5_400_000)),
            ("1h 30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("90d", Some(90 * 86_400_000)),
            ("0s", Some(0)),
            ("30", None),
            ("30m1h", None),
            ("1s1s", None),
            ("", None),
            ("s", None),
        ] {
            assert_eq!(time(text), ms, "{text:?}");
        }
    }
}

//! What the policies say of an item, before anything of it is read, and of a format, once it is known.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::fault::{Evidence, Fault, Limit};
use super::kind::{Kind, Stage};
use crate::ledger::{Millis, Stat};
use crate::settings::Policy;
use shared::Format;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The first policy that rejects the item at `path` (raw, below the root), if one does: its path, its size, its age.
pub fn judge(path: &[u8], stat: &Stat, policy: &Policy, input_limit: u64, now: Millis) -> Option<Fault> {
    judge_path(path, policy)
        .or_else(|| judge_size(Stage::Discover, stat.size, input_limit))
        .or_else(|| judge_age(stat.mtime_ns, policy.max_age_ms?, now))
}

/// Whether a directory is not walked.
pub fn judge_directory(path: &[u8], policy: &Policy) -> Option<Fault> {
    let excluded = policy.exclude.as_ref().is_some_and(|globs| globs.is_match(as_path(path)));
    excluded.then(|| rejected(Kind::PolicyPath, "policy.exclude matches the directory; it is not walked"))
}

/// Whether only some formats are wanted, and this is none of them.
pub fn judge_format(format: Format, policy: &Policy) -> Option<Fault> {
    let types = policy.types.as_ref()?;
    if types.contains(&format) {
        return None;
    }
    let message = format!("policy.types does not have {}", format.name());
    Some(Fault::new(Stage::Identify, Kind::PolicyType, message))
}

fn judge_path(path: &[u8], policy: &Policy) -> Option<Fault> {
    let path = as_path(path);
    if policy.exclude.as_ref().is_some_and(|globs| globs.is_match(path)) {
        return Some(rejected(Kind::PolicyPath, "policy.exclude matches it"));
    }
    if policy.include.as_ref().is_some_and(|globs| !globs.is_match(path)) {
        return Some(rejected(Kind::PolicyPath, "policy.include does not match it"));
    }
    None
}

/// Whether so many bytes are read at all; `stage` is the one that asks.
pub fn judge_size(stage: Stage, size: u64, input_limit: u64) -> Option<Fault> {
    if size == 0 {
        return Some(Fault::new(stage, Kind::PolicyEmptyFile, "it has no bytes"));
    }
    (size > input_limit).then(|| {
        let message = format!("{size} bytes, and at most {input_limit} are read (limits.input)");
        let evidence = limited("input", input_limit, size);
        Fault::new(stage, Kind::PolicyTooLarge, message).with(evidence)
    })
}

/// A time in the future is no age.
fn judge_age(mtime_ns: i64, max_age_ms: u64, now: Millis) -> Option<Fault> {
    let age = u64::try_from(now.saturating_sub(mtime_ns.div_euclid(1_000_000))).unwrap_or(0);
    (age > max_age_ms).then(|| {
        let (days, most) = (in_days(age), in_days(max_age_ms));
        let message = format!("{days} days old, and at most {most} are wanted (policy.max_age)");
        rejected(Kind::PolicyTooOld, message).with(limited("max_age", max_age_ms, age))
    })
}

/// With one decimal.
fn in_days(ms: u64) -> String {
    let tenths = ms / 8_640_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn rejected(kind: Kind, message: impl Into<String>) -> Fault {
    Fault::new(Stage::Discover, kind, message)
}

fn limited(name: &str, value: u64, measured: u64) -> Evidence {
    let limit = Some(Limit { name: name.to_owned(), value, measured: Some(measured) });
    Evidence { limit, ..Evidence::default() }
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    const DAY_MS: i64 = 86_400_000;

    fn policy(sets: &[&str]) -> Policy {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Settings::load(None, &sets).unwrap().policy
    }

    fn stat(size: u64, days_old: i64) -> Stat {
        let mtime_ns = (1000 - days_old) * DAY_MS * 1_000_000;
        Stat { size, mtime_ns, ctime_ns: 0, dev: 0, ino: 0 }
    }

    #[test]
    fn each_policy_rejects_what_it_should_and_nothing_else() {
        let policy = policy(&[
            "policy.include=['**/*.txt', '*.txt']",
            "policy.exclude=['private/**']",
            "policy.max_age=10d",
        ]);
        for (path, stat, kind) in [
            (&b"a.txt"[..], stat(1, 0), None),
            (b"x/a.txt", stat(100, 10), None),
            (b"a.pdf", stat(1, 0), Some(Kind::PolicyPath)),
            (b"private/a.txt", stat(1, 0), Some(Kind::PolicyPath)),
            (b"a.txt", stat(0, 0), Some(Kind::PolicyEmptyFile)),
            (b"a.txt", stat(101, 0), Some(Kind::PolicyTooLarge)),
            (b"a.txt", stat(1, 11), Some(Kind::PolicyTooOld)),
            (b"a.txt", stat(1, -5), None),
            (b"\xff.txt", stat(1, 0), None),
        ] {
            let fault = judge(path, &stat, &policy, 100, 1000 * DAY_MS);
            assert_eq!(fault.map(|fault| fault.kind), kind, "{path:?} {stat:?}");
        }
    }

    #[test]
    fn the_limit_and_what_was_measured_are_evidence() {
        let fault = judge(b"a", &stat(101, 0), &Policy::default(), 100, 0).unwrap();
        assert_eq!(
            fault.evidence.limit,
            Some(Limit { name: "input".into(), value: 100, measured: Some(101) })
        );
    }

    #[test]
    fn formats_are_judged_only_where_some_are_named() {
        assert!(judge_format(Format::Pdf, &Policy::default()).is_none());
        let only = policy(&["policy.types=['pdf']"]);
        assert!(judge_format(Format::Pdf, &only).is_none());
        assert_eq!(judge_format(Format::Rtf, &only).unwrap().kind, Kind::PolicyType);
    }

    #[test]
    fn an_excluded_directory_is_not_walked_whatever_is_included() {
        let policy = policy(&["policy.include=['*.txt']", "policy.exclude=['**/cache']"]);
        assert!(judge_directory(b"x/cache", &policy).is_some());
        assert!(judge_directory(b"x", &policy).is_none());
    }
}

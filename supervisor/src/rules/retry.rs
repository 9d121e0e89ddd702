//! What follows a fault: another attempt and when, or a rest with a name.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::fault::Fault;
use super::kind::{Class, Kind, Why};
use crate::ledger::{Millis, Settle};
use crate::settings::{KindPolicy, Retry};
use std::collections::BTreeMap;

/// Where a document goes after `fault`. `attempts` counts those made, this one included; `random` is in `[0, 1)`.
///
/// A supervisor's death is not decided here but by [`supervisor_lost`].
pub fn decide(
    fault: &Fault,
    attempts: u32,
    retry: &Retry,
    kinds: &BTreeMap<Kind, KindPolicy>,
    random: f64,
    now: Millis,
) -> Settle {
    let policy = kinds.get(&fault.kind).copied().unwrap_or_default();
    match policy.class.or(fault.class) {
        Some(Class::Rejected) => Settle::Exclude,
        Some(Class::Permanent) => Settle::Quarantine { why: Why::Permanent },
        Some(Class::Corrupt) => Settle::Quarantine { why: Why::Corrupt },
        Some(Class::Transient) => transient(fault.kind, attempts, retry, policy, random, now),
        // The content check found it: there is a text.
        None => Settle::Suspect,
    }
}

fn transient(
    kind: Kind,
    attempts: u32,
    retry: &Retry,
    policy: KindPolicy,
    random: f64,
    now: Millis,
) -> Settle {
    // One cheap open a run, for as long as it takes: a renewed credential changes nothing that a listing could see. A
    // broken extractor counts no attempt and waits for its next probe.
    let unbounded = matches!(kind, Kind::SourceDenied | Kind::ExtractorBroken);
    let ceiling = policy.attempts.or_else(|| (!unbounded).then_some(retry.attempts));
    if ceiling.is_some_and(|ceiling| attempts >= ceiling) {
        return Settle::Quarantine { why: Why::GaveUp };
    }
    let at_once = match kind {
        Kind::WorkerLost => attempts <= 1,
        // The fresh bytes are there already.
        Kind::TransferDamaged => true,
        _ => false,
    };
    if at_once && policy.delay_ms.is_none() {
        return Settle::AtOnce;
    }
    let delay = match policy.delay_ms {
        Some(delay) => delay,
        None if unbounded => return Settle::Retry { next_attempt: None },
        None => delay_ms(attempts, retry, random),
    };
    Settle::Retry { next_attempt: Some(now.saturating_add(i64::try_from(delay).unwrap_or(i64::MAX))) }
}

/// Full jitter: anything between the floor and a bound that doubles with each attempt up to the cap, so that what failed
/// together does not come back together. The first bound is twice the floor.
pub fn delay_ms(attempts: u32, retry: &Retry, random: f64) -> u64 {
    let doubled = 1_u64.checked_shl(attempts.max(1)).unwrap_or(u64::MAX);
    let bound = retry.floor_ms.saturating_mul(doubled).min(retry.cap_ms).max(retry.floor_ms);
    retry.floor_ms + share_of(bound - retry.floor_ms, random)
}

/// `random` of `whole`, in whole numbers.
fn share_of(whole: u64, random: f64) -> u64 {
    const STEPS: u64 = 1 << 20;
    // Counted in steps, since no float is cut to an integer here.
    let (mut low, mut high) = (0, STEPS);
    while low < high {
        let middle = u32::try_from((low + high).div_ceil(2)).unwrap_or(u32::MAX);
        if f64::from(middle) <= random * 1_048_576.0 {
            low = middle.into();
        } else {
            high = u64::from(middle) - 1;
        }
    }
    u64::try_from(u128::from(whole) * u128::from(low) / u128::from(STEPS)).unwrap_or(whole)
}

/// Where a document goes that was in hand when the supervisor died, having done so `crashes_before` times while it was
/// `alone`. Due at once, and alone; only a death while it was alone counts against it.
pub fn supervisor_lost(crashes_before: u32, alone: bool, max_crashes: u32) -> Settle {
    if alone && crashes_before.saturating_add(1) >= max_crashes {
        return Settle::Quarantine { why: Why::GaveUp };
    }
    Settle::AtOnce
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::kind::Stage;

    const RETRY: Retry = Retry { attempts: 5, floor_ms: 60_000, cap_ms: 21_600_000, max_crashes: 3 };

    fn settle(kind: Kind, attempts: u32) -> Settle {
        decide(&Fault::new(Stage::Extract, kind, ""), attempts, &RETRY, &BTreeMap::new(), 0.0, 1_000)
    }

    #[test]
    fn each_class_has_its_way() {
        for &kind in Kind::ALL {
            let expected = match (kind, kind.default_class()) {
                (_, None) => Settle::Suspect,
                (_, Some(Class::Rejected)) => Settle::Exclude,
                (_, Some(Class::Permanent)) => Settle::Quarantine { why: Why::Permanent },
                (_, Some(Class::Corrupt)) => Settle::Quarantine { why: Why::Corrupt },
                (Kind::SourceDenied | Kind::ExtractorBroken, _) => Settle::Retry { next_attempt: None },
                (Kind::WorkerLost | Kind::TransferDamaged, _) => Settle::AtOnce,
                (_, Some(Class::Transient)) => Settle::Retry { next_attempt: Some(61_000) },
            };
            assert_eq!(settle(kind, 1), expected, "{kind}");
        }
    }

    #[test]
    fn the_ceiling_has_a_name_and_a_denied_item_has_no_ceiling() {
        assert!(matches!(settle(Kind::TimeWall, 4), Settle::Retry { .. }));
        assert_eq!(settle(Kind::TimeWall, 5), Settle::Quarantine { why: Why::GaveUp });
        assert_eq!(settle(Kind::SourceDenied, 5_000), Settle::Retry { next_attempt: None });
    }

    #[test]
    fn a_lost_worker_is_tried_at_once_and_then_with_delay() {
        assert_eq!(settle(Kind::WorkerLost, 1), Settle::AtOnce);
        assert!(matches!(settle(Kind::WorkerLost, 2), Settle::Retry { next_attempt: Some(_) }));
    }

    #[test]
    fn settings_change_class_attempts_and_delay() {
        let fault = Fault::new(Stage::Extract, Kind::TimeWall, "");
        let with = |policy, attempts| {
            decide(&fault, attempts, &RETRY, &BTreeMap::from([(Kind::TimeWall, policy)]), 0.9, 1_000)
        };
        let delay = KindPolicy { delay_ms: Some(5), ..KindPolicy::default() };
        assert_eq!(with(delay, 1), Settle::Retry { next_attempt: Some(1_005) });
        let attempts = KindPolicy { attempts: Some(1), ..KindPolicy::default() };
        assert_eq!(with(attempts, 1), Settle::Quarantine { why: Why::GaveUp });
        let class = KindPolicy { class: Some(Class::Permanent), ..KindPolicy::default() };
        assert_eq!(with(class, 1), Settle::Quarantine { why: Why::Permanent });
    }

    #[test]
    fn the_delay_stays_between_floor_and_cap_and_its_bound_doubles() {
        for attempts in [0, 1, 2, 5, 9, 63, 64, u32::MAX] {
            for random in [0.0, 0.25, 0.5, 0.999_999] {
                let delay = delay_ms(attempts, &RETRY, random);
                assert!((RETRY.floor_ms..=RETRY.cap_ms).contains(&delay), "{attempts} {random} {delay}");
            }
        }
        assert_eq!(delay_ms(1, &RETRY, 0.5), 90_000);
        assert_eq!(delay_ms(2, &RETRY, 0.5), 150_000);
        assert_eq!(delay_ms(40, &RETRY, 0.5), 60_000 + (21_600_000 - 60_000) / 2);
    }

    #[test]
    fn only_deaths_while_alone_make_a_poison_pill() {
        assert_eq!(supervisor_lost(9, false, 3), Settle::AtOnce);
        assert_eq!(supervisor_lost(1, true, 3), Settle::AtOnce);
        assert_eq!(supervisor_lost(2, true, 3), Settle::Quarantine { why: Why::GaveUp });
    }
}

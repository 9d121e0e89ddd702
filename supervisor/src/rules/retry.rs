//! What follows a fault: another attempt and when, or a rest with a name.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::due::value_of;
use super::fault::Fault;
use super::kind::{Class, Kind, State, Why};
use crate::ledger::{Millis, Record, Settle, Task};
use crate::settings::{KindPolicy, Retry};
use shared::Limits;
use std::collections::BTreeMap;

/// What a document is tried under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// The ordinary limits, beside others.
    Normal,
    /// The higher limits, with nothing beside it.
    Large,
    /// The ordinary limits, with nothing beside it: the supervisor died with it.
    Alone,
}

/// What the settings say of retries, and the limits of the large lane, where this machine has one.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    pub retry: &'a Retry,
    pub kinds: &'a BTreeMap<Kind, KindPolicy>,
    pub large: Option<&'a Limits>,
}

impl Rules<'_> {
    fn policy(&self, kind: Kind) -> KindPolicy {
        self.kinds.get(&kind).copied().unwrap_or_default()
    }

    /// How many attempts may end with this kind; `None`: as many as it takes.
    fn ceiling(&self, kind: Kind) -> Option<u32> {
        self.policy(kind).attempts.or_else(|| (!is_unbounded(kind)).then_some(self.retry.attempts))
    }

    /// The longest that anything waits, in ms. What waits longer was noted under another clock.
    pub fn longest_wait_ms(&self) -> u64 {
        self.kinds.values().filter_map(|policy| policy.delay_ms).max().unwrap_or(0).max(self.retry.cap_ms)
    }
}

/// One cheap open a run, for as long as it takes: a renewed credential changes nothing that a listing could see. A broken
/// extractor counts no attempt and waits for its next probe.
fn is_unbounded(kind: Kind) -> bool {
    matches!(kind, Kind::SourceDenied | Kind::ExtractorBroken)
}

/// Which lane the next attempt at a document is for.
pub fn lane(record: &Record, rules: Rules<'_>) -> Lane {
    // Before all else: under the ordinary limits it would meet the same limit again.
    if record.large.is_some() || record.task == Some(Task::Large) {
        return Lane::Large;
    }
    if record.alone {
        return Lane::Alone;
    }
    let waits = matches!(record.state, State::Retrying) || record.task == Some(Task::Carry);
    let last_try = record.kind.filter(|kind| waits && is_slow(*kind)).is_some_and(|kind| {
        let tries = record.attempts.max(record.tried);
        tries > 0 && rules.ceiling(kind).is_some_and(|ceiling| tries.saturating_add(1) >= ceiling)
    });
    if last_try && rules.large.is_some() { Lane::Large } else { Lane::Normal }
}

/// It may be done one day with more time.
fn is_slow(kind: Kind) -> bool {
    matches!(kind, Kind::TimeStalled | Kind::TimeWall | Kind::TimeUnkillable)
}

/// It met a limit that the large lane has more of. Under as much as before it would meet it again.
fn has_more_in_the_large_lane(fault: &Fault, rules: Rules<'_>) -> bool {
    let Some(large) = rules.large else { return false };
    let met = fault.evidence.limit.as_ref();
    met_a_limit(fault.kind)
        && met.is_none_or(|met| value_of(&met.name, large).is_none_or(|more| more > met.value))
}

/// It met a limit that the large lane is for.
pub(super) fn met_a_limit(kind: Kind) -> bool {
    matches!(kind, Kind::MemoryLimit | Kind::TimeCpu | Kind::OutputLimit)
}

/// Whether the time of a document that is `retrying` has come. One without a time waits for the next run, which
/// `began` then. A time further away than anything waits, and an attempt in the future, are of a clock that has been set back since.
pub fn is_due(record: &Record, began: Millis, now: Millis, longest_wait_ms: u64) -> bool {
    // What the source asked for may be longer than any delay of ours.
    let asked_for = record.evidence.as_ref().and_then(|evidence| evidence.retry_after_ms);
    let longest_wait_ms = longest_wait_ms.max(asked_for.unwrap_or(0));
    match record.next_attempt {
        Some(at) => at <= now || at > now.saturating_add(signed(longest_wait_ms)),
        None => record.last_attempt.is_none_or(|at| at < began || at > now),
    }
}

fn signed(ms: u64) -> Millis {
    Millis::try_from(ms).unwrap_or(Millis::MAX)
}

/// Where a document goes after `fault`, met in this lane. `attempts` counts those made, this one included; `random` is in
/// `[0, 1)`.
///
/// A supervisor's death is not decided here but by [`supervisor_lost`].
pub fn decide(
    fault: &Fault,
    attempts: u32,
    lane: Lane,
    rules: Rules<'_>,
    random: f64,
    now: Millis,
) -> Settle {
    let policy = rules.policy(fault.kind);
    match policy.class.or(fault.class) {
        Some(Class::Rejected) => Settle::Exclude,
        Some(Class::Permanent) if lane != Lane::Large && has_more_in_the_large_lane(fault, rules) => {
            Settle::Large
        }
        Some(Class::Permanent) => Settle::Quarantine { why: Why::Permanent },
        Some(Class::Corrupt) => Settle::Quarantine { why: Why::Corrupt },
        Some(Class::Transient) => transient(fault, attempts, rules, random, now),
        // The content check found it: there is a text.
        None => Settle::Suspect,
    }
}

fn transient(fault: &Fault, attempts: u32, rules: Rules<'_>, random: f64, now: Millis) -> Settle {
    let (kind, policy) = (fault.kind, rules.policy(fault.kind));
    // What we are short of ourselves is no document's fault: it is tried for as long as that lasts.
    if !fault.is_our_own() && rules.ceiling(kind).is_some_and(|ceiling| attempts >= ceiling) {
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
        None if is_unbounded(kind) => return Settle::Retry { next_attempt: None },
        None => delay_ms(attempts, rules.retry, random),
    };
    // What the source itself asks for is the least: it goes before the cap.
    let delay = delay.max(fault.evidence.retry_after_ms.unwrap_or(0));
    Settle::Retry { next_attempt: Some(now.saturating_add(signed(delay))) }
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

/// How long a batch waits that the sink did not take, in ms, after so many tries; `None`: no more tries. Within a run, and
/// short: while it waits, so does everything behind it. `random` is in `[0, 1)`.
pub fn batch_delay_ms(tries: u32, random: f64) -> Option<u64> {
    const BATCH: Retry = Retry { attempts: 4, floor_ms: 100, cap_ms: 2_000, max_crashes: 0 };
    (tries < BATCH.attempts).then(|| delay_ms(tries, &BATCH, random))
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
    use crate::rules::fault::Limit;
    use crate::rules::kind::Stage;

    const RETRY: Retry = Retry { attempts: 5, floor_ms: 60_000, cap_ms: 21_600_000, max_crashes: 3 };

    fn settle(kind: Kind, attempts: u32) -> Settle {
        in_lane(kind, attempts, Lane::Normal, false)
    }

    fn in_lane(kind: Kind, attempts: u32, lane: Lane, large: bool) -> Settle {
        let limits = Limits::default();
        let rules = Rules { retry: &RETRY, kinds: &BTreeMap::new(), large: large.then_some(&limits) };
        decide(&Fault::new(Stage::Extract, kind, ""), attempts, lane, rules, 0.0, 1_000)
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
    fn what_we_are_short_of_ourselves_is_never_given_up() {
        let mut fault = Fault::new(Stage::Fetch, Kind::SourceIo, "open: Too many open files");
        fault.evidence.detail = Some(crate::rules::fault::OUR_OWN.to_owned());
        let rules = Rules { retry: &RETRY, kinds: &BTreeMap::new(), large: None };
        assert!(matches!(decide(&fault, 500, Lane::Normal, rules, 0.0, 1_000), Settle::Retry { .. }));
    }

    #[test]
    fn a_batch_is_offered_four_times() {
        let delays = |random| (1..=4).map(move |tries| batch_delay_ms(tries, random)).collect::<Vec<_>>();
        assert_eq!(delays(0.0), [Some(100), Some(100), Some(100), None]);
        let longest: Vec<_> = delays(0.999_999).into_iter().flatten().collect();
        assert!(longest[0] < 200 && longest[1] < 400 && longest[2] < 800, "{longest:?}");
        assert!(longest[0] > 190 && longest[1] > 390 && longest[2] > 790, "{longest:?}");
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
            let kinds = BTreeMap::from([(Kind::TimeWall, policy)]);
            let rules = Rules { retry: &RETRY, kinds: &kinds, large: None };
            decide(&fault, attempts, Lane::Normal, rules, 0.9, 1_000)
        };
        let delay = KindPolicy { delay_ms: Some(5), ..KindPolicy::default() };
        assert_eq!(with(delay, 1), Settle::Retry { next_attempt: Some(1_005) });
        let attempts = KindPolicy { attempts: Some(1), ..KindPolicy::default() };
        assert_eq!(with(attempts, 1), Settle::Quarantine { why: Why::GaveUp });
        let class = KindPolicy { class: Some(Class::Permanent), ..KindPolicy::default() };
        assert_eq!(with(class, 1), Settle::Quarantine { why: Why::Permanent });
    }

    #[test]
    fn what_met_a_limit_gets_one_try_in_the_large_lane() {
        for kind in [Kind::MemoryLimit, Kind::TimeCpu, Kind::OutputLimit] {
            assert_eq!(in_lane(kind, 1, Lane::Normal, true), Settle::Large, "{kind}");
            assert_eq!(in_lane(kind, 1, Lane::Alone, true), Settle::Large, "{kind}");
            assert_eq!(in_lane(kind, 2, Lane::Large, true), Settle::Quarantine { why: Why::Permanent });
            assert_eq!(in_lane(kind, 1, Lane::Normal, false), Settle::Quarantine { why: Why::Permanent });
        }
        assert_eq!(
            in_lane(Kind::CrashSegv, 1, Lane::Normal, true),
            Settle::Quarantine { why: Why::Permanent }
        );
    }

    #[test]
    fn a_large_lane_that_has_no_more_of_what_was_met_is_not_tried() {
        let (limits, kinds) = (Limits::default(), BTreeMap::new());
        let rules = Rules { retry: &RETRY, kinds: &kinds, large: Some(&limits) };
        let met = |value: u64| {
            let mut fault = Fault::new(Stage::Extract, Kind::TimeCpu, "");
            fault.evidence.limit = Some(Limit { name: "cpu_ms".to_owned(), value, measured: None });
            decide(&fault, 1, Lane::Normal, rules, 0.0, 1_000)
        };
        assert_eq!(met(limits.cpu_ms - 1), Settle::Large);
        assert_eq!(met(limits.cpu_ms), Settle::Quarantine { why: Why::Permanent });
    }

    #[test]
    fn what_the_source_asks_for_is_the_least_delay() {
        let mut fault = Fault::new(Stage::Fetch, Kind::SourceThrottled, "429");
        fault.evidence.retry_after_ms = Some(50_000_000);
        let rules = Rules { retry: &RETRY, kinds: &BTreeMap::new(), large: None };
        let settle = decide(&fault, 1, Lane::Normal, rules, 0.9, 1_000);
        assert_eq!(settle, Settle::Retry { next_attempt: Some(50_001_000) });
        fault.evidence.retry_after_ms = Some(1);
        let settle = decide(&fault, 1, Lane::Normal, rules, 0.0, 1_000);
        assert_eq!(settle, Settle::Retry { next_attempt: Some(61_000) });
    }

    /// A record that failed `attempts` times with this kind.
    fn record(kind: Kind, attempts: u32, task: Option<Task>) -> Record {
        use crate::ledger::{Change, Event, Seen, SourceId};
        use crate::rules::account::{Verdict, apply};
        let identity = shared::Identity::item(b"a");
        let doc = shared::DocumentId::derive("s", &identity);
        let seen = Seen::named(SourceId(1), identity);
        let event = Event { doc, expects: None, at: 0, change: Change::Seen(Box::new(seen)) };
        let Verdict::Changed(record) = apply(None, &event) else { panic!() };
        let state = if task.is_some() { State::Pending } else { State::Retrying };
        Record { state, task, kind: Some(kind), attempts, last_attempt: Some(500), ..*record }
    }

    #[test]
    fn the_last_try_of_what_was_slow_is_in_the_large_lane() {
        let (limits, kinds) = (Limits::default(), BTreeMap::new());
        let rules = |large: bool| Rules { retry: &RETRY, kinds: &kinds, large: large.then_some(&limits) };
        for kind in [Kind::TimeWall, Kind::TimeStalled, Kind::TimeUnkillable] {
            assert_eq!(lane(&record(kind, 3, None), rules(true)), Lane::Normal);
            assert_eq!(lane(&record(kind, 4, None), rules(true)), Lane::Large);
            assert_eq!(lane(&record(kind, 4, None), rules(false)), Lane::Normal);
            assert_eq!(lane(&record(kind, 0, Some(Task::Carry)), rules(true)), Lane::Normal, "new bytes");
        }
        assert_eq!(lane(&record(Kind::SourceIo, 4, None), rules(true)), Lane::Normal);
        let sent = Some(Box::new(Fault::new(Stage::Extract, Kind::MemoryLimit, "")));
        let met = Record { large: sent, ..record(Kind::MemoryLimit, 1, Some(Task::Large)) };
        assert_eq!(lane(&met, rules(true)), Lane::Large);
        let lost = Record { alone: true, ..met };
        assert_eq!(lane(&lost, rules(true)), Lane::Large, "it must not meet the lower limit again");
        let alone = Record { alone: true, ..record(Kind::TimeWall, 4, None) };
        assert_eq!(lane(&alone, rules(true)), Lane::Alone);
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_nothing_waiting() {
        let at = |next_attempt, last_attempt, now| {
            let record =
                Record { next_attempt, last_attempt: Some(last_attempt), ..record(Kind::SourceIo, 1, None) };
            is_due(&record, 1_000, now, 60_000)
        };
        assert!(!at(Some(5_000), 0, 4_999));
        assert!(at(Some(5_000), 0, 5_000));
        assert!(!at(Some(65_000), 0, 5_000));
        assert!(at(Some(65_001), 0, 5_000), "nothing waits so long");
        let mut fault = Fault::new(Stage::Fetch, Kind::SourceThrottled, "429");
        fault.evidence.retry_after_ms = Some(90_000);
        let evidence = Some(fault.evidence);
        let asked = Record { next_attempt: Some(91_000), evidence, ..record(Kind::SourceThrottled, 1, None) };
        let asked = |now| is_due(&asked, 0, now, 60_000);
        assert!(!asked(1_000), "longer than any delay of ours, as the source asked for");
        assert!(asked(999) && asked(91_000));
        assert!(at(None, 999, 2_000), "tried before this run");
        assert!(!at(None, 1_000, 2_000), "tried in this run");
        assert!(at(None, 3_000, 2_000), "tried in the future");
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

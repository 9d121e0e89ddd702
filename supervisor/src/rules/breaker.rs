//! Breakers: when so many of the last attempts failed in one way that the cause is not the documents.
//!
//! One for each source (its fetches), each extractor (one fingerprint) and each sink (its writes). A breaker looks at a
//! window of the last outcomes. Once open it lets through nothing but single probes, after a delay that grows like that of
//! a retry. Closing is the probe's word, never the clock's.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::kind::Kind;
use super::retry::delay_ms;
use crate::ledger::Millis;
use crate::settings::Retry;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What a breaker is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Source,
    Extractor,
    Sink,
}

impl Scope {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Source => "source",
            Scope::Extractor => "extractor",
            Scope::Sink => "sink",
        }
    }

    /// What this word stands for.
    pub fn named(word: &str) -> Option<Scope> {
        [Scope::Source, Scope::Extractor, Scope::Sink].into_iter().find(|scope| scope.name() == word)
    }
}

/// `[breaker.source]` and the like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// How many of the last outcomes are looked at; 0: there is no breaker.
    pub window: usize,
    /// It opens at this share of failures among them, above 0 and at most 1.
    pub share: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { window: 50, share: 0.8 }
    }
}

/// The last outcomes, each with what it is an outcome of. `K` tells failures of one kind from others.
#[derive(Debug, Clone)]
pub struct Window<K, T> {
    outcomes: VecDeque<(Option<K>, T)>,
}

impl<K, T> Default for Window<K, T> {
    fn default() -> Self {
        Window { outcomes: VecDeque::new() }
    }
}

impl<K: Clone + Eq, T: Clone> Window<K, T> {
    /// Notes an outcome: `None` is a success. Gives what failed alike where that is reason to open: the window is full
    /// then, and begins anew.
    pub fn note(&mut self, failure: Option<K>, of: T, policy: Policy) -> Option<(K, Vec<T>)> {
        if policy.window == 0 {
            return None;
        }
        self.outcomes.push_back((failure.clone(), of));
        while self.outcomes.len() > policy.window {
            self.outcomes.pop_front();
        }
        let failure = failure?;
        if self.outcomes.len() < policy.window {
            return None;
        }
        let alike: Vec<T> = self
            .outcomes
            .iter()
            .filter(|(outcome, _)| outcome.as_ref() == Some(&failure))
            .map(|(_, of)| of.clone())
            .collect();
        let opens = as_float(alike.len()) >= policy.share * as_float(policy.window);
        opens.then(|| {
            self.outcomes.clear();
            (failure, alike)
        })
    }
}

fn as_float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// An open breaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breaker {
    pub since: Millis,
    /// What the failures were that opened it.
    pub kind: Kind,
    /// Of one of them, for people.
    pub message: String,
    /// How many they were.
    pub failures: u64,
    /// How many probes have failed since.
    pub probes: u32,
    pub next_probe: Millis,
}

impl Breaker {
    /// One that opens now. `random` is in `[0, 1)`.
    pub fn open(kind: Kind, message: String, failures: u64, retry: &Retry, random: f64, now: Millis) -> Self {
        Breaker {
            since: now,
            kind,
            message,
            failures,
            probes: 0,
            next_probe: probe_after(0, retry, random, now),
        }
    }

    /// As it stands after a probe has failed with these words.
    #[must_use]
    pub fn probed(&self, message: String, retry: &Retry, random: f64, now: Millis) -> Self {
        let probes = self.probes.saturating_add(1);
        Breaker { message, probes, next_probe: probe_after(probes, retry, random, now), ..self.clone() }
    }

    /// Whether it is time for a probe in the middle of a run. A time further away than any delay is of a clock that has
    /// been set back since.
    pub fn probe_is_due(&self, retry: &Retry, now: Millis) -> bool {
        self.next_probe <= now || self.next_probe > now.saturating_add(signed(retry.cap_ms))
    }
}

fn probe_after(probes: u32, retry: &Retry, random: f64, now: Millis) -> Millis {
    now.saturating_add(signed(delay_ms(probes.saturating_add(1), retry, random)))
}

fn signed(ms: u64) -> Millis {
    Millis::try_from(ms).unwrap_or(Millis::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICY: Policy = Policy { window: 10, share: 0.8 };
    const RETRY: Retry = Retry { attempts: 5, floor_ms: 1_000, cap_ms: 60_000, max_crashes: 3 };

    /// The number of the outcome at which it opens.
    fn opens_at(outcomes: &[Option<char>], policy: Policy) -> Option<(usize, char, Vec<usize>)> {
        let mut window = Window::default();
        outcomes
            .iter()
            .enumerate()
            .find_map(|(n, outcome)| window.note(*outcome, n, policy).map(|(key, of)| (n, key, of)))
    }

    #[test]
    fn it_opens_at_the_share_of_a_full_window_and_not_before() {
        let (bad, good) = (Some('x'), None);
        assert_eq!(opens_at(&[bad; 9], POLICY), None);
        assert_eq!(opens_at(&[bad; 10], POLICY), Some((9, 'x', (0..10).collect())));
        assert_eq!(opens_at(&[vec![good; 3], vec![bad; 7]].concat(), POLICY), None);
        assert_eq!(
            opens_at(&[vec![good; 2], vec![bad; 8]].concat(), POLICY),
            Some((9, 'x', (2..10).collect()))
        );
        // The oldest outcomes are forgotten.
        assert_eq!(opens_at(&[vec![good; 20], vec![bad; 8]].concat(), POLICY).unwrap().0, 27);
    }

    #[test]
    fn failures_of_different_kinds_do_not_add_up() {
        let mixed: Vec<_> = (0..40).map(|n| Some(if n % 2 == 0 { 'x' } else { 'y' })).collect();
        assert_eq!(opens_at(&mixed, POLICY), None);
    }

    #[test]
    fn a_window_of_nothing_never_opens() {
        assert_eq!(opens_at(&[Some('x'); 500], Policy { window: 0, share: 0.1 }), None);
    }

    #[test]
    fn probes_come_after_a_delay_that_grows_to_the_cap() {
        let mut breaker = Breaker::open(Kind::SourceDenied, "EACCES".into(), 10, &RETRY, 0.0, 0);
        assert_eq!(breaker.next_probe, 1_000);
        assert!(!breaker.probe_is_due(&RETRY, 999));
        assert!(breaker.probe_is_due(&RETRY, 1_000));
        let mut last = 0;
        for probes in 1..=10 {
            breaker = breaker.probed("EACCES".into(), &RETRY, 0.999_999, 0);
            assert_eq!(breaker.probes, probes);
            assert!(breaker.next_probe >= last && breaker.next_probe <= 60_000, "{breaker:?}");
            last = breaker.next_probe;
        }
        assert!(last > 59_000);
        // The clock was set back by a year.
        assert!(breaker.probe_is_due(&RETRY, -31_536_000_000));
    }

    proptest! {
        #[test]
        fn it_opens_exactly_where_a_plain_count_says(
            outcomes in prop::collection::vec(prop::option::of(0..3_u8), 0..60), window in 1..12_usize, share in 0.1..1.0_f64,
        ) {
            let mut under_test = Window::default();
            let mut since = 0;
            for (n, outcome) in outcomes.iter().enumerate() {
                let opened = under_test.note(*outcome, n, Policy { window, share });
                let from = since.max((n + 1).saturating_sub(window));
                let alike = outcomes[from..=n].iter().filter(|one| *one == outcome).count();
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let expected = outcome.is_some() && n + 1 - from == window && alike as f64 >= share * window as f64;
                prop_assert_eq!(opened.is_some(), expected);
                if let Some((_, of)) = opened {
                    prop_assert_eq!(of.len(), alike);
                    since = n + 1;
                }
            }
        }
    }
}

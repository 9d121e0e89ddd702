//! The merge against an oracle that knows all at once, and the verdicts as a table.

use super::*;
use crate::ledger::{Settle, Task};
use crate::report::json::tests::sample;
use crate::rules::kind::{Kind, Stage};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

const STATES: [State; 5] =
    [State::Indexed, State::Suspect, State::Pending, State::Quarantined, State::Retrying];

fn id(n: u8) -> DocumentId {
    DocumentId([n; 20])
}

fn hash(n: u8) -> ContentHash {
    ContentHash([n; 32])
}

fn claim(n: u8, text: u8, in_sink: State, state: State, under_way: bool) -> Claim {
    Claim { id: id(n), source: SourceId(1), text: hash(text), in_sink, state, under_way }
}

/// All that the merge finds.
fn merged<C: Keyed, H: Keyed<Key = C::Key> + Clone>(claims: Vec<C>, held: &[H]) -> Vec<Met<C, H>> {
    let mut found = Vec::new();
    let mut note = |met| -> Result<(), Infallible> {
        found.push(met);
        Ok(())
    };
    let mut merge = Merge::new(claims.into_iter().map(Ok));
    for held in held {
        merge.held(held.clone(), &mut note).unwrap();
    }
    merge.end(&mut note).unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Each document asks both sides for itself, in no order.
    #[test]
    fn texts_are_judged_as_by_one_who_sees_all(
        claims in prop::collection::btree_map(0u8..24, (0u8..3, 0usize..2, 0usize..5, any::<bool>()), 0..16),
        held in prop::collection::btree_map(0u8..24, (0u8..4, 0usize..3), 0..16),
    ) {
        let mut expected: BTreeMap<u8, Verdict> = BTreeMap::new();
        for n in 0..24 {
            match (claims.get(&n), held.get(&n)) {
                (None, Some(_)) => {
                    expected.insert(n, (DriftKind::OrphanText, Some(Repair::Remove)));
                }
                (Some((text, in_sink, state, false)), there) => {
                    let sound = there.is_some_and(|(other, as_state)| other == text && as_state == in_sink);
                    let repair = if *state < 2 { Some(Repair::WriteAgain) } else { None };
                    if !sound {
                        expected.insert(n, (DriftKind::MissingText, repair));
                    }
                }
                _ => {}
            }
        }
        let claimed = claims
            .iter()
            .map(|(n, (text, in_sink, state, way))| claim(*n, *text, STATES[*in_sink], STATES[*state], *way))
            .collect();
        let held: Vec<Held> = held
            .iter()
            .map(|(n, (text, state))| Held {
                id: id(*n),
                // The last of the texts is one that is there twice.
                text: (*text < 3).then(|| mark(hash(*text))),
                state: STATES.get(*state).copied().filter(|_| *state < 2),
            })
            .collect();
        let mut found = BTreeMap::new();
        for met in merged(claimed, &held) {
            let (Met::Claimed(Claim { id, .. }) | Met::Both(Claim { id, .. }, _) | Met::Held(Held { id, .. })) = &met;
            if let Some(verdict) = text(&met) {
                prop_assert!(found.insert(id.0[0], verdict).is_none());
            }
        }
        prop_assert_eq!(found, expected);
    }

    /// Several documents may refer to one text.
    #[test]
    fn kept_texts_are_judged_as_by_one_who_sees_all(
        references in prop::collection::btree_set((0u8..8, 0u8..8), 0..24),
        held in prop::collection::btree_set(0u8..8, 0..8),
    ) {
        let missing: BTreeSet<_> =
            references.iter().filter(|(text, _)| !held.contains(text)).map(|(text, doc)| (*text, Some(*doc))).collect();
        let referred: BTreeSet<u8> = references.iter().map(|(text, _)| *text).collect();
        let orphans: BTreeSet<(u8, Option<u8>)> = held.difference(&referred).map(|text| (*text, None)).collect();
        let references = references.iter().map(|(text, doc)| Reference { text: hash(*text), id: id(*doc) }).collect();
        let held: Vec<ContentHash> = held.iter().map(|text| hash(*text)).collect();
        let (mut no_text, mut no_record) = (BTreeSet::new(), BTreeSet::new());
        for met in merged(references, &held) {
            match (kept(&met), &met) {
                (Some((DriftKind::MissingKeptText, None)), Met::Claimed(of)) => {
                    prop_assert!(no_text.insert((of.text.0[0], Some(of.id.0[0]))));
                }
                (Some((DriftKind::OrphanKeptText, Some(Repair::Remove))), Met::Held(text)) => {
                    prop_assert!(no_record.insert((text.0[0], None)));
                }
                (None, Met::Both(..)) => {}
                (verdict, met) => prop_assert!(false, "{verdict:?} {met:?}"),
            }
        }
        prop_assert_eq!((no_text, no_record), (missing, orphans));
    }
}

#[test]
fn an_error_of_the_claims_ends_the_merge() {
    let mut merge = Merge::new([Err::<Claim, &str>("gone")].into_iter());
    let held = Held { id: id(1), text: None, state: None };
    assert_eq!(merge.held(held, &mut |_| Ok(())), Err("gone"));
    let merge = Merge::new([Err::<Claim, &str>("gone")].into_iter());
    assert_eq!(merge.end::<Held>(&mut |_| Ok(())), Err("gone"));
}

fn seen(stat: Option<Stat>, fault: Option<Kind>, settle: Option<Settle>) -> Change {
    Change::Seen(Box::new(crate::ledger::Seen {
        source: SourceId(1),
        identity: shared::Identity::item(b"a"),
        within: None,
        position: 0,
        size: None,
        mtime_ns: None,
        stat,
        sha256: None,
        fault: fault.map(|kind| Box::new(Fault::new(Stage::Discover, kind, "why"))),
        settle,
        damage: None,
    }))
}

#[test]
fn each_word_of_a_listing_has_its_verdict() {
    let stat = Stat { size: 1, mtime_ns: 2, ctime_ns: 3, dev: 4, ino: 5 };
    let record = |state: State, stat: Option<Stat>| Record { state, stat, parent: None, ..sample() };
    let known = record(State::Indexed, Some(stat));
    let leaving = Record { task: Some(Task::Delete), ..record(State::Pending, Some(stat)) };
    let (gone, directory) = (record(State::Deleted, Some(stat)), record(State::Retrying, None));
    let grown = Stat { size: 9, ..stat };
    let moved = Stat { dev: 9, ..stat };
    let later = Some(Settle::Retry { next_attempt: None });
    let rejected =
        Change::Rejected { fault: Box::new(Fault::new(Stage::Discover, Kind::PolicyEmptyFile, "empty")) };
    let new = Some((DriftKind::Unrecorded, Some(Repair::Record)));
    let changed = Some((DriftKind::Changed, None));
    for (change, known, now, verdict) in [
        (seen(Some(stat), None, None), None, None, new),
        (seen(Some(stat), Some(Kind::PolicyPath), None), None, None, new),
        (seen(Some(stat), None, None), Some(&gone), None, new),
        (seen(Some(stat), None, None), Some(&known), None, None),
        (seen(Some(moved), None, None), Some(&known), None, None),
        (seen(Some(grown), None, None), Some(&known), None, changed),
        (seen(Some(stat), None, None), Some(&leaving), None, changed),
        (seen(None, Some(Kind::SourceDenied), later), None, None, Some((DriftKind::Unlistable, None))),
        (Change::Gone, Some(&known), None, Some((DriftKind::Vanished, None))),
        (Change::Gone, Some(&directory), None, changed),
        (Change::Gone, None, None, None),
        (rejected.clone(), Some(&known), Some(grown), changed),
        (rejected.clone(), Some(&known), Some(stat), None),
        (rejected, Some(&known), None, None),
    ] {
        assert_eq!(listed(&change, known, now), verdict, "{change:?}");
    }
    assert_eq!(differences(Some(stat), Some(grown)).unwrap(), "9 bytes, recorded are 1");
    let touched = Stat { mtime_ns: 0, ino: 0, ..stat };
    assert_eq!(differences(Some(stat), Some(touched)).unwrap(), "another modification time, another inode");
}

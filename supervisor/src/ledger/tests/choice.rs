//! Which documents a filter means: found by an index or by reading all, in pages, and who shares a result.

use super::*;
use crate::rules::kind::{Stage, Why};
use globset::GlobBuilder;
use std::ops::ControlFlow;

struct Shelf {
    _folder: Folder,
    ledger: Ledger,
    reader: Reader,
    share: SourceRow,
}

fn shelf() -> Shelf {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let share = source(&ledger, "share");
    let reader = Reader::open(&folder.state()).unwrap();
    Shelf { _folder: folder, ledger, reader, share }
}

impl Shelf {
    /// A document with these events behind its first sight.
    fn add(&self, path: &str, changes: Vec<Change>) -> Record {
        let mut events = vec![item(&self.share, path, 1)];
        let doc = events[0].doc;
        events.extend(changes.into_iter().zip(1..).map(|(change, revision)| event(doc, revision, change)));
        append(&self.ledger, events);
        self.reader.record(doc).unwrap().unwrap()
    }

    fn listed(&self, filter: &Filter) -> Vec<String> {
        let mut paths = Vec::new();
        let mut each = |_: &str, record: &Record| {
            paths.push(record.identity.shown());
            ControlFlow::Continue(())
        };
        self.reader.list(filter, &mut each).unwrap();
        paths
    }

    fn walked(&self, filter: &Filter, page: usize) -> Vec<String> {
        let mut walk = self.reader.walk(filter).unwrap();
        let mut paths = Vec::new();
        loop {
            let next = self.reader.next(filter, &mut walk, page).unwrap();
            assert!(next.len() <= page);
            if next.is_empty() {
                return paths;
            }
            paths.extend(next.iter().map(|record| record.identity.shown()));
        }
    }

    fn sharing(&self, record: &Record) -> Vec<String> {
        let mut paths = Vec::new();
        let mut each = |record: &Record| {
            paths.push(record.identity.shown());
            ControlFlow::Continue(())
        };
        self.reader.sharing(record, &mut each).unwrap();
        paths
    }
}

fn corrupt() -> Change {
    failed(Kind::ParseMalformed, Settle::Quarantine { why: Why::Corrupt })
}

fn glob(text: &str) -> globset::GlobMatcher {
    GlobBuilder::new(text).literal_separator(true).build().unwrap().compile_matcher()
}

#[test]
fn a_walk_meets_each_once_in_the_order_of_first_sight_however_it_finds_them() {
    let shelf = shelf();
    for (n, path) in ["z", "b", "a/é", "a/e", "m", "c"].iter().enumerate() {
        let changes = if n % 2 == 0 { vec![started(), corrupt()] } else { vec![] };
        shelf.add(path, changes);
    }
    let all = Filter::default();
    let some = Filter { among: vec![State::Quarantined, State::Retrying], ..Filter::default() };
    let kind = Filter { kind: Some(Kind::ParseMalformed), stage: Some(Stage::Extract), ..Filter::default() };
    let glob = |text: &str| Filter { path: Some(glob(text)), ..Filter::default() };
    for page in [1, 2, 100] {
        assert_eq!(shelf.walked(&all, page), ["z", "b", "a/é", "a/e", "m", "c"]);
        assert_eq!(shelf.walked(&some, page), ["z", "a/é", "m"]);
        assert_eq!(shelf.walked(&kind, page), ["z", "a/é", "m"]);
        assert_eq!(shelf.walked(&glob("a/*"), page), ["a/é", "a/e"]);
        assert_eq!(shelf.walked(&Filter { state: Some(State::Indexed), ..some.clone() }, page), [""; 0]);
    }
    assert_eq!(shelf.listed(&all), ["a/e", "a/é", "b", "c", "m", "z"]);
    assert_eq!(shelf.listed(&kind), ["a/é", "m", "z"]);
    assert_eq!(shelf.listed(&glob("a/é")), ["a/é"]);
    assert_eq!(shelf.listed(&glob("{a/*,z}")), ["a/e", "a/é", "z"]);
    assert_eq!(shelf.listed(&glob("a*")), [""; 0]);
    assert_eq!(shelf.listed(&Filter { state: Some(State::Pending), ..some }), [""; 0]);
}

#[test]
fn what_an_index_finds_too_much_of_is_read_in_order() {
    let shelf = shelf();
    let paths: Vec<String> = (0..25).map(|n| format!("{:02}", n * 7 % 25)).collect();
    for (n, path) in paths.iter().enumerate() {
        shelf.add(path, vec![started(), if n == 3 { started() } else { corrupt() }]);
    }
    let kind = Filter { kind: Some(Kind::ParseMalformed), ..Filter::default() };
    let mut expected: Vec<String> = paths.iter().filter(|path| **path != paths[3]).cloned().collect();
    assert_eq!(shelf.walked(&kind, 4), expected);
    expected.sort();
    assert_eq!(shelf.listed(&kind), expected);
    let state = Filter { state: Some(State::Quarantined), ..Filter::default() };
    assert_eq!(shelf.listed(&state), expected);
    let few = Filter { path: Some(glob("0*")), ..kind };
    assert_eq!(shelf.listed(&few), expected[..10]);
}

#[test]
fn what_the_sink_must_hold_comes_in_pieces_by_id_and_by_text() {
    let shelf = shelf();
    for n in 0..10 {
        let bytes = [n % 4];
        shelf.add(&n.to_string(), vec![started(), written(&bytes, State::Indexed)]);
    }
    shelf.add("failed", vec![started(), corrupt()]);
    let leaving = shelf.add("leaving", vec![started(), written(b"x", State::Suspect), Change::Gone]);
    let again = shelf.add("again", vec![started(), written(b"x", State::Suspect), Change::Unwritten]);
    let claims: Vec<_> = shelf.reader.claims().map(Result::unwrap).collect();
    assert_eq!(claims.len(), 12);
    assert!(claims.is_sorted_by_key(|claim| claim.id));
    for claim in &claims {
        let record = shelf.reader.record(claim.id).unwrap().unwrap();
        let in_sink = record.in_sink.unwrap();
        assert_eq!((claim.text, claim.in_sink, claim.state), (in_sink.text, in_sink.state, record.state));
        assert_eq!(claim.under_way, [leaving.id, again.id].contains(&claim.id));
    }
    let references: Vec<_> = shelf.reader.references().map(Result::unwrap).collect();
    assert_eq!(references.len(), 12);
    assert!(references.is_sorted_by_key(|of| (of.text, of.id)));
}

#[test]
fn what_changes_behind_a_walk_is_not_met_again() {
    let shelf = shelf();
    for path in ["a", "b", "c"] {
        shelf.add(path, vec![started(), corrupt()]);
    }
    let filter = Filter { path: Some(glob("*")), ..Filter::default() };
    let mut walk = shelf.reader.walk(&filter).unwrap();
    let mut met = Vec::new();
    while let Some(record) = shelf.reader.next(&filter, &mut walk, 1).unwrap().pop() {
        append(&shelf.ledger, vec![event(record.id, record.revision, Change::RequeuedByHand)]);
        met.push(record.identity.shown());
    }
    assert_eq!(met, ["a", "b", "c"]);
    let requeued = shelf.reader.record(id(&shelf.share, "a")).unwrap().unwrap();
    assert_eq!(requeued.requeued_at, Some(1_700_000_001_500));
}

#[test]
fn who_shares_a_result_is_found_from_each_of_them() {
    let shelf = shelf();
    let maker = shelf.add("maker", vec![started(), written(b"x", State::Indexed)]);
    let shared = |bytes: &[u8]| {
        let mut change = written(bytes, State::Indexed);
        if let Change::Written { facts, .. } = &mut change {
            facts.same_as = Some(maker.id);
        }
        change
    };
    let first = shelf.add("first", vec![shared(b"x")]);
    shelf.add("second", vec![shared(b"x")]);
    shelf.add("of other bytes", vec![shared(b"y")]);
    shelf.add("gone", vec![shared(b"x"), Change::Gone, Change::Left]);
    let alone = shelf.add("alone", vec![started(), written(b"x", State::Indexed)]);
    assert!(shelf.reader.made_others(maker.id).unwrap());
    assert!(!shelf.reader.made_others(first.id).unwrap());
    for record in [&maker, &first] {
        assert_eq!(shelf.sharing(record), ["maker", "first", "second"]);
    }
    assert_eq!(shelf.sharing(&alone), ["alone"]);
    // The maker has other bytes since: what it made stands for the others.
    append(&shelf.ledger, vec![event(maker.id, maker.revision, Change::Requeued)]);
    let changed = shelf.reader.record(maker.id).unwrap().unwrap();
    append(&shelf.ledger, vec![event(maker.id, changed.revision, written(b"z", State::Indexed))]);
    assert_eq!(shelf.sharing(&first), ["first", "second"]);
}

#[test]
fn failures_have_an_age_and_a_time_at_which_they_are_due() {
    let shelf = shelf();
    let none = shelf.reader.standings(0).unwrap();
    assert_eq!(none[&shelf.share.id], Standing::default());
    let now = 1_700_000_000_000;
    let later = |ms: i64| failed(Kind::TimeWall, Settle::Retry { next_attempt: Some(now + ms) });
    shelf.add("a", vec![started(), later(0)]);
    shelf.add("b", vec![started(), later(1)]);
    shelf.add("c", vec![started(), later(3_600_000)]);
    shelf.add("d", vec![started(), later(3_600_001)]);
    shelf.add("e", vec![started(), later(86_400_000)]);
    shelf.add("f", vec![started(), later(86_400_001)]);
    shelf.add("g", vec![started(), failed(Kind::SourceDenied, Settle::Retry { next_attempt: None })]);
    shelf.add("h", vec![started(), written(b"h", State::Suspect)]);
    let standing = &shelf.reader.standings(now).unwrap()[&shelf.share.id];
    assert_eq!(standing.due, Dues { now: 2, within_hour: 2, within_day: 2, later: 1 });
    assert_eq!((standing.next_due, standing.oldest_failure), (Some(now), Some(1_700_000_001_500)));
}

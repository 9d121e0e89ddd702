//! What each event does, as a table; then the rules that the table cannot show.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::*;
use crate::ledger::{Pipeline, SourceId, Unsent, Within};
use crate::rules::kind::{Damage, Why};
use shared::{ContentHash, DocumentId, Identity};

const NOW: Millis = 5_000;

fn stat(n: u64) -> Stat {
    Stat { size: n, mtime_ns: 1, ctime_ns: 2, dev: 3, ino: 4 }
}

fn sighting(n: u64) -> Seen {
    Seen {
        source: SourceId(1),
        identity: Identity::item(b"a.pdf"),
        within: None,
        position: 0,
        size: Some(n),
        mtime_ns: Some(1),
        stat: Some(stat(n)),
        sha256: None,
        fault: None,
        settle: None,
        damage: None,
    }
}

fn seen(n: u64) -> Change {
    Change::Seen(Box::new(sighting(n)))
}

fn refused(n: u64, kind: Kind, settle: Option<Settle>) -> Change {
    let fault = Some(Box::new(Fault::new(Stage::Discover, kind, "no")));
    Change::Seen(Box::new(Seen { fault, settle, ..sighting(n) }))
}

fn document() -> DocumentId {
    DocumentId::derive("s", &Identity::item(b"a.pdf"))
}

fn sink(bytes: &[u8], state: State) -> InSink {
    InSink {
        sink: "embedded".to_owned(),
        sha256: Some(ContentHash::of(bytes)),
        pipeline: Pipeline::new(),
        text: ContentHash::of(b"text"),
        state,
    }
}

fn facts(bytes: &[u8]) -> Box<Facts> {
    Box::new(Facts { sha256: Some(ContentHash::of(bytes)), ..Facts::default() })
}

fn started() -> Change {
    Change::Started { stage: Stage::Fetch, alone: false }
}

fn fault(kind: Kind) -> Box<Fault> {
    Box::new(Fault::new(Stage::Extract, kind, "said so"))
}

fn failed(settle: Settle) -> Change {
    Change::Failed { fault: fault(Kind::ParseMalformed), settle, facts: facts(b"v1") }
}

fn written(state: State) -> Change {
    let fault = (state == State::Suspect).then(|| fault(Kind::ContentEmpty));
    Change::Written { state, facts: facts(b"v1"), in_sink: sink(b"v1", state), fault }
}

/// Its text, which its sink does not take.
fn unsent(settle: Settle, attempted: bool) -> Change {
    let Change::Written { facts, in_sink, fault: of, .. } = written(State::Suspect) else { panic!() };
    let down = Fault::new(Stage::Write, Kind::SinkUnavailable, "down");
    Change::Unsent {
        fault: Box::new(down),
        settle,
        unsent: Box::new(Unsent { facts, in_sink, fault: of }),
        attempted,
    }
}

fn lost(alone: bool) -> Change {
    Change::Lost { stage: Stage::Extract, alone, settle: Settle::AtOnce }
}

fn rejected() -> Change {
    Change::Rejected { fault: fault(Kind::PolicyPath) }
}

const CORRUPT: Settle = Settle::Quarantine { why: Why::Corrupt };
const LATER: Settle = Settle::Retry { next_attempt: Some(9_000) };

fn event(expects: Option<u64>, change: Change) -> Event {
    Event { doc: document(), expects, at: NOW, change }
}

fn step(record: Option<&Record>, change: Change) -> Option<Record> {
    match apply(record, &event(None, change)) {
        Verdict::Changed(record) => Some(*record),
        Verdict::Overtaken => None,
    }
}

/// The record that these changes make, each of which has to apply.
fn after(changes: &[Change]) -> Record {
    let mut record = None;
    for change in changes {
        record =
            Some(step(record.as_ref(), change.clone()).unwrap_or_else(|| panic!("{change:?} was overtaken")));
    }
    record.expect("there is at least one change")
}

/// Every state that a document can be in, by name: what the table's columns are.
fn situations() -> Vec<(&'static str, Record)> {
    let indexed = [seen(1), started(), written(State::Indexed)];
    let with = |more: &[Change]| after(&[&indexed, more].concat());
    vec![
        ("new", after(&[seen(1)])),
        ("in hand", after(&[seen(1), started()])),
        ("indexed", after(&indexed)),
        ("suspect", after(&[seen(1), started(), written(State::Suspect)])),
        ("retrying", after(&[seen(1), started(), failed(LATER)])),
        ("quarantined", after(&[seen(1), started(), failed(CORRUPT)])),
        ("stale", with(&[Change::Requeued, started(), failed(CORRUPT)])),
        ("excluded", after(&[refused(1, Kind::PolicyPath, None)])),
        ("deleted", after(&[seen(1), Change::Gone])),
        ("for the large lane", after(&[seen(1), started(), failed(Settle::Large)])),
        ("to write", with(&[Change::Unwritten])),
        ("to delete", with(&[Change::Gone])),
        ("to exclude", with(&[rejected()])),
        ("unsent", after(&[seen(1), started(), unsent(LATER, true)])),
    ]
}

/// State and task in a word.
fn told(record: Option<Record>) -> String {
    match record {
        None => "-".to_owned(),
        Some(record) => match &record.task {
            None => record.state.name().to_owned(),
            Some(Task::Carry) => "carry".to_owned(),
            Some(Task::Large) => "large".to_owned(),
            Some(Task::Write { state }) => format!("write {state}"),
            Some(Task::Delete) => "delete".to_owned(),
            Some(Task::Exclude) => "exclude".to_owned(),
        },
    }
}

#[test]
fn what_its_sink_did_not_take_is_written_later_and_nothing_else_is_done() {
    let down = after(&[seen(1), started(), unsent(LATER, true)]);
    assert_eq!((down.state, down.stage, down.attempts), (State::Retrying, Some(Stage::Write), 1));
    assert_eq!((down.next_attempt, down.in_sink.as_ref()), (Some(9_000), None));
    let again = step(Some(&down), Change::Due).unwrap();
    let held = step(Some(&again), unsent(Settle::Retry { next_attempt: None }, false)).unwrap();
    assert_eq!((held.attempts, held.next_attempt), (1, None), "it was not offered");
    let twice = step(Some(&again), unsent(LATER, true)).unwrap();
    assert_eq!((twice.attempts, twice.unsent.clone()), (2, down.unsent.clone()));
    let there = step(Some(&step(Some(&twice), Change::Due).unwrap()), written(State::Suspect)).unwrap();
    assert_eq!((there.state, there.kind, there.attempts), (State::Suspect, Some(Kind::ContentEmpty), 3));
    assert_eq!((there.unsent, there.in_sink), (None, Some(sink(b"v1", State::Suspect))));
    // Other bytes, a person's word, a new attempt: nothing of it is left.
    for change in [seen(2), Change::Requeued, Change::RequeuedByHand, started(), Change::Gone] {
        assert_eq!(step(Some(&down), change.clone()).unwrap().unsent, None, "{change:?}");
    }
    assert_eq!(step(Some(&down), Change::Held { fault: fault(Kind::SourceDenied), attempted: false }), None);
}

#[test]
fn every_change_in_every_situation() {
    let hash = ContentHash::of(b"v1");
    let fetched = Change::Fetched { sha256: hash, size: 1, format: None, media_type: None };
    let denied = refused(1, Kind::SourceDenied, Some(Settle::Retry { next_attempt: None }));
    let changes = [
        ("seen the same", seen(1)),
        ("seen anew", seen(2)),
        ("seen excluded", refused(1, Kind::PolicyPath, None)),
        ("seen denied", denied),
        ("started", started()),
        ("fetched", fetched),
        ("ready", Change::Ready),
        ("failed, later", failed(LATER)),
        ("failed for good", failed(CORRUPT)),
        ("failed, excluded", failed(Settle::Exclude)),
        ("failed, for the large lane", failed(Settle::Large)),
        ("indexed", written(State::Indexed)),
        ("suspect", written(State::Suspect)),
        ("rejected", rejected()),
        ("gone", Change::Gone),
        ("left", Change::Left),
        ("requeued", Change::Requeued),
        ("requeued by hand", Change::RequeuedByHand),
        ("due", Change::Due),
        ("held", Change::Held { fault: fault(Kind::ExtractorBroken), attempted: true }),
        ("unsent", unsent(LATER, true)),
        ("unsent for good", unsent(CORRUPT, true)),
        ("unwritten", Change::Unwritten),
        ("put back", Change::PutBack),
        ("lost", lost(false)),
        ("touched", Change::Touched { stat: stat(7) }),
    ];
    let table: Vec<String> = changes
        .iter()
        .map(|(name, change)| {
            let cells: Vec<String> =
                situations().iter().map(|(_, record)| told(step(Some(record), change.clone()))).collect();
            format!("{name}: {}", cells.join(", "))
        })
        .collect();
    let columns: Vec<&str> = situations().iter().map(|(name, _)| *name).collect();
    assert_eq!(
        columns.join(", "),
        "new, in hand, indexed, suspect, retrying, quarantined, stale, excluded, deleted, for the large lane, to write, \
         to delete, to exclude, unsent"
    );
    let expected = [
        "seen the same: -, -, -, -, -, -, -, carry, carry, -, -, write indexed, write indexed, -",
        "seen anew: carry, carry, carry, carry, carry, carry, carry, carry, carry, carry, carry, carry, carry, carry",
        "seen excluded: excluded, excluded, exclude, exclude, excluded, excluded, exclude, -, excluded, excluded, \
         exclude, exclude, exclude, excluded",
        "seen denied: retrying, retrying, retrying, retrying, retrying, retrying, retrying, retrying, retrying, \
         retrying, retrying, retrying, retrying, retrying",
        "started: carry, carry, carry, carry, carry, carry, carry, -, -, large, write indexed, -, -, carry",
        "fetched: carry, carry, -, -, -, -, -, -, -, large, write indexed, -, -, -",
        "ready: carry, carry, -, -, -, -, -, -, -, large, write indexed, -, -, -",
        "failed, later: retrying, retrying, retrying, retrying, retrying, retrying, retrying, -, -, retrying, \
         retrying, -, -, retrying",
        "failed for good: quarantined, quarantined, quarantined, quarantined, quarantined, quarantined, quarantined, \
         -, -, quarantined, quarantined, -, -, quarantined",
        "failed, excluded: excluded, excluded, exclude, exclude, excluded, excluded, exclude, -, -, excluded, \
         exclude, -, -, excluded",
        "failed, for the large lane: large, large, large, large, large, large, large, -, -, large, large, -, -, large",
        "indexed: indexed, indexed, indexed, indexed, indexed, indexed, indexed, -, -, indexed, indexed, -, -, indexed",
        "suspect: suspect, suspect, suspect, suspect, suspect, suspect, suspect, -, -, suspect, suspect, -, -, suspect",
        "rejected: excluded, excluded, exclude, exclude, excluded, excluded, exclude, excluded, -, excluded, \
         exclude, exclude, -, excluded",
        "gone: deleted, deleted, delete, delete, deleted, deleted, delete, deleted, -, deleted, delete, -, delete, deleted",
        "left: -, -, -, -, -, -, -, -, -, -, -, deleted, excluded, -",
        "requeued: carry, carry, carry, carry, carry, carry, carry, carry, -, carry, carry, -, -, carry",
        "requeued by hand: carry, carry, carry, carry, carry, carry, carry, -, -, carry, carry, -, -, carry",
        "due: -, -, -, -, carry, -, -, -, -, -, -, -, -, write suspect",
        "held: retrying, retrying, -, -, retrying, retrying, retrying, -, -, retrying, -, -, -, -",
        "unsent: retrying, retrying, -, -, -, -, -, -, -, retrying, retrying, -, -, -",
        "unsent for good: quarantined, quarantined, -, -, -, -, -, -, -, quarantined, quarantined, -, -, -",
        "unwritten: -, -, write indexed, write suspect, -, -, quarantined, -, -, -, -, -, -, -",
        "put back: carry, carry, -, -, -, -, -, -, -, large, write indexed, -, -, -",
        "lost: retrying, retrying, -, -, -, -, -, -, -, large, retrying, -, -, -",
        "touched: carry, carry, indexed, suspect, retrying, quarantined, quarantined, excluded, -, large, \
         write indexed, delete, exclude, retrying",
    ];
    for (found, expected) in table.iter().zip(expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(table.len(), expected.len());
}

#[test]
fn without_a_record_only_a_sighting_says_anything() {
    for change in [
        started(),
        failed(LATER),
        written(State::Indexed),
        Change::Gone,
        Change::Left,
        Change::Requeued,
        Change::Due,
    ] {
        assert_eq!(step(None, change), None);
    }
    let new = after(&[seen(1)]);
    assert_eq!((new.revision, new.attempts, new.first_seen, new.root), (1, 0, NOW, document()));
    assert_eq!(apply(None, &event(Some(1), seen(1))), Verdict::Overtaken);
}

#[test]
fn another_revision_is_overtaken() {
    let record = after(&[seen(1), started()]);
    assert_eq!(record.revision, 2);
    for stale in [0, 1, 3] {
        assert_eq!(apply(Some(&record), &event(Some(stale), failed(LATER))), Verdict::Overtaken);
    }
    assert!(
        matches!(apply(Some(&record), &event(Some(2), failed(LATER))), Verdict::Changed(new) if new.revision == 3)
    );
}

#[test]
fn attempts_are_counted_at_their_start_and_uncounted_when_put_back() {
    let second = after(&[seen(1), started(), failed(LATER), started()]);
    assert_eq!((second.attempts, second.last_attempt), (2, Some(NOW)));
    assert_eq!((second.state, second.next_attempt), (State::Pending, None));
    let back = step(Some(&second), Change::PutBack).unwrap();
    assert_eq!((back.attempts, back.task), (1, Some(Task::Carry)));
    let first = after(&[seen(1), started(), Change::PutBack]);
    assert_eq!((first.attempts, first.last_attempt), (0, None));
}

#[test]
fn a_failure_keeps_what_is_in_the_sink_and_its_first_time() {
    let mut record =
        after(&[seen(1), started(), written(State::Indexed), Change::Requeued, started(), failed(LATER)]);
    assert_eq!(record.in_sink, Some(sink(b"v1", State::Indexed)));
    assert_eq!((record.kind, record.class), (Some(Kind::ParseMalformed), Some(Class::Corrupt)));
    assert_eq!((record.first_failed, record.next_attempt), (Some(NOW), Some(9_000)));
    record.first_failed = Some(1);
    let again = step(Some(&record), failed(CORRUPT)).unwrap();
    assert_eq!((again.first_failed, again.why, again.next_attempt), (Some(1), Some(Why::Corrupt), None));
}

#[test]
fn facts_that_are_not_found_out_stay() {
    let mut record = after(&[seen(1), started()]);
    record.format = Some("pdf".to_owned());
    record.damage = Some(Damage::Source);
    record.same_as = Some(document());
    let new = step(Some(&record), failed(LATER)).unwrap();
    assert_eq!(new.format, Some("pdf".to_owned()));
    assert_eq!(new.damage, Some(Damage::Source));
    // Who made a result is of this result.
    assert_eq!(new.same_as, None);
    assert_eq!((new.sha256, new.fetched), (Some(ContentHash::of(b"v1")), true));
}

#[test]
fn success_clears_the_fault_and_a_suspect_keeps_it_through_a_rewrite() {
    let indexed = after(&[seen(1), started(), failed(LATER), started(), written(State::Indexed)]);
    assert_eq!((indexed.kind, indexed.class, indexed.stage), (None, None, None));
    assert_eq!((indexed.message, indexed.evidence, indexed.task), (None, None, None));
    let suspect = after(&[seen(1), started(), written(State::Suspect), Change::Unwritten]);
    assert_eq!(suspect.task, Some(Task::Write { state: State::Suspect }));
    let rewrite = Change::Written {
        state: State::Suspect,
        facts: Box::default(),
        in_sink: sink(b"v1", State::Suspect),
        fault: None,
    };
    let again = step(Some(&suspect), rewrite).unwrap();
    assert_eq!((again.state, again.kind), (State::Suspect, Some(Kind::ContentEmpty)));
    let absurd = Change::Written {
        state: State::Deleted,
        facts: Box::default(),
        in_sink: sink(b"v1", State::Indexed),
        fault: None,
    };
    assert_eq!(step(Some(&suspect), absurd), None);
}

#[test]
fn other_bytes_start_anew_but_the_last_verdict_stays_readable() {
    let record = after(&[seen(1), started(), failed(CORRUPT), seen(2)]);
    assert_eq!((record.attempts, record.first_failed, record.why), (0, None, None));
    assert_eq!((record.fetched, record.sha256), (false, Some(ContentHash::of(b"v1"))));
    assert_eq!((record.kind, record.size, record.stat), (Some(Kind::ParseMalformed), Some(2), Some(stat(2))));
}

#[test]
fn a_touch_takes_nobody_out_of_the_lane_of_those_who_are_alone() {
    let fetched = Change::Fetched { sha256: ContentHash::of(b"v1"), size: 1, format: None, media_type: None };
    let lost = after(&[seen(1), started(), fetched, lost(true)]);
    assert_eq!((lost.stage, lost.alone, lost.crashes), (Some(Stage::Extract), true, 1));
    for stage in [Stage::Fetch, Stage::Extract] {
        let lost = Record { stage: Some(stage), ..lost.clone() };
        let mut record = lost.clone();
        for change in [seen(2), started(), Change::Same { stat: None }] {
            record = step(Some(&record), change).expect("it applies");
        }
        let told = |record: &Record| (record.state, record.kind, record.alone, record.crashes);
        assert_eq!(told(&record), told(&lost), "{stage}");
    }
}

#[test]
fn the_same_bytes_under_other_times_go_on_as_they_were() {
    let same = Change::Same { stat: None };
    let crashed = || {
        let facts = Box::new(Facts { text: None, ..*facts(b"v1") });
        Change::Failed { fault: fault(Kind::CrashSegv), settle: CORRUPT, facts }
    };
    let retrying = [seen(1), started(), failed(LATER), Change::Due, started(), failed(LATER)];
    for (stood, between) in [
        (after(&retrying), vec![]),
        (after(&[seen(1), started(), crashed()]), vec![]),
        (after(&[seen(1), started(), crashed()]), vec![Change::Gone]),
    ] {
        let changes = [between, vec![seen(2), started(), same.clone()]].concat();
        let mut record = stood.clone();
        for change in changes {
            record = step(Some(&record), change).expect("it applies");
        }
        let told = |record: &Record| {
            (record.state, record.why, record.kind, record.attempts, record.first_failed, record.next_attempt)
        };
        assert_eq!(told(&record), told(&Record { why: record.why, ..stood.clone() }));
        assert_eq!((record.stat, record.why.is_some()), (Some(stat(2)), stood.why.is_some()));
    }
}

#[test]
fn what_is_back_while_leaving_is_written_from_its_kept_text_only_if_the_text_is_of_these_bytes() {
    let indexed = [seen(1), started(), written(State::Indexed)];
    let back = |more: &[Change]| after(&[&indexed, more].concat()).task;
    let write = Some(Task::Write { state: State::Indexed });
    assert_eq!(back(&[Change::Gone, seen(1)]), write);
    assert_eq!(back(&[rejected(), seen(1)]), write);
    assert_eq!(back(&[Change::Gone, seen(2)]), Some(Task::Carry));
    // The bytes moved before it left, and nobody has read the new ones.
    assert_eq!(back(&[seen(2), Change::Gone, seen(2)]), Some(Task::Carry));
    // A failure of a fetch does not tell them either.
    let unread = Change::Failed { fault: fault(Kind::SourceIo), settle: LATER, facts: Box::default() };
    assert_eq!(back(&[seen(2), started(), unread, Change::Gone, seen(2)]), Some(Task::Carry));
    let returned = after(&[&indexed[..], &[rejected(), seen(1)]].concat());
    assert_eq!((returned.kind, returned.message, returned.in_sink.is_some()), (None, None, true));
    // On the way to be excluded the policy's name has replaced what made it suspect.
    let suspect = after(&[seen(1), started(), written(State::Suspect), rejected(), seen(1)]);
    assert_eq!(suspect.task, Some(Task::Carry));
}

#[test]
fn a_member_is_other_by_its_hash() {
    let container = document();
    let member = |bytes: &[u8], position| {
        let within = Some(Within { container, root: container });
        let identity = Identity::item(b"a.pdf").member(b"x", 0);
        let sha256 = Some(ContentHash::of(bytes));
        let seen = Seen { identity, within, position, stat: None, mtime_ns: None, sha256, ..sighting(1) };
        Change::Seen(Box::new(seen))
    };
    let indexed = after(&[member(b"v1", 3), started(), written(State::Indexed)]);
    assert_eq!((indexed.parent, indexed.root, indexed.position), (Some(container), container, 3));
    assert_eq!(step(Some(&indexed), member(b"v1", 3)), None);
    let moved = step(Some(&indexed), member(b"v1", 4)).unwrap();
    assert_eq!((moved.state, moved.position), (State::Indexed, 4));
    let changed = step(Some(&indexed), member(b"v2", 3)).unwrap();
    assert_eq!((changed.state, changed.sha256), (State::Pending, Some(ContentHash::of(b"v2"))));
    let leaving = step(Some(&indexed), Change::Gone).unwrap();
    let back = step(Some(&leaving), member(b"v1", 3)).unwrap();
    assert_eq!(back.task, Some(Task::Write { state: State::Indexed }));
}

#[test]
fn a_sighting_that_fails_goes_where_it_is_told_and_is_carried_once_it_succeeds() {
    let denied = refused(1, Kind::SourceDenied, Some(Settle::Retry { next_attempt: None }));
    let record = after(std::slice::from_ref(&denied));
    assert_eq!((record.state, record.next_attempt, record.attempts), (State::Retrying, None, 0));
    assert_eq!(record.first_failed, Some(NOW));
    // Told again it says nothing new.
    assert_eq!(step(Some(&record), denied), None);
    assert_eq!(step(Some(&record), seen(1)).unwrap().task, Some(Task::Carry));
}

#[test]
fn only_a_death_while_alone_counts_as_a_crash() {
    let record = after(&[seen(1), started(), lost(false)]);
    assert_eq!((record.state, record.next_attempt), (State::Retrying, Some(NOW)));
    assert_eq!((record.attempts, record.crashes, record.alone), (1, 0, true));
    assert_eq!((record.kind, record.class), (Some(Kind::SupervisorLost), Some(Class::Transient)));
    let again = after(&[seen(1), started(), lost(false), started(), lost(true)]);
    assert_eq!((again.attempts, again.crashes, again.alone), (2, 1, true));
    let poison =
        Change::Lost { stage: Stage::Extract, alone: true, settle: Settle::Quarantine { why: Why::GaveUp } };
    let poison = after(&[seen(1), started(), poison]);
    assert_eq!((poison.state, poison.why), (State::Quarantined, Some(Why::GaveUp)));
    let requeued = step(Some(&poison), Change::Requeued).unwrap();
    assert_eq!((requeued.attempts, requeued.crashes, requeued.alone), (0, 0, false));
    let survived = after(&[seen(1), started(), lost(false), started(), written(State::Indexed)]);
    assert!(!survived.alone);
}

#[test]
fn no_failure_claims_that_a_text_is_in_the_sink() {
    let record = after(&[seen(1), started(), failed(Settle::Suspect)]);
    assert_eq!((record.state, record.in_sink), (State::Quarantined, None));
}

//! Random histories: whatever happens in whatever order, the books balance after each event, the counters equal the rows,
//! an event that is told twice changes nothing the second time, and the events alone make the same ledger again.

use super::*;
use crate::rules::kind::Why;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

const PATHS: [&str; 4] = ["a", "d/b", "d/e/c", "z.zip"];

/// A change on one of the documents, with what its caller knows of the revision.
#[derive(Debug, Clone)]
struct Blow {
    doc: usize,
    knows: Knows,
    change: Change,
}

#[derive(Debug, Clone, Copy)]
enum Knows {
    Now,
    Before,
    Nothing,
}

fn change() -> impl Strategy<Value = Change> {
    let settle = prop_oneof![
        Just(Settle::AtOnce),
        Just(Settle::Large),
        Just(Settle::Exclude),
        Just(Settle::Suspect),
        Just(Settle::Retry { next_attempt: Some(7) }),
        Just(Settle::Retry { next_attempt: None }),
        Just(Settle::Quarantine { why: Why::Permanent }),
        Just(Settle::Quarantine { why: Why::Corrupt }),
        Just(Settle::Quarantine { why: Why::GaveUp }),
    ];
    let fault = |kind| Box::new(Fault::new(Stage::Discover, kind, "no"));
    prop_oneof![
        4 => Just(started()),
        2 => Just(written(b"v1", State::Indexed)),
        2 => Just(written(b"v2", State::Suspect)),
        4 => (settle.clone(), 0..Kind::ALL.len(), any::<bool>()).prop_map(|(settle, kind, shared)| {
            let mut change = failed(Kind::ALL[kind], settle);
            if let Change::Failed { facts, .. } = &mut change && shared {
                let maker = DocumentId::derive("share", &Identity::item(b"maker"));
                (facts.same_as, facts.tried, facts.stat) = (Some(maker), Some(3), Some(stat(1)));
            }
            change
        }),
        1 => (0..3_u8).prop_map(|n| Change::Fetched {
            sha256: ContentHash::of(&[n]), size: n.into(), format: Some("pdf".to_owned()), media_type: None,
        }),
        2 => prop::option::of(0..3_u64).prop_map(|n| Change::Same { stat: n.map(stat) }),
        1 => Just(Change::Rejected { fault: fault(Kind::PolicyType) }),
        2 => Just(Change::Gone),
        3 => Just(Change::Left),
        1 => Just(Change::Requeued),
        1 => Just(Change::RequeuedByHand),
        1 => Just(Change::Due),
        2 => any::<bool>().prop_map(move |attempted| Change::Held { fault: Box::new(Fault::new(Stage::Fetch, Kind::SourceDenied, "no")), attempted }),
        1 => Just(Change::Unwritten),
        3 => (settle.clone(), any::<bool>()).prop_map(|(settle, attempted)| unsent(settle, attempted)),
        1 => Just(Change::PutBack),
        1 => Just(Change::Ready),
        2 => (any::<bool>(), settle).prop_map(|(alone, settle)| Change::Lost { stage: Stage::Extract, alone, settle }),
        1 => (0..3_u64).prop_map(|n| Change::Touched { stat: stat(n) }),
    ]
}

fn blow() -> impl Strategy<Value = Blow> {
    let knows = prop_oneof![4 => Just(Knows::Now), 1 => Just(Knows::Before), 1 => Just(Knows::Nothing)];
    // `None` stands for a sighting, which needs to know the source.
    (0..6_usize, knows, prop_oneof![2 => Just(None), 5 => change().prop_map(Some)], 0..3_u64, any::<bool>())
        .prop_map(|(doc, knows, change, n, policy)| Blow {
            doc,
            knows,
            change: change.unwrap_or_else(|| sighting(doc, n, policy)),
        })
}

fn row() -> SourceRow {
    SourceRow { id: SourceId(1), name: "share".to_owned(), root: PathBuf::new(), root_device: None }
}

fn first(doc: usize, n: u64) -> Event {
    match doc {
        4 => member(&row(), "z.zip", &["m"], n),
        5 => member(&row(), "z.zip", &["m", "k"], 0),
        _ => item(&row(), PATHS[doc], n),
    }
}

fn sighting(doc: usize, n: u64, policy: bool) -> Change {
    let mut change = first(doc, n).change;
    if let Change::Seen(seen) = &mut change
        && policy
    {
        seen.fault = Some(Box::new(Fault::new(Stage::Discover, Kind::PolicyPath, "no")));
    }
    change
}

fn record_of(applied: &Applied) -> Option<&Record> {
    match applied {
        Applied::Changed(record) => Some(record),
        Applied::Overtaken(record) => record.as_deref(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_books_balance_whatever_happens(blows in prop::collection::vec(blow(), 1..40)) {
        let folder = Folder::new();
        let ledger = Ledger::open(&folder.state()).unwrap();
        let reader = Reader::open(&folder.state()).unwrap();
        prop_assert_eq!(source(&ledger, "share").id, SourceId(1));
        let mut known: BTreeMap<DocumentId, Record> = BTreeMap::new();
        for blow in blows {
            let doc = first(blow.doc, 0).doc;
            let revision = known.get(&doc).map_or(0, |record| record.revision);
            let expects = match blow.knows {
                Knows::Now => Some(revision),
                Knows::Before => Some(revision.saturating_sub(1)),
                Knows::Nothing => None,
            };
            let event = Event { doc, expects, at: 1, change: blow.change };
            let applied = append(&ledger, vec![event.clone()]).remove(0);
            if let Applied::Changed(record) = &applied {
                prop_assert_eq!(record.revision, revision + 1);
                prop_assert_eq!(record.state == State::Pending, record.task.is_some());
                prop_assert!(record.large.is_none() || !record.alone);
                let to_write = matches!(record.task, Some(Task::Write { .. }));
                prop_assert!(record.unsent.is_none() || record.state == State::Retrying || to_write);
                prop_assert!(record.task != Some(Task::Large) || record.large.is_some());
                known.insert(doc, (**record).clone());
                // What befalls a container befalls all below it.
                for below in known.values_mut() {
                    if below.id != doc && below.identity.0.starts_with(&record.identity.0) {
                        *below = reader.record(below.id).unwrap().unwrap();
                    }
                }
            }
            prop_assert_eq!(record_of(&applied), known.get(&doc));
            let books = reader.books().unwrap();
            prop_assert!(books.balanced, "{:?}", books.differences);
            prop_assert_eq!(books.total.discovered, books.total.in_states());
            if expects.is_some() {
                let again = append(&ledger, vec![event]).remove(0);
                let overtaken = matches!(again, Applied::Overtaken(_));
                // Where it had been overtaken, it still is.
                prop_assert!(overtaken);
                prop_assert_eq!(reader.record(doc).unwrap(), known.get(&doc).cloned());
            }
        }
        // Rows as they are known, and again from the events alone.
        let mut rows = BTreeMap::new();
        reader.list(&Filter::default(), &mut |_, record| {
            rows.insert(record.id, record.clone());
            ControlFlow::Continue(())
        }).unwrap();
        prop_assert_eq!(&rows, &known);
        let mut events = Vec::new();
        reader.events(&mut |event| {
            events.push(event);
            ControlFlow::Continue(())
        }).unwrap();
        let (records, counters) = rebuild(events);
        prop_assert_eq!(&records, &rows);
        let books = reader.books().unwrap();
        let counter = |name: &str| counters.iter().find(|((_, state), _)| *state == name).map_or(0, |(_, n)| *n);
        for &state in State::ALL {
            prop_assert_eq!(counter(state.name()), i64::try_from(books.total.of(state)).unwrap());
        }
        prop_assert_eq!(counter("discovered"), i64::try_from(books.total.discovered).unwrap());
        let alive = rows.values().filter(|row| row.parent.is_none() && row.state != State::Deleted).count();
        prop_assert_eq!(reader.items_count(SourceId(1)).unwrap(), alive as u64);
        // What is due is exactly what has a task and was not taken by an attempt.
        let due = reader.due(&[SourceId(1)], 0, true, 100).unwrap();
        prop_assert!(due.iter().all(|due| due.record.task.is_some()));
        let waiting = |row: &&Record| row.is_leaving();
        prop_assert!(rows.values().filter(waiting).all(|row| due.iter().any(|due| due.record.id == row.id)));
        ledger.close().unwrap();
    }
}

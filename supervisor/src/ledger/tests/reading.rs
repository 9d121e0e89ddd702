//! What readers are told.

use super::*;
use crate::rules::kind::{Class, Why};
use std::ops::ControlFlow;

struct Library {
    _folder: Folder,
    ledger: Ledger,
    reader: Reader,
    share: SourceRow,
}

fn library() -> Library {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let reader = Reader::open(&folder.state()).unwrap();
    let share = source(&ledger, "share");
    Library { _folder: folder, ledger, reader, share }
}

impl Library {
    fn id(&self, path: &str) -> DocumentId {
        id(&self.share, path)
    }

    fn add(&self, path: &str, changes: Vec<Change>) -> Record {
        let doc = self.id(path);
        let mut events = vec![item(&self.share, path, 1)];
        events.extend((1..).zip(changes).map(|(revision, change)| event(doc, revision, change)));
        changed(append(&self.ledger, events).last().unwrap()).clone()
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
}

const PERMANENT: Settle = Settle::Quarantine { why: Why::Permanent };

#[test]
fn a_record_is_read_as_it_was_written() {
    let library = library();
    let record = library.add("dir/a.pdf", vec![started(), written(b"bytes", State::Suspect)]);
    assert_eq!(library.reader.record(record.id).unwrap(), Some(record));
}

#[test]
fn the_list_is_by_source_and_path_and_filters_add_up() {
    let library = library();
    library.add("c.pdf", vec![started(), written(b"c", State::Indexed)]);
    library.add("a/z.pdf", vec![started(), failed(Kind::CrashSegv, PERMANENT)]);
    library.add("b.pdf", vec![started(), failed(Kind::ParseMalformed, PERMANENT)]);
    let second = source(&library.ledger, "archive");
    append(&library.ledger, vec![item(&second, "z.pdf", 1)]);
    let all = Filter::default();
    assert_eq!(library.listed(&all), ["z.pdf", "a/z.pdf", "b.pdf", "c.pdf"]);
    assert_eq!(library.listed(&Filter { state: Some(State::Indexed), ..all.clone() }), ["c.pdf"]);
    assert_eq!(
        library.listed(&Filter { state: Some(State::Quarantined), ..all.clone() }),
        ["a/z.pdf", "b.pdf"]
    );
    assert_eq!(library.listed(&Filter { kind: Some(Kind::CrashSegv), ..all.clone() }), ["a/z.pdf"]);
    assert_eq!(library.listed(&Filter { class: Some(Class::Corrupt), ..all.clone() }), ["b.pdf"]);
    assert_eq!(library.listed(&Filter { stage: Some(Stage::Extract), ..all.clone() }), ["a/z.pdf", "b.pdf"]);
    let both = Filter { state: Some(State::Indexed), kind: Some(Kind::CrashSegv), ..all.clone() };
    assert_eq!(library.listed(&both), [""; 0]);
    assert_eq!(library.listed(&Filter { source: Some("archive".to_owned()), ..all }), ["z.pdf"]);
    assert_eq!(library.listed(&Filter { source: Some("nowhere".to_owned()), ..Filter::default() }), [""; 0]);
}

#[test]
fn a_list_ends_when_told() {
    let library = library();
    library.add("a", vec![]);
    library.add("b", vec![]);
    let mut seen = 0;
    let mut each = |_: &str, _: &Record| {
        seen += 1;
        ControlFlow::Break(())
    };
    library.reader.list(&Filter::default(), &mut each).unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn a_document_is_named_by_id_by_path_and_by_prefix() {
    let library = library();
    let record = library.add("a.pdf", vec![]);
    let hex = record.id.to_string();
    let found = |doc: &str| library.reader.resolve(doc).unwrap().map(|record| record.id);
    assert_eq!(found(&hex), Ok(record.id));
    assert_eq!(found(&hex.to_uppercase()), Ok(record.id));
    assert_eq!(found("a.pdf"), Ok(record.id));
    assert_eq!(found(hex.get(..4).unwrap()), Ok(record.id));
    assert_eq!(found(hex.get(..5).unwrap()), Ok(record.id));
    assert_eq!(found(hex.get(..3).unwrap()), Err(Unresolved::Nothing));
    assert_eq!(found("b.pdf"), Err(Unresolved::Nothing));
    assert_eq!(found("caffee€"), Err(Unresolved::Nothing));
}

#[test]
fn a_path_goes_before_a_prefix_and_candidates_are_named() {
    let library = library();
    let record = library.add("a.pdf", vec![]);
    let prefix = record.id.to_string().get(..6).unwrap().to_owned();
    let named = library.add(&prefix, vec![]);
    assert_eq!(library.reader.resolve(&prefix).unwrap().unwrap().id, named.id);
    let second = source(&library.ledger, "archive");
    append(&library.ledger, vec![item(&second, "a.pdf", 1)]);
    let mut ids = vec![(record.id, "a.pdf".to_owned()), (id(&second, "a.pdf"), "a.pdf".to_owned())];
    ids.sort();
    assert_eq!(library.reader.resolve("a.pdf").unwrap(), Err(Unresolved::Ambiguous(ids)));
}

#[test]
fn due_is_in_order_and_an_attempt_takes_it_out_until_it_is_due_again() {
    let library = library();
    let due = |after| -> Vec<(Queue, String)> {
        let due = library.reader.due(&[library.share.id], after, true, 10).unwrap();
        due.into_iter().map(|due| (due.queue, due.record.identity.shown())).collect()
    };
    library.add("b", vec![]);
    library.add("a", vec![]);
    assert_eq!(due(0), [(1, "b".to_owned()), (2, "a".to_owned())]);
    assert_eq!(due(1), [(2, "a".to_owned())]);
    assert_eq!(library.reader.due(&[], 0, true, 10).unwrap(), []);
    let b = library.id("b");
    append(&library.ledger, vec![event(b, 1, started())]);
    assert_eq!(due(0), [(2, "a".to_owned())]);
    append(&library.ledger, vec![event(b, 2, Change::PutBack)]);
    assert_eq!(due(0), [(2, "a".to_owned()), (4, "b".to_owned())]);
    append(
        &library.ledger,
        vec![event(b, 3, started()), event(b, 4, failed(Kind::WorkerLost, Settle::AtOnce))],
    );
    assert_eq!(due(0), [(2, "a".to_owned())]);
    // A person's word makes it due behind everything that a run may have read already.
    append(&library.ledger, vec![event(b, 5, Change::Requeued)]);
    assert_eq!(due(2), [(7, "b".to_owned())]);
}

#[test]
fn what_an_attempt_had_taken_is_due_again_after_a_death() {
    let library = library();
    library.add("a", vec![started(), Change::Ready]);
    let Library { _folder: folder, ledger, .. } = library;
    drop(ledger);
    let ledger = Ledger::open(&folder.state()).unwrap();
    let reader = Reader::open(&folder.state()).unwrap();
    let sources = reader.sources().unwrap();
    assert_eq!(reader.due(&[sources[0].id], 0, true, 10).unwrap().len(), 1);
    assert_eq!(reader.in_hand().unwrap(), []);
    ledger.close().unwrap();
}

#[test]
fn only_what_a_stage_is_at_work_on_is_in_hand() {
    let library = library();
    let a = library.add("a", vec![Change::Started { stage: Stage::Extract, alone: true }]).id;
    library.add("b", vec![started(), Change::Ready]);
    library.add("c", vec![started(), failed(Kind::CrashSegv, PERMANENT)]);
    library.add("d", vec![started(), Change::PutBack]);
    let of_a = [InHand { doc: a, stage: Stage::Extract, alone: true }];
    assert_eq!(library.reader.in_hand().unwrap(), of_a);
    // A listing does not take it out of the child's hands; the end of the overtaken attempt does.
    let mut seen = item(&library.share, "a", 2);
    seen.expects = None;
    append(&library.ledger, vec![seen]);
    assert_eq!(library.reader.in_hand().unwrap(), of_a);
    let end = append(&library.ledger, vec![event(a, 2, failed(Kind::CrashSegv, PERMANENT))]);
    assert!(matches!(end[0], Applied::Overtaken(Some(_))));
    assert_eq!(library.reader.in_hand().unwrap(), []);
}

#[test]
fn retries_come_when_their_time_has_come() {
    let library = library();
    let retry = |next_attempt| failed(Kind::SourceIo, Settle::Retry { next_attempt });
    library.add("later", vec![started(), retry(Some(2_000))]);
    library.add("now", vec![started(), retry(Some(1_000))]);
    library.add("next run", vec![started(), retry(None)]);
    let sources = [library.share.id];
    let at = |now| -> Vec<String> {
        let due = library.reader.retries(&sources, now, i64::MAX, 60_000, 10).unwrap();
        due.iter().map(|record| record.identity.shown()).collect()
    };
    assert_eq!(at(999), ["next run"]);
    assert_eq!(at(1_000), ["next run", "now"]);
    assert_eq!(at(2_000), ["next run", "now", "later"]);
    // The clock was set back by more than anything waits.
    assert_eq!(at(-58_500), ["next run", "later"]);
    assert_eq!(library.reader.next_due(&sources).unwrap(), Some(1_000));
    assert_eq!(library.reader.next_due(&[]).unwrap(), None);
}

#[test]
fn what_waits_for_the_next_run_comes_once_in_each() {
    const TRIED: i64 = 1_700_000_001_500;
    let library = library();
    let wait = |kind| failed(kind, Settle::Retry { next_attempt: None });
    library.add("b", vec![started(), wait(Kind::SourceDenied)]);
    library.add("a", vec![started(), wait(Kind::SourceDenied)]);
    library.add("engine", vec![started(), wait(Kind::ExtractorBroken)]);
    let at = |began, now, limit| -> Vec<String> {
        let due = library.reader.retries(&[library.share.id], now, began, 60_000, limit).unwrap();
        due.iter().map(|record| record.identity.shown()).collect()
    };
    assert_eq!(
        at(TRIED + 1, TRIED + 9, 10),
        ["b", "a"],
        "those tried before the run, in the order of their first sight"
    );
    assert_eq!(at(TRIED + 1, TRIED + 9, 1), ["b"]);
    assert_eq!(at(TRIED, TRIED + 9, 10), [""; 0], "those tried in it do not come again");
    assert_eq!(at(TRIED - 9, TRIED - 1, 10), ["b", "a"], "the clock was set back since");
    assert_eq!(at(TRIED + 1, TRIED - 1, 10), ["b", "a"], "and in the middle of the run");
}

#[test]
fn a_tree_has_containers_before_members_in_order() {
    let library = library();
    library.add("a.zip", vec![]);
    let share = &library.share;
    append(
        &library.ledger,
        vec![
            member(share, "a.zip", &["b.zip"], 1),
            member(share, "a.zip", &["a.txt"], 0),
            member(share, "a.zip", &["c.txt"], 2),
            member(share, "a.zip", &["b.zip", "x"], 0),
            member(share, "a.zip", &["b.zip", "y"], 1),
        ],
    );
    let shown =
        |records: Vec<Record>| -> Vec<String> { records.iter().map(|r| r.identity.shown()).collect() };
    let root = library.id("a.zip");
    assert_eq!(
        shown(library.reader.tree(root).unwrap()),
        ["a.zip", "a.zip!/a.txt", "a.zip!/b.zip", "a.zip!/b.zip!/x", "a.zip!/b.zip!/y", "a.zip!/c.txt"]
    );
    let members = library.reader.members(root).unwrap();
    assert_eq!(members[0].parent, Some(root));
    assert_eq!(members[0].root, root);
    assert_eq!(shown(members), ["a.zip!/a.txt", "a.zip!/b.zip", "a.zip!/c.txt"]);
    // Members are documents, but no items.
    assert_eq!(library.reader.items_count(share.id).unwrap(), 1);
    assert_eq!(library.reader.books().unwrap().total.discovered, 6);
}

#[test]
fn a_directory_tells_its_items_by_name_with_tombstones() {
    let library = library();
    let source = library.share.id;
    library.add("d/b", vec![]);
    library.add("d/a", vec![started(), failed(Kind::CrashSegv, PERMANENT)]);
    library.add("d/e/f", vec![]);
    library.add("d/c", vec![Change::Gone]);
    library.add("top", vec![]);
    let items = library.reader.items_in(source, b"d", None, 10).unwrap();
    let names: Vec<&[u8]> = items.iter().map(|item| item.name.as_slice()).collect();
    assert_eq!(names, [&b"a"[..], b"b", b"c"]);
    assert_eq!(
        items[0],
        KnownItem {
            name: b"a".to_vec(),
            id: library.id("d/a"),
            stat: Some(stat(1)),
            state: State::Quarantined,
            kind: Some(Kind::CrashSegv),
            leaving: false,
        }
    );
    assert_eq!(items[2].state, State::Deleted);
    assert_eq!(library.reader.items_in(source, b"d", Some(b"a"), 1).unwrap(), items[1..2]);
    assert_eq!(library.reader.items_in(source, b"", None, 10).unwrap().len(), 1);
    assert_eq!(library.reader.items_in(source, b"unknown", None, 10).unwrap(), []);
    assert_eq!(library.reader.items_count(source).unwrap(), 4);
}

#[test]
fn a_directory_is_told_as_long_as_something_in_or_below_it_is_not_gone() {
    let library = library();
    let source = library.share.id;
    let f = library.add("d/e/f", vec![]).id;
    let below = |directory: &[u8]| library.reader.directories_in(source, directory).unwrap();
    assert_eq!(below(b""), [b"d"]);
    assert_eq!(below(b"d"), [b"e"]);
    assert_eq!(below(b"d/e"), Vec::<Vec<u8>>::new());
    append(&library.ledger, vec![event(f, 1, Change::Gone)]);
    assert_eq!(below(b""), Vec::<Vec<u8>>::new());
    let mut back = item(&library.share, "d/e/f", 1);
    back.expects = Some(2);
    append(&library.ledger, vec![back]);
    assert_eq!(below(b""), [b"d"]);
    assert_eq!(below(b"d"), [b"e"]);
}

#[test]
fn a_leaving_item_is_marked() {
    let library = library();
    library.add("a", vec![started(), written(b"a", State::Indexed), Change::Gone]);
    let items = library.reader.items_in(library.share.id, b"", None, 10).unwrap();
    assert!(items[0].leaving);
    assert_eq!(items[0].state, State::Pending);
}

#[test]
fn failures_are_clustered_with_an_example() {
    let library = library();
    let first = library.add("a", vec![started(), failed(Kind::CrashSegv, PERMANENT)]).id;
    library.add("b", vec![started(), failed(Kind::CrashSegv, PERMANENT)]);
    library.add("c", vec![started(), failed(Kind::TimeWall, Settle::Retry { next_attempt: None })]);
    library.add("d", vec![started(), written(b"d", State::Indexed)]);
    library.add("e", vec![started(), failed(Kind::TimeWall, PERMANENT), Change::Requeued]);
    let clusters = library.reader.clusters(&[library.share.id]).unwrap();
    assert_eq!(clusters.len(), 2);
    assert_eq!(
        clusters[0],
        Cluster {
            state: State::Quarantined,
            stage: Some(Stage::Extract),
            kind: Some(Kind::CrashSegv),
            class: Some(Class::Permanent),
            count: 2,
            example: first,
            example_path: "a".to_owned(),
            example_message: Some("as the parser says".to_owned()),
        }
    );
    assert_eq!(clusters[1].count, 1);
    assert_eq!(library.reader.clusters(&[]).unwrap(), []);
}

#[test]
fn a_kept_text_is_used_until_its_last_user_goes() {
    let library = library();
    let text = in_sink(b"same", State::Indexed).text;
    let a = library.add("a", vec![started(), written(b"same", State::Indexed)]).id;
    let b = library.add("b", vec![started(), written(b"same", State::Indexed)]).id;
    let used = || library.reader.text_used(text).unwrap();
    let mut held = Vec::new();
    library.reader.in_sink(&mut |id| held.push(id)).unwrap();
    held.sort();
    assert_eq!(held, std::collections::BTreeSet::from([a, b]).into_iter().collect::<Vec<_>>());
    append(&library.ledger, vec![event(a, 3, Change::Gone), event(a, 4, Change::Left)]);
    assert!(used());
    append(&library.ledger, vec![event(b, 3, Change::Gone), event(b, 4, Change::Left)]);
    assert!(!used());
    let same = || library.reader.with_content(ContentHash::of(b"same"), 10).unwrap();
    assert!(same().is_empty(), "tombstones have no result");
}

#[test]
fn the_history_has_every_attempt_with_every_key() {
    let library = library();
    let doc = library
        .add(
            "a",
            vec![
                started(),
                Change::Fetched { sha256: ContentHash::of(b"a"), size: 1, format: None, media_type: None },
                failed(Kind::TimeWall, Settle::AtOnce),
                started(),
                Change::PutBack,
                started(),
                written(b"a", State::Indexed),
                Change::Requeued,
                started(),
            ],
        )
        .id;
    let history = library.reader.history(doc).unwrap();
    let time = "2023-11-14T22:13:21.500Z";
    assert_eq!(
        serde_json::Value::Array(history),
        serde_json::json!([
            {"attempt": 1, "stage": "extract", "kind": "time.wall", "class": "transient",
             "message": "as the parser says", "started": time, "ended": time, "pipeline": {}, "damage": null, "usage": null,
             "evidence": null},
            {"attempt": 2, "stage": "write", "kind": null, "class": null, "message": null, "started": time,
             "ended": time, "pipeline": {"extract": "pdf 1"}, "damage": null,
             "usage": {"wall_ms": 5, "cpu_ms": 4, "peak_rss_kib": 3}, "evidence": null},
            {"attempt": 3, "stage": "fetch", "kind": null, "class": null, "message": null, "started": time,
             "ended": null, "pipeline": {}, "damage": null, "usage": null, "evidence": null},
        ])
    );
    assert_eq!(library.reader.history(library.id("unknown")).unwrap().len(), 0);
}

#[test]
fn an_overtaken_attempt_stays_in_the_history_and_an_event_told_twice_does_not_count_twice() {
    let library = library();
    let doc = library.add("a", vec![started()]).id;
    let mut seen = item(&library.share, "a", 7);
    seen.expects = None;
    let end = event(doc, 2, failed(Kind::CrashSegv, PERMANENT));
    append(&library.ledger, vec![seen, end.clone(), end, event(doc, 1, started())]);
    let history = library.reader.history(doc).unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0]["kind"], "crash.segv");
    assert_eq!(library.reader.record(doc).unwrap().unwrap().state, State::Pending);
}

#[test]
fn runs_and_devices_are_noted() {
    let library = library();
    let handle = library.ledger.handle();
    assert_eq!(library.reader.last_run().unwrap(), None);
    let run = block_on(handle.begin_run(5)).unwrap();
    assert_eq!(library.reader.last_run().unwrap().unwrap().end, None);
    block_on(handle.end_run(run, 9, RunEnd::Interrupted)).unwrap();
    let last = library.reader.last_run().unwrap().unwrap();
    assert_eq!((last.id, last.began, last.ended, last.end), (run, 5, Some(9), Some(RunEnd::Interrupted)));
    assert_eq!(last.boot_id.map(|id| id.len()), Some(36));
    block_on(handle.root_device(library.share.id, u64::MAX)).unwrap();
    let again = block_on(handle.source("share", Path::new("/moved"))).unwrap();
    assert_eq!(again.id, library.share.id);
    assert_eq!(again.root, Path::new("/moved"));
    assert_eq!(again.root_device, Some(u64::MAX));
}

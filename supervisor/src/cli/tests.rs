//! The commands that read, over a state folder as a run leaves it.

use super::*;
use crate::ledger::{Change, Durability, Event, Facts, InSink, Ledger, Pipeline, Seen, TextFacts};
use crate::rules::kind::{Stage, State};
use crate::sink::embedded::Embedded;
use crate::sink::texts::Texts;
use crate::sink::{Batch, Entry};
use shared::{ContentHash, DocumentId, Identity};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

const TEXT: &str = "The quarterly café report";

/// What was printed.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Vec<u8>>>);

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Kept {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Exit code, standard output and standard error of a command.
fn lazaret(state: &Path, words: &[&str]) -> (u8, String, String) {
    let state = state.to_str().unwrap();
    let words = [&["lazaret"], words, &["--state", state]].concat();
    let args = Args::try_parse_from(words).unwrap();
    let (out, err) = (Kept::default(), Kept::default());
    let mut printer = Printer::to(Box::new(out.clone()), Box::new(err.clone()));
    let exit = match dispatch(args, &mut printer) {
        Ok(exit) => exit,
        Err(error) => {
            error.print(&mut printer);
            error.exit()
        }
    };
    (exit.code(), out.text(), err.text())
}

fn event(doc: DocumentId, expects: u64, change: Change) -> Event {
    Event { doc, expects: Some(expects), at: 1_700_000_000_000, change }
}

fn seen(source: crate::ledger::SourceId, path: &str) -> Change {
    Change::Seen(Box::new(Seen {
        source,
        identity: Identity::item(path.as_bytes()),
        within: None,
        position: 0,
        size: Some(5),
        mtime_ns: Some(0),
        stat: None,
        sha256: None,
        fault: None,
        settle: None,
        damage: None,
    }))
}

/// A state folder with `a.pdf`, whose text is in the sink, and `b.pdf`, which is pending.
fn state() -> (tempfile::TempDir, std::path::PathBuf, DocumentId) {
    let base = tempfile::tempdir().unwrap();
    let state = base.path().join("state");
    let ledger = Ledger::open(&state).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let source = runtime.block_on(ledger.handle().source("docs", Path::new("/srv/docs"))).unwrap();
    let id = |path: &str| DocumentId::derive("docs", &Identity::item(path.as_bytes()));
    let hash = ContentHash::of(TEXT.as_bytes());
    let sha256 = Some(ContentHash::of(b"bytes"));
    let in_sink = InSink {
        sink: "embedded".to_owned(),
        sha256,
        pipeline: Pipeline::new(),
        text: hash,
        state: State::Indexed,
    };
    let text = TextFacts { chars: 25, words: 4, language: None, quality: 1.0 };
    let facts = Box::new(Facts { sha256, text: Some(text), ..Facts::default() });
    let events = vec![
        event(id("a.pdf"), 0, seen(source.id, "a.pdf")),
        event(id("b.pdf"), 0, seen(source.id, "b.pdf")),
        event(id("a.pdf"), 1, Change::Started { stage: Stage::Fetch, alone: false }),
        event(id("a.pdf"), 2, Change::Written { state: State::Indexed, facts, in_sink, fault: None }),
    ];
    Texts::open(&state).unwrap().keep(&[(hash, TEXT)]).unwrap();
    let entry = Entry {
        id: id("a.pdf"),
        title: None,
        path: "a.pdf".to_owned(),
        state: State::Indexed,
        text: TEXT.into(),
    };
    Embedded::open(&state).unwrap().0.commit(&Batch { writes: vec![entry], removals: vec![] }).unwrap();
    ledger.handle().append_blocking(events, Durability::Synced).unwrap();
    ledger.close().unwrap();
    (base, state, id("a.pdf"))
}

#[test]
fn the_books_the_list_and_a_document_tell_the_same_story() {
    let (_base, state, id) = state();
    let (code, out, _) = lazaret(&state, &["status", "--format", "json"]);
    assert_eq!(code, 0);
    let status: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&status["total"]["indexed"], &status["total"]["pending"]), (&1.into(), &1.into()));
    assert_eq!(status["balanced"], true);
    assert_eq!(status["sources"][0]["coverage"], 0.5);

    let (code, out, _) = lazaret(&state, &["list", "--format", "jsonl"]);
    let documents: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(code, 0);
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[0]["id"], id.to_string());
    let (_, out, _) = lazaret(&state, &["list", "--state-is", "pending", "--format", "csv"]);
    assert_eq!(out.lines().count(), 2);

    let (code, out, _) = lazaret(&state, &["show", "a.pdf", "--format", "json"]);
    let mut shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    let history = shown.as_object_mut().unwrap().shift_remove("history").unwrap();
    assert_eq!(code, 0);
    assert_eq!(shown, documents[0]);
    assert_eq!(history.as_array().unwrap().len(), 1);
}

#[test]
fn the_text_is_printed_and_found() {
    let (_base, state, id) = state();
    let prefix = id.to_string().get(..8).unwrap().to_owned();
    assert_eq!(lazaret(&state, &["text", &prefix]), (0, TEXT.to_owned(), String::new()));
    let (code, out, err) = lazaret(&state, &["text", "b.pdf"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.starts_with("error: there is no text: the document is pending\nhint: "), "{err}");
    let (code, _, err) = lazaret(&state, &["show", "zzz"]);
    assert_eq!(code, 1);
    assert!(err.starts_with("error: no document is named zzz\n"), "{err}");

    let (code, out, _) = lazaret(&state, &["search", "CAFE", "\"the quarterly\"", "--format", "jsonl"]);
    let hit: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!((&hit["path"], &hit["stale"]), (&"a.pdf".into(), &false.into()));
    assert_eq!(hit["snippet"], TEXT);
    let nothing = lazaret(&state, &["search", "zebra"]);
    assert_eq!(nothing, (0, String::new(), "nothing found\n".to_owned()));
}

/// A second document, `copy.pdf`, for which the result of the first was used.
fn with_a_copy() -> (tempfile::TempDir, std::path::PathBuf) {
    let (base, state, maker) = state();
    let ledger = Ledger::open(&state).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let source = runtime.block_on(ledger.handle().source("docs", Path::new("/srv/docs"))).unwrap();
    let copy = DocumentId::derive("docs", &Identity::item(b"copy.pdf"));
    let sha256 = Some(ContentHash::of(b"bytes"));
    let in_sink = InSink {
        sink: "embedded".to_owned(),
        sha256,
        pipeline: Pipeline::new(),
        text: ContentHash::of(TEXT.as_bytes()),
        state: State::Indexed,
    };
    let facts = Box::new(Facts { sha256, same_as: Some(maker), ..Facts::default() });
    let stat = crate::ledger::Stat { size: 5, mtime_ns: 0, ctime_ns: 0, dev: 0, ino: 7 };
    let mut events = vec![event(copy, 0, seen(source.id, "copy.pdf"))];
    if let Change::Seen(seen) = &mut events[0].change {
        seen.stat = Some(stat);
    }
    events.push(event(copy, 1, Change::Written { state: State::Indexed, facts, in_sink, fault: None }));
    // The first one, too, is a file that a listing saw.
    events.push(Event { expects: None, ..event(maker, 0, Change::Touched { stat }) });
    ledger.handle().append_blocking(events, Durability::Synced).unwrap();
    ledger.close().unwrap();
    (base, state)
}

#[test]
fn what_shares_a_result_is_requeued_together() {
    for path in ["a.pdf", "copy.pdf", "{a,copy}.pdf"] {
        let (_base, state) = with_a_copy();
        let (code, out, _) =
            lazaret(&state, &["reprocess", "--path", path, "--dry-run", "--format", "jsonl"]);
        assert_eq!((code, out.lines().count()), (0, 2), "{path}");
        let (code, out, _) = lazaret(&state, &["reprocess", "--path", path]);
        let expected = "2 documents requeued, 1 of them for sharing a result with one that is meant; \
                        the next `lazaret run` takes them\n";
        assert_eq!((code, out.as_str()), (0, expected), "{path}");
        let (_, out, _) = lazaret(&state, &["status", "--format", "json"]);
        let status: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&status["total"]["pending"], &status["balanced"]), (&3.into(), &true.into()));
        let (_, out, _) = lazaret(&state, &["show", "copy.pdf", "--format", "json"]);
        let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(shown["state"], "pending");
    }
}

#[test]
fn without_a_ledger_nothing_is_made() {
    let base = tempfile::tempdir().unwrap();
    let state = base.path().join("none");
    for words in [
        &["status"][..],
        &["list"],
        &["show", "a"],
        &["text", "a"],
        &["search", "a"],
        &["ctl", "status"],
        &["ctl", "drain"],
        &["retry", "--all"],
        &["reprocess", "--all", "--dry-run"],
        &["reconcile"],
        &["reconcile", "--repair"],
    ] {
        let (code, out, err) = lazaret(&state, words);
        assert_eq!((code, out.as_str()), (1, ""), "{words:?}");
        assert!(err.starts_with("error: "), "{err}");
    }
    assert!(!state.exists());
}

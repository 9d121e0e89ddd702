//! The ledger as its callers see it. What an event does is told in `rules::account`; here it is stored, read, damaged
//! and rebuilt.

mod choice;
mod opening;
mod properties;
mod reading;

use super::*;
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, State};
use shared::{ContentHash, Identity};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of one test, gone at its end.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("lazaret-ledger-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(super) fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    pub(super) fn database(&self) -> PathBuf {
        self.state().join("ledger.sqlite")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Runs what is asynchronous.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(super) fn source(ledger: &Ledger, name: &str) -> SourceRow {
    block_on(ledger.handle().source(name, Path::new("/srv/share"))).unwrap()
}

pub(super) fn append(ledger: &Ledger, events: Vec<Event>) -> Vec<Applied> {
    ledger.handle().append_blocking(events, Durability::Journal).unwrap()
}

pub(super) fn id(source: &SourceRow, path: &str) -> DocumentId {
    DocumentId::derive(&source.name, &Identity::item(path.as_bytes()))
}

pub(super) fn stat(n: u64) -> Stat {
    Stat { size: 10 + n, mtime_ns: 1_000, ctime_ns: 2_000, dev: u64::MAX, ino: n }
}

pub(super) fn item(source: &SourceRow, path: &str, n: u64) -> Event {
    Event {
        doc: id(source, path),
        expects: Some(0),
        at: 1_700_000_000_000,
        change: Change::Seen(Box::new(Seen {
            source: source.id,
            identity: Identity::item(path.as_bytes()),
            within: None,
            position: 0,
            size: Some(10 + n),
            mtime_ns: Some(1_000),
            stat: Some(stat(n)),
            sha256: None,
            fault: None,
            settle: None,
            damage: None,
        })),
    }
}

pub(super) fn member(source: &SourceRow, item: &str, path: &[&str], position: u64) -> Event {
    let root = Identity::item(item.as_bytes());
    let container =
        path[..path.len() - 1].iter().fold(root.clone(), |at, name| at.member(name.as_bytes(), 0));
    let identity = container.member(path[path.len() - 1].as_bytes(), 0);
    Event {
        doc: DocumentId::derive(&source.name, &identity),
        expects: Some(0),
        at: 1_700_000_000_000,
        change: Change::Seen(Box::new(Seen {
            source: source.id,
            within: Some(Within {
                container: DocumentId::derive(&source.name, &container),
                root: DocumentId::derive(&source.name, &root),
            }),
            identity,
            position,
            size: Some(1),
            mtime_ns: None,
            stat: None,
            sha256: Some(ContentHash::of(path.concat().as_bytes())),
            fault: None,
            settle: None,
            damage: None,
        })),
    }
}

pub(super) fn event(doc: DocumentId, expects: u64, change: Change) -> Event {
    Event { doc, expects: Some(expects), at: 1_700_000_001_500, change }
}

pub(super) fn started() -> Change {
    Change::Started { stage: Stage::Fetch, alone: false }
}

pub(super) fn failed(kind: Kind, settle: Settle) -> Change {
    let fault = Fault::new(Stage::Extract, kind, "as the parser says");
    Change::Failed { fault: Box::new(fault), settle, facts: Box::default() }
}

pub(super) fn in_sink(bytes: &[u8], state: State) -> InSink {
    InSink {
        sink: "embedded".to_owned(),
        sha256: Some(ContentHash::of(bytes)),
        pipeline: Pipeline::from([(Stage::Extract, "pdf 1".to_owned())]),
        text: ContentHash::of(&[b"text of ", bytes].concat()),
        state,
    }
}

/// Its text, which its sink does not take.
pub(super) fn unsent(settle: Settle, attempted: bool) -> Change {
    let Change::Written { facts, in_sink, fault: of, .. } = written(b"v1", State::Indexed) else { panic!() };
    let fault = Box::new(Fault::new(Stage::Write, Kind::SinkUnavailable, "it is down"));
    Change::Unsent { fault, settle, unsent: Box::new(Unsent { facts, in_sink, fault: of }), attempted }
}

pub(super) fn written(bytes: &[u8], state: State) -> Change {
    let facts = Facts {
        sha256: Some(ContentHash::of(bytes)),
        size: Some(bytes.len() as u64),
        format: Some("pdf".to_owned()),
        pipeline: Pipeline::from([(Stage::Extract, "pdf 1".to_owned())]),
        text: Some(TextFacts { chars: 3, words: 1, language: None, quality: 0.5 }),
        usage: Some(Usage { wall_ms: 5, cpu_ms: 4, peak_rss_kib: 3 }),
        ..Facts::default()
    };
    let fault =
        (state == State::Suspect).then(|| Box::new(Fault::new(Stage::Check, Kind::ContentEmpty, "no text")));
    Change::Written { state, facts: Box::new(facts), in_sink: in_sink(bytes, state), fault }
}

/// The record that an event left.
pub(super) fn changed(applied: &Applied) -> &Record {
    match applied {
        Applied::Changed(record) => record,
        Applied::Overtaken(_) => panic!("overtaken"),
    }
}

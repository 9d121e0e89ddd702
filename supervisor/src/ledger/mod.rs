//! The store of all records, good and bad alike: SQLite in WAL mode, in the state folder.
//!
//! It changes only by [`Event`]s. One thread writes; it takes what waits for it, applies the events one by one through
//! the pure [`crate::rules::account::apply`], and commits them as one transaction. Readers have connections of their own.

mod event;
mod record;

pub use event::{Change, Event, Facts, Seen, Settle};
pub use record::{InSink, Listed, Millis, Pipeline, Record, SourceId, Stat, Task, TextFacts, Usage};

use crate::rules::kind::{Class, Kind, Stage, State};
use shared::DocumentId;
use std::path::{Path, PathBuf};

/// How safe a transaction must be before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Survives the death of the supervisor.
    Journal,
    /// Survives the death of the machine.
    Synced,
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// It changed the record, which now is this.
    Changed(Box<Record>),
    /// The document has moved on: kept as history, changed nothing. The record as it stands, if there is one.
    Overtaken(Option<Box<Record>>),
}

/// The ledger, opened for writing by the one supervisor of this state folder.
#[derive(Debug)]
pub struct Ledger {}

/// Appends events; cheap to clone, usable from any task.
#[derive(Debug, Clone)]
pub struct LedgerHandle {}

/// A source as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    pub id: SourceId,
    pub name: String,
    /// The root's absolute path, raw bytes.
    pub root: PathBuf,
    /// The device that the root was on at the last listing that walked it.
    pub root_device: Option<u64>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    Completed,
    Aborted,
    Interrupted,
}

/// What was in hand when the ledger was last written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InHand {
    pub doc: DocumentId,
    pub stage: Stage,
    pub alone: bool,
}

impl Ledger {
    /// Opens the ledger of a state folder, or makes one. Takes the folder's lock, which heals by itself after any death.
    /// After an unclean end the database is checked for damage first.
    ///
    /// # Errors
    /// Another supervisor has the lock, the schema is newer than this program, the database is damaged, I/O.
    pub fn open(_state: &Path) -> Result<Ledger, LedgerError> {
        unimplemented!()
    }

    /// For appending.
    pub fn handle(&self) -> LedgerHandle {
        unimplemented!()
    }

    /// Notes the end of a run, writes everything out and marks the ledger as cleanly closed.
    pub fn close(self) -> Result<(), LedgerError> {
        unimplemented!()
    }
}

impl LedgerHandle {
    /// Applies `events` in order, as one transaction (perhaps together with those of other callers), and returns what
    /// became of each.
    pub async fn append(
        &self,
        _events: Vec<Event>,
        _durability: Durability,
    ) -> Result<Vec<Applied>, LedgerError> {
        unimplemented!()
    }

    /// The source of this name, made where it is new. The root is brought up to date.
    pub async fn source(&self, _name: &str, _root: &Path) -> Result<SourceRow, LedgerError> {
        unimplemented!()
    }

    /// Notes on which device the root was, after a listing that walked it.
    pub async fn root_device(&self, _source: SourceId, _device: u64) -> Result<(), LedgerError> {
        unimplemented!()
    }

    /// Notes the beginning of a run (with the machine's boot id) and gives its number.
    pub async fn begin_run(&self, _at: Millis) -> Result<i64, LedgerError> {
        unimplemented!()
    }

    /// Notes how a run ended.
    pub async fn end_run(&self, _run: i64, _at: Millis, _end: RunEnd) -> Result<(), LedgerError> {
        unimplemented!()
    }
}

/// Reads the ledger of a state folder, live or not; changes nothing and creates nothing. One connection: not shared
/// between threads.
#[derive(Debug)]
pub struct Reader {}

/// Which records are meant. Empty: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub state: Option<State>,
    pub class: Option<Class>,
    pub kind: Option<Kind>,
    pub stage: Option<Stage>,
    /// By the source's name.
    pub source: Option<String>,
}

/// A position in the order in which documents became due.
pub type Queue = i64;

/// A document that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    pub queue: Queue,
    pub record: Record,
}

/// What the ledger knows of an item in a directory: what a listing compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownItem {
    /// The last component of its path, raw bytes.
    pub name: Vec<u8>,
    pub id: DocumentId,
    pub stat: Option<Stat>,
    pub state: State,
    /// The kind of an excluded one, of a failed one.
    pub kind: Option<Kind>,
    /// It is leaving (its task is to be deleted or excluded).
    pub leaving: bool,
}

/// The equation of one source, or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub name: String,
    pub discovered: u64,
    pub indexed: u64,
    pub suspect: u64,
    pub retrying: u64,
    pub quarantined: u64,
    pub excluded: u64,
    pub pending: u64,
    pub deleted: u64,
}

/// The equation, counted from the rows and compared with the counters that the events moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Books {
    pub sources: Vec<Counts>,
    pub total: Counts,
    /// Every counter equals its rows, and the equation holds for each source.
    pub balanced: bool,
    /// What does not, in words.
    pub differences: Vec<String>,
}

/// Failures that share source, stage and kind, with one example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    pub state: State,
    pub stage: Option<Stage>,
    pub kind: Option<Kind>,
    pub class: Option<Class>,
    pub count: u64,
    pub example: DocumentId,
    pub example_path: String,
    pub example_message: Option<String>,
}

/// One attempt, as `show` tells it: an object with stable keys.
pub type Attempt = serde_json::Value;

/// Why `DOC` on a command line names no one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// Nothing has this id, path or prefix.
    Nothing,
    /// Several have: id and shown path of at most 20.
    Ambiguous(Vec<(DocumentId, String)>),
}

impl Reader {
    /// Opens the ledger of `state` for reading.
    pub fn open(_state: &Path) -> Result<Reader, LedgerError> {
        unimplemented!()
    }

    /// All sources, by name.
    pub fn sources(&self) -> Result<Vec<SourceRow>, LedgerError> {
        unimplemented!()
    }

    /// The record of this id.
    pub fn record(&self, _id: DocumentId) -> Result<Option<Record>, LedgerError> {
        unimplemented!()
    }

    /// An exact id, else an exact shown path, else an unambiguous prefix of an id of at least 4 digits.
    pub fn resolve(&self, _doc: &str) -> Result<Result<Record, Unresolved>, LedgerError> {
        unimplemented!()
    }

    /// Calls `each` with the name of the source and the record, by source and path, until it says stop.
    pub fn list(
        &self,
        _filter: &Filter,
        _each: &mut dyn FnMut(&str, &Record) -> std::ops::ControlFlow<()>,
    ) -> Result<(), LedgerError> {
        unimplemented!()
    }

    /// Every attempt on a document, oldest first: `{attempt, stage, kind, class, message, started, ended, pipeline,
    /// usage, evidence}`.
    pub fn history(&self, _id: DocumentId) -> Result<Vec<Attempt>, LedgerError> {
        unimplemented!()
    }

    /// The books, counted and compared.
    pub fn books(&self) -> Result<Books, LedgerError> {
        unimplemented!()
    }

    /// Everything that is not `indexed`, `pending` or `deleted`, clustered, largest first.
    pub fn clusters(&self, _sources: &[SourceId]) -> Result<Vec<Cluster>, LedgerError> {
        unimplemented!()
    }

    /// Pending documents of these sources with a task, behind `after` in the order in which they became due.
    pub fn due(&self, _sources: &[SourceId], _after: Queue, _limit: usize) -> Result<Vec<Due>, LedgerError> {
        unimplemented!()
    }

    /// stub
    pub fn alone(&self, _sources: &[SourceId]) -> Result<Vec<Record>, LedgerError> {
        unimplemented!()
    }

    /// Retrying documents of these sources whose time has come at `now` (`null` times have, too).
    pub fn retries(
        &self,
        _sources: &[SourceId],
        _now: Millis,
        _began: Millis,
        _limit: usize,
    ) -> Result<Vec<Record>, LedgerError> {
        unimplemented!()
    }

    /// The earliest time at which something of these sources is due again.
    pub fn next_due(&self, _sources: &[SourceId]) -> Result<Option<Millis>, LedgerError> {
        unimplemented!()
    }

    /// All documents of an outermost item, itself included, containers before their members, members in order.
    pub fn tree(&self, _root: DocumentId) -> Result<Vec<Record>, LedgerError> {
        unimplemented!()
    }

    /// The members of a container, in order.
    pub fn members(&self, _container: DocumentId) -> Result<Vec<Record>, LedgerError> {
        unimplemented!()
    }

    /// The known items of a directory (raw path below the root, empty for the root) whose names sort behind `after`, by
    /// name, tombstones included.
    pub fn items_in(
        &self,
        _source: SourceId,
        _directory: &[u8],
        _after: Option<&[u8]>,
        _limit: usize,
    ) -> Result<Vec<KnownItem>, LedgerError> {
        unimplemented!()
    }

    /// The names of the directories directly below a directory that have known items that are not gone, in or below them.
    pub fn directories_in(&self, _source: SourceId, _directory: &[u8]) -> Result<Vec<Vec<u8>>, LedgerError> {
        unimplemented!()
    }

    /// Items (not members) of a source that are not gone, in all.
    pub fn items_count(&self, _source: SourceId) -> Result<u64, LedgerError> {
        unimplemented!()
    }

    /// What was in hand when the ledger was last written.
    pub fn in_hand(&self) -> Result<Vec<InHand>, LedgerError> {
        unimplemented!()
    }

    /// Whether any record still refers to this kept text.
    pub fn text_used(&self, _text: shared::ContentHash) -> Result<bool, LedgerError> {
        unimplemented!()
    }

    /// The ids that the sink must hold, for a comparison with it.
    pub fn in_sink(&self, _each: &mut dyn FnMut(DocumentId)) -> Result<(), LedgerError> {
        unimplemented!()
    }
}

/// Why the ledger cannot do what was asked. Every one is structural: the run stops.
#[derive(Debug)]
#[non_exhaustive]
pub enum LedgerError {
    /// There is no ledger in this folder.
    Missing(PathBuf),
    /// A live supervisor has the state folder.
    Locked { state: PathBuf, pid: Option<u32> },
    /// Made by a newer version.
    Newer { path: PathBuf, found: i64, known: i64 },
    /// SQLite finds damage.
    Damaged { path: PathBuf, detail: String },
    /// The disk is full.
    Full { path: PathBuf },
    /// The state folder lies on a network file system.
    NetworkFileSystem { path: PathBuf, kind: String },
    /// Anything else from the file system.
    Io { path: PathBuf, source: std::io::Error },
    /// Anything else from SQLite.
    Sql { path: PathBuf, source: rusqlite::Error },
    /// The writing thread has ended; why was told to whoever met it first.
    Ended,
}

impl std::fmt::Display for LedgerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the ledger")
    }
}

impl std::error::Error for LedgerError {}

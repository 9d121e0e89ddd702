//! The embedded index (Tantivy).

use super::{Batch, NotTaken, SinkError};
use shared::DocumentId;
use std::path::Path;

/// The name in records.
pub const NAME: &str = "embedded";

/// The index, open for writing. Its methods block: call them from a thread that may.
#[derive(Debug)]
pub struct Embedded {}

/// Something that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub id: DocumentId,
    pub score: f32,
}

impl Embedded {
    /// Opens the index below `state`, or makes an empty one; `true` where it is new (or was damaged and is made anew), so that all that the
    /// ledger believes to be in it has to be written again.
    pub fn open(_state: &Path) -> Result<(Self, bool), SinkError> {
        unimplemented!()
    }

    /// Carries out a batch and commits it durably: when this returns, all of it is there, or (on an error) none.
    pub fn commit(&mut self, _batch: &Batch) -> Result<Vec<NotTaken>, SinkError> {
        unimplemented!()
    }

    /// How many documents it holds.
    pub fn count(&self) -> Result<u64, SinkError> {
        unimplemented!()
    }
}

/// The index, open for searching, also while a run writes.
#[derive(Debug)]
pub struct Search {}

impl Search {
    /// Opens the index below `state` for reading; `None` where there is none yet.
    pub fn open(_state: &Path) -> Result<Option<Self>, SinkError> {
        unimplemented!()
    }

    /// Documents in which all words and "phrases" of `query` occur, best first. Never a syntax error.
    pub fn find(&self, _query: &str, _limit: usize) -> Result<Vec<Hit>, SinkError> {
        unimplemented!()
    }

    /// All ids that it holds.
    pub fn ids(&self) -> Result<Vec<DocumentId>, SinkError> {
        unimplemented!()
    }
}

/// The passage of `text` that answers `query` best, on one line, of at most about 200 characters, with the byte ranges of what matched.
pub fn snippet(_query: &str, _text: &str) -> (String, Vec<std::ops::Range<usize>>) {
    unimplemented!()
}

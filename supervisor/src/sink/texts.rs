//! The kept texts: compressed, under the hash of the text, so that the same text is kept once.

use super::SinkError;
use shared::ContentHash;
use std::path::Path;

/// The store, open for writing. Its methods block.
#[derive(Debug)]
pub struct Texts {}

impl Texts {
    /// Opens the store below `state`, or makes one.
    pub fn open(_state: &Path) -> Result<Self, SinkError> {
        unimplemented!()
    }

    /// Opens the store for reading only; `None` where there is none.
    pub fn open_reader(_state: &Path) -> Result<Option<Self>, SinkError> {
        unimplemented!()
    }

    /// Keeps all of these durably, in one transaction. The key is `ContentHash::of(text)`.
    pub fn keep(&mut self, _texts: &[(ContentHash, &str)]) -> Result<(), SinkError> {
        unimplemented!()
    }

    /// The text kept under this hash.
    pub fn get(&self, _hash: ContentHash) -> Result<Option<String>, SinkError> {
        unimplemented!()
    }

    /// Forgets these.
    pub fn forget(&mut self, _hashes: &[ContentHash]) -> Result<(), SinkError> {
        unimplemented!()
    }
}
